"""What one block more on a multiprocessor needs: fewer registers, or less shared memory.

In: a kernel with its launch.  Out: `Step`, or nothing where no size helps, or the grid has no
blocks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import Launch
from tileprof.analyzer.numbers.kernels import MOST_WARPS, NEXT_STEP_FEWEST_REGISTERS, NEXT_STEP_MANY
from tileprof.binary.occupancy import MULTIPROCESSORS, Multiprocessor, occupancy
from tileprof.remarks.launches import BlocksNeed


@dataclass(frozen=True, slots=True)
class Step:
    """What the next step needs."""

    blocks: int
    warps: float
    """Of a multiprocessor, after it."""
    needs: str
    left: float
    """Of what it needs least of, the part that stays."""
    further: float
    """Warps of a multiprocessor that a change for more than this step leads to."""


def next_step(case: KernelCase, launch: Launch) -> Step | None:
    """The next step; None where no size helps, or the grid has no blocks for it."""
    limits = str(case.attributes.get("limited_by", "")).split(", ")
    rules = _multiprocessor(case)
    if rules is None or "threads" in limits:
        return None
    room = rules.warps
    if limits == ["blocks"]:
        warps = min(2 * launch.held * launch.warps, room)
        return Step(launch.held, warps, f"blocks of {2 * launch.threads} threads", 1.0, warps)
    registers, shared = case.number("registers"), _shared(case)
    if registers is None or set(limits) - {"registers", "shared memory"}:
        return None
    blocks = launch.held + 1
    fewer = _fewest_change(int(registers), shared, launch.threads, blocks, rules)
    if fewer is None:
        return None
    # A grid of one wave is made to fit, so it grows; another one has the blocks that it has.
    there = min(blocks, launch.each) if launch.waves > 1 else blocks
    needs, left = _needs(fewer, (int(registers), shared), limits)
    after, further = there * launch.warps, there * launch.warps
    if launch.held == 1 and launch.waves > 1:
        further = max(after, min(MOST_WARPS * room, launch.each * launch.warps))
    elif launch.held >= NEXT_STEP_MANY and limits == ["registers"]:
        # One block more is a small step: who has a thread hold less halves its tile.
        twice = 2 * launch.held * launch.warps
        further = max(after, min(twice, launch.each * launch.warps)) if twice <= room else after
    return Step(blocks, after, _told(case) or needs, left, further)


def step_without(case: KernelCase, launch: Launch, unused: int) -> Step | None:
    """Return the step to as many blocks as fit without some bytes of shared memory that nothing
    uses; None where no more fit than now, or resources are not known."""
    rules, registers, shared = _multiprocessor(case), case.number("registers"), _shared(case)
    if rules is None or registers is None or not 0 < unused <= shared:
        return None
    held = occupancy(int(registers), shared - unused, launch.threads, rules).blocks
    there = int(min(held, launch.each)) if launch.waves > 1 else held
    if there <= launch.held:
        return None
    needs = f"{(shared - unused) / 1024:.1f} KB of shared memory instead of {shared / 1024:.1f}"
    warps = there * launch.warps
    return Step(there, warps, needs, 1 - unused / shared, warps)


def blocks_with(case: KernelCase, launch: Launch, more: int) -> int:
    """Return how many blocks a multiprocessor holds whose threads have `more` registers each; as
    many as now where its resources are not known."""
    rules, registers = _multiprocessor(case), case.number("registers")
    if rules is None or registers is None:
        return launch.held
    return occupancy(int(registers) + more, _shared(case), launch.threads, rules).blocks


def _told(case: KernelCase) -> str:
    """What the compiler says that the next step needs, or nothing."""
    said = (why for remark in case.remarks for why in remark.reasons(BlocksNeed))
    return next((why.rendered("{needs:&}") for why in said), "")


def _fewest_change(
    registers: int, shared: int, threads: int, blocks: int, rules: Multiprocessor
) -> tuple[int, int] | None:
    """The most registers, and bytes, with which as many blocks fit; None where none do."""
    memory = min(shared, rules.shared // blocks // rules.shared_unit * rules.shared_unit
                 - rules.reserved_shared)  # fmt: skip
    for fewer in range(registers, NEXT_STEP_FEWEST_REGISTERS - 1, -1):
        if memory >= 0 and occupancy(fewer, memory, threads, rules).blocks >= blocks:
            return fewer, memory
    return None


def _needs(after: tuple[int, int], before: tuple[int, int], limits: list[str]) -> tuple[str, float]:
    said, left = list[str](), 1.0
    if "registers" in limits:
        said.append(f"at most {after[0]} registers per thread instead of {before[0]}")
        left = min(left, after[0] / before[0])
    if "shared memory" in limits:
        said.append(f"at most {after[1] / 1024:.1f} KB of shared memory instead of"
                    f" {before[1] / 1024:.1f}")  # fmt: skip
        left = min(left, after[1] / before[1])
    return " and ".join(said), left


def _multiprocessor(case: KernelCase) -> Multiprocessor | None:
    device = case.device_info
    return MULTIPROCESSORS.get((device.major, device.minor)) if device else None


def _shared(case: KernelCase) -> int:
    return sum(int(case.number(f"{kind}_shared_bytes") or 0) for kind in ("static", "dynamic"))
