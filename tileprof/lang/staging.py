"""What a rewritten function calls while it is traced: names, branches, loops.

A value that Python knows is decided by Python; one that only the running kernel knows opens a block
of the program, and the body in place fills it.  Names that a staged loop changes become variables;
names that a staged branch changes become the branch's results.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tileprof import ir
from tileprof.errors import UnsupportedPython

from .branches import Branch, Choice, Conjunction
from .context import Loop, current
from .dtypes import dtype_of, is_dtype
from .loops import Frame
from .regions import Region
from .static import is_number
from .trace import Tracer
from .values import Buffer, BufferRegion, Deferred, Expr, Placeholder, Poison, Scalar, Symbol, Var

__all__ = ["STAGING", "Staging"]

_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift,
    ">>": operator.irshift, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
    "@": operator.imatmul,
}  # fmt: skip
_MISSING: Any = object()
_MAX_STATIC_LOOPS = 100_000


def _tracer() -> Tracer:
    held = current()
    assert isinstance(held, Tracer)
    return held


def _caller(depth: int = 2) -> dict[str, Any]:
    """The local names of the user's function that called the hook."""
    return dict(sys._getframe(depth).f_locals)


def _is_scalar(value: Any) -> bool:
    return is_number(value) or isinstance(value, (Expr, Var, Symbol, Deferred))


