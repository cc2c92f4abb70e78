"""Properties of a kernel's launches that are proved, for all inputs and all extents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.passes.affine import Effort, Linear
from tileprof.compiler.passes.bounds import Access, Walk, never_fails
from tileprof.compiler.passes.ranges import Ranges
from tileprof.ir.memory import base

from .disjoint import Blocks, Box, apart, box_of
from .findings import PROPERTIES, Property, Unproved, Why
from .written import unwritten_reads

MOST_TERMS = 1_000_000
"""Terms that the proofs for one launch may add up, about a second of work."""


@dataclass(eq=False)
class Proof:
    """A launch, and what is not proved about it."""

    op: ir.Launch
    unproved: dict[Property, list[Unproved]] = field(
        default_factory=lambda: {name: [] for name in PROPERTIES}
    )
    ops: dict[Property, set[ir.OpBase]] = field(
        default_factory=lambda: {name: set() for name in PROPERTIES}
    )
    """Accesses that these are about."""
    unwritten: set[ir.Value] = field(default_factory=set)
    """Buffers of which not all is proved to be written before it is read."""

    def add(self, name: Property, found: Unproved, *ops: ir.OpBase) -> None:
        """Note that a property is not proved for these accesses."""
        self.unproved[name].append(found)
        self.ops[name].update(ops)


def prove(kernel: ir.Kernel) -> list[Proof]:
    """Return what is proved about each launch of a kernel, in the order of its program."""
    proofs = [Proof(op) for op in kernel.launches()]
    inside = {op: proof for proof in proofs for op in ir.walk(proof.op.body)}
    fine = never_fails(kernel)
    for op, proof in inside.items():
        if isinstance(op, Access) and op not in fine and (values := _indices(op)):
            held = base(op.base if isinstance(op, ir.View) else op.buffer)
            why: Why = "data" if _from_memory(values) else "form"
            proof.add("bounds", Unproved(held.name or "buffer", (op.span,), why), op)
    collected = _Collected(kernel)
    collected.block(kernel.body, ())
    for op, value in unwritten_reads(kernel, collected.ranges):
        if op in inside:
            found = Unproved(value.name or "buffer", (op.span,), "order")
            inside[op].add("initialization", found, op)
            inside[op].unwritten.add(value)
    for proof in proofs:
        for found, first, second in collected.races(proof.op):
            proof.add("races", found, first, second)
    for proof in proofs:
        proof.unproved = {k: list(dict.fromkeys(v)) for k, v in proof.unproved.items()}
    return proofs


def _indices(op: Access) -> Sequence[ir.Value]:
    """Return where an access or a view begins, in each dimension."""
    return op.offsets if isinstance(op, ir.View) else op.indices


def _from_memory(values: Iterable[ir.Value]) -> bool:
    """Return whether numbers are computed from what is loaded."""
    asked, seen = list(values), set[ir.Value]()
    while asked:
        value = asked.pop()
        if value in seen or value.owner is None:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Load | ir.Atomic):
            return True
        asked += [v for v in value.owner.operand_values() if not isinstance(v.type, ir.BufferType)]
    return False


@dataclass(frozen=True, eq=False)
class _Use:
    """An access of a global buffer in a launch."""

    op: ir.OpBase
    kind: str
    shaped: ir.Value
    """The buffer under the shape that indices are of."""
    indices: tuple[ir.Value, ...]
    box: Box


class _Collected(Walk):
    """The accesses of global buffers in each launch."""

    def __init__(self, kernel: ir.Kernel) -> None:
        super().__init__(kernel)
        self._params = [p for p in kernel.param_values() if not isinstance(p.type, ir.BufferType)]
        self._uses: dict[ir.Launch, dict[ir.Value, list[_Use]]] = {}
        self._uniform: dict[ir.Launch, int] = {}
        launches = kernel.launches()
        self._launch_of = {op: launch for launch in launches for op in ir.walk(launch.body)}

    @property
    def ranges(self) -> Ranges:
        """Facts about the integers that were seen."""
        return self._ranges

    def visit(self, op: ir.OpBase, facts: tuple[Linear, ...]) -> None:
        """Note the accesses of an op."""
        if isinstance(op, ir.Launch):
            for param in self._params:
                # Scalars are the same in all blocks: they are atoms from before the launch.
                if param.dtype.is_integer:
                    self._ranges.of(param)
            self._uses[op], self._uniform[op] = {}, self._ranges.made
        launch = self._launch_of.get(op)
        if launch is None:
            return
        for access in op.accesses():
            held = base(access.value)
            if held.buffer.space == "global":
                kind = "write" if access.writes else "read"
                if access.writes and isinstance(op, ir.Atomic | ir.TileAtomic):
                    kind = "atomic"
                shaped, box = box_of(self._ranges, access.value, access.indices, facts)
                use = _Use(op, kind, shaped, _starts(access), box)
                self._uses[launch].setdefault(held, []).append(use)

    def races(self, launch: ir.Launch) -> Iterator[tuple[Unproved, ir.OpBase, ir.OpBase]]:
        """Yield the pairs of accesses that are not proved to be apart."""
        axes = [a for arg in launch.body.args for a in self._ranges.of(arg).terms]
        effort = Effort(MOST_TERMS)
        blocks = Blocks(
            tuple(axes), self._uniform[launch], self._ranges.dividends, self._ranges.made, effort
        )
        for held, uses in self._uses[launch].items():
            for at, first in enumerate(uses):
                for second in uses[at:]:
                    if _conflict(first.kind, second.kind):
                        why = self._why_not(first, second, blocks)
                        if why is not None:
                            places = (first.op.span, second.op.span)
                            yield Unproved(held.name or "buffer", places, why), first.op, second.op

    def _why_not(self, first: _Use, second: _Use, blocks: Blocks) -> Why | None:
        """Return why two accesses are not proved to be apart; None where they are."""
        alike = first.shaped.buffer.shape == second.shaped.buffer.shape
        alike = alike and first.shaped.dtype == second.shaped.dtype
        if alike and apart(first.box, second.box, blocks):
            return None
        if blocks.effort.terms < 0:
            return "effort"
        return "data" if _from_memory((*first.indices, *second.indices)) else "form"


def _starts(access: ir.Access) -> tuple[ir.Value, ...]:
    """Return the values that say where an access begins."""
    if access.indices is not None:
        return access.indices
    owner = access.value.owner
    return tuple(owner.offsets) if isinstance(owner, ir.View) else ()


def _conflict(a: str, b: str) -> bool:
    """Return whether two accesses of one element by two blocks are a race."""
    return (a, b) not in (("read", "read"), ("atomic", "atomic"))
