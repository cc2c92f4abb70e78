"""Passes over whole tensors right before or after a Triton kernel, as the text of a program tells.

In: the text of a file, as a profile keeps it, and the kernels of all files.  Out: calls that copy,
widen, narrow or fill a tensor which one function of the text hands to a kernel and to nothing else:

    kernel[grid](x.float(), out)           the kernel only loads from it
    out = torch.zeros(…)                   the kernel stores all of it, and loads nothing there
    kernel[grid](x, out)
    return out.to(dtype)                   the kernel only stores to it, and nothing else reads it

The call may stand in the function that calls the one which launches the kernel. Only what is plain
counts: a tensor whose names are assigned in the order of statements, and of which all uses are
seen. A copy stays where the kernel changes it, or where what was copied may change before the
kernel reads it; zeros stay where atomics add to them, where the kernel reads them, and where memory
decides what is stored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from tileprof.analyzer.program.calls import called
from tileprof.analyzer.program.host_functions import (
    CASTS,
    EMPTY,
    FILLED,
    HostFunction,
    callables_of,
    functions_of,
    lines_of,
)
from tileprof.analyzer.program.triton.functions import TritonKernel
from tileprof.analyzer.program.triton.kernels import Launch

How: TypeAlias = Literal["widened", "narrowed", "copied", "filled"]

_FILLS = ("zero_", "fill_")
"""Methods that write one number to all elements."""
_WIDTHS = {
    "float64": 8, "double": 8, "int64": 8, "long": 8, "float32": 4, "float": 4, "int32": 4,
    "int": 4, "float16": 2, "half": 2, "bfloat16": 2, "int16": 2, "short": 2, "int8": 1,
    "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of an element, by the name of its type or of the method that casts to it."""


@dataclass(frozen=True, slots=True)
class HostPass:
    """A call that moves, casts or fills a whole tensor that one kernel alone reads or writes."""

    how: How
    result: bool
    """Whether it comes after the kernel, and reads what that stored."""
    call: str
    """Its text, as `x.float()`."""
    lines: range
    """Lines of the call."""
    tensor: str
    """What it reads, or fills: a name, or the text of an expression."""
    kernel: str
    parameter: str
    """The kernel's name for the tensor that it is given."""
    accesses: tuple[int, ...]
    """Lines of the kernel that load from or store to it."""
    launch: range
    """Lines of the call that launches the kernel."""
    before: int = 0
    """Bytes of an element that the pass reads; 0 where the text does not tell."""
    after: int = 0
    """Bytes of an element that it writes; 0 where the text does not tell."""
    like: str = ""
    """The kernel's name for a tensor of the type that it casts to; empty if the text tells it."""


@lru_cache(maxsize=64)
def host_passes(text: str, kernels: tuple[TritonKernel, ...]) -> tuple[HostPass, ...]:
    """Return all such calls of a file, none where it is no Python."""
    known = {each.name: each for each in kernels}
    others = callables_of(text)
    return tuple(
        found
        for function in functions_of(text)
        for found in _Passes(function, known, others).passes()
    )


@lru_cache(maxsize=64)
def passes_written(text: str) -> Mapping[How, int]:
    """Return how many calls of a file, outside of kernels, copy, cast or fill a tensor."""
    counts: dict[How, int] = {}
    for function in functions_of(text):
        for node in ast.walk(function):
            made = _pass_of(node) if isinstance(node, ast.Call) else None
            if made is not None and made.named is None:
                counts[made.how] = counts.get(made.how, 0) + 1
    return counts


@dataclass(frozen=True, slots=True)
class _Pass:
    how: How
    source: ast.expr | None
    """What is read; None for a tensor that is filled."""
    after: int
    """Bytes of an element of the result; 0 where not known."""
    like: ast.expr | None = None
    """Tensor whose type the result has."""
    named: ast.Name | None = None
    """What may be a name of the result's type."""


