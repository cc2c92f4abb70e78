"""How long a profile of 100,000 nodes takes to load, with all its checks.

In: `--runs N` loads.  Out: a JSON object with the shortest and the middle time, in s, of the wall
clock and of the processor; on a busy machine the processor's is the one to compare.

    python -m benchmarks.reliability.load --runs 15 -o out.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tileprof.errors import Location
from tileprof.profile import Profile, TreeBuilder, load, save

__all__ = ["campaign", "main", "profile_of"]


def profile_of(nodes: int) -> Profile:
    """Return a tree of so many nodes with three metrics at each, in 2,000 places."""
    builder = TreeBuilder()
    places = [Location(f"m{i % 50}.py", i, function=f"f{i}") for i in range(2_000)]
    for i in range(nodes):
        parent = -1 if i < 100 else i // 4
        place = places[i % 2_000]
        node = builder.child(parent, "frame", place.function, place)
        builder.add(node, "time", i)
        builder.add(node, "count", 1)
        builder.add(node, "time_max", i / 2)
    return builder.snapshot()


def campaign(runs: int, nodes: int = 100_000) -> dict[str, Any]:
    """Load a profile `runs` times."""
    began = time.monotonic()
    walls, processors = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.tprof"
        save(profile_of(nodes), path)
        for _ in range(runs):
            wall, processor = time.perf_counter(), time.process_time()
            load(path)
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    return {
        "name": "load",
        "runs": runs,
        "failures": 0,
        "hangs": 0,
        "tracebacks": 0,
        "seconds": round(time.monotonic() - began, 1),
        "nodes": nodes,
        "shortest": round(min(walls), 3),
        "middle": round(statistics.median(walls), 3),
        "shortest_processor": round(min(processors), 3),
        "middle_processor": round(statistics.median(processors), 3),
        "details": [],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement of the command line and write its result."""
    parser = argparse.ArgumentParser(description="Time loads of a large profile.")
    parser.add_argument("--runs", type=int, default=15, help="loads")
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes of the profile")
    parser.add_argument(
        "--jobs", type=int, default=1, help="taken for uniformity; loads are serial"
    )
    parser.add_argument("--seconds", type=float, default=0, help="taken for uniformity")
    parser.add_argument("-o", dest="output", help="file for the result")
    args = parser.parse_args(argv)
    text = json.dumps(campaign(args.runs, args.nodes), indent=1)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
