"""Products that are used at once and added up elsewhere, in slices along M.

    gemm %a, %b, %part (clear)                       gemm %a[0:128], %b, %part (clear)
    parallel [256, 128] (i, j):                ⇒     parallel [128, 128] (i, j):
      store …, %total, [i, j]                          store …, %total_0, [i, j]
      (from %part [i, j], %scales [i])                 (from %part [i, j], %scales [i])
                                                     gemm %a[128:256], %b, %part (clear)
                                                     parallel [128, 128] (i, j):
                                                       store …, %total_1, [i, j]
                                                       (from %part [i, j], %scales [i + 128])

In one piece, threads would hold the product of the whole tile beside what it is added to, for which
they may not have registers.  In slices they hold that of one slice.  A fragment whose rows go along
with those of the product is divided with it, wherever it is used.
In: a launch as the author wrote it.  Out: the same, with such products in as few slices as fit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import fragment_registers
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import (
    FRAGMENT_REGISTERS,
    OTHER_REGISTERS,
    RING_BARRIER_BYTES,
    ROLE_REGISTERS,
    ROW_SLICES,
)
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, inline_scopes, opened, per_launch, with_originals, with_rule
from tileprof.remarks.products import RowSlices

from .choice.gemms import is_for_warp_groups


def slice_rows(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such products in slices, where their fragments do not fit otherwise."""
    return per_launch(kernel, lambda launch: _sliced(launch, lowering))


@dataclass(frozen=True)
class _Plan:
    """A product and what goes along with its rows."""

    product: ir.Gemm
    family: frozenset[ir.Value]
    """The fragments, that of the product among them."""
    users: frozenset[ir.OpBase]
    """Ops that use one of them, the product among them."""
    sequence: tuple[ir.OpBase, ...]
    """The product and the users of it, which stand behind it."""
    slices: int
    registers: int
    """Registers of a thread for all fragments of the launch, in one piece."""

    @property
    def rows(self) -> int:
        """Rows of a slice."""
        return self.product.mnk[0] // self.slices