class _Passes(HostFunction):
    """The calls of one function of the host that only move, cast or fill."""

    def passes(self) -> Iterator[HostPass]:
        """Yield the passes of all launches."""
        for launch in self.launches:
            for parameter, given in launch.given.items():
                yield from self._before(launch, parameter, given)
                yield from self._cleared(launch, parameter, given)
                yield from self._after(launch, parameter, given)
        for node in self.nodes:
            called_with = self.given_to(node) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and called_with is not None:
                inner = _Passes(self.others[ast.unparse(node.func)], self.kernels, self.others)
                if inner.launches:
                    yield from self._before_call(called_with, inner)
                    yield from self._after_call(node, called_with, inner)

    def _before_call(self, given: Mapping[str, ast.expr], inner: _Passes) -> Iterator[HostPass]:
        """A copy of an argument of a function that gives it to one kernel, which only reads it."""
        for argument in given:
            made, name = self.made(given[argument]), self.first_name(given[argument])
            held = self._pass_of(made)
            source = None if held is None or held.source is None else self.tensor_of(held.source)
            if held is None or source is None or held.how not in ("widened", "copied"):
                continue
            uses = [] if name is None else self._read_at(name)
            others = (each for each in given.values() if each is not given[argument])
            taken = {self.tensor_of(each) for each in others}
            if uses not in ([], [given[argument]]) or (
                any(each is not None and self.same(each, source) for each in taken)
                or (name is not None and not self._unchanged(source, made))
            ):
                continue
            for launch, parameter, place in inner.launched_with(argument):
                if launch.kernel.only_loads(parameter) and inner.is_loaded_alone(place):
                    yield self._pass(held, made, launch, parameter, False, source, 0, "")

    def _after_call(
        self, call: ast.Call, given: Mapping[str, ast.expr], inner: _Passes
    ) -> Iterator[HostPass]:
        """A copy of what a function returns that one kernel alone wrote."""
        returned = [each.value for each in inner.nodes if isinstance(each, ast.Return)]
        target = self.bound_to(call)
        uses = [call] if target is None else self._read_at(target)
        around = self.call_around(uses[0]) if len(uses) == 1 else None
        held = self._pass_of(around)
        if len(returned) != 1 or returned[0] is None or around is None or held is None:
            return
        name = inner.first_name(returned[0])
        made = None if name is None else inner.made(name)
        if (
            held.source is not uses[0] or held.how == "filled" or name is None
            or not isinstance(made, ast.Call) or called(made) not in (*EMPTY, *FILLED)
        ):  # fmt: skip
            return
        like = "" if held.like is None else self._argument_of(held.like, given)
        for launch in inner.launches:
            for parameter, each in launch.given.items():
                read = inner._read_at(name)
                if launch.kernel.only_stores(parameter) and each in read and len(read) == 2:
                    alike = next((p for _, p, _ in inner.launched_with(like)), "") if like else ""
                    if held.how == "copied" or held.after or held.named or alike:
                        yield self._pass(
                            held, around, launch, parameter, True, uses[0], _element(made), alike
                        )

    def launched_with(self, argument: str) -> Iterator[tuple[Launch, str, ast.expr]]:
        """Yield the launches that are given an argument of the function, with the kernel's name for
        it and what is given."""
        for launch in self.launches:
            for parameter, each in launch.given.items():
                name = self.first_name(each)
                if name is not None and self.is_argument(name, argument):
                    yield launch, parameter, name

    def _argument_of(self, tensor: ast.expr, given: Mapping[str, ast.expr]) -> str:
        """The function's name for a tensor that it is given."""
        name = self.first_name(tensor)
        firsts = ((each, self.first_name(value)) for each, value in given.items())
        return next(
            (each for each, other in firsts if name and other and self.same(name, other)), ""
        )

    def _read_at(self, name: ast.expr) -> list[ast.expr]:
        """The uses of a name's tensor that may read its elements."""
        return [each for each in self.uses(name) if not self.is_of_shape(each)]

    def _before(self, launch: Launch, parameter: str, given: ast.expr) -> Iterator[HostPass]:
        """A copy of an input that kernels alone read."""
        if not launch.kernel.only_loads(parameter):
            return
        made, name = self.made(given), self.first_name(given)
        if name is not None and not self.is_loaded_alone(name):
            return
        held = self._pass_of(made)
        if held is None or held.source is None or held.how not in ("widened", "copied"):
            return
        if name is not None and not self._unchanged(held.source, made):
            return
        if not self._changed(held.source, launch):
            yield self._pass(held, made, launch, parameter, False, held.source, 0)

    def _cleared(self, launch: Launch, parameter: str, given: ast.expr) -> Iterator[HostPass]:
        """A tensor that is filled, and first used where a kernel stores all of it."""
        name = self.first_name(given)
        if name is None or parameter not in launch.kernel.fills:
            return
        made = self.made(name)
        uses = self._read_at(name)
        uses.sort(key=lambda each: (each.lineno, each.col_offset))
        if not isinstance(made, ast.Call):
            return
        held = _pass_of(made)
        if called(made) in EMPTY and uses:
            call = self.call_around(uses[0])
            if call is not None and called(call) in _FILLS:
                held, made, uses = _pass_of(call), call, uses[1:]
        if held is None or held.how != "filled":
            return
        often = sum(each in uses for each in launch.given.values())
        if uses and uses[0] is given and often == 1:
            yield self._pass(held, made, launch, parameter, False, name, 0)

    def _after(self, launch: Launch, parameter: str, given: ast.expr) -> Iterator[HostPass]:
        """A copy of a result that nothing else reads."""
        name, kernel = self.first_name(given), launch.kernel
        value = None if name is None else self.made(name)
        if not isinstance(value, ast.Call) or not kernel.only_stores(parameter):
            return
        if name is None or called(value) not in (*EMPTY, *FILLED):
            return
        others = [each for each in self._read_at(name) if each is not given]
        if len(others) != 1:
            return
        call = self.call_around(others[0])
        held = self._pass_of(call)
        if call is None or held is None or held.source is not others[0] or held.how == "filled":
            return
        if held.how == "copied" or held.after or held.named or self._like(held, launch):
            yield self._pass(held, call, launch, parameter, True, name, _element(value))

    def _pass_of(self, call: ast.expr | None) -> _Pass | None:
        """What a call does with a whole tensor, where it does nothing else, with a type that has a
        name told."""
        held = _pass_of(call) if isinstance(call, ast.Call) else None
        dtype = None if held is None or held.named is None else self.once(held.named)
        return held if held is None or dtype is None else _cast_to(held.source, [dtype])

    def _like(self, held: _Pass, launch: Launch) -> str:
        """The kernel's name for a tensor that a pass takes its result's type from."""
        name = None if held.like is None else self.first_name(held.like)
        for parameter, given in launch.given.items() if name is not None else ():
            other = self.first_name(given)
            if name is not None and other is not None and self.same(name, other):
                return parameter
        return ""

    def _pass(
        self, held: _Pass, call: ast.expr | None, launch: Launch, parameter: str, result: bool,
        tensor: ast.expr, before: int, like: str | None = None,
    ) -> HostPass:  # fmt: skip
        assert call is not None
        kernel = launch.kernel
        accesses = {*kernel.loads.get(parameter, ()), *kernel.stores.get(parameter, ())}
        how = held.how
        if result and how in ("widened", "narrowed"):
            how = "narrowed" if held.after < before else "widened"
        return HostPass(
            how, result, ast.unparse(call), lines_of(call), ast.unparse(tensor), kernel.name,
            parameter, tuple(sorted(accesses)), lines_of(launch.call), before, held.after,
            self._like(held, launch) if like is None else like,
        )  # fmt: skip

    def _unchanged(self, source: ast.expr, made: ast.expr) -> bool:
        """Whether nothing after a copy was made may change what it was made of."""
        name = self.tensor_of(source)
        return name is not None and self.is_loaded_alone(name, made.end_lineno or made.lineno)

    def _changed(self, source: ast.expr, launch: Launch) -> bool:
        """Whether a kernel may change what was copied for it, which it then needs a copy of."""
        names = [each for each in ast.walk(source) if isinstance(each, ast.Name)]
        return any(
            any(self.same(each, name) for name in names)
            for parameter, argument in launch.given.items()
            if parameter in {*launch.kernel.stores, *launch.kernel.added, *launch.kernel.unknown}
            for each in ast.walk(argument)
            if isinstance(each, ast.expr)
        )


