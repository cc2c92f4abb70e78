"""Loops of a rewritten function while it is traced: `for` and `while`, and the names they change.

A name that the body changes and that is read in the next iteration or after the loop becomes a
variable before the loop begins.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tileprof import ir
from tileprof.errors import UnsupportedPython
from tileprof.lang.context import Loop
from tileprof.lang.regions import Region
from tileprof.lang.static import is_number
from tileprof.lang.trace import Retrace, Tracer
from tileprof.lang.values import Buffer, Deferred, Expr, Placeholder, Poison, Scalar, Symbol, Var

_MISSING: Any = object()
_MAX_STATIC_LOOPS = 100_000
_SHOWN = {"parallel": "Parallel", "pipelined": "Pipelined", "persistent": "Persistent"}


def names_of_caller(depth: int = 2) -> dict[str, Any]:
    """Return the local names of the user's function that called the hook."""
    return dict(sys._getframe(depth).f_locals)


def _is_scalar(value: Any) -> bool:
    return is_number(value) or isinstance(value, (Expr, Var, Symbol, Deferred))


@dataclass(slots=True)
class Adoption:
    """Names of the user's function that a loop takes over."""

    tracer: Tracer
    staged: bool = False
    parallel: bool = False
    taken: Any = None
    kept: dict[str, Any] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Return whether a name that the loop changes becomes a variable."""
        if not self.staged:
            return False
        value = names_of_caller().get(name, _MISSING)
        if value is _MISSING or isinstance(value, Poison):
            return False
        if isinstance(value, Expr) and not value.region.visible:
            return False
        if self.parallel and (_is_scalar(value) and not _explicit(value)):
            self.tracer.fail(
                UnsupportedPython,
                f"`{name}` goes from one iteration of `T.Parallel` to the next or out of the loop, "
                "and they have no order",
                "Assign it inside before it is read; to add up use `T.reduce_sum` or a buffer.",
            )
        if isinstance(value, Var):
            return False
        if not _is_scalar(value):
            self.kept[name] = value
            return False
        self.taken = self.tracer.promote_name(name, value, self.tracer.location())
        return True

    def take(self) -> Any:
        """Return the value that the name is bound to from now on."""
        return self.taken

    def same(self, names: dict[str, Any]) -> None:
        """An error where the body bound a name that is no number to another object.

        A tensor whose name the body takes for a number is the tensor again in each iteration: as a
        number it could not be used the way that it is.
        """
        for name, before in self.kept.items():
            now = names.get(name)
            if now is not before and not (isinstance(before, Buffer) and isinstance(now, Scalar)):
                self.tracer.fail(
                    UnsupportedPython,
                    f"`{name}` stands for another object in each iteration of this loop",
                    "A loop of the kernel changes numbers and contents of buffers; loop over a "
                    "Python list to unroll it at compile time.",
                )

    def leaves(self, name: str) -> bool:
        """Return whether a name that the body bound has no single value after the loop."""
        if not self.staged:
            return False
        value = names_of_caller().get(name, _MISSING)
        if value is _MISSING or isinstance(value, (Var, Poison)) or name in self.kept:
            return False
        self.taken = Poison(
            f"`{name}` is used after the loop that assigns it",
            f"Assign it before the loop too, or make it a variable: "
            f"`{name} = T.alloc_var(dtype, init)`.",
        )
        return True

    def no_else(self) -> None:
        """`else` of a loop."""
        if self.staged:
            self.tracer.fail(
                UnsupportedPython,
                "`else` of a loop that runs in the kernel",
                "Set a `T.alloc_var` before `break` and test it after the loop.",
            )


def _explicit(value: Any) -> bool:
    return isinstance(value, Var) and value.promoted is None


class LoopToken(Adoption):
    """One `for` statement."""

    __slots__ = ("bounds", "depth", "iterable", "names", "region", "span")

    def __init__(self, tracer: Tracer, iterable: Any, names: Any) -> None:
        super().__init__(tracer)
        self.iterable = iterable
        self.names = names
        self.depth = len(tracer.regions)
        self.span = tracer.location()
        self.region: Region | None = None
        if isinstance(iterable, Loop):
            tracer.need_launch(f"`T.{_SHOWN.get(iterable.kind, iterable.kind)}`")
            self.staged = True
            self.parallel = iterable.kind == "parallel"
            self.iterable = tracer.nested(iterable)

    def __iter__(self) -> Iterator[Any]:
        return self._staged() if self.staged else iter(self.iterable)

    def _staged(self) -> Iterator[Any]:
        loop = self.iterable
        bounds = self.tracer.bounds(loop)
        self.region, held = self.tracer.open_loop(loop, self.names)
        yield self._arity(held)
        self.same(names_of_caller())
        self.tracer.close_loop(loop, self.region, bounds, self.span)

    def _arity(self, held: Any) -> Any:
        given = len(held) if isinstance(held, tuple) else 1
        if not isinstance(self.names, tuple):
            return held
        if len(self.names) != given:
            self.tracer.fail(
                UnsupportedPython,
                f"the loop has {given} indices and `for` names {len(self.names)}",
                "Name one index for each extent: `for i, j in T.Parallel(M, N):`.",
            )
        held = held if isinstance(held, tuple) else (held,)
        for each, name in zip(held, self.names):
            self.tracer.name(each.value, name)
        return held

    def breaks(self) -> bool:
        """`break`: whether Python leaves the loop."""
        if self.parallel:
            self.tracer.fail(
                UnsupportedPython,
                "`break` in `T.Parallel`: its iterations have no order",
                "Use `if` around what should not happen, or `T.serial`.",
            )
        return self._leave(ir.Break())

    def continues(self) -> bool:
        """`continue`: whether Python goes on with the next element."""
        return self._leave(ir.Continue())

    def _leave(self, op: ir.Break | ir.Continue) -> bool:
        if self.staged:
            self.tracer.emit(op)
            self.tracer.regions[-1].ended = True
            return False
        if any(
            r.kind in ("if", "for", "while", "parallel") for r in self.tracer.regions[self.depth :]
        ):
            self.tracer.fail(
                UnsupportedPython,
                f"`{op.mnemonic}` of a loop that Python unrolls, under a condition that is known "
                "only when the kernel runs",
                "Make it a loop of the kernel, `for i in T.serial(n)`, or `while` with a variable.",
            )
        return True


class WhileToken(LoopToken):
    """One `while` statement.  Its condition is evaluated once to see who decides it."""

    __slots__ = ("_begun", "_count", "_scratch", "_value", "condition_region")

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer, (), "")
        self.condition_region: Region | None = None
        self._begun = False
        self._count = 0
        self._value: Any = None
        self._scratch = tracer.push("value")

    def trial(self, value: Any) -> bool:
        """Return whether the condition is known only when the kernel runs."""
        self.tracer.pop(self._scratch)
        runtime = isinstance(value, Scalar) and not isinstance(value, (Poison, Placeholder))
        if runtime or self.span in self.tracer.knowledge.staged:
            self.tracer.need_launch("`while`")
            self.staged = True
            return True
        self.tracer.splice(self._scratch)
        self._value = bool(value)
        return False

    def open(self) -> None:
        """Open the block of the condition."""
        self.condition_region = self.tracer.push("while")

    def condition(self, value: Any) -> None:
        """Close it and open the body."""
        assert self.condition_region is not None
        held = self.tracer.condition(value)
        self.tracer.emit(ir.Yield([held]))
        self.tracer.pop(self.condition_region)
        self.region = self.tracer.push("while")

    def first(self) -> bool:
        """Return whether the body is entered for the first time."""
        if self._begun:
            return False
        self._begun = True
        return True if self.staged else bool(self._value)

    def more(self) -> bool:
        """Return whether Python evaluates the condition again; in the kernel the body is
        complete."""
        if self.staged:
            assert self.region is not None
            assert self.condition_region is not None
            self.same(names_of_caller())
            self.tracer.pop(self.region)
            self.tracer.emit(ir.While(self.condition_region.block, self.region.block), self.span)
            return False
        self._count += 1
        if self._count > _MAX_STATIC_LOOPS:
            self.tracer.fail(
                UnsupportedPython,
                f"this `while` went on for {_MAX_STATIC_LOOPS} iterations at compile time",
                "Its condition is made of Python values, so it runs while the kernel is compiled.",
            )
        return self._count > 1 or bool(self._value)

    def test(self, value: Any) -> bool:
        """Return the condition, evaluated again by Python."""
        if isinstance(value, Scalar):
            # What it tests has become a value of the kernel: it is a loop of the kernel throughout.
            self.tracer.knowledge.staged.add(self.span)
            raise Retrace
        return bool(value)