class Staging:
    """The hooks of a rewritten function."""

    # -- names

    def name(self, name: str, value: Any) -> Any:
        """`name = value`, where the name can hold no variable yet."""
        if isinstance(value, (Expr, Buffer)):
            self._hint(value.value, name)
        elif isinstance(value, Var):
            if value.buffer.value.name or value.indices:
                return self.read(value)
            self._hint(value.buffer.value, name)
        return value

    def _hint(self, value: ir.Value, name: str) -> None:
        if not value.name and not isinstance(value.owner, ir.Constant):
            value.name = name

    def assign(self, name: str, value: Any) -> Any:
        """`name = value`: a store where the name holds a variable and the value is a scalar."""
        held = sys._getframe(1).f_locals.get(name)
        if isinstance(held, Var) and not held.buffer.region.visible:
            # A variable of a loop or branch that has ended: the name is free again.
            held = None
        if isinstance(held, Var) and (is_number(value) or isinstance(value, Scalar)):
            fresh = isinstance(value, Var) and not value.buffer.value.name and not value.indices
            if not fresh or held.promoted is not None:
                _tracer().store_var(held, value)
                return held
        if isinstance(held, Var) and held.promoted is not None and value is not held:
            _tracer().fail(
                UnsupportedPython,
                f"`{name}` is a number before the loop and {type(value).__name__} in it",
                "Use another name: what a loop changes keeps its kind.",
            )
        return self.name(name, value)

    def augment(self, name: str, sign: str, held: Any, value: Any) -> Any:
        """`name += value`."""
        if isinstance(held, Poison):
            held.fail()
        if isinstance(held, (Buffer, BufferRegion)):
            _tracer().fail(
                UnsupportedPython,
                f"`{name} {sign}= …` on a whole buffer",
                f"Loop over its elements: `for i in T.Parallel(n): {name}[i] {sign}= …`.",
            )
        if isinstance(held, Var):
            old = self.read(held)
            _tracer().store_var(held, _IN_PLACE[sign](old, value))
            return held
        return self.name(name, _IN_PLACE[sign](held, value))

    def read(self, value: Any) -> Any:
        """A name that is read: what its variable holds now."""
        if isinstance(value, Var):
            return _tracer().load_var(value)
        if isinstance(value, Poison):
            value.fail()
        return value

    def settle(self, value: Any) -> Any:
        """The right side of an assignment to several targets."""
        if isinstance(value, (tuple, list)):
            return (
                type(value)(self.read(v) for v in value) if type(value) in (tuple, list) else value
            )
        return self.read(value)

    def typed(self, annotation: Any, value: Any) -> Any:
        """`name: T.int32 = value` converts."""
        if is_dtype(annotation) and (is_number(value) or isinstance(value, Scalar)):
            return _tracer().cast(value, dtype_of(annotation))
        return value

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """`A: T.Tensor(…)` in the body, for a parameter."""
        return _tracer().argument(name, value, annotation)

    # -- functions and blocks

    def function(self) -> Entry:
        """The start of a function."""
        return Entry(len(_tracer().regions))

    def enter(self, manager: Any, names: Any) -> Entered:
        """`with manager as names:`."""
        if not isinstance(manager, Frame):
            _tracer().fail(
                UnsupportedPython,
                f"`with` of {type(manager).__name__}",
                "In a kernel, `with` takes `T.Kernel(…)` and `T.scope(name)`.",
            )
        return Entered(manager, names)

    def check(self, condition: Any) -> bool:
        """`assert condition`: for what is known at compile time."""
        if isinstance(condition, Placeholder):
            return True
        if isinstance(condition, Scalar):
            _tracer().fail(
                UnsupportedPython,
                "`assert` of a condition that is known only when the kernel runs",
                'Use `T.device_assert(condition, "message")`.',
            )
        return bool(condition)

    # -- loops

    def range(self, function: Any, *args: Any) -> Any:
        """`range(…)` after `for … in`: a loop of the kernel inside `T.Kernel`."""
        if function is not builtins.range:
            return function(*args)
        tracer = _tracer()
        if tracer.inner("launch") is None and not any(isinstance(a, Scalar) for a in args):
            return builtins.range(*args)
        start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
        return Loop("serial", start, stop, step)

    def loop(self, iterable: Any, names: Any) -> LoopToken:
        """`for names in iterable`."""
        return LoopToken(_tracer(), iterable, names)

    def loop_while(self) -> WhileToken:
        """`while …`."""
        return WhileToken(_tracer())

    # -- conditions

    def branch(self, condition: Any, joined: tuple[str, ...]) -> Branch:
        """`if condition:`; `joined` are the names that its branches bind and later code reads."""
        if not isinstance(condition, Scalar) or isinstance(condition, (Poison, Placeholder)):
            return Branch(None, bool(condition), joined, {})
        return Branch(_tracer(), condition, joined, _caller())

    def negate(self, value: Any) -> Any:
        """`not value`."""
        if not isinstance(value, Scalar) or isinstance(value, (Poison, Placeholder)):
            return not value
        tracer = _tracer()
        return tracer.result(ir.Unary("not", tracer.condition(value)))

    def bool_first(self, kind: str, value: Any) -> Any:
        """The first operand of `and` or `or`."""
        tracer = _tracer()
        tracer.pending.append(Conjunction(tracer, kind))
        return self.bool_next(value)

    def bool_next(self, value: Any) -> Any:
        """Each further operand; gives Python a truth that lets it go on."""
        held = _tracer().pending[-1]
        assert isinstance(held, Conjunction)
        return held.operand(value)

    def bool_end(self, result: Any) -> Any:
        """The value of the whole."""
        held = _tracer().pending.pop()
        assert isinstance(held, Conjunction)
        return held.end(result)

    def choice(self, condition: Any) -> bool:
        """The condition of `a if condition else b`."""
        tracer = _tracer()
        held = Choice(tracer, condition)
        tracer.pending.append(held)
        return held.wants_then()

    def choice_then(self, value: Any) -> Any:
        """Its first value."""
        return self._choice().then(value)

    def choice_otherwise(self) -> bool:
        """Whether the second value is wanted."""
        return self._choice().wants_otherwise()

    def choice_else(self, value: Any) -> Any:
        """Its second value."""
        return self._choice().otherwise(value)

    def choice_end(self, then: Any, otherwise: Any) -> Any:
        """The one that is chosen."""
        held = self._choice()
        _tracer().pending.pop()
        return held.end(then, otherwise)

    def _choice(self) -> Choice:
        held = _tracer().pending[-1]
        assert isinstance(held, Choice)
        return held


