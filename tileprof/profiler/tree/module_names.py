"""Names of modules as the program writes them where it calls them: `mlp`, `h.*`, `model.encoder`.

In: the code and instruction of the frames that lead to PyTorch's `Module.__call__`. Out: a name,
relative to the module whose forward pass makes the call, or None.

`self.mlp(x)` calls `mlp`, `for block in self.h: block(x)` calls `h.*`. So layers that a loop goes
through are one, and a module that is called by several names is told apart by them. Nothing is read
from modules: recording costs the same, and models may be gone when the tree is made. Bytecode tells
which call of a line it is; the source is read for its text alone.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import textwrap
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Literal, TypeAlias

from tileprof.profile.node_names import MODULE_CALLER, MODULE_FILE
from tileprof.profiler.tree.sources import of_user

LONGEST = 100
"""Characters of a name at most: longer ones are no help in a tree."""
MAX_KNOWN = 10_000
"""Calls that are remembered: a program that makes code without end begins anew."""
MOST_PASSING_ON = 16
"""Frames that are asked at most: decorators stand between `checkpoint` and its caller."""
_DEEPEST = 8
"""Names that lead to each other, as in `layer = block`, are followed so far."""
_SAME_ELEMENTS = {"reversed", "list", "tuple", "iter", "sorted"}
_MODULES_OF = {"children", "modules", "values"}
_NAMED_MODULES_OF = {"items", "named_children", "named_modules"}

Call = tuple[CodeType, int]
"""Code of a frame, and the offset of the instruction that it is at, in bytes."""
Asked: TypeAlias = Literal["called", "given", "receiver"]
"""Part of a frame's call that is the module: what is called, its first argument, or the object
whose method is called."""
_known: dict[tuple[int, int, Asked], tuple[CodeType, str | _Passed | None]] = {}
"""Names by identity of code and offset, and part of the call; holds the code, so that no other gets
its identity."""


def calls_modules(code: CodeType) -> bool:
    """Tell whether this is the code of PyTorch's that every call of a module goes through first."""
    path = code.co_filename.replace("\\", "/")
    return code.co_name == MODULE_CALLER and path.endswith(MODULE_FILE)


def called_as(callers: Iterable[Call]) -> str | None:
    """Return the name by which a module is called; None where the source does not tell it.

    `callers` are the frames around PyTorch's own, innermost first. Some only pass the call on: a
    class that extends `Module.__call__` by `super()`, a library's function that calls what it was
    given, as `checkpoint(layer, x)`, and a method that calls its own object, as `generate` of
    `model.generate(x)`. Then the frames around those are asked.
    """
    asked: Asked = "called"
    for code, offset in itertools.islice(callers, MOST_PASSING_ON):
        if asked == "receiver" and calls_modules(code):
            return None  # `self(x)` in its own forward pass
        found = _name_at(code, offset, asked)
        if isinstance(found, str):
            return found
        if found is None:
            return None
        asked = found.asked
    return None


@dataclass(frozen=True, slots=True)
class _Passed:
    """A frame only passes a call on."""

    asked: Asked
    """Part of the call around that is the module: this frame was given what it calls, calls its own
    object, or calls the same object by `super`."""


def _name_at(code: CodeType, offset: int, asked: Asked) -> str | _Passed | None:
    """Return the name of the module in a frame's call, which is the part `asked` of it."""
    key = id(code), offset, asked
    found = _known.get(key)
    if found is None:
        try:
            name = _resolved(code, offset, asked)
        except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
            name = None  # the file is no longer what runs
        if isinstance(name, str) and len(name) > LONGEST:
            name = None
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        found = _known[key] = code, name
    return found[1]


def _resolved(code: CodeType, offset: int, asked: Asked) -> str | _Passed | None:
    lines = linecache.getlines(code.co_filename)
    text = _text_at(code, offset, lines)
    if not text:
        return None
    call = ast.parse(f"({text})", mode="eval").body
    if not isinstance(call, ast.Call):
        return None
    if asked == "given" and not call.args:
        return None  # `trainer.train()`: the module is not handed over by this call
    module = _first_given(call) if asked == "given" else call.func
    if module is None:
        return _Passed("given")
    if _is_super(module):
        return _Passed("called")
    whole = code.co_name == "<module>"
    function = lines if whole else inspect.getblock(lines[max(code.co_firstlineno - 1, 0) :])
    names = _Bindings(ast.parse(textwrap.dedent("".join(function))), code)
    if asked == "receiver":
        return names.receiver_of(call)
    name = names.name_of(module)
    if name == "":
        return _Passed("receiver")
    if name:
        return name
    # A variable that the function was not given is what a library made: nobody handed it over.
    handed = isinstance(module, ast.Name) and module.id in _parameters(code)
    return _Passed("given") if handed and not names.is_users else None


