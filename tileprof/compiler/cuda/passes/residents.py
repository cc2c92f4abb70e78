"""Several blocks on a multiprocessor, where each has one warp group that computes.

The warps of one group wait for every product, every exponential and every barrier of their own
iteration, and nothing else runs meanwhile.  A second block fills that time.  What keeps it away is
registers alone where shared memory has room: a block of a consumer and a producer group takes 256
registers for each pair of their threads, although the producer needs no more than 24.

    launch … {persistent = 1}             launch … {persistent = 2, residents = 2}
      roles producer, consumer      ⇒       roles producer (24 registers), consumer (232)

The blocks then start with 128 registers a thread, and `setmaxnreg` moves them between the groups.

Where a thread needs few registers the assembler is told how many blocks there have to be, and
leaves room for them: persistent blocks with a warp that loads, and blocks without roles whose
products wait for what their own iteration stores.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.binary.occupancy import WARP
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import (
    fragment_registers,
    occupancy,
    registers_available,
    registers_for,
)
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import (
    FRAGMENT_REGISTERS,
    OTHER_REGISTERS,
    PAIRED_BLOCKS,
    PAIRED_REGISTERS,
)
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch
from tileprof.remarks.launches import PairedBlocks


def pair_blocks(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Let two blocks of one consumer warp group each share a multiprocessor where both fit."""
    return per_launch(kernel, lambda launch: _paired(launch, lowering))


def _paired(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    roles = next((o for o in launch.body.ops if isinstance(o, ir.Roles)), None)
    if roles is None:
        return _filled(launch, lowering)
    if (blocks := _narrow_blocks(launch, lowering)) >= PAIRED_BLOCKS:
        # Blocks with a producer of one warp fit as they are, if the assembler takes no more.
        return launch.scheduled(replace(launch.schedule, residents=blocks))
    if not _fits(launch, lowering):
        return launch
    producer, consumer = PAIRED_REGISTERS
    ops: list[ir.OpBase] = list(launch.body.ops)
    ops[ops.index(roles)] = replace(roles, producer_registers=producer, consumer_registers=consumer)
    schedule = replace(
        launch.schedule,
        residents=PAIRED_BLOCKS,
        persistent=PAIRED_BLOCKS if launch.schedule.persistent else 0,
    )
    lowering.remarks.add("launch", "", launch.span, PairedBlocks(PAIRED_BLOCKS, consumer))
    return launch.scheduled(schedule, ir.Block(launch.body.args, ops))


def _filled(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """A launch whose products wait for what their own iteration stores, as one with as many blocks
    as shared memory holds: nothing else runs while one waits.  The assembler would take registers
    for loads ahead of the products, which then keep blocks away."""
    if lowering.controls.registers or dict(launch.hints).get("blocks"):
        return launch
    if not any(isinstance(o, ir.For) and _waits_for_itself(o) for o in ir.walk(launch.body)):
        return launch
    threads, held = launch.block_threads, _held(launch) + OTHER_REGISTERS
    most = occupancy(OTHER_REGISTERS, launch.schedule.shared, threads, lowering.target).blocks
    fit = (n for n in range(most, 1, -1) if held < registers_for(n, threads, lowering.target))
    return launch.scheduled(replace(launch.schedule, residents=next(fit, 0)))


def _waits_for_itself(loop: ir.For) -> bool:
    """Whether a product of a loop reads shared memory that plain stores of the loop fill."""
    stored, read = set(), set()
    for op in ir.walk(loop.body):
        match op:
            case ir.AsyncCopy():
                return False
            case ir.Store(buffer=buffer) | ir.Copy(target=buffer):
                stored.add(base(buffer))
            case ir.Gemm(a=a, b=b):
                read |= {base(each) for each in (a, b)}
            case _:
                pass
    return any(each.buffer.space == "shared" for each in stored & read)


def _fits(launch: ir.Launch, lowering: Lowering) -> bool:
    """Whether a multiprocessor has shared memory and registers for both blocks."""
    if launch.block_threads != WARP_GROUP or lowering.controls.registers:
        return False
    if dict(launch.hints).get("blocks"):
        # The author has said how many blocks there are to be.
        return False
    threads = 2 * WARP_GROUP
    each = registers_available(PAIRED_BLOCKS * threads, lowering.target)
    blocks = occupancy(each, launch.schedule.shared, threads, lowering.target).blocks
    held = _held(launch)
    # With few fragments two blocks or more fit as they are.
    crowded = held > each - OTHER_REGISTERS
    return blocks >= PAIRED_BLOCKS and crowded and held <= FRAGMENT_REGISTERS


def _narrow_blocks(launch: ir.Launch, lowering: Lowering) -> int:
    """The most of a persistent launch's blocks, each with a warp that loads, that leave a thread
    registers to spare; below two of them, 1."""
    threads, held = launch.block_threads + WARP, _held(launch) + OTHER_REGISTERS
    fit = (
        blocks
        for blocks in range(launch.schedule.persistent, 1, -1)
        if held < registers_for(blocks, threads, lowering.target)
    )
    return next(fit, 1)


def _held(launch: ir.Launch) -> float:
    """Registers of a thread for all fragments of a launch that all of its threads hold."""
    fragments = (
        o.result for o in ir.walk(launch.body) if isinstance(o, ir.Alloc) and o.space == "fragment"
    )
    return fragment_registers(fragments, launch.block_threads)
