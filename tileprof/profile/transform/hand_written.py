"""Training steps that are written by hand, in functions where PyTorch has modules and optimizers.

In: a profile.  Out: masks of nodes, by what autograd shows and by the program's own text. A line is
forward where operations in it have a backward pass. It updates parameters where it reads `.grad`
and changes tensors in place; so do the other lines of its function, if none of these is forward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tileprof.profile.installed import is_installed
from tileprof.profile.tree.forest import Nodes, nearest
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

_GRADIENT = re.compile(r"\.grad\b(?!\s*\()")
"""A gradient's name in a line of Python; not the function `torch.autograd.grad`."""
_IN_PLACE = re.compile(r"aten::(_foreach_)?(add|sub|mul|div|addcmul|addcdiv|lerp|copy)_$")
"""Operations that optimizers change parameters and their averages by."""

Mask = npt.NDArray[np.bool_]


def differentiated(profile: Profile) -> Mask:
    """Return what is in the user's lines of which operations have a backward pass."""
    lines = _lines(profile)
    backward = np.array([each.phase.endswith("backward") for each in profile.symbols], bool)
    of_backward: Mask = backward[profile.symbol]
    operations = np.array([each.kind == "op" for each in profile.symbols], bool)[profile.symbol]
    above = profile.parents[of_backward & (profile.parents >= 0)]
    found = np.zeros(len(profile) + 1, bool)
    # Below a frame it is the call of the backward pass. The extra last slot: outside of all lines.
    found[lines[above[operations[above] & ~of_backward[above]]]] = True
    found[-1] = False
    return found[lines] & ~of_backward


def updates(profile: Profile) -> Mask:
    """Return what is in the user's lines, or functions, that change parameters by gradients."""
    lines, forward = _lines(profile), differentiated(profile)
    changes = np.array([each.kind == "op" and bool(_IN_PLACE.match(each.name))
                        for each in profile.symbols], bool)  # fmt: skip
    sources = {file: text.splitlines() for file, text in profile.tables.sources.items()}
    reads = np.array([_reads_gradients(sources, each) for each in profile.symbols], bool)
    changed = np.zeros(len(profile) + 1, bool)
    changed[lines[changes[profile.symbol]]] = True
    found: Mask = changed[:-1] & reads[profile.symbol] & ~forward
    computing = forward.copy()
    for level in reversed(profile.levels[1:]):
        computing[profile.parents[level[computing[level]]]] = True
    functions = {_function(profile, at) for at in np.flatnonzero(found).tolist()}
    functions -= {_function(profile, at) for at in np.flatnonzero(computing).tolist()}
    places = np.array([_named(each) in functions for each in profile.symbols], bool)
    return nearest(profile.parents, found | places[profile.symbol]) >= 0


def _lines(profile: Profile) -> Nodes:
    """Return by node the innermost line of the user's that it is in; -1 for none."""
    users = np.array([_named(each) is not None for each in profile.symbols], bool)
    return nearest(profile.parents, users[profile.symbol])


def _named(symbol: Symbol) -> tuple[str, str] | None:
    """Return the file and function of a line of the user's; None for other nodes."""
    place = symbol.location
    if symbol.kind != "frame" or place is None or is_installed(place.file):
        return None
    return place.file, place.function or symbol.name


def _function(profile: Profile, node: int) -> tuple[str, str] | None:
    found = _named(profile.symbols[int(profile.symbol[node])])
    return None if found is None or found[1] == "<module>" else found


def _reads_gradients(sources: Mapping[str, Sequence[str]], symbol: Symbol) -> bool:
    """Return whether a symbol is a line of the user's, found by its file, that reads gradients."""
    place = symbol.location
    if _named(symbol) is None or place is None:
        return False
    text = sources.get(place.file, ())
    return 0 < place.line <= len(text) and bool(_GRADIENT.search(text[place.line - 1]))
