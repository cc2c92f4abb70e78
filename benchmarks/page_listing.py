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

This page explains how to read machine code with stall samples, by the example of a GEMM compiled by
tileprof ([`benchmarks/gpu_kernels.py`](../benchmarks/gpu_kernels.py), 8192³ in bfloat16) on an
{device}. Each multiprocessor was sampled once every {period:,} cycles. `tileprof run --pc-sampling`
records such a profile of any program. This command shows it:

```bash
tileprof inspect gemm.tprof -t {threshold:g}
```

In a terminal of {width} columns it prints:

```text
{listing}```

How to read it:

- **A line that begins with a file name** is a line of the kernel's Python source, with the inlined
  function in brackets. The machine code generated from it follows, in code order. `-t` sets the
  smallest share of the function's samples that an instruction needs to be shown. Instructions that
  others wait for are shown too; the rest is folded.
- **`%`** is the share of the function's samples. **`stalls (%)`** are shares of the instruction's
  samples: why a warp that was sampled there did not issue. Each bar before an instruction is an
  enclosing loop.
- **Below a stalled instruction** stands what it waits for, with its line. The first
  `long_scoreboard` waits for the result of an mbarrier test (`SYNCS.PHASECHK`), and so for the
  copies (`UTMALDG`) that this mbarrier counts.
- **Where the time goes**: most samples are at `WARPGROUP.DEPBAR`, where consumers wait for the
  previous product. That is the desired state, because the tensor cores are busy meanwhile. One
  product instruction takes many cycles, so often no other warp issues either.
- **What may be improved**: `warpgroup_arrive` at the first `HGMMA` of an iteration, where the warps
  of a warp group wait to start a product together; and the wait for a tile at the branch above it.
  If these were large, more stages or larger tiles would help.
- **What only looks like a loss**: the second wait for an mbarrier is the producer's. It waits until
  consumers have freed a buffer (`SYNCS.ARRIVE`), as a producer that is ahead should.

[What stall reasons mean](stalls.md) explains each reason by a small kernel.
[Reading samples](hardware-counters.md#reading-samples) says how causes are found.

`python benchmarks/page.py` writes this page from samples recorded with driver {driver} (`python -m
tests.native.keep_pc_samples`); tests replay them.
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
