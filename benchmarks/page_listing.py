"""docs/listing.md: our GEMM's machine code with its samples, from what an H200 handed over.

In: the samples that `tests/native/keep_pc_samples.py` kept.  Out: the page; no number is typed by
hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.native.kept_samples import Kept, attributed, load, profile_of
from tileprof.profile import Profile
from tileprof.viewer import ViewOptions, render_view

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "tests" / "native" / "data" / "gemm.pcsamples"
PAGE = ROOT / "docs" / "listing.md"
WIDTH, THRESHOLD = 120, 1.5
TEXT = """# A listing with its samples

This is our GEMM ([`benchmarks/gpu_kernels.py`](../benchmarks/gpu_kernels.py), 8192³ in bfloat16) on
an {device}, as sampled program counters show it: one sample each {period:,} cycles of each
multiprocessor. `tileprof run --pc-sampling` records such a profile of any program, and then

```bash
tileprof inspect gemm.tprof -t {threshold:g}
```

prints, in a terminal of {width} columns:

```text
{listing}```

How to read it:

- **A line that begins with a file** is the kernel's own line of Python, with what was inlined there
  in brackets; the machine code that came from it stands below, in the order of the code. `-t` sets
  from which share of the function's samples on an instruction is shown; those to blame for others
  are shown too, and the rest is folded.
- **`%` is of the function's samples**, `stalls (%)` of the instruction's: why a warp that was seen
  there did not issue. Each bar before an instruction is a loop around it.
- **What an instruction waits for** stands below it, with the line where that is. The first
  `long_scoreboard` is the answer of an mbarrier (`SYNCS.PHASECHK`), and the copies (`UTMALDG`) that
  this mbarrier counts are behind it.
- **Where the time goes**: to `WARPGROUP.DEPBAR`, where consumers wait for the product before. The
  tensor cores are at work meanwhile, so that is what one wants to see here; and a product is one
  instruction for many cycles, so that often no other warp issues either.
- **What may be lost**: `warpgroup_arrive` at the first `HGMMA` of an iteration, where the warps of
  a warpgroup wait to begin a product together, and the wait for a tile that has not come yet at the
  branch above it. Were that large, more stages or larger tiles would help.
- **What looks lost and is not**: the second wait for an mbarrier is the producer's. It waits until
  consumers have left a buffer (`SYNCS.ARRIVE`), which is what a producer that keeps ahead does.

[What stall reasons mean](stalls.md) has one kernel for each;
[reading samples](hardware-counters.md#reading-samples) says how a cause is found, and when none is
stated.

Page and listing are made by `python benchmarks/page.py` from reads that CUPTI handed over (driver
{driver}), kept by `python -m tests.native.keep_pc_samples`; tests replay them.
"""


def profile(kept: Kept | None = None) -> Profile:
    """The profile that the page is about."""
    kept = kept or load(KEPT)
    return profile_of(kept, attributed(kept.raw_samples()))


def page() -> str:
    """The whole page."""
    kept = load(KEPT)
    options = ViewOptions(threshold=THRESHOLD)
    listing = render_view(profile(kept), options, "blame", width=WIDTH)
    facts = {name: kept.facts[name] for name in ("device", "driver", "period")}
    return TEXT.format(listing=listing, threshold=THRESHOLD, width=WIDTH, **facts)


def write() -> None:
    """The page, where samples were kept."""
    if KEPT.exists():
        PAGE.write_text(page())
