"""JAX operations that the user's code calls one by one, outside of `jax.jit`.

Static: frames of JAX directly below lines of one function, outside of what traces or compiles.
Dynamic: the host's time there, compiling left out: only what is called again after it was compiled
takes any. Under one `jit` n such operations are dispatched once, so 1 - 1 / n of that time likely
goes, all of it at most; frames are sampled, and a short recording has few samples of what is not
compiling, so nothing is sure. The gain is that of a run in which compiling is over: a short
recording is mostly compiling. Where a device waits for these launches, `launch-bound` tells it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.rules.program.numbers import JIT_UPDATE_FEWEST, JIT_UPDATE_SHARE
from tileprof.profile import of_jax

_TREES = re.compile(r"\b(tree|map)(_|\b)")
"""Functions of JAX that call the user's for each leaf of a tree."""
_ADVICE = (
    "Put the calls of this line under one jax.jit, best together with the gradient (jax.jit of the"
    " whole step): one program is then dispatched, and one compiled, instead of"
    " {count}. donate_argnums lets it reuse the memory of old values."
)


@dataclass(frozen=True, eq=False)
class _Site:
    """A call in the user's code that runs operations of JAX one by one."""

    node: int
    operations: int
    dispatch: float
    """The host's time, compiling left out, ns."""
    compiling: float


def find(program: Program) -> Iterator[Draft]:
    """The call with the most of that time."""
    if program.kernel_time or not program.host.whole:
        return
    tree = Contexts(program)
    sites = list(_sites(tree))
    if not sites:
        return
    site = max(sites, key=lambda each: each.dispatch)
    column = program.host.column
    work = float(column[~tree.compiling].sum())
    if site.operations >= JIT_UPDATE_FEWEST and site.dispatch >= JIT_UPDATE_SHARE * work:
        yield _draft(tree, site, work)


def _sites(tree: Contexts) -> Iterator[_Site]:
    """Calls by the outermost function of the user's, below its entry, that leads to them."""
    library = tree.where(lambda symbol: of_jax(symbol) and not _TREES.search(symbol.name))
    users = tree.users & tree.kind("frame")
    parents, column = tree.parents, tree.program.host.column
    entries = library & users[parents] & (parents >= 0) & ~tree.compiling
    inner = tree.nearest(entries)
    held = defaultdict[int, list[int]](list)
    for entry in np.flatnonzero(entries).tolist():
        if (site := _caller(tree, entry, users)) >= 0:
            held[site].append(entry)
    for site, nodes in held.items():
        below = np.isin(inner, nodes)
        dispatch, compiling = below & ~tree.compiling, below & tree.compiling
        places = {(tree.profile.symbol[parents[node]], tree.profile.symbol[node]) for node in nodes}
        yield _Site(
            site, len(places), float(column[dispatch].sum()), float(column[compiling].sum())
        )


def _caller(tree: Contexts, entry: int, users: Mask) -> int:
    """The line that calls the outermost function around it that only runs such operations.

    A module's top and the function that it calls are the program itself.
    """
    above = [node for node in tree.profile.path(entry)[:-1] if users[node]]
    names = [tree.profile.names[node] for node in above]
    while names and names[0] == "<module>":
        del names[0], above[0]
    return above[0] if len(above) > 1 else -1


def _draft(tree: Contexts, site: _Site, work: float) -> Draft:
    text = (
        f"{site.operations} operations of JAX called from there, outside of jax.jit, take"
        f" {percent(site.dispatch / work)} of the host's time without imports and compiling"
        f" ({duration(work)}), which the gain is of"
    )
    evidence = [Evidence("activities", text)]
    if site.compiling:
        told = f"compiling them one by one took {duration(site.compiling)}"
        evidence.append(Evidence("activities", told))
    likely = 1 - 1 / site.operations
    mid, high = (min(part * site.dispatch / work, LONGEST_SAVING) for part in (likely, 1.0))
    saving = Saving(0, mid, high)
    title = f"{site.operations} operations of JAX are dispatched one by one at"
    return Draft(
        "suggestion", f"{title} {tree.told(site.node)}", tree.place(site.node), tuple(evidence),
        _ADVICE.format(count=site.operations), "", saving, confidence="low",
    )  # fmt: skip


RULE = ProgramRule("jit-update", find)
