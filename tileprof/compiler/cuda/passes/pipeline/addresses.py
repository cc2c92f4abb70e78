"""Elements that the addresses of gathered tiles are made of, loaded before the tiles are asked for.

    parallel [64, 64] body(%i, %c)             parallel [64] body(%i)
      %row = load %indices, [%k, %i]             %row = load %indices, [%next, %i]
      async_copy %kv[%row, …], …         ⇒       store %row, %rows, [%i]
                                               …  an iteration later
                                               parallel [64, 64] body(%i, %c)
                                                 %row = load %rows, [%i]
                                                 async_copy %kv[%row, …], …

A gather cannot begin before its indices are there, and threads that wait for these compute nothing.
In: gathers of a pipelined loop.  Out: fragments for what they load, in the layouts of the gathers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.tuning import EARLY_BYTES
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.rewriter import clone

from .gathers import Gather, Taken


@dataclass(frozen=True, eq=False)
class AddressLoad:
    """One element for each row of a gathered tile, say."""

    op: ir.Parallel
    """The loop that gathers."""
    ops: tuple[ir.OpBase, ...]
    """The ops that compute the element's place, in order, then its load."""
    dims: tuple[int, ...]
    """The variables of the loop on which the place depends."""
    layout: RegisterLayout
    """The elements that each thread needs, in the extents of these variables."""

    @property
    def load(self) -> ir.Load:
        """The load itself."""
        made = self.ops[-1]
        assert isinstance(made, ir.Load)
        return made

    @property
    def bytes(self) -> int:
        """Bytes that a thread holds."""
        return self.layout.registers_per_thread * self.load.buffer.dtype.bytes

    def outside(self) -> Iterator[ir.Value]:
        """Yield the scalars of the loop around that the place depends on."""
        inside = {v for o in self.ops for v in o.results} | set(self.op.body.args)
        for value in (v for o in self.ops for v in o.operand_values()):
            if value not in inside and not isinstance(value.type, ir.BufferType):
                yield value

    def key(self) -> tuple[Any, ...]:
        """Return what is equal for loads of equal elements by the same threads."""
        known: dict[ir.Value, Any] = {
            self.op.body.args[d]: ("variable", at) for at, d in enumerate(self.dims)
        }
        for op in self.ops:
            names = (*op.SPEC.positional, *(n for n, _ in op.SPEC.attributes))
            held = tuple(repr(getattr(op, name)) for name in names)
            known[op.result] = (op.mnemonic, held, *(known.get(v, v) for v in op.operand_values()))
        return (known[self.load.result], self.layout)

    def allocated(self, builder: ir.Builder) -> ir.Value:
        """Emit a fragment for the elements of one iteration."""
        shape, name = self.layout.shape, buffer_name(self.load.buffer)
        alloc = ir.Alloc(
            "fragment",
            shape,
            self.load.buffer.dtype,
            str(self.layout),
            span=self.op.span,
            hint=f"{name}_ahead",
        )
        return builder.emit(alloc).result

    def fill(
        self, fragment: ir.Value, mapping: Mapping[ir.Value, ir.Value], builder: ir.Builder
    ) -> None:
        """Emit the loop that loads the elements of an iteration; `mapping` gives its values for
        those of the loop around."""
        inner = dict(mapping)
        kept = [self.op.body.args[d] for d in self.dims]
        args = [ir.Value(v.type, v.name) for v in kept]
        inner.update(zip(kept, args, strict=True))
        block = ir.Block(args)
        extents = [builder.constant(extent) for extent in self.layout.shape]
        with builder.inside(block):
            for each in self.ops:
                inner.update(zip(each.results, builder.emit(clone(each, inner, {})).results))
            value = inner[self.load.result]
            builder.emit(ir.Store(value, fragment, list(args), True, span=self.load.span))
        loop = ir.Parallel(extents, block, (), str(self.layout), span=self.op.span)
        builder.emit(loop)

    def move(self, source: ir.Value, target: ir.Value, builder: ir.Builder) -> None:
        """Emit the loop that moves the elements from one fragment to another."""
        args = [ir.Value(self.op.body.args[d].type, self.op.body.args[d].name) for d in self.dims]
        block = ir.Block(args)
        extents = [builder.constant(extent) for extent in self.layout.shape]
        with builder.inside(block):
            value = builder.emit(ir.Load(source, list(args), True)).result
            builder.emit(ir.Store(value, target, list(args), True))
        builder.emit(ir.Parallel(extents, block, (), str(self.layout), span=self.op.span))


def address_loads(gathers: Sequence[Gather]) -> list[list[AddressLoad]]:
    """Return the elements that are loaded from global memory for the addresses of gathers, equal
    ones together; as many as a thread has registers for."""
    found: dict[tuple[Any, ...], list[AddressLoad]] = {}
    for gather in gathers:
        for each in _loads_of(gather):
            found.setdefault(each.key(), []).append(each)
    free, taken = EARLY_BYTES, list[list[AddressLoad]]()
    for group in found.values():
        if group[0].bytes <= free:
            free -= group[0].bytes
            taken.append(group)
    return taken


def _loads_of(gather: Gather) -> Iterator[AddressLoad]:
    args, made = gather.op.body.args, {r: o for o in gather.op.body.ops for r in o.results}
    for load in _first_loads(gather, made):
        wanted, ops = set(load.indices), list[ir.OpBase]([load])
        for op in reversed(gather.op.body.ops[: gather.op.body.ops.index(load)]):
            if not wanted.isdisjoint(op.results):
                wanted.update(op.operand_values())
                ops.insert(0, op)
        dims = tuple(d for d, v in enumerate(args) if v in wanted)
        # Points stand for several elements along this dimension.
        along = gather.dim in dims and gather.width > 1
        if not dims or along or load.buffer.buffer.space != "global":
            continue
        shape = [gather.layout.shape[d] for d in dims]
        yield AddressLoad(gather.op, tuple(ops), dims, gather.layout.select(dims, shape))


def _first_loads(gather: Gather, made: Mapping[ir.Value, ir.OpBase]) -> list[ir.Load]:
    """The loads whose elements the address of a gather is computed with."""
    found: dict[ir.Load, None] = {}
    queue = list(gather.load.indices)
    while queue:
        owner = made.get(queue.pop(0))
        if isinstance(owner, ir.Load):
            found[owner] = None
        elif owner is not None:
            queue += owner.operand_values()
    return list(found)


def taken_from(
    groups: Sequence[Sequence[AddressLoad]], fragments: Sequence[ir.Value]
) -> dict[ir.OpBase, Taken]:
    """Return for each load the fragment that has its elements."""
    return {
        each.load: Taken(fragment, each.dims)
        for group, fragment in zip(groups, fragments, strict=True)
        for each in group
    }
