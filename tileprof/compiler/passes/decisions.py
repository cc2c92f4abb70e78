"""Replace comparisons of integers whose result is proved, so that guards that always hold go.

    launch [%c4] … body(%bx: index) {              launch [%c4] … body(%bx: index) {
      parallel [%c64] body(%i: index) {              parallel [%c64] body(%i: index) {
        %o = mul %bx, %c64 : index            →        %o = mul %bx, %c64 : index
        %r = add %o, %i : index                        %r = add %o, %i : index
        %c = lt %r, %c256 : index
        if %c then { %v = load %x, [%r] … }            %v = load %x, [%r] …

An author guards with `if row < M` for extents that a block does not divide.  Where it does, the
condition would still cut loops into branches, and accesses into single elements.  What is known
comes from the extents of the launch and of loops, and from the conditions of the branches around
(`bounds.py`).  The result is simplified again: branches and selections on a constant go.
"""

from __future__ import annotations

from tileprof import ir

from .affine import Linear, is_nonnegative
from .bounds import OPPOSITE, Walk, compared
from .simplification import simplify


def decide(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel without comparisons whose result is proved."""
    walk = _Decisions(kernel)
    walk.block(kernel.body, ())
    if not walk.decided:
        return kernel
    # The rewriter shows ops in this order, inner ones before the op that holds them.
    order = ir.walk_inner_first(kernel.body)

    def rule(op: ir.OpBase, builder: ir.Builder) -> tuple[ir.Value, ...] | None:
        result = walk.decided.get(next(order))
        if result is None:
            return None
        return (builder.constant(result, ir.dtype("bool")),)

    return simplify(ir.rewrite(kernel, rule))


class _Decisions(Walk):
    def __init__(self, kernel: ir.Kernel) -> None:
        super().__init__(kernel)
        self.decided: dict[ir.OpBase, bool] = {}
        """The result of each comparison that is proved to have one."""

    def visit(self, op: ir.OpBase, facts: tuple[Linear, ...]) -> None:
        """Look at a comparison."""
        if not isinstance(op, ir.Compare) or not op.left.dtype.is_integer:
            return
        a, b = self._ranges.of(op.left), self._ranges.of(op.right)
        for result, kind in ((True, op.kind), (False, OPPOSITE[op.kind])):
            for needed in _ways(kind):
                if not self._effort.spend(a, b):
                    return
                if all(is_nonnegative(e, facts, self._effort) for e in compared(needed, a, b)):
                    self.decided[op] = result
                    return


def _ways(kind: str) -> tuple[str, ...]:
    """Return comparisons of which each alone shows that this one holds."""
    return ("lt", "gt") if kind == "ne" else (kind,)
