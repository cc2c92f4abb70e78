"""Place of each shared buffer: buffers that are never alive together share bytes.

A buffer is alive from the op that first touches it to the one that last does, asynchronous reads
to the wait for them; over the whole of a loop that touches it and stands after its allocation.
Slots of rings are alive from the start, since the producer fills them ahead of everything.

A tile that TMA stores is read until some wait, at the latest that at the end.  Where one in front
of the next loop lets more blocks onto a multiprocessor, it is put there: by then TMA has read it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_shared
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import SharedBuffer, check_shared, occupancy
from tileprof.compiler.cuda.target import MBARRIER_BYTES, WORD
from tileprof.compiler.cuda.tuning import OTHER_REGISTERS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks.launches import EarlierWait


def plan_memory(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """`offset` on every shared allocation and ring, and the hint `shared` with the sum on each
    launch; KernelError where it does not fit."""
    return per_launch(kernel, lambda launch: _planned(launch, lowering))


@dataclass
class _Span:
    """A buffer and when it is alive, in positions of ops."""

    alloc: ir.Alloc
    first: int
    last: int
    size: int
    alignment: int
    offset: int = -1

    def meets(self, other: _Span) -> bool:
        """Whether both are alive at some point."""
        return self.first <= other.last and other.first <= self.last


def shared_bytes(launch: ir.Launch) -> int:
    """Return the shared memory that a block needs, in bytes, barriers of rings left out."""
    spans = _alive(launch)
    _place(spans)
    return max((s.offset + s.size for s in spans), default=0)


def _planned(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    launch = _waited_early(launch, lowering)
    spans = _alive(launch)
    _place(spans)
    end = max((s.offset + s.size for s in spans), default=0)
    offsets: dict[ir.OpBase, int] = {s.alloc: s.offset for s in spans}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Ring):
            end = -(-end // MBARRIER_BYTES) * MBARRIER_BYTES
            offsets[op] = end
            end += _ring_bytes(op, op.stages)
    _check(launch, spans, end, lowering)

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        at = offsets.get(before)
        if at is None:
            return None
        assert isinstance(op, ir.Alloc | ir.Ring)
        return [builder.emit(replace(op, offset=at, hint=op.result.name)).result]

    made = with_originals(launch, rule)
    return made.scheduled(replace(made.schedule, shared=end))


def _waited_early(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """The launch with a wait for stores in front of loops that follow them, where shared memory
    then has room for more blocks."""
    before = shared_bytes(launch)
    made: list[ir.OpBase] = []
    storing: ir.Commit | None = None
    for op in launch.body.ops:
        if isinstance(op, ir.Wait) and op.queue == "bulk":
            storing = None
        elif isinstance(op, ir.Commit) and op.queue == "bulk":
            storing = op
        elif storing is not None and _repeats(op):
            reason = "shared memory then has room for more blocks"
            made.append(ir.Wait("bulk", [], [], read=True, reason=reason, span=storing.span))
            storing = None
        made.append(op)
    if len(made) == len(launch.body.ops):
        return launch
    waited = launch.with_body(ir.Block(launch.body.args, made))
    after = shared_bytes(waited)

    def blocks(shared: int) -> int:
        least = occupancy(OTHER_REGISTERS, shared, launch.block_threads, lowering.target)
        return least.blocks

    if blocks(after) <= blocks(before):
        return launch
    decision = EarlierWait(before, after, blocks(after))
    lowering.remarks.add("launch", "", launch.span, decision)
    return waited


def _repeats(op: ir.OpBase) -> bool:
    """Whether an op is a loop, or a branch with one."""
    return any(isinstance(o, ir.For | ir.While) for o in op.with_inner_ops())


def _alive(launch: ir.Launch) -> list[_Span]:
    spans: dict[ir.Value, _Span] = {}
    always = {
        base(op.target)
        for op in ir.walk(launch.body)
        if isinstance(op, ir.AsyncCopy) and op.ring is not None
    }
    clock = 0
    running: dict[str, set[ir.Value]] = {"wgmma": set(), "bulk": set(), "cp.async": set()}

    def visit(block: ir.Block) -> None:
        nonlocal clock
        for op in block.ops:
            clock += 1
            if isinstance(op, ir.Alloc) and op.space == "shared":
                layout = parse_shared(op.layout, op.shape, op.dtype)
                start = 0 if op.result in always else 1 << 30
                spans[op.result] = _Span(op, start, -1, layout.bytes, layout.alignment)
            before, start = set(spans), clock
            if isinstance(op, ir.Parallel):
                # Its points have no order: what one reads, another must not overwrite.
                for touch in op.all_accesses():
                    _touch(spans, base(touch.value), clock)
                for point in ir.walk(op.body):
                    _note_running(point, running)
                continue
            # One way through may not have the wait of another.
            held = set(running["bulk"])
            for inner in op.blocks():
                visit(inner)
                running["bulk"] |= held
            for touch in op.accesses():
                _touch(spans, base(touch.value), clock)
            _note_running(op, running)
            if isinstance(op, ir.Wait):
                for value in running[op.queue]:
                    _touch(spans, value, clock)
                if op.queue == "bulk" and not op.pending:
                    running["bulk"].clear()
            if isinstance(op, ir.For | ir.While):
                _stretch(spans, before, start, clock)
                # What still runs at the end of an iteration is waited for in the next one.
                for value in _asynchronous(op):
                    _touch(spans, value, start)
                    _touch(spans, value, clock)

    visit(launch.body)
    return [s for s in spans.values() if s.last >= 0]


def _asynchronous(loop: ir.OpBase) -> set[ir.Value]:
    """Buffers that asynchronous ops of a loop use."""
    found: dict[str, set[ir.Value]] = {"wgmma": set(), "bulk": set(), "cp.async": set()}
    for op in loop.inner_ops():
        _note_running(op, found)
    return set().union(*found.values())


def _note_running(op: ir.OpBase, running: dict[str, set[ir.Value]]) -> None:
    """Buffers that asynchronous ops use until some wait."""
    if op.runs_in is not None:
        running[op.runs_in] |= {base(t.value) for t in op.accesses()}


def _touch(spans: dict[ir.Value, _Span], value: ir.Value, at: int) -> None:
    if value in spans:
        spans[value].first = min(spans[value].first, at)
        spans[value].last = max(spans[value].last, at)


def _stretch(spans: dict[ir.Value, _Span], before: set[ir.Value], start: int, end: int) -> None:
    """Keep what a loop touches and did not allocate alive from iteration to iteration."""
    for value in before:
        span = spans[value]
        if span.last >= start:
            span.first = min(span.first, start)
            span.last = end


def _place(spans: list[_Span]) -> None:
    """Largest first, each at the lowest place that is free while it is alive."""
    placed: list[_Span] = []
    for span in sorted(spans, key=lambda s: (-s.alignment, -s.size)):
        taken = sorted((p for p in placed if p.meets(span)), key=lambda p: p.offset)
        at = 0
        for other in taken:
            if at + span.size <= other.offset:
                break
            end = other.offset + other.size
            at = max(at, -(-end // span.alignment) * span.alignment)
        span.offset = at
        placed.append(span)


def _check(launch: ir.Launch, spans: list[_Span], total: int, lowering: Lowering) -> None:
    stages = _stages(launch)

    def total_with(most: int) -> int:
        """Bytes of a block where no buffer has more stages than that."""
        fewer = []
        for span in spans:
            held = stages.get(span.alloc, 1)
            fewer.append(replace(span, size=span.size // held * min(held, most)))
        _place(fewer)
        rings = [o for o in ir.walk(launch.body) if isinstance(o, ir.Ring)]
        barriers = sum(_ring_bytes(o, min(o.stages, most)) for o in rings)
        return max(s.offset + s.size for s in fewer) + barriers

    buffers = [
        SharedBuffer(buffer_name(s.alloc.result), s.size, stages.get(s.alloc, 1)) for s in spans
    ]
    check_shared("the kernel", total, lowering.target, buffers, total_with, launch.span)


def _ring_bytes(ring: ir.Ring, stages: int) -> int:
    """Return the bytes of a ring's barriers, and of the numbers that lie behind them."""
    return stages * (2 * MBARRIER_BYTES + (0 if ring.bytes else WORD))


def _stages(launch: ir.Launch) -> dict[ir.OpBase, int]:
    """Slots of the buffers that loads run ahead into."""
    found: dict[ir.OpBase, int] = {}
    for op in ir.walk(launch.body):
        if not isinstance(op, ir.AsyncCopy) or not isinstance(op.target.owner, ir.View):
            continue
        alloc = base(op.target).owner
        # A slot is one index of the first dimension.
        if isinstance(alloc, ir.Alloc) and op.target.owner.sizes[0] == 1:
            found[alloc] = alloc.shape[0]
    return found
