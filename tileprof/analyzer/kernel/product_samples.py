"""What goes with a product that a faster instruction does, and what comes instead.

In: code with samples, the instructions at a product's line.  Out: samples, by row; operations that
were done by ordinary instructions; the share of a kernel's time that is saved.

    loop k:  cp.async A, B;  barrier         waits for operands: go where no other product has them
      loop:  LDS, FFMA × 32   (line 26)      go
             IADD3, SHF       (line 7)       go as well: the product's own addresses
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.kernel.launches import busy_share, clock_mhz, launch_of
from tileprof.analyzer.machine.code import COPIES, ISSUED, KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers.kernels import (
    PRODUCT_SAMPLES_COUNTED,
    PRODUCT_SAMPLES_KEPT,
    PRODUCT_SAMPLES_OWN,
    PRODUCT_SAMPLES_REACHED,
)
from tileprof.analyzer.numbers.shared import LONGEST_SAVING, SCHEDULERS
from tileprof.binary.occupancy import WARP

_DATA = {"long_scoreboard", "barrier", "membar"}
"""Reasons of waits for the operands, or for other warps."""
_FMA = ("FFMA", "IMAD", "IDP", "HFMA2")


def taken_by(code: KernelCode, where: list[int], told: bool) -> Weights:
    """By row, samples that go with the product.

    All of an innermost loop that is mostly the product, and loads nothing from memory, does: what
    else stands there is its own addresses. Where roofs tell what comes instead, waits for operands
    in the loops around it go as well: tiles that tensor cores read come by themselves, while others
    are multiplied. Where some are already, these waits are theirs too.
    """
    loops = [each for each in loops_of(code) if set(where) & set(each)]
    loading = set(code.named(*COPIES, *LOADS))
    inner = [each for each in loops if is_innermost(code, each) and not loading & set(each)]
    own = [
        each
        for each in inner
        if code.n(set(where) & set(each)) >= PRODUCT_SAMPLES_OWN * code.n(each)
    ]
    product = sorted({*where, *(index for each in own for index in each)})
    rows = code.rows(product, [each for each in code.by_reason(product) if each not in _DATA])
    if told and not code.named(*MATRIX):
        rows = rows | code.rows(sorted({i for each in loops for i in each}), tuple(_DATA))
    return code.taken(rows)


def flops_issued(case: KernelCase, code: KernelCode) -> float:
    """Operations of a launch by the multiply-adds that were issued, of all lanes; 0 where samples,
    the clock or the launch are not known."""
    launch, clock = launch_of(case), clock_mhz(case)
    if launch is None or not clock or not code.issued or not case.launches:
        return 0.0
    cycles = case.time / case.launches * clock / 1e3 * launch.multiprocessors * SCHEDULERS
    part = code.n(code.named(*_FMA), (ISSUED,)) / code.issued
    return PRODUCT_SAMPLES_COUNTED * cycles * busy_share(code) * part * 2 * WARP


def saving_by(
    case: KernelCase, taken: Weights, at_peak: float, issued: Weights | None = None
) -> Saving:  # fmt: skip
    """What is saved where tensor cores do a product at which these samples are, by row.

    at_peak: the time in ns that it takes at their roof, in all launches.  issued: samples, by row,
    whose turns to issue go, all that are taken where not given.  What is left beside it was made
    for a slow product, and overlaps with a fast one, so likely a part of it stays; but no less than
    the turns to issue, and those of the unit for conversions, that it takes (`reach`).
    """
    share = float(taken.sum()) / case.sampled.whole if case.sampled else 0.0
    memory = case.roofs.copy_floor / case.time
    best, likely, least = (
        min(1.0, max(memory, at_peak / case.time / reached + kept * (1 - share)))
        for reached, kept in zip(PRODUCT_SAMPLES_REACHED, (0.0, PRODUCT_SAMPLES_KEPT, 1.0))
    )
    left = reach.left(case, taken if issued is None else issued) or Saving(0, 1, 1)
    high = min(1 - best, left.high, LONGEST_SAVING)
    mid = min(1 - likely, left.mid, high)
    return Saving(min(1 - least, left.low, mid), mid, high)
