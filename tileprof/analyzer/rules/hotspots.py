"""Where the time of a program goes, and what it would be worth to make that faster.

Static: none; so these are symptoms. Dynamic: time of kernels, operations and scopes on devices,
each with the innermost one that it is in, so that nothing counts twice; the host's time where no
device was timed. Gains are those of Amdahl's law, 1 / (1 - p (1 - 1 / k)) for a part p of the time
that becomes k times as fast (AFIPS 1967), a table and no promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import WORK, Column, Contexts, Ids, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, percent, plain

__all__ = ["RULE"]

_HOT = 0.1
"""Of the time, below which a place is not a hotspot: gone, it makes the program 1.11 times as
fast."""
_TOP = 3
"""Hotspots of a kind that are told."""
_THE_SAME = 0.8
"""Of a place's time, above which one within it, told already, stands for it."""
_TIMES = (1.2, 2.0)
_ALL = 0.99
"""Of the time, above which nothing is left without it."""
_OF_TILEPROF = "(tileprof)"
_ADVICE = {
    "kernel": (
        "Begin here: what is found of this kernel comes first, then whether it needs to run as"
        " often, and on as many elements."
    ),
    "op": (
        "Begin here: see which of its kernels take the time, and whether another operation, dtype"
        " or layout does the same in fewer."
    ),
    "scope": "Begin here: see which operations in it take the time.",
}


@dataclass(frozen=True, eq=False)
class _Hot:
    kind: str
    name: str
    inside: Mask
    """What is in it and in no other one of its kind."""
    time: float
    count: float
    node: int
    """Where most of it is."""


def find(program: Program) -> Iterator[Draft]:
    """The places with the most time."""
    tree = Contexts(program)
    column, whole, whose = tree.time, tree.steps.time, tree.whose
    if not column.any():
        column, whose = _of_host(tree)
        whole = float(column.sum())
    column = np.where(tree.compiling, 0.0, column)  # trials and compiling are told by `compiling`
    told: list[_Hot] = []
    for kind, kinds in (("kernel", WORK), ("op", ("op",)), ("scope", ("scope",))):
        for each in _hottest(tree, kind, tree.nearest(tree.kind(*kinds)), column, whole):
            if not _stands_for(told, each, column):
                told.append(each)
                yield _draft(tree, each, whole, whose)


def _of_host(tree: Contexts) -> tuple[Column, str]:
    """The host's time, of what is repeated where that is known, but for what recording took."""
    mine = tree.where(lambda symbol: symbol.kind == "op" and symbol.name.endswith(_OF_TILEPROF))
    column = np.where(tree.below(mine), 0.0, tree.own("cpu_time"))
    steps = tree.below(tree.kind("scope") & tree.steady & (tree.count > 1))
    if not column[steps].any():
        return column, "the host's time"
    return np.where(steps, column, 0.0), "the host's time in its steps"


def _hottest(tree: Contexts, kind: str, at: Ids, column: Column, whole: float) -> Iterator[_Hot]:
    sums = tree.summed(column, at, at >= 0)
    by_name = dict[str, list[int]]()
    for node in np.flatnonzero(sums > 0).tolist():
        by_name.setdefault(tree.profile.names[node], []).append(node)
    times = {name: float(sums[nodes].sum()) for name, nodes in by_name.items()}
    for name in sorted(times, key=lambda each: -times[each])[:_TOP]:
        if whole and times[name] / whole >= _HOT:
            nodes = by_name[name]
            most = max(nodes, key=lambda node: float(sums[node]))
            own = np.isin(at, nodes)
            yield _Hot(kind, name, own, times[name], float(tree.count[nodes].sum()), most)


def _stands_for(told: list[_Hot], each: _Hot, column: Column) -> bool:
    return any(
        float(column[each.inside & other.inside].sum()) > _THE_SAME * each.time
        for other in told
        if other.kind != each.kind
    )


def _draft(tree: Contexts, each: _Hot, whole: float, whose: str) -> Draft:
    share = each.time / whole
    often = f", {each.count:,.0f} times {duration(each.time / each.count)}" if each.count else ""
    text = f"{percent(share)} of {whose}{often}, most at {tree.told(each.node)}"
    measured = Evidence("activities", text)
    table = Evidence("activities", f"by Amdahl's law, if all else stays: {_table(share)}")
    name = plain(each.name) if each.kind == "kernel" else each.name
    title = f"{name} takes {percent(share, 0)} of {whose}"
    return Draft("symptom", title, tree.place(each.node), (measured, table), _ADVICE[each.kind],
                 confidence="high")  # fmt: skip


def _table(share: float) -> str:
    told = [f"{times:g} times as fast, the program {_gain(share, times):.2f}×" for times in _TIMES]
    if share < _ALL:
        told.append(f"taking no time, {_gain(share, float('inf')):.2f}×")
    return "; ".join(told)


def _gain(share: float, times: float) -> float:
    return 1 / (1 - share * (1 - 1 / times))


RULE = ProgramRule("hotspot", find)
