"""Mark every access that is proved to lie inside its buffer, so that no guard is run.

    launch [%c4] … body(%bx: index) {              launch [%c4] … body(%bx: index) {
      parallel [%c64] body(%i: index) {              parallel [%c64] body(%i: index) {
        %o = mul %bx, %c64 : index            →        %o = mul %bx, %c64 : index
        %r = add %o, %i : index                        %r = add %o, %i : index
        %v = load %x, [%r]                             %v = load %x, [%r] {in_bounds = true}

where x has 256 elements.  Proved is 0 ≤ index < extent in every dimension (for a view: offset and
offset + size), from the extents of the launch, of loops and of tensors, and from the conditions of
the branches around (`ranges.py`).  With `m` elements and `ceildiv(m, 64)` blocks the guard stays;
with `m // 64` blocks it goes.  What an access said of itself before is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tileprof import ir
from tileprof.remarks import Reason
from tileprof.remarks.host import IndexBelow, IndexReach, IndexSign, IndexUnbounded, MayLeave

from .affine import Effort, Linear, is_nonnegative
from .ranges import Ranges

Access = ir.Load | ir.Store | ir.Atomic | ir.View

LOOSE = 1 << 30
"""A bound above this says nothing to a reader."""
MOST_CONDITIONS = 64
"""Values of one condition, joined by `and`, `or` and `not`, that are searched for facts."""


def prove_bounds(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with `in_bounds` set on the accesses and views that are proved inside, and on no
    other."""
    prover = _Prover(kernel)
    prover.block(kernel.body, ())
    claimed = any(isinstance(op, Access) and op.in_bounds for op in ir.walk(kernel.body))
    if not prover.inside and not claimed:
        return kernel
    # The rewriter shows ops in this order, inner ones before the op that holds them.
    order = ir.walk_inner_first(kernel.body)

    def rule(op: ir.OpBase, builder: ir.Builder) -> tuple[ir.Value, ...] | None:
        inside = next(order) in prover.inside
        if not isinstance(op, Access) or op.in_bounds == inside:
            return None
        return builder.emit(replace(op, in_bounds=inside)).results

    return ir.rewrite(kernel, rule)


def guard_reasons(kernel: ir.Kernel) -> dict[ir.OpBase, MayLeave]:
    """Return why accesses of global buffers that keep their guards are not proved inside."""
    prover = _Prover(kernel)
    prover.block(kernel.body, ())
    return prover.outside


def never_fails(kernel: ir.Kernel) -> set[ir.OpBase]:
    """Return the accesses that cannot be out of bounds: those proved inside, and those of a global
    buffer whose indices are proved to be at least 0, because a guard takes care of the rest."""
    prover = _Prover(kernel)
    prover.block(kernel.body, ())
    guarded = {op for op in prover.outside if op not in prover.below}
    return prover.inside | guarded


