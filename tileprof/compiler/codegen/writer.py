"""Lines of C++ that know which line of Python they came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tileprof.errors import Location


@dataclass(frozen=True, slots=True)
class Line:
    """One line of C++; `location` is None for what belongs to no Python line."""

    text: str
    location: Location | None = None


class Writer:
    """Lines under construction; `location` is given to every line written."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.location: Location | None = None
        self._indent = ""

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self.lines.append(Line(f"{self._indent}{text}" if text else "", self.location))

    @contextmanager
    def at(self, location: Location | None) -> Iterator[None]:
        """Give a location to the lines inside, where there is one."""
        before, self.location = self.location, location or self.location
        try:
            yield
        finally:
            self.location = before

    @contextmanager
    def braces(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {`, what is written inside one level deeper, and `tail`."""
        self.line(f"{head} {{".lstrip())
        with self.deeper():
            yield
        self.close(tail)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One more level of indentation."""
        before, self._indent = self._indent, self._indent + "  "
        try:
            yield
        finally:
            self._indent = before

    def close(self, text: str) -> None:
        """A line with a closing brace: it needs no line of Python."""
        self.lines.append(Line(self._indent + text))

    def render(self, file: str) -> str:
        """The text with `#line` where a line is not what the compiler would count by itself.

        `file` is what lines without a location belong to.
        """
        out: list[str] = []
        at: tuple[str, int] = (file, 1)
        for line in self.lines:
            here = (line.location.file, line.location.line) if line.location else None
            # A brace goes with what is before it; a line of our own at the left edge is ours.
            if here is None and at[0] != file and line.text and line.text[0] not in " }":
                here = (file, len(out) + 2)
            if here is not None and here != at:
                out.append(f"#line {here[1]} {json.dumps(here[0], ensure_ascii=False)}")
                at = here
            out.append(line.text)
            at = (at[0], at[1] + 1)
        return "\n".join(out) + "\n"


_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const const_cast constexpr continue decltype default delete do double
    dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq main in frame worker run block words
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t INT64_MIN timespec"""
_RESERVED = frozenset(_KEYWORDS.split())


class Names:
    """C++ names from hints; an inner scope may reuse what a closed one had, nothing is shadowed."""

    def __init__(self) -> None:
        self._scopes: list[set[str]] = [set()]
        self._count = 0

    def fresh(self, hint: str) -> str:
        """A name near `hint` that is free here; `v0`, `v1`, … without one."""
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint)
        base = base.strip("_")
        if not base:
            self._count += 1
            return self._take(f"v{self._count - 1}")
        if base[0].isdigit() or base.lower().startswith("tp"):
            base = f"v_{base}"
        if base in _RESERVED:
            base += "_"
        return self._take(base)

    def _take(self, base: str) -> str:
        name, number = base, 0
        while any(name in scope for scope in self._scopes):
            number += 1
            name = f"{base}_{number}"
        self._scopes[-1].add(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names taken inside are free again after."""
        self._scopes.append(set())
        count = self._count
        try:
            yield
        finally:
            self._scopes.pop()
            self._count = count
