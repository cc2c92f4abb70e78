"""Triton kernels of which one loads what the one before it stored: a part of `fusion`.

Static: the program's text. Two launches follow each other over the same grid, and a name that one
is given for a parameter that it stores to is given to the next for one that it loads from, or the
recorder saw that it is one tensor; neither multiplies tiles. Dynamic: their times and bytes, at a
user's lines. One kernel keeps the tensor in registers, which is no more than half of what the first
moves, and moves twice. So it has about the bytes of the one that moves more; likely it takes a
little longer than the longer of the two, half of the shorter one's time goes at least, and at most
it takes what those bytes take at the memory's roof. Where launches tell the tensor's size, no more
is likely than what both kernels take to move as many bytes, each at its own rate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.triton.calls import (
    HandedOver,
    handed_over,
    handed_over_unnamed,
)
from tileprof.analyzer.rules.program.numbers import HANDED_OVER_PARTS


def find(tree: Contexts) -> Iterator[Draft]:
    """Each such pair with enough of the time."""
    floors: Floors | None = None
    tables = tree.profile.tables
    named = [
        (pair, file, file) for file, text in tables.sources.items()
        for pair in handed_over(text, file, tables.launches)
    ]  # fmt: skip
    known = {(pair.first, pair.second) for pair, _, _ in named}
    unnamed = [
        each for each in handed_over_unnamed(tables.sources, tables.launches)
        if (each[0].first, each[0].second) not in known
    ]  # fmt: skip
    for pair, first_file, file in (*named, *unnamed):
        first = _kernels(tree, first_file, pair.first, pair.first_line)
        second = _kernels(tree, file, pair.second, pair.second_line)
        if not first or not second:
            continue
        if (pair, first_file, file) in unnamed and not _alike(tree, first, second):
            continue
        floors = floors or Floors(tree)
        if all(floors.limits.get(node) == "memory" for node in (*first, *second)):
            yield from _draft(tree, floors, pair, first, second)


def _alike(tree: Contexts, first: list[int], second: list[int]) -> bool:
    """Whether two kernels ran equally often, with as many blocks."""
    blocks, count = tree.own("blocks"), tree.count
    often = float(count[first].sum()) == float(count[second].sum())
    return often and 0 < float(blocks[first].sum()) == float(blocks[second].sum())


def _kernels(tree: Contexts, file: str, name: str, line: int) -> list[int]:
    """Nodes of a kernel in steps that a user's line launches; where no line was recorded, those of
    a kernel that was seen at that line alone."""
    launches = tree.profile.tables.launches
    seen = {(each.place.file, each.place.line) for each in launches if each.kernel == name}
    found = []
    for node in np.flatnonzero(tree.kind("kernel") & (tree.time > 0)).tolist():
        place = tree.line(node)
        at = seen if place is None else {(place.file, place.line)}
        if tree.profile.names[node] == name and at == {(file, line)}:
            found.append(node)
    return found


def _draft(
    tree: Contexts, floors: Floors, pair: HandedOver, first: list[int], second: list[int]
) -> Iterator[Draft]:
    times = [float(tree.time[nodes].sum()) for nodes in (first, second)]
    floor = [float(floors.floor[nodes].sum()) for nodes in (first, second)]
    above = min(times)
    if tree.share(above) < COLD:
        return
    least = max(floor)
    low, mid = (part * above for part in HANDED_OVER_PARTS)
    if pair.size:
        pace = [
            time / float(tree.bytes[nodes].sum()) for time, nodes in zip(times, (first, second))
        ]
        mid = min(mid, pair.size * float(tree.count[second].sum()) * sum(pace))
        low = min(low, mid)
    static = Evidence(
        "static",
        f"{pair.second} (line {pair.second_line}) loads {pair.tensor}, which {pair.first} (line"
        f" {pair.first_line}) stored, over the same grid",
    )
    told = (
        f"they take {percent(tree.share(times[0]))} and {percent(tree.share(times[1]))} of"
        f" {tree.whose}; what one kernel has to move takes {percent(tree.share(least))}"
    )
    yield Draft(
        "suggestion", f"{pair.first} and {pair.second} exchange {pair.tensor} through memory",
        tree.place(second[0]), (static, Evidence("activities", told)),
        f"Write them as one kernel, which keeps {pair.tensor} in registers; store it only if it is"
        " needed later on.",
        "", tree.saving(low, mid, max(mid, sum(times) - least)), nodes=(*first, *second),
    )  # fmt: skip