def _parameters(code: CodeType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without `*args` and `**kwargs`."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _first_given(call: ast.Call) -> ast.expr | None:
    """Return the module that a call hands over: its first argument, also within `partial`, and
    without `.forward` or `.__call__`; None where that is `*args`."""
    first = call.args[0] if call.args else None
    match first:
        case ast.Starred():
            return None
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial")):
            return _first_given(first)
        case ast.Attribute(attr="forward" | "__call__", value=of) if not _is_super(first):
            return of
    return first


def _text_at(code: CodeType, offset: int, lines: list[str]) -> str:
    """Return the source of the expression that an instruction is of; "" where it is unknown."""
    positions = itertools.islice(code.co_positions(), offset // 2, None)
    first, last, begin, end = next(positions, (None, None, None, None))
    if first is None or last is None or begin is None or end is None or last > len(lines):
        return ""
    held = [line.encode() for line in lines[first - 1 : last]]  # columns count bytes
    held[-1] = held[-1][:end]
    held[0] = held[0][begin:]
    return b"".join(held).decode(errors="replace")


def _is_super(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr == "__call__"
        and isinstance(called.value, ast.Call)
        and isinstance(called.value.func, ast.Name)
        and called.value.func.id == "super"
    )


class _Bindings:
    """The expressions that a function binds its local names to."""

    def __init__(self, function: ast.AST, code: CodeType) -> None:
        # A comprehension is a function of its own before Python 3.12, whose `self` is another's.
        self._self = {"self"}
        if code.co_argcount and code.co_qualname.rpartition(".")[0].rpartition(">")[2]:
            self._self.add(code.co_varnames[0])
        self.is_users = of_user(code.co_filename)
        self._held: dict[str, list[tuple[ast.expr, bool]]] = {}
        """The expressions that a name is bound to, and whether to an element of each."""
        for node in ast.walk(function):
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                self._bind_elements(node.target, node.iter)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._bind(node.targets[0], node.value, elements=False)

    def receiver_of(self, call: ast.Call) -> str | _Passed | None:
        """Return the name of the object whose method is called; None where that is not told.

        A decorator's `function(*args)` hands its object on, and so does `method(self, x)`.
        """
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))):
                return _Passed("receiver")
            case ast.Call(func=ast.Attribute(value=of)):
                name = self.name_of(of)
                if name == "":
                    return _Passed("receiver")
                return name if self.is_users else None
            case ast.Call(func=ast.Name(id=function), args=[ast.Starred(), *_]):
                return None if function in self._held else _Passed("receiver")
            case ast.Call(func=ast.Name(), args=[ast.Name(id=first), *_]) if first in self._self:
                return _Passed("receiver")
        return None

    def name_of(self, called: ast.expr, depth: int = 0) -> str | None:
        """Return the name of what an expression gives; "" for the object whose method it is."""
        if depth > _DEEPEST:
            return None
        match called:
            case ast.Attribute(value=of, attr="__call__" | "forward"):
                return self.name_of(of, depth + 1)
            case ast.IfExp(body=one, orelse=other):
                names = {self.name_of(each, depth + 1) for each in (one, other)} - {None}
                return names.pop() if len(names) == 1 else None
            case ast.Name(id=name):
                return self._name_of_variable(name, depth)
            case ast.Attribute(value=of, attr=attribute):
                return _joined(self.name_of(of, depth + 1), attribute)
            case ast.Subscript(value=of, slice=ast.Slice()):
                return self.name_of(of, depth + 1)
            case ast.Subscript(value=of, slice=ast.Constant(value=int() | str() as index)):
                return _joined(self.name_of(of, depth + 1), str(index))
            case ast.Subscript(value=of):
                return _joined(self.name_of(of, depth + 1), "*")
            case ast.Call(func=ast.Name(id="getattr"), args=[of, attribute]):
                return _joined(self.name_of(of, depth + 1), _pattern(attribute))
        return None

    def _name_of_variable(self, name: str, depth: int) -> str | None:
        if name in self._self:
            return ""
        bound = self._held.get(name)
        if bound is None:
            # A parameter or a global: what it is called in a library tells a user nothing.
            return name if self.is_users else None
        found = {
            self._element_of(each, depth + 1) if element else self.name_of(each, depth + 1)
            for each, element in bound
        }
        known = found - {None}
        return known.pop() if len(known) == 1 else name if self.is_users else None

    def _element_of(self, many: ast.expr, depth: int) -> str | None:
        match many:
            case ast.Call(func=ast.Name(id=function), args=[of, *_]) if function in _SAME_ELEMENTS:
                return self._element_of(of, depth + 1)
            case ast.Call(func=ast.Attribute(value=of, attr=method)) if method in (
                _MODULES_OF | _NAMED_MODULES_OF
            ):
                return _joined(self.name_of(of, depth + 1), "*")
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return _joined(self.name_of(many, depth + 1), "*")
        return None

    def _bind(self, target: ast.expr, value: ast.expr, elements: bool) -> None:
        if isinstance(target, ast.Name):
            self._held.setdefault(target.id, []).append((value, elements))

    def _made(self, many: ast.expr) -> ast.expr:
        """Return what a loop goes through without names and copies: `zip(…)` of
        `blocks = list(zip(…))`."""
        for _ in range(_DEEPEST):
            match many:
                case ast.Name(id=name) if len(held := self._held.get(name, [])) == 1:
                    value, is_element = held[0]
                    if is_element or not isinstance(value, ast.Call):
                        break
                    many = value
                case ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.Call() as of]):
                    many = of
                case _:
                    break
        return many

    def _bind_elements(self, target: ast.expr, many: ast.expr) -> None:
        """Bind the targets of a loop to the elements of what it goes through."""
        match target, self._made(many):
            case (
                ast.Tuple(elts=[_, element]),
                ast.Call(func=ast.Name(id="enumerate"), args=[of, *_]),
            ):
                self._bind_elements(element, of)
            case ast.Tuple(elts=elements), ast.Call(func=ast.Name(id="zip"), args=several):
                for element, of in zip(elements, several, strict=False):
                    self._bind_elements(element, of)
            case (
                ast.Tuple(elts=[_, element]),
                ast.Call(func=ast.Attribute(attr=method)),
            ) if method in _NAMED_MODULES_OF:
                self._bind(element, many, elements=True)
            case _:
                self._bind(target, many, elements=True)


def _joined(of: str | None, attribute: str | None) -> str | None:
    if of is None or attribute is None:
        return None
    return f"{of}.{attribute}" if of else attribute


def _pattern(attribute: ast.expr) -> str | None:
    """Return the text of an attribute's name, with `*` for what varies."""
    match attribute:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts
            )
    return None
