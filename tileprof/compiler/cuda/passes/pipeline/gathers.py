"""Loops over elements that only bring global memory into a shared tile, as cp.async.

    parallel [64, 512] body(%i, %j) {        parallel [64, 64] body(%i, %c) {
      %row = load %indices, [%i]               %row = load %indices, [%i]
      %x = load %kv, [%row, %j]          ⇒     %j = mul %c, 8
      store %x, %tile, [%i, %j]                async_copy %kv[%row, %j …], %tile[%i, %j …]
    }                                        }

A tile whose rows are gathered is no box and no view, so no `copy` says it.  In a pipelined loop it
can run ahead all the same, where its addresses can be computed for an iteration to come.
In: a parallel loop with a layout.  Out: what it copies, and the loop that starts to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts import Digit, RegisterLayout, parse_layout, parse_shared
from tileprof.compiler.cuda.lowering import Lowering, stride_divisors
from tileprof.compiler.cuda.passes.layout.index import EVERY, Form, Forms
from tileprof.compiler.cuda.passes.sums.linear_uses import covers
from tileprof.compiler.cuda.target import NARROWEST_CP_ASYNC, WIDEST_ACCESS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone


class Taken(NamedTuple):
    """Values in place of loads of a gather's addresses."""

    fragment: ir.Value
    """The fragment that has the elements."""
    dims: tuple[int, ...]
    """The variables of the loop that index it."""


@dataclass(frozen=True, eq=False)
class Gather:
    """A parallel loop that copies elements into a tile."""

    op: ir.Parallel
    load: ir.Load
    store: ir.Store
    width: int
    """Elements of one cp.async."""
    dim: int
    """The dimension of the loop along which these lie."""
    layout: RegisterLayout
    """Layout of the loop that starts the cp.asyncs, in its extents."""
    chunks: tuple[int, ...] = (0,)
    """Elements from the first cp.async of a point to each one that it starts."""

    @property
    def source(self) -> ir.Value:
        """The tensor."""
        return self.load.buffer

    @property
    def target(self) -> ir.Value:
        """The tile."""
        return self.store.buffer

    @property
    def instruction(self) -> CpAsync:
        """Return the instruction for one chunk."""
        return CpAsync(self.width * self.target.dtype.bytes)

    def of_copy(self, op: ir.Parallel) -> Gather:
        """Return the same of a copy of the loop, whose tile may have slots by now."""
        at = dict(zip(self.op.body.ops, op.body.ops, strict=True))
        load, store = at[self.load], at[self.store]
        assert isinstance(load, ir.Load)
        assert isinstance(store, ir.Store)
        return replace(self, op=op, load=load, store=store)

    def outside(self, taken: Collection[ir.OpBase] = ()) -> Iterator[ir.Value]:
        """Yield the scalars that the addresses depend on, but those that loads of `taken` need."""
        inside = {v for o in ir.walk(self.op.body) for v in o.results} | set(self.op.body.args)
        ops = (o for o in self.needed(taken) if o not in taken)
        for value in (v for o in (*ops, self.load, self.store) for v in o.operand_values()):
            if value not in inside and not isinstance(value.type, ir.BufferType):
                yield value

    def read(self) -> list[ir.Value]:
        """Return the memory that the addresses are loaded from."""
        loads = (o for o in self.op.body.ops if isinstance(o, ir.Load) and o is not self.load)
        return [base(o.buffer) for o in loads]

    def needed(self, taken: Collection[ir.OpBase]) -> list[ir.OpBase]:
        """Return the ops that addresses are computed with; those of `taken` need nothing."""
        wanted = {*self.load.indices, *self.store.indices}
        found: list[ir.OpBase] = []
        for op in reversed(self.op.body.ops):
            if op not in (self.load, self.store) and not wanted.isdisjoint(op.results):
                wanted.update(() if op in taken else op.operand_values())
                found.insert(0, op)
        return found

    def started(
        self,
        mapping: dict[ir.Value, ir.Value],
        tile: ir.Value,
        slot: ir.Value,
        builder: ir.Builder,
        taken: Mapping[ir.OpBase, Taken],
    ) -> None:
        """Emit the loop that starts the copies into a slot; `mapping` gives the values of another
        iteration for those of the loop around, `taken` what was loaded for it before."""
        op, variable = self.op, self.op.body.args[self.dim]
        inner = dict(mapping)
        args = [ir.Value(v.type, v.name) for v in op.body.args]
        inner.update(zip(op.body.args, args, strict=True))
        block = ir.Block(args)
        # The loop around may hold the constants of the original, which do not reach here.
        extents = [builder.constant(extent) for extent in self.layout.shape]
        with builder.inside(block):
            if self.width > 1:
                count = builder.constant(self.width)
                inner[variable] = builder.emit(
                    ir.Binary("mul", args[self.dim], count, hint=variable.name)
                ).result
            for each in self.needed(taken):
                new = clone(each, inner, {})
                if each in taken:
                    fragment, dims = taken[each]
                    new = ir.Load(fragment, [args[d] for d in dims], True, span=each.span)
                inner.update(zip(each.results, builder.emit(new).results))
            source = _chunk(self.source, self.load, inner, self.width, builder, [])
            target = _chunk(tile, self.store, inner, self.width, builder, [slot])
            start = ir.AsyncCopy(source, target, None, self.instruction, span=self.load.span)
            builder.emit(replace(start, chunks=self.chunks))
        builder.emit(replace(op, extents=extents, body=block, layout=str(self.layout)))


