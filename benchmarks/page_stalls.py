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

Each sample of a program counter says why the sampled warp did not issue its next instruction. The
name of the reason, and the instruction that it is attributed to, can mislead. Each kernel below
waits at one known place ([`tests/stalls/kernels.cu`](../tests/stalls/kernels.cu)); the table shows
what the GPU reported for it. `python benchmarks/stalls.py` measures again, `python
benchmarks/page.py` writes this page, and a test traces each stall to its cause.

What follows:

- **A blocking instruction is not the one that gets the stall.** `BAR.SYNC`, `MEMBAR`, `NANOSLEEP`
  and `DEPBAR.LE` issue at once. The stall appears at one of the next instructions, which has
  nothing to do with it. Listings name the blocking instruction as the cause.
- **Waits for `cp.async` are `long_scoreboard`**, like waits for a load, at the instruction after
  `DEPBAR.LE SB0`.
- **Waits at an mbarrier are `long_scoreboard`** at the branch that reads the result of
  `SYNCS.PHASECHK.TRYWAIT`. While the barrier is not complete, the loop around it adds
  `branch_resolving`. Bulk copies (TMA) show the same pattern.
- **Waits for wgmma are `barrier`** at `WARPGROUP.DEPBAR`, although no barrier of the block is
  involved; listings name the product. `warpgroup_arrive` appears at the first `HGMMA` of a group,
  and `mio_throttle` at an `HGMMA` that finds the tensor core's queue full.
- **Full queues are charged to the instruction that joins them**, not to the user of the result:
  `mio_throttle` for bank conflicts and exponentials of many warps, `lg_throttle` for spills and
  narrow stores.
- `wait` is the fixed latency of arithmetic. `not_selected` is no wait: the scheduler issued another
  warp.
"""


def write() -> None:
    """The page, where something was measured."""
    if MEASURED.exists():
        PAGE.write_text("\n".join([TEXT, *table(json.loads(MEASURED.read_text())), ""]))


def table(measured: dict[str, Any]) -> Iterator[str]:
    """A row for each kernel."""
    yield (
        f"{measured['device']}, driver {measured['driver']}, {measured['date']}, one sample every "
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
