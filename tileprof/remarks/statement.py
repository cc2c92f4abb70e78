"""Statements of remarks, as codes with typed facts; the sentence is rendered from them.

    class RowStride(Reason):
        text = "row stride {stride} B is not a multiple of {multiple} B, {instruction} needs it"
        stride: Annotated[int, "B"]
        multiple: Annotated[int, "B"]
        instruction: str

    class NoFloat64(Reason, text="it multiplies no float64"): ...

Every class that has a `text`, in its body or its head, is one code of a closed set: `row-stride`. A
part of the text in `[[…]]` is left out where all its facts are empty, one in `[[name?…]]` where
that fact is.  Facts are numbers, truth values, texts, other statements, and tuples of those;
building a statement with unknown, missing or mistyped facts raises `TypeError`.  After `:` in a
field stands a word to count ("3 sectors"), Python's own format, or what joins the members of a
tuple.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    SupportsFloat,
    SupportsIndex,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

Bytes = Annotated[int, "bytes"]
Line = Annotated[int, "line of the author's file, 0 where it is not known"]
Nanoseconds = Annotated[float, "ns"]
Registers = Annotated[int, "registers a thread"]
Share = Annotated[float, "0 to 1"]

CODES: dict[str, type[Statement]] = {}
"""Every statement that there is, by its code."""

DEEPEST = 8
"""Statements within each other; the compiler has three."""

_LARGEST = 1 << 63
FIELD = re.compile(r"\{(\w+)(?::([^}]*))?\}")
_SECTION = re.compile(r"\[\[(.*?)\]\](?!\])")
_ASKED = re.compile(r"(\w+)\?(.*)", re.DOTALL)
COUNTED = re.compile(r"[a-z][a-zA-Z -]+")
"""Form of a number that counts things: the word for one of them."""
JOINED = re.compile(r"([a-z ]*)([&|;,+])")
"""Form of a tuple: the word before its members, and what stands between them."""
_Made = TypeVar("_Made", bound="Statement")


@dataclass_transform(frozen_default=True)
class Statement:
    """A code with its facts."""

    text: ClassVar[str]
    """Form in which it is rendered."""

    def __init_subclass__(cls, text: str = "") -> None:
        if text:
            cls.text = text
        if "text" in cls.__dict__:
            if cls.code() in CODES:
                raise TypeError(f"two statements have the code `{cls.code()}`")
            CODES[cls.code()] = cls

    def __init__(self, *values: Any, **facts: Any) -> None:
        hints = hints_of(type(self))
        given = dict(zip(hints, values)) | facts
        if len(given) < len(values) + len(facts) or not given.keys() <= hints.keys():
            raise TypeError(f"`{self.code()}` has the facts {list(hints)}, not {list(given)}")
        for name, wanted in hints.items():
            if name in given:
                self.__dict__[name] = _checked(wanted, given[name], f"{self.code()}.{name}")
            elif not hasattr(type(self), name):
                raise TypeError(f"`{self.code()}` lacks the fact `{name}`")

    @classmethod
    def code(cls) -> str:
        """Return the name that files and exports have for it."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def facts(self) -> dict[str, Any]:
        """Facts by name, in the order of their declaration."""
        return {name: getattr(self, name) for name in hints_of(type(self))}

    def within(self) -> Iterator[Statement]:
        """Yield this statement and all that it names among its facts."""
        yield self
        for value in self.facts.values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Statement):
                    yield from each.within()

    def __str__(self) -> str:
        return self.rendered(self.text)

    def rendered(self, text: str) -> str:
        """Return the sentence of another text of the same facts, such as an earlier wording."""
        shown = ""
        for part in parts_of(text):
            if not part.asked or any(getattr(self, name) for name in part.asked):
                shown += FIELD.sub(lambda f: _shown(getattr(self, f[1]), f[2] or ""), part.text)
        return shown

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.facts == getattr(other, "facts", None)

    def __hash__(self) -> int:
        return hash((type(self), *self.facts.values()))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
        return f"{type(self).__name__}({facts})"


class Decision(Statement):
    """Choice for an op, or measurement at it."""


class Candidate(Statement):
    """Alternative that could have been chosen."""


class Reason(Statement):
    """Reason against a candidate."""


# -- facts


_HINTS: dict[type[Statement], dict[str, Any]] = {}


def hints_of(code: type[Statement]) -> dict[str, Any]:
    """Return the types of the facts of a code, by name, with their units as `Annotated`."""
    if code not in _HINTS:
        hints = get_type_hints(code, include_extras=True)
        _HINTS[code] = {n: t for n, t in hints.items() if get_origin(t) is not ClassVar}
    return _HINTS[code]


