"""Results of operations that nothing reads.

Static: the source text: a name that a function assigns, and that neither its other lines nor what
it returns needs (`unread_names`). Only lines count whose operations are PyTorch's own and change
nothing in place; a program nearly all of whose work is unread was written to be measured. Dynamic:
the time of the kernels below these lines. All of it goes with the lines; `torch.compile` leaves
them out as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, listed, percent
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program import masks
from tileprof.analyzer.program.unread_names import Unread, unread_names
from tileprof.analyzer.rules.program.numbers import UNREAD_RESULTS_MOST, UNREAD_RESULTS_SURE

_WITH_EFFECTS = re.compile(
    r"_$|^(?!aten::)|batch_norm|copy_|backward|record_stream|item|_assert", re.IGNORECASE
)
"""Operations that are no function of their inputs alone."""


class UnreadWork(NamedTuple):
    """Kernels of one assignment whose result nobody reads."""

    statement: Unread
    place: int
    """The longest of them."""
    nodes: tuple[int, ...]
    time: float
    """What they take in steps, ns."""


def find(program: Program) -> Iterator[Draft]:
    """Return all such lines together, the longest first."""
    tree = Contexts(program)
    works = unread_works(tree)
    time = sum(each.time for each in works)
    if tree.share(time) < COLD:
        return
    first = works[0]
    named = [
        f"{' and '.join(each.statement.names)}, {tree.told(each.place)}:"
        f" {duration(each.time)}, {percent(tree.share(each.time))} of {tree.whose}"
        for each in works
        if tree.share(each.time) >= COLD
    ]
    names = listed([name for each in works for name in each.statement.names], 3)
    static = Evidence(
        "static", f"nothing that {first.statement.function} returns or calls needs {names}"
    )
    nodes = tuple(node for each in works for node in each.nodes)
    yield Draft(
        "suggestion", f"The result {first.statement.names[0]} is computed and never read",
        tree.place(first.place), (static, *(Evidence("activities", each) for each in named)),
        f"Remove the lines that compute {names}, or use them: nothing reads these results."
        " torch.compile would leave them out as well.",
        "", tree.saving(UNREAD_RESULTS_SURE * time, time, time), nodes=nodes, launches_go=True,
        confidence="high",
    )  # fmt: skip


def unread_works(tree: Contexts) -> list[UnreadWork]:
    """Return the kernels of each assignment that nothing reads, the longest in steps first; none
    where they are nearly all that the program does."""
    if not tree.time.any():
        return []
    found = list[UnreadWork]()
    for file, text in tree.texts.items():
        for each in unread_names(text):
            if work := _work(tree, file, each):
                found.append(work)
    if sum(each.time for each in found) > UNREAD_RESULTS_MOST * float(tree.time.sum()):
        return []
    return sorted(found, key=lambda each: -each.time)


def _work(tree: Contexts, file: str, statement: Unread) -> UnreadWork | None:
    """Return what a statement launches; None where it may have effects, or launches nothing."""
    lines = tree.where(
        lambda symbol: (
            symbol.kind == "frame"
            and symbol.location is not None
            and symbol.location.file == file
            and statement.first <= symbol.location.line <= statement.last
        )
    )
    inside = tree.below(lines)
    nodes = np.flatnonzero(inside & tree.kind("kernel", "memcpy", "memset") & (tree.time > 0))
    if not len(nodes):
        return None
    calls = masks.outermost(tree.profile, inside & tree.kind("op"))
    if any(_WITH_EFFECTS.search(tree.profile.names[op]) for op in np.flatnonzero(calls)):
        return None
    if (tree.ops[nodes] < 0).any():  # kernels of one's own, whose effects are not known
        return None
    place = int(nodes[tree.time[nodes].argmax()])
    return UnreadWork(statement, place, tuple(nodes.tolist()), float(tree.time[nodes].sum()))


RULE = ProgramRule("unread-results", find)
