"""Lines of CUDA as a text that is pleasant to read, and that text as a compiler needs it.

A compiler counts lines on from a `#line`, so a statement of Python that becomes ten lines of CUDA
would need ten of them.  In the text that is kept and shown, a `#line` holds up to the next one;
`pinned` writes the others out before the text is compiled.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from tileprof.compiler.codegen.writer import Line

_DIRECTIVE = re.compile(r'^#line (?P<line>\d+)(?: (?P<file>".*"))?$')
_NO_CODE = re.compile(r"^(|\s*(//.*|#pragma .*|TP_UNROLL\w*(\(\d+\))?)|\s+({|}|} else {))$")
_SCALAR = re.compile(r"^ *const (?:int|int64_t|unsigned) (?P<name>\w+) = (?P<value>[^;\[]*);$")
_CALL = re.compile(r"(\w+)(?:<\w+>)?\(")
_WORD = re.compile(r"\w+")
_PURE = {"tp_uniform", "tp_min", "tp_max", "tp_floordiv", "tp_floormod"}


def render(lines: Sequence[Line], file: str) -> str:
    """The text, with a `#line` where another line of Python begins; `file` is its own name."""
    out: list[str] = []
    at = own = (file, 0)
    python = ""
    for line in lines:
        here = (line.location.file, line.location.line) if line.location else None
        if here is None and at != own and line.text[:1] not in ("", " ", "}"):
            out.append(f"#line {len(out) + 2} {_quoted(file)}")
            at = own
        elif here is not None and here != at:
            name = "" if at != own and here[0] == python else f" {_quoted(here[0])}"
            out.append(f"#line {here[1]}{name}")
            at, python = here, here[0]
        out.append(line.text)
    return "\n".join(out) + "\n"


def pinned(text: str, file: str) -> str:
    """The text that `render` made, with a `#line` in front of each line that becomes code."""
    return "\n".join(_pinned(text.splitlines(), _quoted(file))) + "\n"


def _pinned(lines: Sequence[str], own: str) -> Iterator[str]:
    name, number, counted = own, 0, 0
    for line in lines:
        if found := _DIRECTIVE.match(line):
            file = found["file"] or name
            counted = counted if file == name else 0
            name, number = file, int(found["line"])
            if name == own:
                yield line
            continue
        if name != own and counted != number and not _NO_CODE.match(line):
            yield f"#line {number} {name}"
            counted = number
        yield line
        counted += 1


def _quoted(file: str) -> str:
    return json.dumps(file, ensure_ascii=False)


def uses(lines: Iterable[Line], name: str) -> bool:
    """Whether a name stands in the lines."""
    word = re.compile(rf"\b{name}\b")
    return any(word.search(line.text) for line in lines)


def without_unused(lines: Sequence[Line]) -> list[Line]:
    """The lines of a function without numbers that nothing after them uses."""
    # The last one first, each with its depth and its words: what is left out may be the only use of
    # another.
    kept: list[tuple[Line, float, set[str]]] = []
    for line in reversed(lines):
        name, depth = _scalar(line), _depth(line.text)
        if not name or _is_used(name, depth, reversed(kept)):
            kept.append((line, depth if line.text else math.inf, {*_WORD.findall(line.text)}))
    return [line for line, _, _ in reversed(kept)]


def _is_used(name: str, depth: int, after: Iterable[tuple[Line, float, set[str]]]) -> bool:
    """Return whether a name stands in the lines up to the end of a block whose lines are at
    `depth`."""
    for _, at, words in after:
        if at < depth:
            return False
        if name in words:
            return True
    return False


def _scalar(line: Line) -> str:
    """The name of a number that is computed without effects; empty for other lines."""
    found = _SCALAR.match(line.text)
    return found["name"] if found and set(_CALL.findall(found["value"])) <= _PURE else ""


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
