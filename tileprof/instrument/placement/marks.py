"""Scopes in a kernel that is lowered for a GPU: noted before the passes, which take them apart.

In: a kernel with `scope` ops.  Out: the same kernel, in which the place of every op says which
scope it is in; passes hand places on to what they make of an op, wherever that ends up.
`strip_marks` takes out what `placing.place_marks` put in.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.rewriter import clone, opened


def note_scopes(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel with its scopes as sites, and each op's innermost one in `Location.scope`.

    An op without a place, as in text without locations, is in no scope.
    """
    noting = _Noting()
    body = noting.block(kernel.body, None)
    return kernel.with_body(body, tuple(noting.sites)) if noting.sites else kernel


def strip_marks(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel without marks, sites and states."""
    if not kernel.sites and not any(isinstance(op, ir.Mark) for op in kernel.ops()):
        return kernel
    bare = ir.rewrite(kernel, lambda op, builder: () if isinstance(op, ir.Mark) else None)
    return replace(bare, sites=(), states=())


@cache
def _within(place: Location, scope: int) -> Location:
    return replace(place, scope=scope)


class _Noting:
    def __init__(self) -> None:
        self.sites: list[ir.Site] = []
        self._mapping: dict[ir.Value, ir.Value] = {}

    def block(self, block: ir.Block, scope: int | None) -> ir.Block:
        """Return a copy of a block whose ops lie in a scope."""
        made = opened(block, self._mapping)
        for op in block.ops:
            made.ops.append(self._op(op, scope))
        return made

    def _op(self, op: ir.OpBase, scope: int | None) -> ir.OpBase:
        inner = scope
        if isinstance(op, ir.Scope):
            inner = len(self.sites)
            self.sites.append(ir.Site(inner, op.name, "scope", op.span, scope))
        regions = {name: self.block(getattr(op, name), inner) for name in op.SPEC.regions}
        made = clone(op, self._mapping, regions)
        if op.span is not None and scope is not None:
            made.span = _within(op.span, scope)
        self._mapping.update(zip(op.results, made.results, strict=True))
        return made
