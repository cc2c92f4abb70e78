"""docs/stalls.md: which stall reason each wait is charged to, from tests/stalls.

In: the kernels' own comments, and what an H200 counted of them.  Out: the page; no number is typed
by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "tests" / "stalls" / "measured.json"
SOURCE = ROOT / "tests" / "stalls" / "kernels.cu"
PAGE = ROOT / "docs" / "stalls.md"
TEXT = """# What stall reasons mean on Hopper

A GPU says of each sample why the warp did not issue its next instruction. Which reason a wait is
charged to, and at which instruction, is not what its name suggests; so here are small kernels
that wait at one known place ([`tests/stalls/kernels.cu`](../tests/stalls/kernels.cu)), and what
was counted of them. `python benchmarks/stalls.py` measures them again, `python
benchmarks/page.py` writes this page; a test holds that each stall below is traced to its cause.

What follows from them:

- **Who blocks is not who is charged.** `BAR.SYNC`, `MEMBAR`, `NANOSLEEP` and `DEPBAR.LE` issue at
  once. The stall stands at one of the next instructions, which has nothing to do with it;
  listings name the instruction before as its cause.
- **`cp.async` waits are long scoreboards** of the instruction after `DEPBAR.LE SB0`, like a
  load's.
- **mbarrier waits are long scoreboards** of the branch that reads the answer of
  `SYNCS.PHASECHK.TRYWAIT`; while the answer is no, the loop around it adds `branch_resolving`.
  Bulk copies (TMA) show the same way.
- **wgmma waits are `barrier`** at `WARPGROUP.DEPBAR` itself. That is not a barrier of the block:
  the listing names the product. `warpgroup_arrive` stands at the first `HGMMA` of a group, as in
  our GEMM, and `mio_throttle` at those that find the tensor core's queue full.
- **Bank conflicts and exponentials are `mio_throttle`** where many warps wait for them, spills
  and narrow stores `lg_throttle`: the queue is full, so the instruction that joins it is charged,
  not who needs the result.
- `wait` is arithmetic of fixed latency; `not_selected` is no wait, another warp had its turn.
"""


def write() -> None:
    """The page, where something was measured."""
    if MEASURED.exists():
        PAGE.write_text("\n".join([TEXT, *table(json.loads(MEASURED.read_text())), ""]))


def table(measured: dict[str, Any]) -> Iterator[str]:
    """A row for each kernel."""
    yield (
        f"{measured['device']}, driver {measured['driver']}, {measured['date']}, a sample each "
        f"{measured['period']:,} cycles, {measured['launches']} launches."
    )
    yield ""
    yield "| kernel | what it does | stall reasons | hottest instruction | its reasons |"
    yield "| --- | --- | --- | --- | --- |"
    said = comments()
    for name, kernel in measured["kernels"].items():
        hottest = kernel["hottest"]
        of_hottest = shares(hottest["stalls"], sum(hottest["stalls"].values()))
        yield (
            f"| `{name}` | {said[name]} | {shares(kernel['stalls'], kernel['samples'])} "
            f"| `{hottest['sass']}` | {of_hottest} |"
        )


def shares(stalls: dict[str, int], whole: int) -> str:
    """Reasons from 3 % on."""
    return ", ".join(f"{n} {v / whole:.0%}" for n, v in stalls.items() if v >= 0.03 * whole)


def comments() -> dict[str, str]:
    """The comment right above each kernel."""
    found: dict[str, str] = {}
    lines = SOURCE.read_text().splitlines()
    for at, line in enumerate(lines):
        kernel = re.search(r"__global__ void __launch_bounds__\(.*?\) (\w+)\(", line)
        if kernel:
            above = lines[at - 1]
            found[kernel[1]] = above.removeprefix("// ") if above.startswith("//") else ""
    return found