def _pass_of(call: ast.Call) -> _Pass | None:
    """What a call does with a whole tensor, where it does nothing else."""
    function, name = call.func, called(call)
    if not isinstance(function, ast.Attribute):
        return None
    of_torch = isinstance(function.value, ast.Name) and function.value.id == "torch"
    if name in _FILLS:
        new = function.value
        return _Pass("filled", None, _element(new) if isinstance(new, ast.Call) else 0)
    if name in FILLED:
        return _Pass("filled", None, _element(call))
    if name == "clone":
        source = call.args[0] if of_torch and call.args else function.value
        return _Pass("copied", source, 0)
    if name == "copy_" and len(call.args) == 1:
        return _Pass("copied", call.args[0], 0)
    if of_torch:
        return None
    if name in CASTS and not call.args:
        return _cast(function.value, _WIDTHS[name])
    if name == "type_as" and len(call.args) == 1:
        return _Pass("widened", function.value, 0, call.args[0])
    dtype = _keyword(call, "dtype")
    if name in ("to", "type") and (call.args or dtype is not None):
        return _cast_to(function.value, [*call.args, *(each.value for each in call.keywords)])
    return None


def _cast_to(source: ast.expr | None, words: list[ast.expr]) -> _Pass | None:
    """A cast to the type that one of some arguments is; None where it may be none."""
    if width := next((w for each in words if (w := _width(ast.unparse(each)))), 0):
        return _cast(source, width)
    for each in words:
        if isinstance(each, ast.Attribute) and each.attr == "dtype":
            return _Pass("widened", source, 0, each.value)
    named = next((each for each in words if isinstance(each, ast.Name)), None)
    return None if named is None else _Pass("widened", source, 0, named=named)


def _cast(source: ast.expr | None, width: int) -> _Pass:
    """A cast to elements of so many bytes, of which four or more are taken to be wider ones."""
    return _Pass("widened" if width >= 4 else "narrowed", source, width)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _width(text: str) -> int:
    """Bytes of an element of a type, as `torch.bfloat16`; 0 for what is none."""
    module, _, name = text.rpartition(".")
    if module not in ("torch", "") or (not module and name not in _WIDTHS):
        return 0
    return 1 if name.startswith("float8") else _WIDTHS.get(name, 0)


def _element(call: ast.Call) -> int:
    """Bytes of an element of a new tensor; 0 where the text does not tell."""
    dtype = _keyword(call, "dtype")
    return _width(ast.unparse(dtype)) if dtype is not None else 0
