"""Rows of a tensor that threads use with the sums of a product, loaded as tiles by the producer.

    for k (pipelined)                            for k (pipelined)
      copy A[…], A_s (tma)                         copy A[…], A_s (tma)
      gemm A_s, B_s, c                             gemm A_s, B_s, c
      parallel [64, 128] body(i, j)         ⇒      copy S[k, m : m + 64], S_s (tma)
        … load S, [k, m + i] …                     parallel [64] body(i)
                                                     store (load S_s, [i]), s, [i]
                                                   parallel [64, 128] body(i, j)
                                                     … load s, [i] …

Loaded by the threads themselves, even an iteration ahead, such a row is asked for less than the
time of one iteration before it is used.  Where products take less than a load does, every iteration
waits for the rest; and under load a load takes longer.  The producer is as many iterations ahead as
the loop has stages.

In: a launch with a producer, elementwise ops as `parallel`, without layouts.  Out: the same; each
such row is a tile of its own, which is read into a fragment before the product is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.layouts.shared import tile_bytes
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.target import BOX_EXTENT
from tileprof.compiler.cuda.tuning import EARLY_BYTES, RING_BARRIER_BYTES
from tileprof.compiler.passes.identities import folded
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks.layouts import LoadedAsTile

from .choice.copies import bulk_reason, tensor_of
from .loads_ahead import with_taken
from .pipeline.roles import is_ring_load, replay_of, written_globals


def load_rows(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such rows of tensors that nobody writes as tiles of the producer's."""
    params = set(kernel.param_values())

    def change(launch: ir.Launch) -> ir.Launch:
        written = set(written_globals(launch))
        if not launch.schedule.warp_roles or (written and lowering.aliased):
            return launch
        return _Rows(kernel, launch, params - written, lowering).done()

    return per_launch(kernel, change)


@dataclass(frozen=True)
class _Row:
    """A load of which each point of a loop takes one of several elements that lie side by side."""

    load: int
    """Its position in the body of the loop, as those of all ops here."""
    along: int
    """The dimension of the loop."""
    size: int
    """Elements."""
    address: tuple[int, ...]
    """Values that its indices are computed from, without the index of the element itself."""


