"""Which lines of a kernel's source a loop of its IR is from, by the CUDA made of it.

In: CUDA with `#line` directives, names of loops' indices.  Out: lines. The IR that a profile keeps
has none of its own, so a loop is found by the name of its index.

CUDA has a name again where the one before is out of scope. And it has a loop again wherever a pass
copied the code around it, as the turns that it took out of a pipelined loop: copies come from the
same line, and count once.

    #line 12
    for (int j = 0; …) {        %j
    #line 20
    for (int j = 0; …) {        %j_1, in the steady loop
    #line 20
    for (int j_1 = 0; …) {      %j_1 again, in the epilogue
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_LINE = re.compile(r"#line (\d+)")
_HEAD = re.compile(r"\bfor \(int(?:64_t)? (\w+) = .*\{$")
_NUMBER = re.compile(r"_\d+$")


@dataclass(slots=True)
class _Loop:
    name: str
    depth: int
    """Of the braces around it."""
    lines: list[int] = field(default_factory=list)
    """It, then its body up to the closing brace."""


def lines_of(code: str, index: str, indices: Sequence[str]) -> list[int]:
    """Of the loop over an index, of all over `indices` in the IR; nothing where it is not known."""
    name, bare = index[1:], _bare(index[1:])
    alike = [each[1:] for each in indices if _bare(each[1:]) == bare]
    made = [each for each in _loops(code) if _bare(each.name) == bare and each.lines]
    copies = dict[int, list[_Loop]]()
    for each in made:
        copies.setdefault(each.lines[0], []).append(each)
    place = alike.index(name)
    if len(copies) == len(alike):
        return [line for each in [*copies.values()][place] for line in each.lines]
    exact = [each.lines for each in made if each.name == name]
    return next(iter(exact), made[place].lines if place < len(made) else [])


def _bare(name: str) -> str:
    """Without the number that tells it from others of that name."""
    return _NUMBER.sub("", name)


@lru_cache(maxsize=4)
def _loops(code: str) -> tuple[_Loop, ...]:
    """All loops of a text over an integer, in their order."""
    found, open_, depth, line = list[_Loop](), list[_Loop](), 0, 0
    for text in code.splitlines():
        if here := _LINE.match(text):
            line = int(here[1])
            for each in open_:
                each.lines.append(line)
            continue
        if head := _HEAD.search(text):
            found.append(_Loop(head[1], depth, [line] if line else []))
            open_.append(found[-1])
        depth += text.count("{") - text.count("}")
        open_ = [each for each in open_ if depth > each.depth]
    return tuple(found)
