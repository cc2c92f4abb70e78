"""C++ names of kernels in few cells: whole parts are dropped, the most specific ones last.

In: a demangled name.  Out: ever shorter forms of it, for a view to take the first one that fits:

    void at::native::elementwise_kernel<4, at::native::Fill<float>, char*>(int, char*)
    at::native::elementwise_kernel<4, at::native::Fill<float>, char*>
    elementwise_kernel<4, Fill<float>, char*>
    elementwise_kernel<4, Fill<…>, …>
    elementwise_kernel<4, …>
    elementwise_kernel
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.viewer.text import Glyphs, clean

_CPP = re.compile(r"::|\(|\w<")
_PAIRS = {")": "(", ">": "<", "]": "[", "}": "{"}
_OPERATOR_CALL = "operator()"
_OPAQUE = (
    "(anonymous namespace)", _OPERATOR_CALL, "operator[]", "operator->*", "operator->",
    "operator<=>", "operator<<=", "operator>>=", "operator<<", "operator>>", "operator<=",
    "operator>=", "operator<", "operator>", "->",
)  # fmt: skip
"""Texts with brackets that enclose nothing; longer ones first."""
_STAND_INS = {text: chr(0xE000 + i) for i, text in enumerate(_OPAQUE)}
_DEEPEST = 60
_LONGEST = 20_000
_MOST_ARGUMENTS = 8
_NAMESPACES = re.compile(r"(?:[\w\ue000]+::)+(?=[\w\ue000-\ue00e~])")


@dataclass(frozen=True, slots=True)
class _Name:
    """A name without its namespaces: `base<arguments>tail`."""

    base: str
    arguments: tuple[_Name, ...] = ()
    tail: str = ""

    def text(self, kept: int, levels: int) -> str:
        """Return the name with at most `kept` arguments, in its outer `levels` levels only."""
        if not self.arguments:
            return f"{self.base}{self.tail}"
        if not levels:
            return f"{self.base}<…>{self.tail}"
        shown = [each.text(len(each.arguments), levels - 1) for each in self.arguments[:kept]]
        rest = ["…"] if kept < len(self.arguments) else []
        return f"{self.base}<{', '.join([*shown, *rest])}>{self.tail}"


@functools.lru_cache(maxsize=16_384)
def printed_forms(name: str, glyphs: Glyphs) -> tuple[str, ...]:
    """Return the short forms of a name as they are safe to print."""
    return tuple(clean(form, glyphs) for form in short_forms(name))


def short_forms(name: str) -> tuple[str, ...]:
    """Return other forms of a C++ name, longest first; none for other names."""
    if not _CPP.search(name) or len(name) > _LONGEST or not _is_readable(text := _hidden(name)):
        return ()
    plain = _without_signature(text)
    parsed = _parsed(plain)
    most = min(len(parsed.arguments), _MOST_ARGUMENTS)
    few = {parsed.text(kept, levels) for kept in range(1, most + 1) for levels in (1, 2, _DEEPEST)}
    forms = {plain, parsed.text(len(parsed.arguments), _DEEPEST), *few}
    if most != 1:  # a template around one other thing says nothing without it
        forms.add(parsed.base)
    shown = {_shown(form) for form in forms}
    return tuple(sorted((form for form in shown if 0 < len(form) < len(name)), key=_by_length))


def _by_length(form: str) -> tuple[int, str]:
    return (-len(form), form)


def _hidden(name: str) -> str:
    for text, stand_in in _STAND_INS.items():
        name = name.replace(text, stand_in)
    return name


def _shown(name: str) -> str:
    for text, stand_in in _STAND_INS.items():
        name = name.replace(stand_in, text)
    return name


def _is_readable(text: str) -> bool:
    """Return whether all brackets have partners, and nest at most `_DEEPEST` levels."""
    pending: list[str] = []
    for character in text:
        if character in "(<[{":
            pending.append(character)
            if len(pending) > _DEEPEST:
                return False
        elif character in _PAIRS and (not pending or pending.pop() != _PAIRS[character]):
            return False
    return not pending


def _outside(text: str) -> Iterator[int]:
    """Yield the places in `text` that are in no brackets; an opening bracket itself is."""
    depth = 0
    for place, character in enumerate(text):
        depth -= character in _PAIRS
        if not depth and character not in _PAIRS:
            yield place
        depth += character in "(<[{"


def _split(text: str, separator: str) -> list[str]:
    parts, start = [], 0
    for place in _outside(text):
        if place >= start and text.startswith(separator, place):
            parts.append(text[start:place])
            start = place + len(separator)
    return [*parts, text[start:]]


def _without_signature(text: str) -> str:
    """Return a function's name without what it returns and takes."""
    lists = [place for place in _outside(text) if text[place] == "(" and place]
    if not lists:
        return text
    head = text[: lists[-1]].rstrip()
    spaces = [place for place in _outside(head) if head[place] == " "]
    return head[spaces[-1] + 1 :] if spaces else head


def _parsed(text: str) -> _Name:
    parts = _split(text.strip(), "::")
    # The function around a lambda is more specific than the lambda.
    named = [p for p in parts if p[:1] not in ("{", _STAND_INS[_OPERATOR_CALL])] or parts
    part = named[-1]
    places = list(_outside(part))
    parameters = next((place for place in places if part[place] == "(" and place), len(part))
    part = part[:parameters].strip()
    opening = next((place for place in places if part.startswith("<", place)), 0)
    if not opening:
        return _Name(_NAMESPACES.sub("", part))
    closing = next((p for p in places if p > opening), len(part)) - 1
    if part[closing] != ">":
        closing = part.rindex(">")
    arguments = _split(part[opening + 1 : closing], ",")
    return _Name(part[:opening], tuple(map(_parsed, arguments)), part[closing + 1 :])
