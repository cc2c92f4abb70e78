"""Rings of shared-memory slots and the two roles that work on them.

A ring has two mbarriers a slot.  `full`: the producer arrives once and names the bytes, the copies
count them down.  `empty`: one lane of every consumer warp arrives.  The producer finds all slots
free at first: it waits for the phase before the first, which counts as over.

A ring of numbers has them behind its barriers: the producer writes one and arrives.

Where the blocks of a cluster load tiles for each other, a copy counts down `full` of every block
that it writes to, and a consumer warp arrives at `empty` of every block of the cluster.  No block
starts before the barriers of all are there, and none ends while another may still arrive.
"""

from __future__ import annotations

from typing import cast

from tileprof import ir
from tileprof.binary.occupancy import WARP
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.errors import InternalError

from .context import INT32, Context, EmitBlock, RingState
from .marks import role_registers

RingOp = ir.Ring | ir.RingAcquire | ir.RingCommit | ir.RingWait | ir.RingRelease | ir.RingSend
RingOp |= ir.RingReceive


def emit(ctx: Context, op_: ir.OpBase) -> None:
    """One op on a ring."""
    op = cast(RingOp, op_)
    ctx.headers |= {"barriers.cuh", "async.cuh"}
    line = ctx.writer.line
    match op:
        case ir.Ring():
            _open(ctx, op)
        case ir.RingAcquire(ring=ring):
            state = ctx.rings[ring]
            line(f"tp_mbarrier_wait({state.empty} + {state.slot}, {state.phase} ^ 1);")
            line(f"tp_mbarrier_expect({state.full} + {state.slot}, {state.bytes});")
            _take_slot(ctx, op, state)
        case ir.RingCommit(ring=ring):
            _advance(ctx, ctx.rings[ring])
        case ir.RingWait(ring=ring):
            state = ctx.rings[ring]
            line(f"tp_mbarrier_wait({state.full} + {state.slot}, {state.phase});")
            _take_slot(ctx, op, state)
        case ir.RingRelease(ring=ring):
            _release(ctx, op, ctx.rings[ring])
        case ir.RingSend(ring=ring):
            _send(ctx, op, ctx.rings[ring])
        case ir.RingReceive(ring=ring):
            _receive(ctx, op, ctx.rings[ring])


def _open(ctx: Context, op: ir.Ring) -> None:
    """Write where its barriers lie, and the position, which each role keeps for itself."""
    if op.offset < 0:
        raise InternalError(f"{op!r} has no place in shared memory")
    names, line = ctx.names, ctx.writer.line
    name = op.result.name or "ring"
    full, empty = names.fresh(f"{name}_full"), names.fresh(f"{name}_empty")
    slot, phase = names.fresh(f"{name}_slot"), names.fresh(f"{name}_phase")
    previous = names.fresh(f"{name}_previous") if _lags(ctx, op) else ""
    line(f"uint64_t *const {full} = (uint64_t *)(tp_shared + {op.offset});")
    line(f"uint64_t *const {empty} = {full} + {op.stages};")
    tail = f", {previous} = -1" if previous else ""
    line(f"int {slot} = 0, {phase} = 0{tail};")
    ctx.rings[op.result] = RingState(
        full, empty, op.stages, op.bytes, slot, phase, previous, op.cluster
    )


def _initialise(ctx: Context) -> None:
    """One thread makes all barriers: lanes at addresses of their own would take turns, in a loop
    for each instruction."""
    line = ctx.writer.line
    with ctx.writer.braces("if (tp_thread == 0)"):
        for ring, state in ctx.rings.items():
            op = ring.owner
            assert isinstance(op, ir.Ring)
            with ctx.writer.braces(f"TP_UNROLL_ALL for (int s = 0; s < {op.stages}; ++s)"):
                line(f"tp_mbarrier_init({state.full} + s, 1);")
                line(f"tp_mbarrier_init({state.empty} + s, {op.consumers * op.cluster});")


def _lags(ctx: Context, op: ir.Ring) -> bool:
    return any(isinstance(o, ir.RingRelease) and o.lag for o in ctx.uses.get(op.result, []))


def _take_slot(ctx: Context, op: ir.RingAcquire | ir.RingWait, state: RingState) -> None:
    """The slot's number for the ops that use it, which the ring's position moves away from."""
    name = ctx.names.fresh(op.result.name or "slot")
    ctx.writer.line(f"const int {name} = {state.slot};")
    ctx.values[op.result] = name
    ctx.known[op.result] = (0, state.stages - 1)


def _advance(ctx: Context, state: RingState) -> None:
    if state.stages == 1:
        ctx.writer.line(f"{state.phase} ^= 1;")
        return
    ctx.writer.line(
        f"if (++{state.slot} == {state.stages}) {{ {state.slot} = 0; {state.phase} ^= 1; }}"
    )


