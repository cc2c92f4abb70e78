"""Hooks that a rewritten function calls while it is traced: names, branches, loops.

A value that Python knows is decided by Python; one that only the running kernel knows opens a block
of the program, and the body in place fills it.  Names that a staged loop changes become variables;
names that a staged branch changes become the branch's results.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import BuiltinFunctionType, TracebackType
from typing import Any, NoReturn

from tileprof import ir
from tileprof.errors import UnsupportedPython
from tileprof.lang.context import Loop, current
from tileprof.lang.dtypes import dtype_of, is_dtype
from tileprof.lang.loops import Frame
from tileprof.lang.static import is_number
from tileprof.lang.values import Buffer, BufferRegion, Expr, Placeholder, Poison, Scalar, Var

from .branches import Branch, Choice, Conjunction
from .staged_loops import LoopToken, WhileToken, names_of_caller

_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift,
    ">>": operator.irshift, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
    "@": operator.imatmul,
}  # fmt: skip


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
        if isinstance(held, Var) and not held.buffer.home.visible:
            # A variable of a loop or branch that has ended: the name is free again.
            held = None
        if isinstance(held, Var) and (is_number(value) or isinstance(value, Scalar)):
            fresh = isinstance(value, Var) and not value.buffer.value.name and not value.indices
            if not fresh or held.promoted is not None:
                current().store_var(held, value)
                return held
        if isinstance(held, Var) and held.promoted is not None and value is not held:
            current().fail(
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
            current().fail(
                UnsupportedPython,
                f"`{name} {sign}= …` on a whole buffer",
                f"Loop over its elements: `for i in T.Parallel(n): {name}[i] {sign}= …`.",
            )
        if isinstance(held, Var):
            old = self.read(held)
            current().store_var(held, _IN_PLACE[sign](old, value))
            return held
        return self.name(name, _IN_PLACE[sign](held, value))

    def read(self, value: Any) -> Any:
        """Return a name that is read: what its variable holds now."""
        if isinstance(value, Var):
            return current().load_var(value)
        if isinstance(value, Poison):
            value.fail()
        return value

    def settle(self, value: Any) -> Any:
        """Return the right side of an assignment to several targets."""
        if isinstance(value, (tuple, list)):
            return (
                type(value)(self.read(v) for v in value) if type(value) in (tuple, list) else value
            )
        return self.read(value)

    def typed(self, annotation: Any, value: Any) -> Any:
        """`name: T.int32 = value` converts."""
        if is_dtype(annotation) and (is_number(value) or isinstance(value, Scalar)):
            return current().cast(value, dtype_of(annotation))
        return value

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """`A: T.Tensor(…)` in the body, for a parameter."""
        return current().argument(name, value, annotation)

    # -- functions and blocks

    def function(self) -> Entry:
        """Return the start of a function."""
        return Entry(len(current().regions))

    def manager(self, function: Any) -> Any:
        """`with function(…):`, before the call: builtin functions and foreign classes make no part
        of a kernel."""
        builtin = isinstance(function, BuiltinFunctionType)
        if builtin or (isinstance(function, type) and not issubclass(function, Frame)):
            self._no_frame(function.__name__)
        return function

    def enter(self, manager: Any, names: Any) -> Entered:
        """`with manager as names:`; one of Python that a function gave works while the kernel is
        traced."""
        kind = type(manager)
        ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
        if not isinstance(manager, Frame) and (
            ours or not isinstance(manager, AbstractContextManager)
        ):
            self._no_frame(kind.__name__)
        return Entered(manager, names)

    def _no_frame(self, name: str) -> NoReturn:
        current().fail(
            UnsupportedPython,
            f"`with` of {name}",
            "In a kernel, `with` takes `T.Kernel(…)` and `T.scope(name)`.",
        )

    def check(self, condition: Any) -> bool:
        """`assert condition`: for what is known at compile time."""
        if isinstance(condition, Placeholder):
            return True
        if isinstance(condition, Scalar):
            current().fail(
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
        tracer = current()
        if tracer.inner("launch") is None and not any(isinstance(a, Scalar) for a in args):
            return builtins.range(*args)
        start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
        return Loop("serial", start, stop, step)

    def loop(self, iterable: Any, names: Any) -> LoopToken:
        """`for names in iterable`."""
        return LoopToken(current(), iterable, names)

    def loop_while(self) -> WhileToken:
        """`while …`."""
        return WhileToken(current())

    # -- conditions

    def branch(self, condition: Any, joined: tuple[str, ...]) -> Branch:
        """`if condition:`; `joined` are the names that its branches bind and later code reads."""
        if not isinstance(condition, Scalar) or isinstance(condition, (Poison, Placeholder)):
            return Branch(None, bool(condition), joined, {})
        return Branch(current(), condition, joined, names_of_caller())

    def negate(self, value: Any) -> Any:
        """`not value`."""
        if not isinstance(value, Scalar) or isinstance(value, (Poison, Placeholder)):
            return not value
        tracer = current()
        return tracer.result(ir.Unary("not", tracer.condition(value)))

    def bool_first(self, kind: str, value: Any) -> Any:
        """Return the first operand of `and` or `or`."""
        tracer = current()
        tracer.pending.append(Conjunction(tracer, kind))
        return self.bool_next(value)

    def bool_next(self, value: Any) -> Any:
        """Take a further operand, and return a truth value that lets Python go on."""
        held = current().pending[-1]
        assert isinstance(held, Conjunction)
        return held.operand(value)

    def bool_end(self, result: Any) -> Any:
        """Return the value of the whole."""
        held = current().pending.pop()
        assert isinstance(held, Conjunction)
        return held.end(result)

    def choice(self, condition: Any) -> bool:
        """Return the condition of `a if condition else b`."""
        tracer = current()
        held = Choice(tracer, condition)
        tracer.pending.append(held)
        return held.wants_then()

    def choice_then(self, value: Any) -> Any:
        """Return its first value."""
        return self._choice().then(value)

    def choice_otherwise(self) -> bool:
        """Return whether the second value is wanted."""
        return self._choice().wants_otherwise()

    def choice_else(self, value: Any) -> Any:
        """Return its second value."""
        return self._choice().otherwise(value)

    def choice_end(self, then: Any, otherwise: Any) -> Any:
        """Return the one that is chosen."""
        held = self._choice()
        current().pending.pop()
        return held.end(then, otherwise)

    def _choice(self) -> Choice:
        held = current().pending[-1]
        assert isinstance(held, Choice)
        return held


@dataclass(frozen=True, slots=True)
class Entry:
    """A running function; what it may leave from where."""

    depth: int

    def _straight(self, what: str) -> None:
        tracer = current()
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

    manager: AbstractContextManager[Any]
    names: Any

    def __enter__(self) -> Any:
        value = self.manager.__enter__()
        if isinstance(self.names, tuple) and not isinstance(value, tuple):
            value = (value,)
        held = value if isinstance(value, tuple) else (value,)
        names = self.names if isinstance(self.names, tuple) else (self.names,)
        if isinstance(self.names, tuple) and len(names) != len(held):
            current().fail(
                UnsupportedPython,
                f"the grid has {len(held)} axes and `as` names {len(names)}",
                "Name one index for each axis: `with T.Kernel(m, n) as (bx, by):`.",
            )
        for each, name in zip(held, names):
            if isinstance(each, Expr) and isinstance(name, str) and name != "_":
                current().name(each.value, name)
        return value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.manager.__exit__(kind, error, trace)


STAGING = Staging()
