"""Trees by another dimension than calls: modules, kernels, lines, threads, streams, processes.

In: a profile with the frames that are to be shown, or several.  Out: a profile with a node at the
top for each group, and below it the paths of what belongs there. Totals stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tileprof.profile.imports import imports, is_import
from tileprof.profile.installed import is_installed
from tileprof.profile.kernel_places import DEVICE_WORK
from tileprof.profile.node_names import LOADER_SCOPE
from tileprof.profile.steps import SETUP
from tileprof.profile.transform.closures import optimizers_work
from tileprof.profile.transform.frames import is_module
from tileprof.profile.transform.hand_written import differentiated, updates
from tileprof.profile.transform.join import side_by_side
from tileprof.profile.transform.operations import with_values
from tileprof.profile.transform.regroup import keys_of, rehang, with_symbols
from tileprof.profile.transform.tracks import divided
from tileprof.profile.tree.forest import Grown, Nodes, merge_siblings, nearest
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

Group = Literal["module", "phase", "kernel", "line", "thread", "stream"]
"""Innermost module by its name in the model, or its class where that is not known; part of a
training step; kernel, copy or fill by its name; innermost line of the user's files; thread of the
program that made a call, or stream of a device that ran it."""

_LOADER = re.compile(rf"{LOADER_SCOPE}|.*DataLoader.*\.__next__$")
_LOSS = re.compile(r"aten::\w*(_loss|cross_entropy|kl_div)\w*$|aten::ctc_loss$")
_LOSSES = re.compile(r"(torch[/\\]nn[/\\]modules[/\\]loss|transformers[/\\]loss[/\\]\w+)\.py$")
_SAMPLING = re.compile(r"aten::multinomial$")
OUTSIDE = ("(no module)", "(no kernel)", "(no line of the user's files)")
"""Names of groups of what belongs to no other one."""
IMPORT = " import"
"""End of the name of a group of a line that imports."""
PASSING = (SETUP, "imports")
"""Phases that a program goes through once."""
_RANK = re.compile(r"\.rank(\d{1,9})(?=\.|$)")


class _Placed(NamedTuple):
    """A profile with a place for each node."""

    profile: Profile
    names: list[str]
    """Name of each node's group."""
    inside: Nodes
    """Node below which the node's path in its group begins; -1: the whole path is there."""


def grouped(profile: Profile, group: Group) -> Profile:
    """Return the tree by a group; its nodes at the top are scopes with the groups' names.

    Raises `UsageError` for `thread` and `stream` where the profile does not know them.
    """
    return _hung_up(_WAYS[group](profile))


def merge_by(profiles: Sequence[Profile], names: Sequence[str]) -> Profile:
    """Add profiles up below a node at the top for each name, as `rank 0`; those of one name are
    added up.

    Raises `UsageError` where two profiles declare a metric differently.
    """
    pairs = zip(profiles, names, strict=True)
    of_nodes = [name for profile, name in pairs for _ in range(len(profile))]
    return _hung_up(_placed(side_by_side(profiles), of_nodes))