def _sliced(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    threads = launch.block_threads
    held = [o.result for o in ir.walk(launch.body) if isinstance(o, ir.Alloc)]
    registers = int(fragment_registers(held, threads))
    if threads % WARP_GROUP or registers <= _room(threads):
        return launch
    flat = with_rule(launch, inline_scopes)
    plan = next(_plans(flat, registers, lowering), None)
    if plan is None:
        return launch
    decision = RowSlices(plan.slices, plan.registers)
    lowering.remarks.add("gemm", "", plan.product.span, decision)
    return with_originals(flat, _Rewrite(plan, _staged(flat, plan, lowering)).rule)


def _room(threads: int) -> int:
    """Registers of a thread for fragments, beside a warp group that loads."""
    groups = threads // WARP_GROUP
    if groups not in ROLE_REGISTERS:
        return FRAGMENT_REGISTERS
    return ROLE_REGISTERS[groups][1] - OTHER_REGISTERS


# -- what can be divided


def _plans(launch: ir.Launch, registers: int, lowering: Lowering) -> Iterator[_Plan]:
    for loop in (o for o in ir.walk(launch.body) if isinstance(o, ir.For)):
        products = [o for o in loop.body.ops if isinstance(o, ir.Gemm)]
        if len(products) == 1 and _may_be_sliced(products[0], launch, lowering):
            plan = _plan(products[0], loop.body, launch, registers)
            if plan is not None:
                yield plan


def _may_be_sliced(op: ir.Gemm, launch: ir.Launch, lowering: Lowering) -> bool:
    """Whether a product begins anew each time, and warp groups read A from shared memory."""
    a, c = op.a, op.c
    plain = isinstance(a.owner, ir.Alloc) and isinstance(c.owner, ir.Alloc)
    spaces = (a.buffer.space, c.buffer.space) == ("shared", "fragment")
    flat = a.buffer.rank == c.buffer.rank == 2
    if not (op.clear and plain and spaces and flat) or op.transpose_a:
        return False
    return is_for_warp_groups(op, launch.block_threads, lowering)


def _plan(product: ir.Gemm, block: ir.Block, launch: ir.Launch, registers: int) -> _Plan | None:
    """The slices of a product; None where what uses it cannot be divided, or where it would not
    help."""
    units = list(_units(launch.body))
    family, before = {product.c}, set[ir.Value]()
    while family != before:
        before = set(family)
        for op in units:
            if not family.isdisjoint(_touched(op)):
                more = _along(op, product, family)
                if more is None:
                    return None
                family |= more
    users = [op for op in units if not family.isdisjoint(_touched(op))]
    mine = [op for op in users if product.c in _touched(op) and not isinstance(op, ir.Fill)]
    sequence = _sequence(product, mine, users, block)
    if sequence is None:
        return None
    room, sums = _room(launch.block_threads), fragment_registers([product.c], launch.block_threads)
    step = 64 * launch.block_threads // WARP_GROUP
    for slices in ROW_SLICES:
        fits = registers - sums + sums / slices <= room
        if fits and product.mnk[0] % (step * slices) == 0:
            return _Plan(product, frozenset(family), frozenset(users), sequence, slices, registers)
    return None


def _units(block: ir.Block) -> Iterator[ir.OpBase]:
    """Ops that are divided as a whole: loops over elements, and what stands in no such loop."""
    for op in block.ops:
        if not isinstance(op, ir.Alloc):
            yield op
        if not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _units(inner)


def _touched(op: ir.OpBase) -> set[ir.Value]:
    """Buffers that a unit itself accesses."""
    touches = op.all_accesses() if isinstance(op, ir.Parallel) else op.accesses()
    return {base(t.value) for t in touches}


def _along(op: ir.OpBase, product: ir.Gemm, family: set[ir.Value]) -> set[ir.Value] | None:
    """Further fragments whose rows go along with those of a family in an op; None where the op
    cannot be divided by them."""
    rows = product.mnk[0]
    match op:
        case ir.Gemm():
            return set() if op is product else None
        case ir.Fill(target=target):
            return set() if target in family else None
        case ir.Copy(source=source, target=target):
            if any(_row_dim(each, rows) is None for each in (source, target)):
                return None
            held = {each for each in (source, target) if base(each).buffer.space == "fragment"}
            whole = all(isinstance(e.owner, ir.Alloc) and _row_dim(e, rows) == 0 for e in held)
            return held if whole else None
        case ir.Parallel(extents=extents, body=body):
            if not extents or ir.constant_of(extents[0]) != rows:
                return None
            return _along_points(body, rows, family)
    return None


def _along_points(body: ir.Block, rows: int, family: set[ir.Value]) -> set[ir.Value] | None:
    found: set[ir.Value] = set()
    for op in body.ops:
        if is_pure(op):
            continue
        if not isinstance(op, ir.Load | ir.Store):
            return None
        buffer, first = op.buffer, op.indices[0] if op.indices else None
        if buffer.buffer.space == "local":
            return None
        if first is body.args[0] and buffer.buffer.space == "fragment":
            if not isinstance(buffer.owner, ir.Alloc) or buffer.buffer.static_shape[0] != rows:
                return None
            found.add(buffer)
        elif base(buffer) in family or (
            isinstance(op, ir.Store) and buffer.buffer.space == "fragment"
        ):
            return None
    return found


def _row_dim(value: ir.Value, rows: int) -> int | None:
    """The dimension of a tile along which its rows lie; None where the first that counts has
    another extent."""
    shape = value.buffer.static_shape
    dim = next((d for d, extent in enumerate(shape) if extent != 1), None)
    return dim if dim is not None and shape[dim] == rows else None


def _sequence(
    product: ir.Gemm, mine: list[ir.OpBase], users: list[ir.OpBase], block: ir.Block
) -> tuple[ir.OpBase, ...] | None:
    """The product and its users behind it, with only arithmetic between; None where another op
    stands there or uses it."""
    places = {op: at for at, op in enumerate(block.ops)}
    if any(op not in places or places[op] < places[product] for op in mine):
        return None
    end = max(places[op] for op in mine)
    between = block.ops[places[product] : end + 1]
    if any(not (o in users or is_pure(o) or isinstance(o, ir.View)) for o in between):
        return None
    sequence = tuple(o for o in between if o in users)
    return None if _reads_what_is_written(sequence) else sequence


def _reads_what_is_written(sequence: tuple[ir.OpBase, ...]) -> bool:
    """Whether one op gives another something by memory, which may be of another slice."""
    touches = [t for op in sequence for t in op.all_accesses()]
    written = {base(t.value) for t in touches if t.writes and not _is_held(t.value)}
    uses = Counter(base(t.value) for t in touches)
    return any(uses[each] > 1 for each in written)


def _is_held(value: ir.Value) -> bool:
    return base(value).buffer.space == "fragment"


# -- on its way out


def _staged(launch: ir.Launch, plan: _Plan, lowering: Lowering) -> frozenset[ir.OpBase]:
    """Copies to tensors that go through shared memory as a whole, where there is room: slices are
    stored one by one otherwise."""
    copies = [
        o for o in plan.users
        if isinstance(o, ir.Copy) and base(o.target).buffer.space == "global"
        # The product's own slices take turns in one fragment: each is stored before the next.
        and o.source is not plan.product.c
    ]  # fmt: skip
    stages: dict[ir.Value, int] = {}
    for loop in (o for o in ir.walk(launch.body) if isinstance(o, ir.For)):
        if loop.kind == "pipelined":
            for copy in (o for o in loop.body.ops if isinstance(o, ir.Copy)):
                stages[base(copy.target)] = max(lowering.stages(loop), 1)
    shared = [
        o.result for o in ir.walk(launch.body) if isinstance(o, ir.Alloc) and o.space == "shared"
    ]
    held = sum(_bytes(v, v.dtype) * stages.get(v, 1) for v in shared)
    held += sum(_bytes(o.source, o.target.dtype) for o in copies)
    there = lowering.target.shared_per_block - RING_BARRIER_BYTES
    return frozenset(copies) if held <= there else frozenset()


def _bytes(value: ir.Value, dtype: ir.DType) -> int:
    return math.prod(value.buffer.static_shape) * dtype.bytes


# -- the slices


class _Rewrite:
    def __init__(self, plan: _Plan, staged: frozenset[ir.OpBase]) -> None:
        self.plan = plan
        self.staged = staged
        self.slices: dict[ir.Value, list[ir.Value]] = {}
        """Slices by the fragment as it was; those of the product's own are all one."""
        self.waiting: list[tuple[ir.OpBase, ir.OpBase]] = []
        """Ops of the sequence, as they were and with operands replaced."""

    def rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(op, ir.Alloc) and before.results[0] in self.plan.family:
            self._allocate(before.results[0], op, builder)
            return [op.result]  # its uses are replaced
        if before not in self.plan.users:
            return None
        sequence = self.plan.sequence
        self.waiting.append((before, op))
        if before in sequence and before is not sequence[-1]:
            return []
        waiting, self.waiting = self.waiting, []
        if before in self.staged:
            self._store(before, op, builder)
            return []
        for number in range(self.plan.slices):
            for old, new in waiting:
                self._part(old, new, number, builder)
        return []

    def _allocate(self, old: ir.Value, op: ir.Alloc, builder: ir.Builder) -> None:
        shape, own = (self.plan.rows, *op.shape[1:]), old is self.plan.product.c
        made = [
            builder.emit(
                ir.Alloc("fragment", shape, op.dtype, hint=old.name if own else f"{old.name}_{n}")
            ).result
            for n in range(1 if own else self.plan.slices)
        ]
        self.slices[old] = made * self.plan.slices if own else made

    def _part(self, old: ir.OpBase, op: ir.OpBase, number: int, builder: ir.Builder) -> None:
        """Emit one slice of an op."""
        match old, op:
            case ir.Gemm(c=c), ir.Gemm():
                a = self._rows(op.a, number, builder)
                sums = self.slices[c][number]
                made = ir.Gemm(a, op.b, sums, False, op.transpose_b, True, op.policy, span=op.span)
                made.hints = op.hints
                builder.emit(made)
            case ir.Fill(target=target), ir.Fill():
                builder.emit(ir.Fill(self.slices[target][number], op.value, span=op.span))
            case ir.Copy(), ir.Copy():
                source, target = (
                    self.slices[was][number] if was in self.slices else
                    self._rows(now, number, builder)
                    for was, now in ((old.source, op.source), (old.target, op.target))
                )  # fmt: skip
                builder.emit(ir.Copy(source, target, op.hints, span=op.span))
            case ir.Parallel(), ir.Parallel():
                builder.emit(self._points(old, op, number, builder))

    def _rows(self, tile: ir.Value, number: int, builder: ir.Builder) -> ir.Value:
        """The rows of a slice, of a tile of all rows."""
        dim = _row_dim(tile, self.plan.product.mnk[0])
        assert dim is not None
        shape = tile.buffer.static_shape
        sizes = tuple(self.plan.rows if d == dim else extent for d, extent in enumerate(shape))
        first = builder.constant(number * self.plan.rows)
        if isinstance(tile.owner, ir.View):
            # Elements are accessed through the buffer: a view of the view would be one too many.
            whole, offsets, inside = tile.owner.base, list(tile.owner.offsets), tile.owner.in_bounds
            offsets[dim] = builder.emit(ir.Binary("add", offsets[dim], first)).result
        else:
            whole, inside = tile, True
            offsets = [first if d == dim else builder.constant(0) for d in range(len(shape))]
        return builder.emit(ir.View(whole, offsets, sizes, inside)).result

    def _points(
        self, old: ir.Parallel, op: ir.Parallel, number: int, builder: ir.Builder
    ) -> ir.Parallel:
        mapping: dict[ir.Value, ir.Value] = {}
        inner = ir.Builder(opened(op.body, mapping), op.span)
        args = inner.block.args
        if number:
            start = inner.constant(number * self.plan.rows)
            mapping[op.body.args[0]] = inner.emit(ir.Binary("add", args[0], start)).result
        for was, now in zip(old.body.ops, op.body.ops, strict=True):
            made = clone(now, mapping, {})
            if isinstance(was, ir.Load | ir.Store) and was.buffer in self.slices:
                assert isinstance(made, ir.Load | ir.Store)
                made.buffer = self.slices[was.buffer][number]
                made.indices = [args[0], *made.indices[1:]]
            inner.block.ops.append(made)
            mapping.update(zip(now.results, made.results))
        extents = [builder.constant(self.plan.rows), *op.extents[1:]]
        return ir.Parallel(extents, inner.block, op.hints, span=op.span)

    def _store(self, old: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> None:
        """Emit the slices of a copy to a tensor, through shared memory."""
        assert isinstance(old, ir.Copy)
        assert isinstance(op, ir.Copy)
        shape, name = old.source.buffer.static_shape, f"{buffer_name(op.target)}_staged"
        staged = builder.emit(ir.Alloc("shared", shape, op.target.dtype, hint=name)).result
        for number, part in enumerate(self.slices[old.source]):
            rows = self._rows(staged, number, builder)
            builder.emit(ir.Copy(part, rows, op.hints, span=op.span))
        builder.emit(ir.Copy(staged, op.target, op.hints, span=op.span))
