"""Branches and choices that the running kernel decides: `if`, `a if c else b`, `and`, `or`."""

from __future__ import annotations

import sys
from typing import Any

from tileprof import ir
from tileprof.lang.regions import Region
from tileprof.lang.static import as_number, is_number
from tileprof.lang.trace import Tracer
from tileprof.lang.values import Deferred, Expr, Placeholder, Poison, Scalar, Symbol, Var

_MISSING: Any = object()


def staged(value: Any) -> bool:
    """Return whether only the running kernel knows a value."""
    return isinstance(value, Scalar) and not isinstance(value, (Poison, Placeholder))


class Branch:
    """One `if` statement.  With `tracer` None Python has decided it."""

    __slots__ = (
        "_after_then", "_before", "_condition", "_joined", "_otherwise", "_results", "_span",
        "_taken", "_then", "_tracer",
    )  # fmt: skip

    def __init__(
        self, tracer: Tracer | None, condition: Any, joined: tuple[str, ...], names: dict[str, Any]
    ) -> None:
        self._tracer = tracer
        self._condition = condition
        self._joined = joined
        self._before = names
        self._after_then: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._taken: Any = None
        self._otherwise: Region | None = None
        self._then: Region | None = None
        if tracer is not None:
            self._span = tracer.location()
            self._condition = tracer.condition(condition)

    def then(self) -> bool:
        """Return whether the first branch is executed by Python."""
        if self._tracer is None:
            return bool(self._condition)
        self._then = self._tracer.push("if")
        return True

    def otherwise(self) -> bool:
        """Return whether the second one is."""
        if self._tracer is None:
            return not self._condition
        assert self._then is not None
        self._after_then = self._values(sys._getframe(1).f_locals)
        self._tracer.pop(self._then)
        self._otherwise = self._tracer.push("if")
        return True

    def restores(self, name: str) -> bool:
        """Return whether a name must have the value from before the first branch again."""
        if self._tracer is None:
            return False
        now = sys._getframe(1).f_locals.get(name, _MISSING)
        before = self._before.get(name, _MISSING)
        if now is before:
            return False
        self._taken = before if before is not _MISSING else _half_bound(name)
        return True

    def take(self) -> Any:
        """Return the value that the name is bound to from now on."""
        return self._taken

    def close(self) -> None:
        """Write the branch."""
        tracer = self._tracer
        if tracer is None:
            return
        assert self._then is not None
        assert self._otherwise is not None
        after_else = self._values(sys._getframe(1).f_locals)
        tracer.pop(self._otherwise)
        self._emit(tracer, self._then, self._otherwise, after_else)

    def _values(self, names: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the joined names at the end of a branch.  A variable that a loop in
        the branch made is read: it ends with the branch."""
        assert self._tracer is not None
        found = {n: names.get(n, _MISSING) for n in self._joined}
        for name, value in found.items():
            if isinstance(value, Var) and value is not self._before.get(name):
                found[name] = self._tracer.load_var(value)
        return found

    def _emit(
        self, tracer: Tracer, then: Region, otherwise: Region, after_else: dict[str, Any]
    ) -> None:
        if then.returns or otherwise.returns:
            self._emit_returned(tracer, then, otherwise, after_else)
            return
        if then.ended or otherwise.ended:
            self._emit_ended(tracer, then, otherwise, after_else)
            return
        merged: list[str] = []
        for name in self._joined:
            first, second = self._after_then.get(name, _MISSING), after_else[name]
            if first is second or _equal_numbers(first, second):
                self._results[name] = first
            elif _mergeable(first) and _mergeable(second):
                merged.append(name)
            else:
                self._results[name] = _two_objects(name, first, second)
        pairs = [(self._after_then[n], after_else[n]) for n in merged]
        results = tracer.merge(self._condition, (then, otherwise), pairs, self._span)
        for name, result in zip(merged, results):
            tracer.name(result.value, name)
            self._results[name] = result

    def _emit_ended(
        self, tracer: Tracer, then: Region, otherwise: Region, after_else: dict[str, Any]
    ) -> None:
        """A branch that ends in `break` or `continue`: what follows belongs to the other one."""
        condition, empty = self._condition, ir.Block()
        rest: Region | None = None
        if not then.ended:
            condition = tracer.result(ir.Unary("not", condition)).value
            tracer.emit(ir.If(condition, otherwise.block, empty), self._span)
            rest, self._results = then, {n: self._after_then.get(n) for n in self._joined}
        elif not otherwise.ended:
            tracer.emit(ir.If(condition, then.block, empty), self._span)
            rest, self._results = otherwise, dict(after_else)
        else:
            tracer.emit(ir.If(condition, then.block, otherwise.block), self._span)
            tracer.regions[-1].ended = True
            self._results = dict(after_else)
        if rest is not None:
            tracer.splice(rest)

    def _emit_returned(
        self, tracer: Tracer, then: Region, otherwise: Region, after_else: dict[str, Any]
    ) -> None:
        """A branch in which threads return: what follows runs for the others only."""
        if then.ended or otherwise.ended:
            tracer.emit(ir.If(self._condition, then.block, otherwise.block), self._span)
            parent = tracer.regions[-1]
            parent.returns += [*then.returns, *otherwise.returns]
            self._results = dict(after_else if then.ended else self._after_then)
            if then.ended and otherwise.ended:
                parent.ended = True
                return
            goes_on = otherwise if then.ended else then
            parent.rest = goes_on.block if goes_on.rest is None else goes_on.rest
            goes_on.merged = parent
            return
        # Threads return in a branch inside of this one: a variable says of which.
        for name in self._joined:
            first, second = self._after_then.get(name, _MISSING), after_else[name]
            same = first is second or _equal_numbers(first, second)
            self._results[name] = first if same else _after_return(name)
        tracer.emit_with_returns(self._condition, then, otherwise, self._span)

    def gives(self, name: str) -> bool:
        """Return whether a name has another value after the branch."""
        if self._tracer is None:
            return False
        held = self._results.get(name, _MISSING)
        if held is _MISSING or held is sys._getframe(1).f_locals.get(name, _MISSING):
            return False
        self._taken = held
        return True


def _mergeable(value: Any) -> bool:
    return is_number(value) or isinstance(value, (Expr, Symbol, Deferred))


def _equal_numbers(a: Any, b: Any) -> bool:
    return is_number(a) and is_number(b) and type(a) is type(b) and as_number(a) == as_number(b)


def _half_bound(name: str) -> Poison:
    return Poison(
        f"`{name}` is assigned in one branch only, and which one runs is known only when the "
        "kernel does",
        f"Assign it before the `if`, or in both branches, or use `{name} = T.alloc_var(dtype)`.",
    )


def _after_return(name: str) -> Poison:
    return Poison(
        f"`{name}` is assigned in a branch inside of which threads return",
        f"Make it a variable before the branch: `{name} = T.alloc_var(dtype)`.",
    )


def _two_objects(name: str, first: Any, second: Any) -> Poison:
    for value in (first, second):
        if isinstance(value, Poison):
            return value
        if value is _MISSING:
            return _half_bound(name)
    return Poison(
        f"`{name}` is another object after each branch, and which one runs is known only when the "
        "kernel does",
        "A branch of the kernel chooses between numbers; do the work inside the branches.",
    )


class Conjunction:
    """`a and b`, `a or b`: an operand that is not wanted is not computed.

    An operand that Python knows decides the whole, or is left out: with `i == 0 and False`, the
    kernel does not have what stands under this condition.
    """

    __slots__ = ("_decided", "_goes_on", "_kind", "_open", "_operands", "_tracer")

    def __init__(self, tracer: Tracer, kind: str) -> None:
        self._tracer = tracer
        self._kind = kind
        self._goes_on = kind == "and"
        self._operands: list[tuple[Region | None, ir.Value]] = []
        self._open: Region | None = None
        self._decided = False

    def operand(self, value: Any) -> Any:
        """Return the next operand; gives the truth that makes Python go on, or decides here."""
        if not self._operands and not staged(value):
            return value
        tracer = self._tracer
        if not staged(value):
            if bool(value) == self._goes_on:
                return self._goes_on
            if all(region is None or tracer.cheap(region) for region, _ in self._operands):
                self._decided = True
                return not self._goes_on
            value = bool(value)
        condition = tracer.condition(value)
        if self._open is not None:
            tracer.pop(self._open)
        self._operands.append((self._open, condition))
        self._open = tracer.push("value")
        return self._goes_on

    def end(self, result: Any) -> Any:
        """Return the value of the whole."""
        if self._open is None:
            return result
        tracer = self._tracer
        # The block for an operand after the last one is empty.
        tracer.pop(self._open)
        if self._decided:
            return not self._goes_on
        region, value = self._operands.pop()
        while self._operands:
            outer, condition = self._operands.pop()
            assert region is not None
            if outer is None:
                value = self._combine(condition, region, value)
            else:
                with tracer.inside(outer):
                    value = self._combine(condition, region, value)
            region = outer
        return Expr(value, tracer.regions[-1])

    def _combine(self, condition: ir.Value, region: Region, value: ir.Value) -> ir.Value:
        tracer = self._tracer
        if tracer.cheap(region):
            tracer.splice(region)
            kind: Any = self._kind
            return tracer.result(ir.Binary(kind, condition, value)).value
        decided = tracer.pop(tracer.push("value"))
        rest = (region, Expr(value, region))
        known = (decided, not self._goes_on)
        first, second = (rest, known) if self._goes_on else (known, rest)
        return tracer.join(condition, first, second).value


class Choice:
    """`a if condition else b`."""

    __slots__ = ("_condition", "_open", "_sides", "_static", "_tracer")

    def __init__(self, tracer: Tracer, condition: Any) -> None:
        self._tracer = tracer
        self._static = not staged(condition)
        self._condition: Any = bool(condition) if self._static else tracer.condition(condition)
        self._sides: list[tuple[Region, Any]] = []
        self._open: Region | None = None

    def wants_then(self) -> bool:
        """Return whether the first value is computed."""
        return self._wants(bool(self._condition) if self._static else True)

    def wants_otherwise(self) -> bool:
        """Return whether the second value is computed."""
        return self._wants(not self._condition if self._static else True)

    def _wants(self, wanted: bool) -> bool:
        if not self._static:
            self._open = self._tracer.push("value")
        return wanted

    def then(self, value: Any) -> Any:
        """Return the first value."""
        return self._side(value)

    def otherwise(self, value: Any) -> Any:
        """Return the second value."""
        return self._side(value)

    def _side(self, value: Any) -> Any:
        if self._open is not None:
            held = self._tracer.load_var(value) if isinstance(value, Var) else value
            self._sides.append((self._tracer.pop(self._open), held))
        return value

    def end(self, then: Any, otherwise: Any) -> Any:
        """Return the one that is chosen."""
        if self._static:
            return then if self._condition else otherwise
        first, second = self._sides
        return self._tracer.join(self._condition, first, second)
