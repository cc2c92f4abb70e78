"""Rows that are gathered, worked on and added up by index: a sparse product that is written out.

Static: names of operations: a gather by index and a sum by index in one function, or in what a
library's layer calls at one line of the user's, and what works on the gathered rows between them.
Dynamic: their time, that of their gradients included. A sparse product, or one compiled kernel,
reads each row and adds it to its sum, and never writes the rows. So of all the time what the gather
itself takes is left, and as much again for its gradient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.contexts import Column, Contexts, Mask
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.findings import Evidence, listed, percent
from tileprof.analyzer.fixes import compiled_at
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.program.numbers import GATHERED_ROWS_LEFT, GATHERED_ROWS_NEAR

_GATHER = re.compile(r"aten::(index|index_select|gather|take)$")
_SUM = re.compile(r"(aten|torch_scatter)::(index_add|scatter_add|scatter_reduce|scatter_sum)_?$")
_ADVICE = (
    "Multiply by a sparse matrix of the edges, whose values are the weights (torch.sparse.mm with a"
    " CSR tensor), or compile this function (torch.compile): either reads each row and adds it to"
    " its sum in one pass, and neither sorts indices for the gradient. A layer of torch_geometric"
    " takes such a matrix, transposed, in place of edge_index"
    " (torch_geometric.utils.to_torch_csr_tensor(edge_index).t())."
)


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """The operations of one function that do so, together."""

    operations: Mask
    """A gather, a sum, and what works on as much between them."""
    gathers: Mask
    """Those of them that gather."""


def find(tree: Contexts) -> Iterator[Draft]:
    """All such functions together; a part of `fusion`."""
    found = list(written_out(tree))
    if not found:
        return
    operations, gathers = (
        np.logical_or.reduce([getattr(each, name) for each in found])
        for name in ("operations", "gathers")
    )
    kernels = tree.below(operations) & tree.kind("kernel") & (tree.time > 0)
    time = float(tree.time[kernels].sum())
    if tree.share(time) < COLD:
        return
    passes = 2 if bool((kernels & tree.backward).any()) else 1
    gathered = float(tree.time[kernels & tree.below(gathers) & ~tree.backward].sum()) * passes
    most = max(found, key=lambda each: float(tree.time[tree.below(each.operations)].sum()))
    names = dict.fromkeys(tree.profile.names[node] for node in nodes_of(operations))
    text = (
        f"{listed(list(names))} take {percent(tree.share(time))} of {tree.whose} with their"
        f" gradients; gathering the rows takes {percent(tree.share(gathered / passes))}"
    )
    saving = tree.saving(*(max(time - left * gathered, 0.0) for left in GATHERED_ROWS_LEFT))
    place = int(np.flatnonzero(most.gathers)[0])
    yield Draft(
        "suggestion", f"Rows are gathered and summed by index at {tree.told(place)}",
        tree.place(place), (Evidence("activities", text),), _ADVICE, "", saving, confidence="low",
        nodes=nodes_of(kernels), fixes=compiled_at(tree.line(place)),
    )  # fmt: skip


def written_out(tree: Contexts) -> Iterator[WrittenOut]:
    """Functions, and calls of a library's layers, in which rows are gathered and then added up."""
    forward = tree.outermost(tree.kind("op") & ~tree.backward) & ~tree.compiling
    sums = forward & tree.where(lambda symbol: bool(_SUM.match(symbol.name)))
    if not sums.any():
        return
    gathers = forward & tree.where(lambda symbol: bool(_GATHER.match(symbol.name)))
    launch = _mean_launch(tree, forward, tree.kind("kernel") & ~tree.backward)
    # What a library's layer does in functions of its own is one call of the user's.
    around, lines = tree.nearest(tree.kind("frame", "scope")), tree.lines
    flops = tree.summed(tree.own("flops"), tree.nearest(forward), tree.own("flops") > 0)
    by_library = forward & (around != lines) & (lines >= 0) & (flops == 0)
    ways: tuple[tuple[Mask, Callable[[int], Hashable]], ...] = (
        (forward & (around >= 0), lambda node: tree.visit(int(around[node]))),
        (by_library, lambda node: int(lines[node])),
    )
    taken = np.zeros_like(forward)
    for among, key in ways:
        calls = dict[Hashable, list[int]]()
        for node in np.flatnonzero(among & ~taken).tolist():
            calls.setdefault(key(node), []).append(node)
        for nodes in calls.values():
            inside = tree.of(nodes)
            gathered, summed = inside & gathers, inside & sums
            if gathered.any() and summed.any():
                least = GATHERED_ROWS_NEAR * float(launch[gathered].max())
                works = inside & (launch >= least) & (launch > 0)
                if (works & gathered).any() and (works & summed).any():
                    taken |= inside
                    yield WrittenOut(works, works & gathered)


def _mean_launch(tree: Contexts, operations: Mask, kernels: Mask) -> Column:
    """By operation, the longest mean time of a launch of a kernel in it, ns."""
    found, at = np.zeros(len(tree.profile)), tree.nearest(operations)
    for node in np.flatnonzero(kernels & (at >= 0) & (tree.count > 0)).tolist():
        mean = float(tree.time[node] / tree.count[node])
        found[at[node]] = max(found[at[node]], mean)
    return found