@dataclass(frozen=True, slots=True)
class Entry:
    """A running function; what it may leave from where."""

    depth: int

    def _straight(self, what: str) -> None:
        tracer = _tracer()
        tracer.entries.append(self.depth)
        try:
            tracer.need_straight(what)
        finally:
            tracer.entries.pop()

    def returns(self, value: Any) -> Any:
        """`return value`."""
        self._straight("`return`")
        return STAGING.settle(value)

    def raises(self) -> None:
        """`raise …`."""
        self._straight("`raise`")


@dataclass(slots=True)
class Entered(AbstractContextManager[Any]):
    """A `with` block whose results get the author's names."""

    manager: Frame
    names: Any

    def __enter__(self) -> Any:
        value = self.manager.__enter__()
        if isinstance(self.names, tuple) and not isinstance(value, tuple):
            value = (value,)
        held = value if isinstance(value, tuple) else (value,)
        names = self.names if isinstance(self.names, tuple) else (self.names,)
        if isinstance(self.names, tuple) and len(names) != len(held):
            _tracer().fail(
                UnsupportedPython,
                f"the grid has {len(held)} axes and `as` names {len(names)}",
                "Name one index for each axis: `with T.Kernel(m, n) as (bx, by):`.",
            )
        for each, name in zip(held, names):
            if isinstance(each, Expr) and isinstance(name, str) and name != "_":
                _tracer().name(each.value, name)
        return value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.manager.__exit__(kind, error, trace)


@dataclass(slots=True)
class _Adoption:
    """Names of the user's function that a loop takes over."""

    tracer: Tracer
    staged: bool = False
    parallel: bool = False
    taken: Any = None
    kept: dict[str, Any] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Whether a name that the loop changes becomes a variable."""
        if not self.staged:
            return False
        value = _caller().get(name, _MISSING)
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
        """What the name is bound to from now on."""
        return self.taken

    def same(self, names: dict[str, Any]) -> None:
        """An error where the body bound a name that is no number to another object."""
        for name, before in self.kept.items():
            if names.get(name) is not before:
                self.tracer.fail(
                    UnsupportedPython,
                    f"`{name}` stands for another object in each iteration of this loop",
                    "A loop of the kernel changes numbers and contents of buffers; loop over a "
                    "Python list to unroll it at compile time.",
                )

    def leaves(self, name: str) -> bool:
        """Whether a name that the body bound has no single value after the loop."""
        if not self.staged:
            return False
        value = _caller().get(name, _MISSING)
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


class LoopToken(_Adoption):
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

    def __iter__(self) -> Iterator[Any]:
        return self._staged() if self.staged else iter(self.iterable)

    def _staged(self) -> Iterator[Any]:
        loop = self.iterable
        bounds = self.tracer.bounds(loop)
        self.region, held = self.tracer.open_loop(loop, self.names)
        yield self._arity(held)
        self.same(_caller())
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
        """Whether the condition is known only when the kernel runs."""
        self.tracer.pop(self._scratch)
        if isinstance(value, Scalar) and not isinstance(value, (Poison, Placeholder)):
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
        """Whether the body is entered for the first time."""
        if self._begun:
            return False
        self._begun = True
        return True if self.staged else bool(self._value)

    def more(self) -> bool:
        """Whether Python evaluates the condition again; in the kernel the body is complete."""
        if self.staged:
            assert self.region is not None
            assert self.condition_region is not None
            self.same(_caller())
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
        """The condition, evaluated again by Python."""
        if isinstance(value, Scalar):
            self.tracer.fail(
                UnsupportedPython,
                "the condition of this `while` is a Python value at first and later one that is "
                "known only when the kernel runs",
                'Make what it tests a variable from the start: `i = T.alloc_var("int32", 0)`.',
            )
        return bool(value)


_SHOWN = {"parallel": "Parallel", "pipelined": "Pipelined", "persistent": "Persistent"}

STAGING = Staging()
