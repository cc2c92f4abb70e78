"""Demands of a launch on a multiprocessor: refused before it is compiled, reported after.

In: a launch and a target; after compiling, what ptxas reports.  Out: a KernelError with a way out
for what cannot run; how many blocks a multiprocessor holds, and what limits them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tileprof import ir
from tileprof.binary.occupancy import (
    PARTITIONS,
    REGISTER_UNIT,
    WARP,
    Occupancy,
    round_up,
)
from tileprof.binary.occupancy import occupancy as occupancy_of
from tileprof.compiler.cuda.target import CLUSTER, WGMMA_ROWS, WORD
from tileprof.errors import KernelError, Location, TooLarge
from tileprof.remarks import Rejection, Remark, launches
from tileprof.remarks.launches import (
    BarrierLimit,
    BlocksCandidate,
    BlocksNeed,
    FewerBarriers,
    Limit,
    Need,
    OtherLimit,
    RegisterLimit,
    RegistersAtMost,
    SharedAtMost,
    SharedLimit,
)

from .ptxas import Resources, notes_to_remarks
from .source import MOST_BLOCKS, LaunchSpec
from .target import Target
from .tuning import TENSOR_FLOPS_PER_CYCLE

if TYPE_CHECKING:
    from .build import Cubin


class SharedBuffer(NamedTuple):
    """A shared buffer, for messages."""

    name: str
    bytes: int
    """Bytes of all its stages."""
    stages: int = 1


def check(
    spec: LaunchSpec,
    target: Target,
    *,
    location: Location | None = None,
    buffers: Sequence[SharedBuffer] = (),
    barriers: int = 1,
    whole_warps: bool = False,
) -> None:
    """Refuse a launch that cannot run: KernelError with the numbers and a way out.

    `barriers`: named barriers, the block's own included.  `whole_warps`: the text needs threads in
    multiples of 32.
    """
    _check_threads(spec, target, whole_warps, location)
    _check_grid(spec, location)
    check_shared(f"`{spec.function}`", spec.shared, target, buffers, location=location)
    if barriers > target.named_barriers:
        raise TooLarge(
            f"`{spec.function}` needs {barriers} named barriers; a block has "
            f"{target.named_barriers}",
            "barriers",
            location=location,
            hint="Use fewer groups of threads that wait for each other.",
        )


def _check_threads(
    spec: LaunchSpec, target: Target, whole_warps: bool, location: Location | None
) -> None:
    threads, limit = spec.threads, target.threads_per_block
    if threads > limit:
        raise TooLarge(
            f"a block of `{spec.function}` has {threads:,} threads; {target.name} allows {limit:,}",
            "threads",
            location=location,
            hint=f"Use at most threads={limit}; a kernel with a producer has 128 of its own.",
        )
    if whole_warps and threads % WARP:
        below = threads - threads % WARP
        ways = " or ".join(f"threads={n}" for n in (below, below + WARP) if n)
        raise KernelError(
            f"`{spec.function}` has {threads} threads in a block, which is not a multiple of "
            f"{WARP}, "
            "and its threads work together by warps",
            location=location,
            hint=f"Use {ways}.",
        )
    if spec.cluster > (CLUSTER if target.has_tma else 1):
        raise KernelError(
            f"`{spec.function}` has clusters of {spec.cluster} blocks; {target.name} allows "
            f"{CLUSTER if target.has_tma else 1}",
            location=location,
            hint="Use a smaller cluster.",
        )


def _check_grid(spec: LaunchSpec, location: Location | None) -> None:
    extents = [v.owner.value for v in spec.grid if isinstance(v.owner, ir.Constant)]
    blocks = math.prod(int(extent) for extent in extents)
    if len(extents) == len(spec.grid) and blocks > MOST_BLOCKS:
        shown = " x ".join(f"{int(extent):,}" for extent in extents)
        raise KernelError(
            f"`{spec.function}` has {shown} blocks; a launch has at most {MOST_BLOCKS:,}",
            location=location,
            hint="Use larger tiles, or several launches.",
        )


def check_shared(
    what: str,
    total: int,
    target: Target,
    buffers: Sequence[SharedBuffer],
    total_with: Callable[[int], int] | None = None,
    location: Location | None = None,
) -> None:
    """KernelError where `what` needs more shared memory than a block can have, with its buffers
    and what would fit.  `total_with(n)` gives the bytes with at most n stages; without it every
    buffer is taken to have bytes of its own."""
    if total <= target.shared_per_block:
        return
    listed = ", ".join(
        f"{b.name} {_kb(b.bytes)}" + (f" in {b.stages} stages" if b.stages > 1 else "")
        for b in sorted(buffers, key=lambda b: -b.bytes)
    )

    def apart(stages: int) -> int:
        return total - sum(b.bytes - b.bytes // b.stages * min(b.stages, stages) for b in buffers)

    smaller = _smaller(target, buffers, total_with or apart)
    raise TooLarge(
        f"{what} needs {_kb(total)} of shared memory in a block; {target.name} "
        f"has {_kb(target.shared_per_block)}",
        "shared memory",
        location=location,
        hint=f"{listed}. {smaller}" if listed else smaller,
    )


def _smaller(
    target: Target, buffers: Sequence[SharedBuffer], total_with: Callable[[int], int]
) -> str:
    """The largest number of stages that fits, or what else would help."""
    for stages in range(max((b.stages for b in buffers), default=1) - 1, 0, -1):
        needed = total_with(stages)
        if needed <= target.shared_per_block:
            return f"num_stages={stages} needs {_kb(needed)} and fits."
    return "Use smaller tiles."


def check_accumulators(
    tile: tuple[int, int],
    registers: int,
    threads: int,
    limit: int,
    location: Location | None = None,
) -> None:
    """KernelError where the sums of one product of warp groups do not fit into the registers of
    its threads: every product would wait for its sums to come from memory and go back.

    `registers`: of each of `threads` threads, for the sums of a tile of M x N; `limit`: what a
    thread has.
    """
    if registers <= limit:
        return
    (rows, columns), taken = tile, registers
    while registers > limit and max(rows, columns) > WGMMA_ROWS:
        rows, columns = (rows // 2, columns) if rows > columns else (rows, columns // 2)
        registers //= 2
    raise TooLarge(
        f"the sums of a tile of {tile[0]} x {tile[1]} take {taken} registers of each of {threads} "
        f"threads; a thread has {limit}",
        "registers",
        location=location,
        hint=f"Use a smaller tile, as {rows} x {columns}, or more threads that share it.",
    )


def _kb(size: int) -> str:
    """Rounded up, so that what does not fit never looks as if it did."""
    if size < 1024:
        return f"{size} bytes"
    tenths = -(-size * 10 // 1024)
    return f"{tenths // 10} KB" if tenths % 10 == 0 else f"{tenths / 10:.1f} KB"


def registers_available(threads: int, target: Target) -> int:
    """Registers that each thread of a block can have when it is alone on a multiprocessor."""
    warps = round_up(-(-threads // WARP), PARTITIONS)
    each = target.registers_per_sm // (warps * WARP)
    return min(each - each % (REGISTER_UNIT // WARP), target.registers_per_thread)


def fragment_registers(buffers: Iterable[ir.Value], threads: int) -> float:
    """Registers of a thread for those of some buffers that are tiles in fragments, of two axes or
    more; `threads` hold them together."""
    held = [v.buffer for v in buffers if v.buffer.space == "fragment" and v.buffer.rank > 1]
    return sum(math.prod(b.static_shape) * b.dtype.bytes for b in held) / WORD / threads


def occupancy(
    registers: int, shared: int, threads: int, target: Target, barriers: int = 0
) -> Occupancy:
    """Return the blocks of a launch that fit a multiprocessor, by resource; 0 for none.

    `registers` of a thread; `shared` bytes of a block, static and dynamic; named `barriers`.
    """
    return occupancy_of(registers, shared, threads, target.multiprocessor, barriers)


def binary_remarks(
    cubin: Cubin, launches: Sequence[LaunchSpec], target: Target
) -> tuple[Remark, ...]:
    """Return what ptxas noted, and the blocks of each launch that run at once."""
    remarks = notes_to_remarks(cubin.notes, cubin.locate)
    for spec in launches:
        location = cubin.locate(spec.function, 0)
        held = cubin.resources[spec.function]
        remarks.append(occupancy_remark(spec, held, target, location))
    return tuple(remarks)


def occupancy_remark(
    spec: LaunchSpec, resources: Resources, target: Target, location: Location | None
) -> Remark:
    """Return how many blocks of a compiled launch run at once, what limits them, and what one more
    would take."""
    shared = spec.shared + resources.shared
    held = occupancy(resources.registers, shared, spec.threads, target, resources.barriers)
    amounts: dict[str, Limit] = {
        "registers": RegisterLimit(resources.registers),
        "shared memory": SharedLimit(shared),
        "named barriers": BarrierLimit(resources.barriers),
    }
    limits = tuple(amounts.get(name) or OtherLimit(name) for name in held.scarce)
    persistent = spec.persistent if spec.persistent < held.blocks else 0
    made = launches.Occupancy(held.blocks, spec.threads, limits, persistent)
    more = _one_more(held, held.scarce, spec, target)
    return Remark(made, "occupancy", "", location, more)


def _one_more(
    held: Occupancy, scarce: Sequence[str], spec: LaunchSpec, target: Target
) -> tuple[Rejection, ...]:
    """Return what would have to be smaller for another block; nothing where no size helps."""
    blocks = held.blocks + 1
    if "threads" in scarce or "blocks" in scarce:
        return ()
    needs: dict[str, Need] = {
        "registers": RegistersAtMost(registers_for(blocks, spec.threads, target)),
        "shared memory": SharedAtMost(shared_for(blocks, target)),
        "named barriers": FewerBarriers(),
    }
    reason = BlocksNeed(tuple(needs[name] for name in scarce))
    return (Rejection(BlocksCandidate(blocks), reason),)


def registers_for(blocks: int, threads: int, target: Target) -> int:
    """Return the registers of each thread with which so many blocks fit on a multiprocessor."""
    warps = -(-threads // WARP)
    in_partition = -(-blocks * warps // PARTITIONS)
    each = target.registers_per_sm // PARTITIONS // in_partition
    return each // REGISTER_UNIT * REGISTER_UNIT // WARP


def shared_for(blocks: int, target: Target) -> int:
    """Return the bytes of shared memory for each of so many blocks of a multiprocessor."""
    of = target.multiprocessor
    each = of.shared // blocks
    return min(each - each % of.shared_unit - of.reserved_shared, of.shared_per_block)


def product_cycles(ops: Iterable[ir.OpBase]) -> float:
    """Return the cycles that tensor cores take, at their best, for the products among ops."""
    products = (op for op in ops if isinstance(op, ir.Gemm))
    flops = (2 * math.prod(op.mnk) * op.a.dtype.bits / 16 for op in products)
    return sum(flops) / TENSOR_FLOPS_PER_CYCLE
