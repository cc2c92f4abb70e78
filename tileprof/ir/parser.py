"""Read the text form of a kernel back (see `printer.py`).

A text may come from anyone, within a saved kernel or a profile: whatever is wrong with it is a
KernelError at its line, and its size and depth are limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast, get_args

from tileprof.errors import KernelError, Location

from .attribute_types import is_shape, problem_of
from .core import OPS, Block, OpBase, Value
from .kernel import Kernel, Param, Role, Site, SiteKind, State
from .types import DTYPES, HANDLES, BufferType, Dim, DType, Space, Type, index

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<value>%\w+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+|inf\b|nan\b))
      | (?P<arrow><-)
      | (?P<word>[A-Za-z_][\w.]*)
      | (?P<mark>[@(){}\[\]<>:,=_-])""",
    re.VERBOSE | re.ASCII,
)


MOST_CHARACTERS = 4 << 20
"""Length of a text.  The largest kernels of the case studies have 0.3 million characters."""
DEEPEST = 100
"""Regions within each other; every pass recurses into them."""
DEEPEST_ATTRIBUTE = 16
"""Lists within each other."""
_LONGEST_NAME = 200
_WIDEST = 1 << 64
"""Numbers are below this: the largest is one of uint64."""


def parse(text: str, *, file: str = "<ir>") -> Kernel:
    """Return the kernel that `text` describes; KernelError with the line where it is wrong."""
    return _Parser(text, file).kernel()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._token = _Token("start", "", 1, 0)
        if len(text) > MOST_CHARACTERS:
            self._fail(f"a kernel of {len(text):,} characters; {MOST_CHARACTERS:,} can be read")
        self._tokens = self._split(text)
        self._token = next(self._tokens)
        self._depth = 0
        self._values: dict[str, Value] = {}

    def _split(self, text: str) -> Iterator[_Token]:
        at, line, start = 0, 1, 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            kind = found.lastgroup if found else "bad"
            piece = found.group() if found else text[at]
            token = _Token(kind or "bad", piece, line, at - start)
            if kind == "bad":
                self._fail(f"`{piece}` is not part of the text form", token)
            if kind != "skip":
                yield token
            if newlines := piece.count("\n"):
                line += newlines
                start = at + piece.rindex("\n") + 1
            at += len(piece)
        yield _Token("end", "", line, 0)

    def _fail(self, message: str, token: _Token | None = None) -> NoReturn:
        at = token or self._token
        raise KernelError(message, location=Location(self._file, at.line, at.column))

    # -- tokens

    def _peek(self) -> str:
        return self._token.text

    def _next(self, kind: str | None = None) -> str:
        token = self._token
        if token.kind == "end":
            self._fail("the kernel ends too early")
        if kind is not None and token.kind != kind:
            self._fail(f"expected a {kind}, found `{token.text:.80}`")
        self._token = next(self._tokens)
        return token.text

    def _take(self, text: str) -> bool:
        # A string is never a mark or a word, whatever it holds: its quotes are part of its text.
        if self._token.text != text or self._token.kind == "end":
            return False
        self._token = next(self._tokens)
        return True

    def _integer(self) -> int:
        token, text = self._token, self._next("number")
        value = _number(text)
        if not isinstance(value, int):
            self._fail(f"`{text:.80}` is not a whole number of 64 bits", token)
        return value

    def _string(self) -> str:
        token, text = self._token, self._next("string")
        try:
            return str(json.loads(text))
        except ValueError:
            self._fail(f"{text:.80} is not a string", token)

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._take(text):
                self._fail(f"expected `{text}`, found `{self._peek()}`")

    def _many(self, close: str) -> Iterator[None]:
        """One turn an element of a comma-separated list, up to and with `close`."""
        if self._take(close):
            return
        while True:
            yield
            if self._take(close):
                return
            self._expect(",")

    # -- structure

    def kernel(self) -> Kernel:
        self._expect("kernel", "@")
        name = self._next("word")
        if len(name) > _LONGEST_NAME:
            self._fail(f"the kernel's name has {len(name)} characters")
        self._expect("(")
        params, args = [], []
        for _ in self._many(")"):
            param, value = self._param()
            params.append(param)
            args.append(value)
        symbols = []
        if self._take("symbols"):
            self._expect("(")
            for _ in self._many(")"):
                args.append(self._define(self._next("value"), index))
                symbols.append(args[-1].name)
        location = self._location()
        self._expect("{")
        sites = []
        while self._take("site"):
            sites.append(self._site())
        states: list[State] = []
        while self._take("state"):
            states.append(self._state(len(states)))
        body = Block(args, self._ops())
        if self._token.kind != "end":
            self._fail(f"`{self._peek():.80}` after the end of the kernel")
        held = tuple(sites), location, tuple(states)
        return Kernel(name, tuple(params), tuple(symbols), body, *held)

    def _param(self) -> tuple[Param, Value]:
        text = self._next("value")
        self._expect(":")
        role: Role = "out" if self._take("out") else "in"
        value = self._define(text, self._type())
        safe: Any = 0
        if self._take("safe"):
            self._expect("(")
            safe, token = self._attribute(), self._token
            if not isinstance(safe, int | float):
                self._fail("a safe value is a number", token)
            self._expect(")")
        return Param(value.name, value.type, role, safe), value

    def _site(self) -> Site:
        number, token = self._integer(), self._token
        kind = self._next("word")
        if kind not in get_args(SiteKind):
            self._fail(f"`{kind:.80}` is not a kind of site", token)
        name = self._string()
        parent = self._integer() if self._take("in") else None
        issues = self._string() if self._take("issues") else ""
        retires = self._string() if self._take("retires") else ""
        pending = self._integer() if self._take("pending") else 0
        queues = issues, retires, pending
        return Site(number, name, cast(SiteKind, kind), self._location(), parent, *queues)

    def _state(self, number: int) -> State:
        if self._integer() != number:
            self._fail(f"state {number} is missing")
        site = self._integer() if self._take("in") else -1
        return State(site, self._integer() if self._take("from") else 0)

    def _define(self, text: str, type: Type) -> Value:
        name = text[1:]
        value = Value(type, "" if name.isdigit() else name)
        self._values[text] = value
        return value

    def _ops(self) -> list[OpBase]:
        made = []
        while not self._take("}"):
            made.append(self._op())
        return made

    def _op(self) -> OpBase:
        names: list[str] = []
        while self._token.kind == "value":
            names.append(self._next())
            self._expect("=" if self._peek() == "=" else ",")
        start = self._token
        mnemonic = self._next("word")
        cls = OPS.get(mnemonic)
        if cls is None:
            self._fail(f"there is no op `{mnemonic:.80}`", start)
        spec = cls.SPEC
        held: dict[str, Any] = {}
        if spec.mnemonic_field:
            held[spec.mnemonic_field] = mnemonic
        for field in spec.positional:
            held[field] = self._attribute()
        for number, (field, many) in enumerate(spec.operands):
            optional = cls.__dataclass_fields__[field].default is None
            if number:
                # Optional operands at the end are left out where they are absent.
                if optional and self._peek() != ",":
                    break
                self._expect(",")
            held[field] = self._operand(many, optional=optional)
        held |= self._named_attributes(cls)
        types = self._result_types() if names else []
        if any(n == "dtype" for n, _ in spec.attributes):
            if len(types) != 1:
                self._fail(f"`{mnemonic}` needs the type of its result", start)
            type = types[0]
            held["dtype"] = type.dtype if isinstance(type, BufferType) else type
        held["span"] = self._location()
        for field in spec.regions:
            held[field] = self._region(field)
        return self._build(cls, held, names, types, start)

    def _build(
        self,
        cls: type[OpBase],
        held: dict[str, Any],
        names: list[str],
        types: list[Type],
        start: _Token,
    ) -> OpBase:
        if problem := problem_of(cls, held):
            self._fail(f"`{start.text}`: {problem}", start)
        try:
            made = cls(**held)
        except (TypeError, ValueError, AttributeError) as error:
            # What a result is follows from the operands, which are not checked yet.
            self._fail(f"`{start.text}`: {error}", start)
        # Results may be left without a name where nothing uses them.
        if names and [v.type for v in made.results] != types:
            found = ", ".join(str(v.type) for v in made.results)
            self._fail(f"`{start.text}` gives {found}, the text says otherwise", start)
        for text, value in zip(names, made.results):
            value.name = "" if text[1:].isdigit() else text[1:]
            made.hint = value.name
            self._values[text] = value
        return made

    def _result_types(self) -> list[Type]:
        self._expect(":")
        types = [self._type()]
        while self._take(","):
            types.append(self._type())
        return types

    def _region(self, name: str) -> Block:
        self._expect(name)
        args = []
        if self._take("("):
            for _ in self._many(")"):
                text = self._next("value")
                self._expect(":")
                args.append(self._define(text, self._type()))
        self._expect("{")
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"more than {DEEPEST} regions within each other")
        made = Block(args, self._ops())
        self._depth -= 1
        return made

    # -- leaves

    def _operand(self, many: bool, *, optional: bool) -> Value | list[Value] | None:
        if many:
            self._expect("[")
            return [self._value() for _ in self._many("]")]
        return None if optional and self._take("_") else self._value()

    def _value(self) -> Value:
        token = self._token
        text = self._next("value")
        if text not in self._values:
            self._fail(f"{text} is used before it is defined", token)
        return self._values[text]

    def _named_attributes(self, cls: type[OpBase]) -> dict[str, Any]:
        spec = cls.SPEC
        held: dict[str, Any] = {}
        if self._take("{"):
            for _ in self._many("}"):
                token, name = self._token, self._next("word")
                if name in held or name not in (n for n, _ in spec.attributes):
                    self._fail(
                        f"`{spec.name}` has no attribute `{name:.80}`, or has it twice", token
                    )
                self._expect("=")
                held[name] = self._read(cls, name)
        return held

    def _read(self, cls: type[OpBase], name: str) -> Any:
        """Return an attribute, made into its own type where it has one."""
        token, held = self._token, self._attribute()
        read = cls.__dataclass_fields__[name].metadata["read"]
        if read is None:
            return held
        try:
            return read(held)
        except ValueError as error:
            self._fail(f"`{name}`: {error}", token)

    def _attribute(self, depth: int = 0) -> Any:
        token = self._token
        if self._take("["):
            if depth == DEEPEST_ATTRIBUTE:
                self._fail(f"more than {DEEPEST_ATTRIBUTE} lists within each other", token)
            return tuple(self._attribute(depth + 1) for _ in self._many("]"))
        match token.kind, token.text:
            case "string", _:
                return self._string()
            case "number", text:
                value = _number(self._next())
                if value is None:
                    self._fail(f"`{text:.80}` is not a number of 64 bits", token)
                return value
            case "word", "true" | "false":
                return self._next() == "true"
            case "word", "none":
                self._next()
                return None
            case "word", _:
                return self._next()
            case _:
                self._fail(f"`{token.text:.80}` is not an attribute", token)

    def _type(self) -> Type:
        word = self._next("word")
        if self._peek() != "<":
            if word not in DTYPES and word not in HANDLES:
                self._fail(f"`{word:.80}` is not a type")
            return DTYPES.get(word) or HANDLES[word]
        self._expect("<")
        dims: list[Dim] = []
        element: DType | None = None
        strides: tuple[Dim, ...] | None = None
        for _ in self._many(">"):
            token, text = self._token, self._next()
            if text == "strides":
                self._expect("=")
                strides = self._attribute()
            elif text in DTYPES and self._peek() in (">", ","):
                element = DTYPES[text]
            elif token.kind == "word":
                dims.append(text)
            elif token.kind == "number" and isinstance(extent := _number(text), int):
                dims.append(extent)
            else:
                self._fail(f"`{text:.80}` is not an extent", token)
        if element is None:
            self._fail("a buffer type ends in its element type")
        if word not in get_args(Space):
            self._fail(f"`{word:.80}` is not a memory space")
        if any(isinstance(d, int) and d < 0 for d in dims):
            self._fail("an extent is negative")
        made = BufferType(tuple(dims), element, cast(Space, word), strides)
        if strides is not None and not (is_shape(strides) and len(strides) == made.rank):
            self._fail("a buffer has one stride for each dimension, a number or a symbol")
        return made

    def _location(self) -> Location | None:
        if not self._take("loc"):
            return None
        self._expect("(")
        chain = [self._span()]
        while self._take("<-"):
            chain.append(self._span())
        self._expect(")")
        result: Location | None = None
        for file, numbers, function in reversed(chain):
            line, column, end_line, end_column = numbers
            result = Location(file, line, column, end_line, end_column, function, result)
        return result

    def _span(self) -> tuple[str, list[int], str]:
        file = self._string()
        numbers = []
        for mark in (":", ":", "", ":"):
            # `4-12` is read as the numbers 4 and -12: the sign belongs to the range.
            if mark:
                self._expect(mark)
            numbers.append(abs(self._integer()))
        return file, numbers, self._string()


def _number(text: str) -> int | float | None:
    """Return the number that a token names; None where no type holds it."""
    if not text.lstrip("-").isdigit():
        return float(text)
    # Longer ones are not even converted: that takes time that grows with the square of the length.
    value = int(text) if len(text) <= 21 else _WIDEST
    return value if abs(value) < _WIDEST else None