class Walk:
    """A walk over a kernel that knows, at each op, what is at least 0 there."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._ranges = Ranges(kernel)
        self._effort = Effort()

    def visit(self, op: ir.OpBase, facts: tuple[Linear, ...]) -> None:
        """Look at an op that runs only where `facts` are at least 0."""
        raise NotImplementedError

    def block(self, block: ir.Block, facts: tuple[Linear, ...]) -> None:
        """Look at the ops of a block that runs only where `facts` are at least 0."""
        for op in block.ops:
            self.visit(op, facts)
            self._ranges.enter(op)
            for inner, more in self._inside(op, facts):
                self.block(inner, (*facts, *more))
            self._ranges.define(op)

    def _inside(
        self, op: ir.OpBase, facts: tuple[Linear, ...]
    ) -> Iterator[tuple[ir.Block, Iterable[Linear]]]:
        """The blocks of an op, each with what more than `facts` is at least 0 where it runs."""
        match op:
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                yield then, self._facts(condition, True, facts)
                yield otherwise, self._facts(condition, False, facts)
            case ir.Launch(grid=extents, body=body) | ir.Parallel(extents=extents, body=body):
                # A body that runs has an extent of at least 1 on every axis.
                counts = [self._ranges.of(extent) for extent in extents]
                yield body, [c.plus(-1) for c in counts if c.terms]
            case _:
                for block in op.blocks():
                    yield block, ()

    def _facts(
        self, condition: ir.Value, holds: bool, facts: tuple[Linear, ...]
    ) -> Iterator[Linear]:
        """Expressions that are at least 0 where a condition holds, or where it does not."""
        # One value may be an operand of many: each is visited once, and of most kernels' all.
        asked = [(condition, holds)]
        for value, true in asked:
            parts: tuple[tuple[ir.Value, bool], ...] = ()
            match value.owner:
                case ir.Binary(kind="and", left=left, right=right) if true:
                    parts = (left, True), (right, True)
                case ir.Binary(kind="or", left=left, right=right) if not true:
                    parts = (left, False), (right, False)
                case ir.Unary(kind="not", operand=operand):
                    parts = ((operand, not true),)
                case ir.Compare(kind=kind, left=left, right=right) if left.dtype.is_integer:
                    a, b = self._ranges.of(left), self._ranges.of(right)
                    if not self._effort.spend(a, b):
                        return
                    found = kind if true else OPPOSITE[kind]
                    yield from compared(found, a, b)
                    if found == "ne":
                        yield from self._apart(a, b, facts)
                case _:
                    pass
            asked += [part for part in parts if part not in asked][: MOST_CONDITIONS - len(asked)]

    def _apart(self, a: Linear, b: Linear, facts: tuple[Linear, ...]) -> Iterator[Linear]:
        """Yield what is at least 0 where two numbers differ: `i ≥ 0` that is not 0 is `i ≥ 1`."""
        if is_nonnegative(a - b, facts, self._effort):
            yield (a - b).plus(-1)
        elif is_nonnegative(b - a, facts, self._effort):
            yield (b - a).plus(-1)


class _Prover(Walk):
    def __init__(self, kernel: ir.Kernel) -> None:
        super().__init__(kernel)
        self.inside: set[ir.OpBase] = set()
        self.outside: dict[ir.OpBase, MayLeave] = {}
        self.below: set[ir.OpBase] = set()
        """Accesses of which some index may be negative."""

    def visit(self, op: ir.OpBase, facts: tuple[Linear, ...]) -> None:
        """Look at an access."""
        if not isinstance(op, Access):
            return
        if isinstance(op, ir.View):
            base, starts = self._ranges.window(op)
            sizes = op.sizes
        else:
            base, sizes = op.buffer, (1,) * len(op.indices)
            starts = [self._ranges.of(index) for index in op.indices]
        # Without dimensions there is nothing that a guard would check.
        if not starts:
            return
        reasons = [
            self._reason(start, size, dim, facts)
            for start, size, dim in zip(starts, sizes, base.buffer.shape, strict=True)
        ]
        if any(isinstance(reason, IndexSign) for reason in reasons):
            self.below.add(op)
        at = next((at for at, reason in enumerate(reasons) if reason), None)
        if at is None:
            self.inside.add(op)
        elif base.buffer.space == "global":
            reason = reasons[at]
            assert reason is not None
            self.outside[op] = MayLeave(at, reason)

    def _reason(
        self, start: Linear, size: int, dim: ir.Dim, facts: tuple[Linear, ...]
    ) -> Reason | None:
        """Why a range of one dimension may leave its extent; None where it cannot."""
        stop = start.plus(size)
        if not is_nonnegative(start, facts, self._effort):
            return IndexSign()
        if is_nonnegative(self._ranges.extent(dim) - stop, facts, self._effort):
            return None
        if isinstance(dim, str):
            return IndexBelow(dim)
        if stop.high > LOOSE:
            return IndexUnbounded(dim)
        return IndexReach(int(stop.high) - 1, dim)


OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
"""The comparison that holds where the other does not."""


def compared(kind: str, a: Linear, b: Linear) -> Iterator[Linear]:
    """Yield what is at least 0 where a comparison holds; nothing follows from `ne`."""
    match kind:
        case "lt":
            yield (b - a).plus(-1)
        case "le":
            yield b - a
        case "gt":
            yield (a - b).plus(-1)
        case "ge":
            yield a - b
        case "eq":
            yield a - b
            yield b - a
        case _:
            pass