class _Rows:
    def __init__(
        self, kernel: ir.Kernel, launch: ir.Launch, fixed: set[ir.Value], lowering: Lowering
    ) -> None:
        self.kernel = kernel
        self.launch = launch
        self.fixed = fixed
        """Tensors that stay as they are while the launch runs."""
        self.lowering = lowering
        self.replay = replay_of(launch)
        taken = _shared_bytes(launch, lowering) + RING_BARRIER_BYTES
        self.free = lowering.target.shared_per_block - taken
        """Bytes of shared memory that tiles may still take."""

    def done(self) -> ir.Launch:
        """The launch with its rows as tiles."""
        made: dict[ir.OpBase, list[_Row]] = {}
        for loop in (o for o in ir.walk(self.launch.body) if isinstance(o, ir.For)):
            if loop.kind == "pipelined" and not loop.schedule.once:
                for op in _uses_of_sums(loop.body):
                    if rows := list(self._rows(op, loop)):
                        made[op] = rows
        if not made:
            return self.launch

        def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
            if old not in made:
                return None
            assert isinstance(new, ir.Parallel)
            taken: dict[ir.OpBase, tuple[ir.Value, list[int]]] = {}
            for row in made[old]:
                taken[new.body.ops[row.load]] = _placed(row, new, builder), [row.along]
            builder.emit(with_taken(new, taken))
            return []

        return with_originals(self.launch, rule)

    def _rows(self, op: ir.Parallel, loop: ir.For) -> Iterator[_Row]:
        """The loads of a loop over elements that are better tiles of the loop around it."""
        if any(o.SPEC.regions for o in op.body.ops):
            return
        stages = self.lowering.stages(loop)
        registers = EARLY_BYTES
        for at, load in enumerate(op.body.ops):
            if not isinstance(load, ir.Load) or load.buffer not in self.fixed or stages < 2:
                continue
            row = _row(op, at, load)
            if row is None or not self._is_read_ahead(row, op, load, loop):
                continue
            size = load.buffer.dtype.bytes * row.size
            held = load.buffer.dtype.bytes * -(-row.size // self.launch.block_threads)
            if stages * size > self.free or held > registers:
                continue
            self.free -= stages * size
            registers -= held
            told = LoadedAsTile(row.size, stages - 1)
            self.lowering.remarks.add("load", buffer_name(load.buffer), load.span, told)
            yield row

    def _is_read_ahead(self, row: _Row, op: ir.Parallel, load: ir.Load, loop: ir.For) -> bool:
        """Whether the producer can load a row, another one in each iteration."""
        *lead, last = load.indices
        outer = [v for v in _terms(last) if v not in op.body.args]
        places = [*lead, *outer]
        if not all(map(self.replay.knows, places)) or not _follows(places, loop.body.args[0]):
            return False
        sizes = (*(1 for _ in lead), row.size)
        offsets = [*lead, _sum(outer, ir.Builder(ir.Block([]), load.span))]
        view = ir.View(load.buffer, offsets, sizes, load.in_bounds)
        tile = ir.Alloc("shared", (row.size,), load.buffer.dtype)
        return bulk_reason(tensor_of(view.result, self.kernel), tile.result, self.lowering) is None


def _shared_bytes(launch: ir.Launch, lowering: Lowering) -> int:
    """Bytes of shared memory of all tiles, as many of each as its loop has stages."""
    stages: dict[ir.Value, int] = {}
    for loop in (o for o in ir.walk(launch.body) if isinstance(o, ir.For)):
        if loop.kind == "pipelined":
            for copy in loop.body.ops:
                if isinstance(copy, ir.Copy) and is_ring_load(copy):
                    stages[base(copy.target)] = max(lowering.stages(loop), 1)
    tiles = (o for o in ir.walk(launch.body) if isinstance(o, ir.Alloc) and o.space == "shared")
    return sum(tile_bytes(o.result) * stages.get(o.result, 1) for o in tiles)


def _uses_of_sums(block: ir.Block) -> Iterator[ir.Parallel]:
    """Yield the loops over elements of a block that read what a product of warp groups in front of
    them computed."""
    sums: set[ir.Value] = set()
    for op in block.ops:
        if is_of_warp_groups(op):
            sums.add(base(op.c))
        elif isinstance(op, ir.Parallel) and any(
            t.reads and base(t.value) in sums for t in op.all_accesses()
        ):
            yield op


def _row(op: ir.Parallel, at: int, load: ir.Load) -> _Row | None:
    """A load of an element of a row; None where it is anything else."""
    ops = op.body.ops[:at]
    changing = set(op.body.args)
    """Values that differ from point to point."""
    for each in ops:
        if not changing.isdisjoint(each.operand_values()) or not is_pure(each):
            changing.update(each.results)
    *lead, last = load.indices
    terms = list(_terms(last))
    elements = [v for v in terms if v in op.body.args]
    rest = [v for v in terms if v not in op.body.args]
    if len(elements) != 1 or not changing.isdisjoint([*lead, *rest]):
        return None
    along = op.body.args.index(elements[0])
    size = ir.constant_of(op.extents[along])
    if not isinstance(size, int) or size > BOX_EXTENT:
        return None
    wanted = {*lead, *rest}
    address: list[int] = []
    for position in reversed(range(at)):
        if not wanted.isdisjoint(ops[position].results):
            address.insert(0, position)
            wanted.update(ops[position].operand_values())
    return _Row(at, along, size, tuple(address))


def _terms(value: ir.Value) -> Iterator[ir.Value]:
    """Yield what an index is the sum of."""
    match value.owner:
        case ir.Binary(kind="add", left=left, right=right):
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield value


def _follows(values: Sequence[ir.Value], counter: ir.Value) -> bool:
    """Whether one of these follows from a loop's counter."""
    seen: set[ir.Value] = set()
    held = list(values)
    while held:
        value = held.pop()
        if value is counter:
            return True
        if value not in seen and value.owner is not None:
            seen.add(value)
            held += value.owner.operand_values()
    return False


def _placed(row: _Row, op: ir.Parallel, builder: ir.Builder) -> ir.Value:
    """The fragment with a row, before the loop that uses it; what fills it is appended."""
    mapping: dict[ir.Value, ir.Value] = {}
    for made in ir.clone_block(ir.Block([], [op.body.ops[at] for at in row.address]), mapping).ops:
        builder.emit(made)
    load = op.body.ops[row.load]
    assert isinstance(load, ir.Load)
    name, kind, span = buffer_name(load.buffer), load.buffer.dtype, load.span
    *lead, last = ([mapping.get(t, t) for t in _terms(v)] for v in load.indices)
    offsets = [_sum(terms, builder) for terms in lead]
    offsets.append(_sum([t for t in last if t not in op.body.args], builder))
    tile = builder.emit(ir.Alloc("shared", (row.size,), kind, span=span, hint=f"{name}_row"))
    sizes = (*(1 for _ in offsets[:-1]), row.size)
    view = builder.emit(ir.View(load.buffer, offsets, sizes, load.in_bounds, span=span))
    builder.emit(ir.Copy(view.result, tile.result, (), Tma(), span=span))
    held = builder.emit(ir.Alloc("fragment", (row.size,), kind, span=span, hint=f"{name}_held"))
    at = ir.Value(op.body.args[row.along].type, op.body.args[row.along].name)
    body = ir.Builder(ir.Block([at]), span)
    value = body.emit(ir.Load(tile.result, [at], True, span=span)).result
    body.emit(ir.Store(value, held.result, [at], True, span=span))
    builder.emit(ir.Parallel([op.extents[row.along]], body.block, op.hints, span=span))
    return held.result


def _sum(terms: Sequence[ir.Value], builder: ir.Builder) -> ir.Value:
    """The sum of indices; 0 of none."""
    total = terms[0] if terms else builder.constant(0)
    for term in terms[1:]:
        total = folded(ir.Binary("add", total, term), builder)
    return total
