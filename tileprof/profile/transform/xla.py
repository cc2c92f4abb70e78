"""Trials of XLA's compiler, apart from what a program of JAX runs.

In: a profile.  Out: a mask of its nodes; the profile with XLA's threads below one scope at the top.

XLA compiles on threads of its own, and times variants of products and convolutions there: for each
one hundreds of kernels, with fills and copies that check results. None of it is below a line of the
program.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from tileprof.profile.node_names import CAPTURED
from tileprof.profile.transform.regroup import keys_of, rehang, with_symbols
from tileprof.profile.tree.forest import Nodes, merge_siblings, nearest
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

THREADS = "threads of XLA (compiling, autotuning)"
"""Name of the scope that what they do is put below."""
_JAX = re.compile(r"jax/_src/")
_JAX_RUNS = re.compile(r"XlaModule:#(.*,)?hlo_module=(jit|pmap)_")
"""Beginning of the name of the range in which XLA runs a function of JAX. The ranges of its trials
have the name of an operation there. As of JAX 0.11, 2026-11."""
_XLA = re.compile(r"Xla[A-Z]\w*:#")
_DRIVER = re.compile(r"cu[A-Z]\w+$")


def of_jax(symbol: Symbol) -> bool:
    """Whether it is JAX's own code."""
    place = symbol.location
    return place is not None and bool(_JAX.search(place.file.replace("\\", "/")))


def runs_jax(symbol: Symbol) -> bool:
    """Whether it is the range in which XLA runs a function of JAX."""
    return symbol.kind == "scope" and bool(_JAX_RUNS.match(symbol.name))


def is_pass(name: str) -> bool:
    """Whether a scope of this name is a part of XLA's compiler, inside the range of a program."""
    return bool(_XLA.match(name)) and not name.startswith(("XlaModule:", "XlaCompile:"))


def trials_of_xla(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return what XLA tries while it compiles, on threads of its own.

    In a program of JAX these are the nodes outside of Python and of ranges of JAX's functions.
    """
    if not any(map(of_jax, profile.symbols)):
        return np.zeros(len(profile), bool)
    outside = [each.kind == "frame" or runs_jax(each) for each in profile.symbols]
    found: npt.NDArray[np.bool_] = nearest(profile.parents, np.array(outside)[profile.symbol]) < 0
    return found


def with_trials_apart(profile: Profile) -> tuple[Profile, Nodes]:
    """Hang what XLA's threads do below one scope at the top; return each node's new place, too.

    Where XLA opens no range around what it compiles, a program of JAX stays as it is.
    """
    tops = np.flatnonzero(trials_of_xla(profile) & (profile.parents < 0))
    own = [each.kind == "scope" and bool(_XLA.match(each.name)) for each in profile.symbols]
    if not np.array(own, bool)[profile.symbol[tops]].any():
        return profile, np.arange(len(profile))
    called = [each.kind == "api" and bool(_DRIVER.match(each.name)) for each in profile.symbols]
    moved = tops[np.logical_or(own, called)[profile.symbol[tops]]]
    whole = with_symbols(profile, [Symbol("scope", THREADS)])
    parents = whole.parents.copy()
    parents[moved] = len(profile)
    grown = merge_siblings(parents, keys_of(whole))
    return rehang(whole, grown), grown.target[: len(profile)]


def ways_into_graphs(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return what leads from the launch of a graph to the steps that XLA captured in it.

    It captures them when it runs the program for the first time: the path there is that of a run
    again, which says nothing more. So steps of graphs are below their graph, as others are.
    """
    found = np.zeros(len(profile), bool)
    runs = [runs_jax(each) for each in profile.symbols]
    if not any(each.name == CAPTURED for each in profile.symbols) or not any(runs):
        return found
    # By node: the run around it, where a way from it began, and whether it is in a graph.
    around = list[tuple[str, int, bool]]()
    for node, (above, number) in enumerate(
        zip(profile.parents.tolist(), profile.symbol.tolist(), strict=True)
    ):
        run, begin, in_graph = around[above] if above >= 0 else ("", -1, False)
        symbol = profile.symbols[number]
        if symbol.name == CAPTURED and run:
            begin = above
        elif runs[number] and begin >= 0 and symbol.name == run:
            at = node
            while at != begin:
                found[at] = True
                at = int(profile.parents[at])
            found[begin] = profile.kinds[begin] == "api"
            begin, in_graph = -1, True
        elif runs[number]:
            run, begin, in_graph = symbol.name, -1, False
        elif in_graph and symbol.kind == "api":
            found[node] = True
        around.append((run, begin, in_graph))
    return found
