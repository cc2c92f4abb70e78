"""One node for a module of the user's, whichever lines of its forward pass call what is below.

In: a profile without plumbing, as `with_frames` gives it.  Out: the same with one node for all
lines of a forward pass. Modules that these call hang on it. Operations and functions that a line
calls itself stay below a node of that line, since nothing else tells their places. Totals stay.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof.errors import Location
from tileprof.profile.transform.frames import Frames, Shown, is_module, with_frames
from tileprof.profile.transform.regroup import keys_of, rehang, with_symbols
from tileprof.profile.tree.forest import Grown, merge_siblings
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

LINE = "line"
"""Name of the node of a line, before its place."""
_LAYERS = re.compile(r" ×\d+$")


def as_shown(
    profile: Profile, frames: Frames, include: str | None = None, layers: str | None = None
) -> Shown:
    """Return a profile as trees for people have it: `with_frames`, and modules whole in `user`."""
    shown = with_frames(profile, frames, include, layers)
    return with_whole_modules(shown) if frames == "user" else shown


def with_whole_modules(shown: Shown) -> Shown:
    """Return a profile in which each of the user's modules has one node.

    That is so for a single line too: a profile of the program after a change compares with it.
    """
    profile = shown.profile
    wholes = {each: whole for each in profile.symbols if (whole := _whole(each)) is not None}
    users = np.array([each in wholes for each in profile.symbols], bool)[profile.symbol]
    if not users.any():
        return shown
    lines = {whole: number for number, whole in enumerate(dict.fromkeys(wholes.values()))}
    places = {symbol: len(lines) + number for number, symbol in enumerate(wholes)}
    extra = [*lines, *(replace(each, name=LINE, module="", called="") for each in wholes)]
    larger = with_symbols(profile, extra)
    modules = np.array([is_module(each) for each in profile.symbols], bool)[profile.symbol]
    calls_itself = _calls_itself(profile, users, modules)
    parents, chosen = list[int](), list[int]()
    # By old node: the new one that its values go to, and the one that modules below it hang on.
    target, upper = np.full(len(larger), -1, np.int64), np.full(len(profile) + 1, -1, np.int64)
    for node, above in enumerate(profile.parents.tolist()):
        at = -1 if above < 0 else int((upper if modules[node] else target)[above])
        if users[node]:
            symbol = profile.symbols[int(profile.symbol[node])]
            parents.append(at)
            chosen.append(len(profile) + lines[wholes[symbol]])
            at = upper[node] = len(chosen) - 1
            if calls_itself[node]:
                parents.append(at)
                chosen.append(len(profile) + places[symbol])
        else:
            parents.append(at)
            chosen.append(node)
            upper[node] = len(chosen) - 1
        target[node] = len(chosen) - 1
    of = np.array(chosen, np.int64)
    grown = merge_siblings(np.array(parents, np.int32), keys_of(larger)[of])
    target[target >= 0] = grown.target[target[target >= 0]]
    made = rehang(larger, Grown(grown.parents, of[grown.first], target, target))
    moved = np.where(shown.moved >= 0, target[shown.moved], -1)
    return Shown(made, shown.left_out, moved)


def _whole(symbol: Symbol) -> Symbol | None:
    """Return the symbol of all lines of a forward pass in the user's files; None for others."""
    place = symbol.location
    if place is None or not place.line or not is_module(symbol):
        return None
    function = _LAYERS.sub("", symbol.name).rpartition(": ")[2]
    return replace(symbol, location=Location(place.file, 0, function=place.function or function))


def _calls_itself(
    profile: Profile, users: npt.NDArray[np.bool_], modules: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the lines that something else than modules is called from."""
    found = np.zeros(len(profile), bool)
    found[profile.parents[(profile.parents >= 0) & ~modules]] = True
    return found & users
