"""Operations of a Triton module, as its TTGIR has them.

In: a module's text.  Out: its operations as a tree, with operands, regions and source lines.

    %n:2 = scf.while (%x = %a, …) : (…) -> (…) {      an `Op` with two regions, each with arguments
      scf.condition(%go) %x, %y : …
    } do {
    ^bb0(%x: …, %y: …): …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["LOOPS", "Op", "Region", "constant_of", "from_memory", "operations"]

LOOPS = ("scf.for", "scf.while")
_MEMORY = ("tt.load", "tt.atomic", "tt.descriptor", "ttg.local_load", "tt.gather", "tt.call",
           "ttg.async", "ttng", "tt.elementwise_inline_asm", "tt.extern_elementwise")  # fmt: skip

_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_LOCATION = re.compile(r" loc\((#loc\d*|\"[^\"]*\"\([^()]*\)|[^()]*|callsite\([^()]*\))\)")
_DEFINED = re.compile(r"^#loc(\d*) = loc\((.*)\)$", re.M)
_PLACE = re.compile(r'"[^"]*":(\d+):\d+')
_CALLER = re.compile(r"callsite\(#loc\d* at #loc(\d*)\)")
_MORE = re.compile(r"#loc(\d*)")
_RESULTS = re.compile(r"^(%[\w.$-]+)(?::(\d+))? = (.*)$")
_PAIR = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?)")
_CONSTANT = re.compile(r"(?:dense<)?(-?[\d.]+(?:e[+-]\d+)?|true|false)>?(?: :|$)")


@dataclass(slots=True)
class Region:
    """A block of operations, with the names of its arguments."""

    arguments: tuple[str, ...] = ()
    ops: list[Op] = field(default_factory=list)


@dataclass(slots=True)
class Op:
    """An operation."""

    name: str
    """Its kind, as `arith.addi`."""
    results: tuple[str, ...]
    operands: tuple[str, ...]
    """Values that it is given, in order; for a loop, the values that its arguments begin with."""
    text: str
    """All that stands behind its results."""
    line: int
    """Line in the kernel's source, of its outermost caller; 0 where it is not known."""
    regions: list[Region] = field(default_factory=list)

    def walk(self) -> Iterator[Op]:
        """Yield the operations in its regions, at any depth."""
        for region in self.regions:
            for each in region.ops:
                yield each
                yield from each.walk()


@lru_cache(maxsize=8)
def operations(text: str) -> Op:
    """Return an operation that stands for a module, with all of it in its first region."""
    lines = _lines_of(text)
    root = Op("module", (), (), "", 0, [Region()])
    open_ = [root]
    for raw in text.splitlines():
        line = _LOCATION.sub("", raw).strip()
        if not line or line.startswith(("#", "//")):
            continue
        if line.startswith("}"):
            if not line.endswith("{"):
                if len(open_) > 1:
                    done = open_.pop()
                    done.line = done.line or _line(raw, lines)
                continue
            open_[-1].regions.append(Region())
        elif line.startswith("^"):
            open_[-1].regions[-1].arguments = tuple(_NAME.findall(line.partition("(")[2]))
        else:
            op = _read(line, _line(raw, lines))
            open_[-1].regions[-1].ops.append(op)
            if line.endswith("{"):
                op.regions.append(Region(_arguments(op)))
                open_.append(op)
    return root


def constant_of(op: Op) -> float | None:
    """Return the number of a constant, of all elements of a tensor; None for other operations."""
    found = _CONSTANT.match(op.text.removeprefix("arith.constant ")) if (
        op.name == "arith.constant"
    ) else None  # fmt: skip
    if found is None:
        return None
    return float(found[1] == "true") if found[1] in ("true", "false") else float(found[1])


def from_memory(ops: list[Op]) -> set[str]:
    """Return the values that depend on what is in memory."""
    found, size = set[str](), -1
    while len(found) != size:
        size = len(found)
        for op in ops:
            of = op.name.startswith(_MEMORY)
            if of or any(name in found for name in op.operands):
                found.update(op.results)
                if op.name in LOOPS:
                    found.update(name for each in op.regions for name in each.arguments)
            for region in op.regions:
                last = region.ops[-1].operands if region.ops else ()
                if any(name in found for name in last):
                    found.update(op.results)
                    if op.name in LOOPS:
                        found.update(n for each in op.regions for n in each.arguments[-len(last) :])
    return found


def _read(line: str, at: int) -> Op:
    results, told = tuple[str, ...](), line
    if found := _RESULTS.match(line):
        name, count, told = found[1], found[2], found[3]
        results = tuple(f"{name}#{n}" for n in range(int(count))) if count else (name,)
    kind = told.removeprefix('"').split('"')[0].partition(" ")[0].partition("(")[0]
    if kind in LOOPS:
        given = tuple(pair[1] for pair in _PAIR.findall(told.partition("iter_args")[2] or told))
        bounds = _NAME.findall(told.partition("iter_args")[0])[1:] if kind == "scf.for" else []
        given = given if kind == "scf.while" or "iter_args" in told else ()
        return Op(kind, results, (*bounds, *given), told, at)
    return Op(kind, results, tuple(_NAME.findall(told)), told, at)


def _arguments(op: Op) -> tuple[str, ...]:
    """Names of the arguments of a loop's first region, the counter of a `for` first."""
    if op.name not in LOOPS:
        return ()
    head, _, carried = op.text.partition("iter_args")
    names = [pair[0] for pair in _PAIR.findall(carried if op.name == "scf.for" else op.text)]
    return (*_NAME.findall(head)[:1], *names) if op.name == "scf.for" else tuple(names)


def _lines_of(text: str) -> Mapping[str, int]:
    """Return the source line of each location by its number in the text."""
    defined = {found[1]: found[2] for found in _DEFINED.finditer(text)}
    known = dict[str, int]()

    def line(number: str, depth: int = 0) -> int:
        held = defined.get(number, "")
        if number not in known and depth < 32:
            place, caller, more = (e.search(held) for e in (_PLACE, _CALLER, _MORE))
            next_ = caller or more
            known[number] = int(place[1]) if place else line(next_[1], depth + 1) if next_ else 0
        return known.get(number, 0)

    return {number: line(number) for number in defined}


def _line(raw: str, lines: Mapping[str, int]) -> int:
    found = _MORE.findall(raw.rpartition(" loc(")[2])
    return lines.get(found[0], 0) if found else 0