def _checked(wanted: Any, value: Any, name: str) -> Any:
    """Return a fact as the declared type; TypeError where it is of another."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _checked(arguments[0], value, name)
    if origin is tuple and isinstance(value, tuple):
        return tuple(_checked(arguments[0], each, name) for each in value)
    if origin is Literal:
        if value in arguments:
            return value
    elif wanted is bool or (isinstance(wanted, type) and issubclass(wanted, str | Statement)):
        if isinstance(value, wanted):
            return value
    elif wanted is int and _is_whole(value):
        if abs(number := operator.index(value)) < _LARGEST:
            return number
    elif wanted is float and _is_number(value):
        return float(value)
    raise TypeError(f"the fact `{name}` cannot be {value!a:.60}")


def _is_whole(value: Any) -> bool:
    # The check of a protocol takes a hundred times as long as that of the type.
    return type(value) is int or (isinstance(value, SupportsIndex) and not isinstance(value, bool))


def _is_number(value: Any) -> bool:
    known = isinstance(value, SupportsFloat) and not isinstance(value, bool)
    return known and math.isfinite(value)


# -- the text


class Part(NamedTuple):
    """A part of a text."""

    text: str
    asked: tuple[str, ...]
    """Facts of which one has to hold; empty where the part always stands."""


@cache
def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of a text, in order."""
    found = []
    for at, piece in enumerate(_SECTION.split(text)):
        if at % 2 and (asked := _ASKED.fullmatch(piece)):
            found.append(Part(asked[2], (asked[1],)))
        elif at % 2:
            found.append(Part(piece, tuple(name for name, _ in FIELD.findall(piece))))
        elif piece:
            found.append(Part(piece, ()))
    return tuple(found)


def _shown(value: Any, form: str) -> str:
    if isinstance(value, tuple):
        return _joined([str(each) for each in value], form)
    if form == "KB":
        return _kilobytes(value * 10 // 1024)  # rounded down, so that what is said to fit does
    if form == "kB":
        return _kilobytes(-(-value * 10 // 1024)) if value >= 1024 else f"{value} bytes"
    if COUNTED.fullmatch(form):
        return f"{value} {form}" if value == 1 else f"{value} {form}s"
    return format(value, form) if form else str(value)


def _joined(words: list[str], form: str) -> str:
    """Members of a tuple: `line &` gives "line 3" or "lines 3, 4 and 5"."""
    match = JOINED.fullmatch(form)
    assert match is not None, form
    noun, sign = match.groups()
    if noun:
        noun = noun if len(words) == 1 else f"{noun.rstrip()}s "
    if sign in "&|" and len(words) > 1:
        *most, last = words
        words = [", ".join(most) + (" and " if sign == "&" else " or ") + last]
    return noun + (f" {sign} " if sign == "+" else f"{sign} ").join(words)


def _kilobytes(tenths: int) -> str:
    return f"{tenths // 10} KB" if tenths % 10 == 0 else f"{tenths / 10:.1f} KB"


# -- as JSON has it


class UnknownCodeError(ValueError):
    """A code that nothing declares, such as one of a later version."""


def plain(value: Any) -> Any:
    """Return a fact as JSON has it; a statement as `{"code": …, "facts": {…}}`."""
    if isinstance(value, Statement):
        return {"code": value.code(), "facts": {n: plain(v) for n, v in value.facts.items()}}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def from_plain(kind: type[_Made], code: Any, facts: Any, depth: int = DEEPEST) -> _Made:
    """Return the statement of a code; ValueError where there is none of that kind, where its facts
    are not those of the code, or where statements lie too deep in each other."""
    found = CODES.get(code) if isinstance(code, str) else None
    if found is None or not issubclass(found, kind):
        error = UnknownCodeError if found is None and isinstance(code, str) else ValueError
        raise error(f"no {kind.__name__.lower()} has the code {code!a:.60}")
    if not isinstance(facts, Mapping) or depth == 0:
        raise ValueError(f"the facts of `{code}` are none")
    try:
        return found(**{str(name): _fact(value, depth) for name, value in facts.items()})
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None


def _fact(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        if value.keys() != {"code", "facts"}:
            raise ValueError("a fact is an object that is no statement")
        return from_plain(Statement, value["code"], value["facts"], depth - 1)
    return tuple(_fact(each, depth) for each in value) if isinstance(value, list) else value