def _release(ctx: Context, op: ir.RingRelease, state: RingState) -> None:
    """Free this slot, or the one before, and go on.  All lanes have to be done with it."""
    line = ctx.writer.line
    if op.fence:
        line("tp_fence_async();")
    line("tp_warp_barrier();")
    if not op.lag:
        line(f"if ({_arrives(state)}) {_arrive(state, state.slot)}")
        _advance(ctx, state)
        return
    line(f"if ({_arrives(state)} && {state.previous} >= 0) {_arrive(state, state.previous)}")
    if op.last:
        line(f"{state.previous} = -1;")
        return
    line(f"{state.previous} = {state.slot};")
    _advance(ctx, state)


def _send(ctx: Context, op: ir.RingSend, state: RingState) -> None:
    """The number, before the arrival that makes the slot full."""
    line = ctx.writer.line
    line(f"tp_mbarrier_wait({state.empty} + {state.slot}, {state.phase} ^ 1);")
    line(f"{_number(state)} = {ctx.bare(op.value)};")
    line(f"tp_mbarrier_arrive({state.full} + {state.slot});")
    _advance(ctx, state)


def _receive(ctx: Context, op: ir.RingReceive, state: RingState) -> None:
    """The number, the same in all lanes, which have read it before the slot is freed."""
    line = ctx.writer.line
    name = ctx.names.fresh(op.result.name or "number")
    line(f"tp_mbarrier_wait({state.full} + {state.slot}, {state.phase});")
    line(f"const int {name} = tp_uniform({_number(state)});")
    line("tp_warp_barrier();")
    line(f"if ({_arrives(state)}) {_arrive(state, state.slot)}")
    _advance(ctx, state)
    ctx.values[op.result] = name
    ctx.known[op.result] = (0, INT32 - 1)


def _number(state: RingState) -> str:
    """The number of the slot at hand, behind the barriers of both kinds."""
    return f"((int *)({state.empty} + {state.stages}))[{state.slot}]"


def _arrives(state: RingState) -> str:
    """The lanes of a warp that free a slot: one for each block that fills it."""
    return "tp_lane == 0" if state.cluster == 1 else f"tp_lane < {state.cluster}"


def _arrive(state: RingState, slot: str) -> str:
    place = f"{state.empty} + {slot}"
    if state.cluster == 1:
        return f"tp_mbarrier_arrive({place});"
    return f"tp_mbarrier_arrive_remote({place}, tp_lane);"


def producer_threads(op: ir.Roles) -> int:
    """Return the threads of the producer: one warp, or a whole warp group where `setmaxnreg` takes
    registers from it.  Threads that do nothing would keep registers from other blocks."""
    return WARP_GROUP if op.producer_registers else WARP


def emit_roles(ctx: Context, op: ir.Roles, emit_block: EmitBlock) -> None:
    """The producer is the last warp, or warp group; one of its threads does all the work."""
    line = ctx.writer.line
    ctx.headers.add("barriers.cuh")
    clustered = any(ring.cluster > 1 for ring in ctx.rings.values())
    producer, consumer = op.producer_registers, op.consumer_registers
    if ctx.marks:
        producer, consumer = role_registers(op, ctx.threads)
    _initialise(ctx)
    line("tp_fence_mbarrier_init();")
    _meet(ctx, clustered)
    # The number of the warp is one for all its lanes, and the assembler knows: inside, it may keep
    # what is the same for a warp in uniform registers.
    line(f"if (tp_warp >= {ctx.threads // WARP}) {{")
    with ctx.writer.deeper(), ctx.scope():
        if producer:
            line(f"tp_registers_decrease<{producer}>();")
        condition = f"tp_warp == {ctx.threads // WARP} && tp_elect()"
        with ctx.writer.braces(f"if ({condition})"), ctx.scope():
            ctx.role = "producer"
            _emit_role(ctx, op.producer, emit_block, alone=True)
    ctx.writer.close("} else {")
    with ctx.writer.deeper(), ctx.scope():
        if consumer:
            line(f"tp_registers_increase<{consumer}>();")
        ctx.role = "consumer"
        # There the text of one store after the other is on the way of all warps.
        ctx.elects = any(isinstance(o, ir.For) and o.schedule.crowded for o in ir.walk(op.consumer))
        _emit_role(ctx, op.consumer, emit_block, alone=False)
    ctx.role, ctx.elects = "block", False
    ctx.writer.close("}")
    if clustered:
        _meet(ctx, clustered)


def _emit_role(ctx: Context, block: ir.Block, emit_block: EmitBlock, *, alone: bool) -> None:
    """The ops of a role between the beginning and the end of its marks."""
    if ctx.marks:
        ctx.marks.begin(ctx, alone=alone)
    emit_block(ctx, block)
    if ctx.marks:
        ctx.marks.end(ctx)


def _meet(ctx: Context, clustered: bool) -> None:
    """All threads of the block, or of the cluster, which warps reach as a whole."""
    if clustered:
        ctx.writer.line("tp_warp_barrier();")
    ctx.writer.line("tp_cluster_barrier();" if clustered else "tp_barrier();")
