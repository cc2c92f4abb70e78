"""Loops of tile kernels: those that give some threads more work than others, or are unrolled.

In: the printed IR of a kernel and the CUDA made of it.  Out: loops in whose turns nothing is done
but `parallel` of fewer elements than threads, though over all turns there is work for all: their
lines, and how many threads have work. What is kept in fragments of so few elements is computed by
all warps alike, or by some while the others wait. The lines of loops that turn as often as each
element says, and of those that are unrolled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["NarrowLoop", "Unrolled", "narrow_loops", "uneven_lines", "unrolled"]

_THREADS = re.compile(r"\blaunch \[.*\] \{threads = \[([\d, ]+)\]")
_CONSTANT = re.compile(r"(%\w+) = constant (-?\d+) : ")
_LOOP = re.compile(r"for (?:serial|unroll) (%\w+), (%\w+), (%\w+) body\((%\w+): ")
_PARALLEL = re.compile(r"parallel \[([^\]]*)\] ")
_TOGETHER = re.compile(r"^(?:%\w+ = )?(?:copy|gemm|reduce|fill|atomic\w*|cumsum|sync\w*|if)\b")
"""Ops that all threads of a block do together, whatever their extents, and what is not known."""
_NUMBER = re.compile(r"_\d+$")
_LINE = re.compile(r"^#line (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NarrowLoop:
    """A loop with work for some of a block's threads in each turn."""

    lines: frozenset[int]
    """Of the kernel's source."""
    threads: int
    elements: int
    """The most that a turn works on at once."""
    turns: int


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop whose turns stand one behind the other."""

    line: int
    lines: frozenset[int]
    """It with its body."""
    turns: int


@dataclass
class _Block:
    """What stands between braces."""

    head: str
    ops: list[str] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)


def narrow_loops(ir: str, code: str) -> Iterator[NarrowLoop]:
    """The outermost of them."""
    found = _THREADS.search(ir)
    if found is None:
        return
    threads = math.prod(map(int, found[1].split(", ")))
    constants = {name: int(value) for name, value in _CONSTANT.findall(ir)}
    parsed = _parsed(ir)
    for block in _outermost(parsed, threads, constants):
        turns, name = _turns(block.head, constants)
        lines, elements = _lines(code, name, _place(parsed, name)), _elements(block, constants)
        if lines and turns * elements >= threads:
            yield NarrowLoop(lines, threads, elements, turns)


def unrolled(ir: str, code: str) -> Iterator[Unrolled]:
    """All of them."""
    constants = {name: int(value) for name, value in _CONSTANT.findall(ir)}
    parsed = _parsed(ir)
    for block in _all(parsed):
        if block.head.startswith("for unroll ") and _LOOP.match(block.head):
            turns, name = _turns(block.head, constants)
            if lines := _ordered_lines(code, name, _place(parsed, name)):
                yield Unrolled(lines[0], frozenset(lines), turns)


def _all(block: _Block) -> Iterator[_Block]:
    for each in block.blocks:
        yield each
        yield from _all(each)


def uneven_lines(ir: str, code: str) -> frozenset[int]:
    """The lines of loops inside of a `parallel` whose turns are no constant."""
    constants = {name for name, _ in _CONSTANT.findall(ir)}
    parsed = _parsed(ir)
    names = _uneven(parsed, constants, False)
    return frozenset(
        line for name in names for line in _lines(code, name, _place(parsed, name))
    )  # fmt: skip


def _uneven(block: _Block, constants: Collection[str], inside: bool) -> Iterator[str]:
    """The indices of such loops."""
    for each in block.blocks:
        loop = _LOOP.match(each.head)
        if inside and loop and not {loop[1], loop[2], loop[3]} <= {*constants}:
            yield loop[4][1:]
        yield from _uneven(each, constants, inside or bool(_PARALLEL.match(each.head)))


def _parsed(ir: str) -> _Block:
    stack = [_Block("")]
    for line in map(str.strip, ir.splitlines()):
        if line.endswith("{"):
            stack[-1].blocks.append(_Block(line))
            stack.append(stack[-1].blocks[-1])
        elif line == "}" and len(stack) > 1:
            stack.pop()
        else:
            stack[-1].ops.append(line)
    return stack[0]


def _outermost(
    block: _Block, threads: int, constants: Mapping[str, int]
) -> Iterator[_Block]:  # fmt: skip
    for each in block.blocks:
        if _LOOP.match(each.head) and 0 < _elements(each, constants) < threads and _alone(each):
            yield each
        else:
            yield from _outermost(each, threads, constants)


def _alone(block: _Block) -> bool:
    """Whether nothing is done there but loops and parallels."""
    heads = (_LOOP.match(each.head) or _PARALLEL.match(each.head) for each in block.blocks)
    ops = (op for op in block.ops if _TOGETHER.match(op))
    return all(heads) and not any(ops) and all(map(_alone, block.blocks))


def _elements(block: _Block, constants: Mapping[str, int]) -> int:
    """The largest of the parallels in a block; 0 for none, or where one's extent is not known."""
    found = [0]
    for each in block.blocks:
        if extents := _PARALLEL.match(each.head):
            known = [constants.get(name, 0) for name in extents[1].split(", ")]
            found.append(math.prod(known))
            if not found[-1]:
                return 0
        elif inner := _elements(each, constants):
            found.append(inner)
    return max(found)


def _turns(head: str, constants: Mapping[str, int]) -> tuple[int, str]:
    """How often a loop turns, 0 where that is not known, and the name of its index."""
    start, stop, step, name = _LOOP.match(head).groups()  # type: ignore[union-attr] # it is one
    known = [constants.get(each) for each in (start, stop, step)]
    if None in known or not known[2]:
        return 0, name[1:]
    return len(range(*known)), name[1:]  # type: ignore[arg-type] # none is None


def _place(parsed: _Block, name: str) -> int:
    """Of the loops over an index of that name, numbers behind it aside, which it is: CUDA has a
    name again where the one before is out of scope."""
    heads = (_LOOP.match(each.head) for each in _all(parsed))
    names = [found[4][1:] for found in heads if found]
    return [each for each in names if _bare(each) == _bare(name)].index(name)


def _bare(name: str) -> str:
    return _NUMBER.sub("", name)


def _lines(code: str, name: str, place: int) -> frozenset[int]:
    return frozenset(_ordered_lines(code, name, place))


def _ordered_lines(code: str, name: str, place: int) -> list[int]:
    """The lines from the loop over an index, which is the first, to its closing brace."""
    pattern = r"\bfor \(int(?:64_t)? {} = [^\n]*\{{\n"
    found = re.search(pattern.format(re.escape(name)), code)
    if found is None:
        same = [*re.finditer(pattern.format(re.escape(_bare(name)) + r"(?:_\d+)?"), code)]
        found = same[place] if place < len(same) else None
    before = _LINE.findall(code[: found.start()]) if found else []
    if found is None or not before:
        return []
    end, depth = found.end(), 1
    while depth and end < len(code):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        end += 1
    return [int(before[-1]), *map(int, _LINE.findall(code[found.start() : end]))]