def _chunk(
    buffer: ir.Value,
    access: ir.Load | ir.Store,
    mapping: dict[ir.Value, ir.Value],
    width: int,
    builder: ir.Builder,
    slot: list[ir.Value],
) -> ir.Value:
    """The elements of one cp.async as a tile."""
    offsets = [*slot, *(mapping.get(i, i) for i in access.indices)]
    sizes = (*[1] * (len(offsets) - 1), width)
    inside = access.in_bounds or isinstance(access, ir.Store)
    return builder.emit(ir.View(buffer, offsets, sizes, inside)).result


@dataclass(frozen=True, slots=True)
class Tensors:
    """The parameters of a kernel that cp.async can read."""

    aligned: frozenset[ir.Value]
    """Those whose address is a multiple of 16 bytes."""
    zeroed: frozenset[ir.Value]
    """Those of which a read outside gives 0."""

    @classmethod
    def of(cls, kernel: ir.Kernel, unaligned: Collection[int]) -> Tensors:
        """Return those of a kernel; `unaligned` are positions of parameters."""
        values = kernel.param_values()
        params = list(zip(range(len(values)), values, kernel.params, strict=True))
        return cls(
            frozenset(v for at, v, _ in params if at not in unaligned),
            frozenset(v for _, v, p in params if p.safe_value == 0),
        )


def is_plain_gather(op: ir.OpBase) -> bool:
    """Whether a parallel loop of the author stores what it loads from a tensor in a shared tile,
    and does nothing else; before layouts."""
    return gathered_tile(op) is not None


def gathered_tile(op: ir.OpBase) -> ir.Value | None:
    """Return the tile that such a loop fills; None for any other op."""
    if not isinstance(op, ir.Parallel) or op.origin:
        return None
    stores = [o for o in op.body.ops if isinstance(o, ir.Store)]
    loads = [o.value.owner for o in stores if o.buffer.buffer.space == "shared"]
    plain = len(stores) == len(loads) == 1 and all(
        isinstance(o, ir.Load) and o.buffer.buffer.space == "global" for o in loads
    )
    return base(stores[0].buffer) if plain else None


def gather_of(op: ir.OpBase, tensors: Tensors, lowering: Lowering) -> Gather | None:
    """Return what a parallel loop of the author copies; None where it does anything else, or
    cp.async cannot."""
    if not isinstance(op, ir.Parallel) or op.origin or not op.layout:
        return None
    ops = [o for o in op.body.ops if not isinstance(o, ir.Yield)]
    stores = [o for o in ops if isinstance(o, ir.Store)]
    if len(stores) != 1 or any(o.SPEC.regions for o in ops):
        return None
    (store,), load = stores, stores[0].value.owner
    if not isinstance(load, ir.Load) or load not in ops or ops[-1] is not store:
        return None
    if not all(isinstance(o, ir.Load) or is_pure(o) for o in ops[:-1]):
        return None
    source, tile = load.buffer, store.buffer
    if source not in tensors.aligned | tensors.zeroed or tile.buffer.space != "shared":
        return None
    if not load.in_bounds and source not in tensors.zeroed:
        return None
    if source.dtype != tile.dtype or not isinstance(tile.owner, ir.Alloc):
        return None
    named = {buffer_name(tile), buffer_name(source)} & set(lowering.controls.synchronous)
    if named or not lowering.controls.async_copy:
        return None
    used = [o for o in ops if load.result in o.operand_values()]
    if used != [store] or not covers(op, store) or store.indices[-1] not in op.body.args:
        return None
    return _of_width(op, load, store, aligned=source in tensors.aligned)


def _of_width(op: ir.Parallel, load: ir.Load, store: ir.Store, *, aligned: bool) -> Gather | None:
    """Return the copy with the widest cp.async that its addresses allow."""
    variable, size = store.indices[-1], load.buffer.dtype.bytes
    dim = op.body.args.index(variable)
    shape = op.static_extents
    if shape is None:
        return None
    layout = parse_layout(op.layout, shape)
    width = WIDEST_ACCESS // size
    while width and width * size >= NARROWEST_CP_ASYNC:
        divided = _divided(layout, dim, width)
        whole = width == 1 or (aligned and _is_whole(op, load, store, width))
        if divided is not None and whole:
            made = Gather(op, load, store, width, dim, divided)
            return _by_rows(made, shape) if width > 1 else made
        width //= 2
    return None


