"""The text of `tileprof inspect`: a table of resources, and the details of each function.

In: a `Cubin` or a `Function`.  Out: text, wide as it is; a pager or a file takes it. Names of C++
are as one writes them, where the native recorder is there, which knows how.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileprof.binary import Cubin, Function, Loop, Spill

TITLES = ("registers", "shared", "local", "stack", "barriers", "constants", "parameters", "code")
UNKNOWN = "?"
_MANGLED = re.compile(r"\b_Z\w+")


def render_resources(path: str, cubin: Cubin, functions: Sequence[Function]) -> str:
    """One line a function; sizes in bytes, of a thread (registers, local, stack) or a block."""
    rows = [(*TITLES, "threads", "function"), *map(_resources, functions)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(TITLES) + 1)]
    lines = [
        "  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths)), row[-1]])
        for row in rows
    ]
    of_all = "" if len(functions) == len(cubin.functions) else f"{len(functions)} of "
    head = f"{path}: {cubin.architecture}, {of_all}{_plural(len(cubin.functions), 'function')}"
    return "\n".join([head, *map(_readable, lines), ""])


def matching(cubin: Cubin, pattern: str | None) -> list[Function]:
    """Return the functions whose name matches, in the symbol table or as one writes it; or all."""
    everything = list(cubin.functions.values())
    if pattern is None:
        return everything
    from tileprof.profile.transform.operations import regular

    named = regular(pattern)
    names = ((each, each.name, _readable(each.name)) for each in everything)
    return [each for each, *known in names if any(map(named.search, known))]


def _readable(text: str) -> str:
    """Return the text with names of C++ as one writes them."""
    if "_Z" not in text:
        return text
    from tileprof.profiler.native import native_recorder

    native = native_recorder()
    return text if native is None else _MANGLED.sub(lambda name: native.demangled(name[0]), text)


def _resources(function: Function) -> tuple[str, ...]:
    found = function.resources
    stack = UNKNOWN if found.stack_bytes is None else str(found.stack_bytes)
    numbers = (
        found.registers,
        found.shared_bytes,
        found.local_bytes,
        stack,
        found.barriers,
        found.constant_bytes,
        found.parameter_bytes,
        found.code_bytes,
        f"<= {found.max_threads}" if found.max_threads else "any",
    )
    name = function.name if function.is_kernel else f"{function.name} (device function)"
    return (*map(str, numbers), name)


def render_details(function: Function) -> str:
    """Loops, spills, kinds of instructions, and the annotated code of a function."""
    from tileprof.binary import listing

    name = _readable(function.name)
    parts = [
        f"\n{name}\n{'=' * len(name)}",
        *_section("loops", _loops(function)),
        *_section("spilled registers", _spills(function)),
        *_section("instructions", _mix(function.mix)),
        "\ncode",
        listing(function),
    ]
    return _readable("\n".join(parts))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    yield f"\n{title}{'' if found else ': none'}"
    yield from (f"  {line}" for line in found)


def _loops(function: Function) -> Iterator[str]:
    from tileprof.binary import opcode_mix, place

    inside = {"wait": "waits for a barrier", "once": "once for each distinct operand"}
    for loop in function.loops:
        what = inside.get(loop.kind, f"depth {loop.depth}")
        count = _plural(sum(opcode_mix(function.inside(loop)).values()), "instruction")
        where = place(function.chain(loop.start))
        yield f"{'  ' * _nesting(function.loops, loop)}{loop.start:#06x}  {what}, {count}, {where}"


def _nesting(loops: Sequence[Loop], loop: Loop) -> int:
    depth = 0
    while loop.parent is not None:
        depth, loop = depth + 1, loops[loop.parent]
    return depth


def _spills(function: Function) -> Iterator[str]:
    """Yield spills by line, those in the deepest loops first."""
    from tileprof.binary import place

    groups: dict[tuple[int, str, str], list[Spill]] = {}
    for spill in function.spills():
        groups.setdefault((-spill.depth, spill.kind, place(spill.chain)), []).append(spill)
    for (depth, kind, where), spills in sorted(groups.items()):
        stores = sum(each.is_store for each in spills)
        size = sum(each.bytes for each in spills)
        what = "saved for a caller" if kind == "save" else f"loop depth {-depth}"
        counts = f"{_plural(stores, 'store')}, {_plural(len(spills) - stores, 'reload')}"
        yield f"{counts}, {size} B per thread, {what}, {where}"


def _mix(mix: Mapping[str, int]) -> Iterator[str]:
    """One line a group, the largest first."""
    from tileprof.binary import group_of

    groups: dict[str, list[str]] = {}
    totals: Counter[str] = Counter()
    for name, count in mix.items():
        groups.setdefault(group_of(name), []).append(f"{name} {count}")
        totals[group_of(name)] += count
    for group, total in totals.most_common():
        yield f"{total:>5}  {group:<16}  {', '.join(groups[group])}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
