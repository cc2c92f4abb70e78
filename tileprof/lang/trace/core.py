"""The state of a trace: open blocks, where the next op goes, and what went wrong where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, NoReturn, TypeVar

from tileprof import ir
from tileprof.errors import KernelError, Location, TileprofError, UnsupportedPython
from tileprof.lang.regions import Kind, Region
from tileprof.lang.spans import here
from tileprof.lang.values import Expr

O = TypeVar("O", bound=ir.OpBase)  # noqa: E741 - the field's letter for an op


class Retrace(Exception):
    """The trace has learned something that it should have known at its start: run it again."""


class Core:
    """Emits ops into the innermost open block, each with the user's line."""

    def __init__(self, root: CodeType | None) -> None:
        self.root = root
        self.top = Region("kernel")
        self.regions: list[Region] = [self.top]
        self.entries: list[int] = []
        """The number of open regions at the start of each function that is running."""
        self.uses: Counter[ir.Value] = Counter()
        self.pending: list[object] = []
        """`and`, `or` and choices that are being evaluated, the innermost last."""
        self.epoch = 0
        """Grows whenever a variable may have another value than before."""

    # -- places

    def location(self) -> Location | None:
        """Return the user's line that is running, with the calls that lead to it."""
        return here(self.root)

    def fail(
        self, kind: type[TileprofError], message: str, hint: str, *, at: Location | None = None
    ) -> NoReturn:
        """Raise an error about the line that is running."""
        raise kind(message, location=at or self.location(), hint=hint)

    # -- ops

    def emit(self, op: O, span: Location | None = None) -> O:
        """Append an op to the innermost block."""
        op.span = span or self.location()
        for value in op.operand_values():
            self.uses[value] += 1
        self.regions[-1].cursor.ops.append(op)
        return op

    def result(self, op: ir.OpBase) -> Expr:
        """Append an op and give its result."""
        return Expr(self.emit(op).result, self.regions[-1])

    # -- regions

    def push(self, kind: Kind, args: list[ir.Value] | None = None) -> Region:
        """Open a block."""
        region = Region(kind, ir.Block(args or []), location=self.location())
        self.regions.append(region)
        self.epoch += 1
        return region

    def pop(self, region: Region) -> Region:
        """Close the innermost block, which must be `region`."""
        held = self.regions.pop()
        assert held is region
        region.open = False
        self.epoch += 1
        return region

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Append to a block that was closed before."""
        self.regions.append(region)
        region.open = True
        try:
            yield
        finally:
            region.open = False
            self.regions.pop()

    def splice(self, region: Region) -> None:
        """Move the ops of a closed block into the innermost one."""
        parent = self.regions[-1]
        parent.cursor.ops.extend(region.block.ops)
        region.merged = parent
        parent.returns += region.returns
        if region.rest is not None:
            parent.rest = region.rest
        if region.ended:
            parent.ended = True

    def inner(self, *kinds: Kind) -> Region | None:
        """Return the innermost open region of these kinds."""
        return next((r for r in reversed(self.regions) if r.kind in kinds), None)

    def need_launch(self, what: str) -> None:
        """An error unless a launch is open."""
        if self.inner("launch") is None:
            self.fail(
                KernelError,
                f"{what} stands outside of `with T.Kernel(…)`",
                "Move it into the body of `with T.Kernel(…) as …:`.",
            )

    def need_tile_place(self, what: str) -> None:
        """An error unless a tile operation can stand here."""
        self.need_launch(what)
        if self.inner("parallel") is not None:
            self.fail(
                KernelError,
                f"{what} works on a whole tile and cannot stand inside `T.Parallel`",
                "Move it out of the loop, or write the loop's element: `C[i, j] = A[i, j]`.",
            )

    def need_straight(self, what: str) -> None:
        """An error where a branch or loop of the running function is decided at run time."""
        start = self.entries[-1] if self.entries else 1
        for region in self.regions[start:]:
            if region.kind in ("for", "parallel", "while", "if"):
                self.fail(
                    UnsupportedPython,
                    f"{what} depends on a value that is known only when the kernel runs",
                    "Assign to a `T.alloc_var` inside, and go on after the loop or branch.",
                )

    def visible(self, expr: Expr) -> ir.Value:
        """Return the value of an expression that is used here; an error where its block has
        ended."""
        if not expr.region.visible:
            name = f"`{expr.value.name}`" if expr.value.name else "this value"
            where = expr.region.location
            self.fail(
                UnsupportedPython,
                f"{name} is used outside of the loop or branch that computes it"
                + (f" (line {where.line})" if where else ""),
                "Make a variable before it, `x = T.alloc_var(dtype, init)`, and assign inside.",
            )
        return expr.value

    def name(self, value: Any, name: str) -> None:
        """A hint for the text form."""
        if isinstance(value, ir.Value) and not value.name:
            value.name = name