def _by_rows(gather: Gather, shape: Sequence[int]) -> Gather:
    """Return the copy with all that a thread starts of a row in one point, so that the row's
    address and guard are computed once."""
    layout, dim, load = gather.layout, gather.dim, gather.load
    moving, held = gather.op.body.args[dim], load.buffer.buffer
    index = Forms({v: d for d, v in enumerate(gather.op.body.args)}, {}).of(load.indices[-1])
    last, known = held.shape[-1], set(index.terms) == {moving} and not index.divisor
    inside = known and isinstance(last, int) and 0 <= index.constant <= last - shape[dim]
    along = [d for d in layout.registers if d.step[dim]]
    if not (inside or load.in_bounds) or any(sum(map(bool, d.step)) > 1 for d in along):
        return gather
    count = RegisterLayout.count(along)
    smaller = tuple(e // count if d == dim else e for d, e in enumerate(layout.shape))
    kept = [d for d in layout.registers if not d.step[dim]]
    made = RegisterLayout.make(smaller, kept, layout.lanes, layout.warps)
    if made.is_padded:
        return gather
    chunks = [0]
    for digit in along:
        step = digit.step[dim] * gather.width
        chunks = [c + k * step for k in range(digit.radix) for c in chunks]
    return replace(gather, layout=made, chunks=tuple(chunks))


def _divided(layout: RegisterLayout, dim: int, width: int) -> RegisterLayout | None:
    """Return the layout of chunks of `width` elements along a dimension; None where a chunk is not
    in consecutive registers of one thread."""
    if layout.shape[dim] % width or layout.is_padded or (width > 1 and layout.vector(dim) % width):
        return None
    count = width.bit_length() - 1
    digits = [layout.registers[count:], layout.lanes, layout.warps]
    if any(d.step[dim] % width for held in digits for d in held):
        return None
    shape = tuple(e // width if d == dim else e for d, e in enumerate(layout.shape))

    def moved(held: Sequence[Digit]) -> list[Digit]:
        return [
            Digit(x.radix, tuple(s // width if d == dim else s for d, s in enumerate(x.step)))
            for x in held
        ]

    return RegisterLayout.make(shape, *map(moved, digits))


def _is_whole(op: ir.Parallel, load: ir.Load, store: ir.Store, width: int) -> bool:
    """Whether the elements of each chunk lie side by side, from a multiple of its size on, and are
    inside of the tensor all or none."""
    variables = {v: d for d, v in enumerate(op.body.args)}
    moving = store.indices[-1]
    held = load.buffer.buffer
    if held.strides is not None and held.strides[-1] != 1:
        return False
    last = held.shape[-1]
    if not load.in_bounds and (not isinstance(last, int) or last % width):
        return False
    *lead, index = (Forms(variables, {}).of(i) for i in load.indices)
    behind = [_depends(i, moving, op) for i in load.indices[:-1]]
    if any(behind) or index.terms.get(moving, 0) != 1 or not index.is_linear:
        return False
    rest = Form(index.constant, {v: f for v, f in index.terms.items() if v is not moving},
                index.divisor)  # fmt: skip
    if _divides(rest) % width:
        return False
    strides = stride_divisors(held)[:-1]
    if any(_divides(f) * step % width for f, step in zip(lead, strides, strict=True)):
        return False
    return _is_chunked(store, width)


def _depends(value: ir.Value, on: ir.Value, op: ir.Parallel) -> bool:
    """Whether a scalar of a loop follows from one of its variables."""
    if value is on:
        return True
    owner = value.owner
    if owner is None or owner not in op.body.ops:
        return False
    return any(_depends(v, on, op) for v in owner.operand_values())


def _divides(form: Form) -> int:
    """Return what surely divides an index."""
    if not form.is_linear:
        return 1
    return gcd(form.constant, form.divisor, *form.terms.values()) or EVERY


def _is_chunked(store: ir.Store, width: int) -> bool:
    """Whether a chunk's elements lie side by side in the tile, from a multiple of its size on."""
    alloc = store.buffer.owner
    assert isinstance(alloc, ir.Alloc)
    layout, size = parse_shared(alloc.layout, alloc.shape, alloc.dtype), alloc.dtype.bytes
    if alloc.shape[-1] % width:
        return False
    rows = [] if layout.swizzle else [layout.panel * size]
    return not any(each % (width * size) for each in (*rows, *layout.lead_strides()))