def rank_of(name: str, profile: Profile) -> int | None:
    """Return the rank in a profile's name (`step.rank3`) or provenance; None for neither."""
    said = _RANK.search(name)
    text = said[1] if said else profile.tables.provenance.get("rank", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _placed(profile: Profile, names: list[str]) -> _Placed:
    return _Placed(profile, names, np.full(len(profile), -1, np.int64))


def _below(
    profile: Profile, wanted: Callable[[Symbol], bool], label: Callable[[Symbol], str], outside: str
) -> _Placed:
    """Place each node below the innermost such node that it is in."""
    inside = _nearest(profile, wanted)
    labels = [*map(label, profile.symbols), outside]
    of_node = np.append(profile.symbol, len(profile.symbols))[inside]
    return _Placed(profile, [labels[each] for each in of_node.tolist()], inside)


def _by_kernel(profile: Profile) -> _Placed:
    """Place each node under its kernel, with its whole path: it says what launches the kernel."""
    below = _below(
        profile, lambda symbol: symbol.kind in DEVICE_WORK, lambda symbol: symbol.name,
        OUTSIDE[1],
    )  # fmt: skip
    return _placed(profile, below.names)


def _by_line(profile: Profile) -> _Placed:
    """Place each node below the innermost line of the user's, which says if it is an import."""
    files = {
        symbol.location.file for symbol in profile.symbols if _is_users(symbol) and symbol.location
    }
    names = told_apart(files)

    def label(symbol: Symbol) -> str:
        place = symbol.location
        if place is None:
            return ""
        name = names.get(place.file, place.file)
        line = f"{name}:{place.line}" if place.line else name
        return line + (IMPORT if is_import(profile, symbol) else "")

    return _below(profile, _is_users, label, OUTSIDE[2])


def told_apart(files: Collection[str]) -> dict[str, str]:
    """Return files' names without their folders, with as many as tell files of one name apart."""
    parts = {file: file.replace("\\", "/").split("/") for file in files}
    found, pending, length = dict[str, str](), set(files), 1
    while pending:
        names = {file: "/".join(parts[file][-length:]) for file in pending}
        times = Counter(names.values())
        known = {file for file in pending if times[names[file]] == 1 or length >= len(parts[file])}
        found |= {file: names[file] for file in known}
        pending -= known
        length += 1
    return found


def _name_in_model(symbol: Symbol) -> str:
    """Return a module's whole name in the model and its class, or the class alone."""
    name = symbol.name.removesuffix(".forward")
    return f"{symbol.module}{name.removeprefix(symbol.called)}" if symbol.module else name


_WAYS: Mapping[Group, Callable[[Profile], _Placed]] = {
    "module": lambda profile: _below(profile, is_module, _name_in_model, OUTSIDE[0]),
    "phase": lambda profile: _placed(profile, _phases(profile)),
    "kernel": _by_kernel,
    "line": lambda profile: _by_line(profile),
    "thread": lambda profile: _placed(*divided(profile, "thread")),
    "stream": lambda profile: _placed(*divided(profile, "stream")),
}  # fmt: skip
"""Functions that find the nodes of each group."""


def _is_users(symbol: Symbol) -> bool:
    place = symbol.location
    return symbol.kind == "frame" and place is not None and not is_installed(place.file)


def _nearest(profile: Profile, wanted: Callable[[Symbol], bool]) -> Nodes:
    """Return by node the innermost node of such a symbol that it is or is in; -1 for none."""
    chosen = np.array([wanted(each) for each in profile.symbols], bool)[profile.symbol]
    return nearest(profile.parents, chosen)


def _phases(profile: Profile) -> list[str]:
    """Return the part of a training step, or of a program around it, that each node belongs to."""
    optimizer = optimizers_work(profile) | updates(profile)
    loader = _nearest(profile, lambda symbol: bool(_LOADER.match(symbol.name))) >= 0
    loading = np.zeros(len(profile), bool)
    loading[[top for top in profile.roots() if imports(profile, top)]] = True
    loading = nearest(profile.parents, loading) >= 0
    inner = _inner_phases(profile)
    found = []
    for node, phase in enumerate(profile.phases):
        if loading[node]:
            found.append("imports")
        elif phase.startswith(SETUP):
            found.append(SETUP)
        elif optimizer[node]:
            found.append("optimizer")
        elif loader[node]:
            found.append("data")
        elif phase.endswith("backward"):
            found.append("backward")
        elif profile.kinds[node] == "memcpy":
            found.append("copies")
        else:
            found.append(inner[node])
    return found


def _inner_phases(profile: Profile) -> list[str]:
    """Return, by the innermost node that tells, what none of the other phases is.

    Losses and draws of tokens are operations, or modules, of their own; the rest of a module is
    its forward pass. Of a model that is no module, that is what has a backward pass.
    """
    told = [_told_by(symbol) for symbol in profile.symbols]
    modules = "forward" in told
    forward = np.zeros(len(profile), bool) if modules else differentiated(profile)
    rest = "others" if modules or forward.any() else "forward and others"
    inside = nearest(profile.parents, np.array([bool(each) for each in told])[profile.symbol])
    of_node = np.append(profile.symbol, -1)[inside]
    return [
        told[each] if each >= 0 else "forward" if in_line else rest
        for each, in_line in zip(of_node.tolist(), forward.tolist())
    ]


def _told_by(symbol: Symbol) -> str:
    if symbol.kind == "op":
        if _LOSS.match(symbol.name):
            return "loss"
        return "sampling" if _SAMPLING.match(symbol.name) else ""
    if not is_module(symbol):
        return ""
    place = symbol.location
    return "loss" if place is not None and _LOSSES.search(place.file) else "forward"


def _hung_up(placed: _Placed) -> Profile:
    """Hang the path of each node with values up below its group."""
    profile, names, inside = placed
    held = np.flatnonzero(with_values(profile)).tolist()
    used = dict.fromkeys(names[node] for node in held)
    groups = {name: number for number, name in enumerate(used)}
    whole = with_symbols(profile, [Symbol("scope", name) for name in groups])
    above, ends = profile.parents.tolist(), inside.tolist()
    # New nodes, the groups first: what is above each, and the node that each is of.
    parents, chosen = [-1] * len(groups), [*range(len(profile), len(whole))]
    places: dict[tuple[int, int], int] = {}
    target = np.full(len(whole), -1, np.int64)
    for node in held:
        group = groups[names[node]]
        path, at = [], node
        while at >= 0 and at != ends[node] and (group, at) not in places:
            path.append(at)
            at = above[at]
        place = group if at < 0 or at == ends[node] else places[group, at]
        for each in reversed(path):
            parents.append(place)
            chosen.append(each)
            place = places[group, each] = len(chosen) - 1
        target[node] = place
    of = np.array(chosen, np.int64)
    grown = merge_siblings(np.array(parents, np.int32), keys_of(whole)[of])
    target[target >= 0] = grown.target[target[target >= 0]]
    return rehang(whole, Grown(grown.parents, of[grown.first], target, target))
