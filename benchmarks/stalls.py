"""Which stall reason each wait is charged to: kernels that wait at one known place, sampled.

    python benchmarks/stalls.py [-o FILE]

In: the kernels of `tests/stalls`.  Out: `tests/stalls/measured.json`, of which tests and
docs/stalls.md (by `page.py`) are made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import measuring

from tests.stalls.running import Seen, seen

RESULTS = Path(__file__).parent.parent / "tests" / "stalls" / "measured.json"
PERIOD = 16384
"""Cycles: as many samples as the recorder takes in."""
LAUNCHES = 10
MOST = 4
"""Stall reasons of a kernel, and of its hottest instruction."""


def first(counts: Counter[Any], most: int) -> dict[str, int]:
    """The largest counts."""
    return {str(key): count for key, count in counts.most_common(most)}


def told(one: Seen) -> dict[str, Any]:
    """What is kept of a kernel."""
    return {
        "samples": one.samples,
        "with_line": one.on_lines,
        "hottest": {"sass": one.hottest, "line": one.line, "stalls": first(one.reasons, MOST)},
        "stalls": first(one.stalls, MOST),
        "lines": first(one.by_line, 3),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default=str(RESULTS))
    args = parser.parse_args()
    where = measuring.circumstances()
    found = {name: told(one) for name, one in seen(LAUNCHES, pc_sampling=PERIOD).items()}
    for name, kernel in found.items():
        print(name, kernel)
    record = {
        "device": where["device"],
        "driver": where["gpu"]["driver_version"],
        "date": where["date"],
        "period": PERIOD,
        "launches": LAUNCHES,
        "kernels": found,
    }
    Path(args.output).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
