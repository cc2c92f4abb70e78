"""The speed of our kernels beside the fastest others, in one process on one GPU.

    python benchmarks/kernels.py [--quick] [--only RE] [--budget SECONDS] [--add] [-o FILE]

Writes a JSON file with every pair, the device, its clocks and all versions, after each row. With
`--add` the rows of the file stay that are not measured again; each new one has its own date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

sys.path.insert(0, str(Path(__file__).parent))

import gpu_costs
import measuring
from gpu_attention import attention_groups
from gpu_early import early_costs
from gpu_int4 import gemm_int4, int4_peers
from gpu_memory import elementwise, normalisations
from gpu_peers import Spec, compile_peers
from gpu_products import (
    gemm_bf16,
    gemm_bf16_peers,
    gemm_block_scaled,
    gemm_fp8,
    gemm_skinny,
)

RESULTS = Path(__file__).parent / "results"


class Row(Protocol):
    """What is printed and kept."""

    def row(self) -> dict[str, Any]:
        """For the results file."""
        ...


@dataclass(frozen=True)
class Group:
    """Rows that are measured together, and the kernels of TileLang that they need."""

    name: str
    measure: Callable[[], Iterator[Row]]
    peers: tuple[Spec, ...] = ()


def groups(quick: bool) -> Iterator[Group]:
    """All of them, what says most first."""

    def square(size: int) -> Iterator[Group]:
        for layout in ("NT", "NN", "TN"):
            yield Group(
                f"gemm {size} {layout}",
                partial(gemm_bf16, size, layout),
                gemm_bf16_peers(size, layout),
            )

    yield from square(8192)
    yield Group("memory normalisations", partial(normalisations, quick))
    yield Group("memory elementwise", elementwise)
    yield Group("launch", gpu_costs.launch_costs)
    yield Group("launch early", early_costs)
    yield Group("compile", gpu_costs.compile_costs)
    yield from square(4096)
    for m in (16, 32, 64, 128, 256):
        yield Group(f"gemm skinny {m}", partial(gemm_skinny, m))
    yield Group("gemm fp8", partial(gemm_fp8, 8192))
    for sizes in ((8192, 8192, 8192), (4096, 7168, 2048), (4096, 4096, 7168)):
        name = "×".join(map(str, sizes))
        yield Group(f"gemm fp8 block-scaled {name}", partial(gemm_block_scaled, *sizes))
    for m in (8192, 16):
        yield Group(f"int4 {m}", partial(gemm_int4, m), int4_peers(m))
    if not quick:
        yield from square(16384)
    for name, measure, peers in attention_groups(quick):
        yield Group(name, measure, peers)


class Report:
    """What was measured so far, on the screen and in the file."""

    def __init__(self, path: str, add: bool = False) -> None:
        self.path = Path(path)
        self.lines: list[str] = []
        self.held: dict[str, Any] = {"circumstances": measuring.circumstances(), "rows": []}
        self.adds = add and self.path.exists()
        if self.adds:
            self.held = json.loads(self.path.read_text())
        self.rows: list[dict[str, Any]] = self.held["rows"]

    def add(self, row: dict[str, Any], line: str) -> None:
        """A row, or why there is none; in place of an older one of the same work."""
        if self.adds:
            row = {**row, "circumstances": measuring.circumstances()}
        places = [at for at, each in enumerate(self.rows) if each["work"] == row["work"]]
        if places:
            self.rows[places[0]] = row
        else:
            self.rows.append(row)
        self.lines.append(line)
        print(line, flush=True)
        self.write()

    def write(self) -> None:
        """The file as a whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.held, indent=1))

    def measure(self, group: Group) -> bool:
        """All rows of a group; whether the device can still be used."""
        before = measuring.clocks()
        try:
            for work in group.measure():
                after = measuring.clocks()
                self.add({**work.row(), "clocks": [before, after]}, str(work))
                before = after
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            self.add({"work": group.name, "error": told}, f"{group.name}: {told}"[:600])
            try:
                torch.cuda.synchronize()
            except Exception:
                return False
        torch.cuda.empty_cache()
        return True


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and peers")
    parser.add_argument("--only", default="", help="a regular expression over the groups")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS",
                        help="start no group after so long")  # fmt: skip
    parser.add_argument("--without-tilelang", action="store_true")
    parser.add_argument("--add", action="store_true", help="to the rows of the file")
    parser.add_argument("-o", "--output", default=str(RESULTS / "kernels.json"))
    args = parser.parse_args()
    start = time.perf_counter()
    torch.manual_seed(0)
    chosen = [g for g in groups(args.quick) if re.search(args.only, g.name)]
    report = Report(args.output, args.add)
    specs = [s for g in chosen for s in g.peers]
    if specs and not args.without_tilelang:
        report.held["tilelang"] = compile_peers(specs)
        print(report.held["tilelang"], f"{time.perf_counter() - start:.0f} s", flush=True)
    skipped = report.held["skipped"] = []
    usable_device = True
    for group in chosen:
        late = args.budget and time.perf_counter() - start > args.budget
        if late or not usable_device:
            skipped.append(group.name)
            continue
        began = time.perf_counter()
        usable_device = report.measure(group)
        print(f"  {group.name}: {time.perf_counter() - began:.1f} s", flush=True)
    report.held["seconds"] = time.perf_counter() - start
    report.write()
    print("\n" + "\n".join(line[:150] for line in report.lines))
    if skipped:
        print("not measured:", ", ".join(skipped))
    return 0 if usable_device and not skipped else 1


if __name__ == "__main__":
    sys.exit(main())
