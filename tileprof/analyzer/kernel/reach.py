"""What a kernel takes without its defect: as long as its work takes where nothing is in its way.

In: a kernel with the work that it has to do, what its device does at most, and its samples; the
samples that a change takes away.  Out: how much of its time that leaves to gain, as a range.

A kernel without a defect does not reach a roof, but comes near it. On an H200 kernels that were
written well reached 0.93 to 1.0 of the roof of their mix of reads and writes, and 0.83 to 0.92 of
that of the tensor cores for whole waves of tiles; with exponentials between products, as in
attention, they took what the two need one after the other; integer arithmetic issued in 0.92 of the
cycles (`benchmarks/results/plant-dev.json`, kernels without a defect). A sample says whether its
scheduler issued, so issued instructions, and those of special functions, are told by samples: 16
results a cycle and multiprocessor (CUDA programming guide, arithmetic throughput, 9.0) are 8 cycles
for a warp.

Where nobody says how many bytes a kernel has to move (Triton, CUDA), counters do, or the addresses
of code without loops; else what its loads and stores ask for is told by samples, as long as nothing
is read twice: on an H200 within a fifth for kernels
whose bytes are known, and up to a half too much. Products read tiles again and again, so of kernels
with tensor cores that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.kernel.launches import busy_share, clock_mhz, launch_of
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.code import PRODUCTS as WGMMA
from tileprof.analyzer.numbers.kernels import REACH_ASKED, REACH_FEWEST, REACH_IN_TURN
from tileprof.analyzer.numbers.shared import (
    HOPPER,
    ISSUE_REACHED,
    MEMORY_REACHED,
    MMA_OF_WGMMA,
    MOST_OF_ROOF,
    PRODUCTS_REACHED,
    SCHEDULERS,
    SPECIAL,
    SPECIAL_CYCLES,
)
from tileprof.binary.occupancy import WARP

_GLOBAL = ("LDG", "STG", "RED")
_TILES = ("HGMMA", "HMMA", "LDGSTS", "UTMALDG", "UBLKCP")
_Reached = tuple[float, float, float]


def left(case: KernelCase, gone: Weights | None = None) -> Saving | None:
    """The share of a kernel's time beyond what its work takes, without the samples `gone`, by row.

    None where no work is known: turns to issue alone say nothing of what waits for memory.
    """
    needs = [need for need in _work(case) if 0 < need[0] <= MOST_OF_ROOF]
    if not needs:
        return None
    needs += _turns(case, gone)
    best, likely, least = (
        min(1.0, max(share / reached[which] for share, reached in needs)) for which in range(3)
    )
    return Saving(1 - least, 1 - likely, 1 - best)


def as_told(case: KernelCase, saving: Saving) -> Saving:
    """Return what samples say, no more than the work leaves, where they tell all that goes: waits
    of others are among them, or nobody waits for these."""
    beyond = left(case, saving.rows)
    if beyond is None:
        return replace(saving, rows=None)
    mid = min(saving.mid, beyond.mid)
    low, high = min(saving.low, mid), max(mid, min(saving.high, beyond.high))
    return Saving(low, mid, high, samples=saving.samples)


def _work(case: KernelCase) -> Iterator[tuple[float, _Reached]]:
    """Shares of its time that bytes and products take at a roof, and what is reached of it."""
    if not case.time:
        return
    yield case.roofs.copy_floor / case.time, MEMORY_REACHED
    yield case.roofs.tensor_floor / case.time / _fullness(case) / _of_peak(case), PRODUCTS_REACHED
    code = case.sampled
    if case.roofs.tensor_floor or case.roofs.copy_floor or code is None or code.named(*_TILES):
        return
    use = memory_use(case)
    yield (
        (use.share, MEMORY_REACHED) if use else (min(_asked(case, code), MOST_OF_ROOF), REACH_ASKED)
    )


def _of_peak(case: KernelCase) -> float:
    """Of the roof of products, which `wgmma` sets where there is one, what a kernel's instruction
    reaches at most."""
    code, device = case.sampled, case.device_info
    if code is None or device is None or device.major != HOPPER or code.named(*WGMMA):
        return 1.0
    return MMA_OF_WGMMA if code.named(*MATRIX) else 1.0


def _turns(case: KernelCase, gone: Weights | None) -> Iterator[tuple[float, _Reached]]:
    """The same of instructions that schedulers issue."""
    code = case.sampled
    if code is None or not code.issued or not code.n(idle=True):
        return  # where nothing tells idle schedulers, nothing tells busy ones
    each = busy_share(code) / code.issued
    yield each * (code.issued - _issued(code, gone)), ISSUE_REACHED
    unit = each * SPECIAL_CYCLES
    special = code.named(*SPECIAL)
    yield unit * (code.n(special, (ISSUED,)) - _issued(code, gone, special)), ISSUE_REACHED
    if case.roofs.tensor_floor:
        functions = code.n(code.named("MUFU"), (ISSUED,))
        yield case.roofs.tensor_floor / case.time + unit * functions, REACH_IN_TURN


def _issued(
    code: KernelCode, gone: Weights | None, where: Collection[int] | None = None
) -> float:  # fmt: skip
    """Samples that go, of warps that issue these instructions, or any."""
    return 0.0 if gone is None else float(gone[code.rows(where, (ISSUED,))].sum())


def _fullness(case: KernelCase) -> float:
    """Of multiprocessors, the part that has tiles, over all waves."""
    launch = launch_of(case)
    if launch is None:
        return 1.0
    rounds = launch.rounds if launch.tiles else launch.each
    return rounds / math.ceil(rounds)


def _asked(case: KernelCase, code: KernelCode) -> float:
    """Of its time, what copying the bytes takes that its threads ask for; 0 where not known."""
    launch, peak = launch_of(case), case.roofs.peaks.get("hbm_copy")
    clock = clock_mhz(case)
    where = code.named(*_GLOBAL)
    samples = code.n(where, (ISSUED,))
    if not (launch and peak and clock and samples >= REACH_FEWEST):
        return 0.0
    each = (
        WARP * width_of(code.instructions[index].opcode) * code.n([index], (ISSUED,))
        for index in where
    )
    a_cycle = busy_share(code) / code.issued * sum(each) * SCHEDULERS * launch.multiprocessors
    return a_cycle * clock * 1e6 / peak.value
