"""Nodes that are an optimizer's own work, without a training step that it was given to call.

In: a profile.  Out: a mask. An optimizer's `step` may call a closure that makes the gradients:
LBFGS's users write one, and Lightning passes its whole training step that way. Then a model's
forward and backward passes lie below the optimizer's scope, and are no part of the optimizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tileprof.profile.node_names import OPTIMIZER_SCOPE
from tileprof.profile.transform.frames import is_module
from tileprof.profile.tree.forest import levels, nearest
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

_OPTIMIZER = re.compile(OPTIMIZER_SCOPE)
_TORCH = re.compile(r"[/\\]torch[/\\]")


def optimizers_work(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return the nodes in scopes of optimizers, without closures that they call."""
    scopes = _of(profile, lambda symbol: bool(_OPTIMIZER.match(symbol.name)))
    outer = nearest(profile.parents, scopes)
    if not scopes.any():
        return scopes
    backward = np.array([phase.endswith("backward") for phase in profile.phases], bool)
    computes = _of(profile, is_module) | (backward & (outer >= 0))
    for level in reversed(levels(profile.depths)[1:]):
        above = profile.parents[level[computes[level]]]
        computes[above] = True
    closures = computes & (outer >= 0) & _of(profile, _may_be_closure)
    inner = nearest(profile.parents, scopes | closures)
    return (inner >= 0) & ~closures[inner]


def _may_be_closure(symbol: Symbol) -> bool:
    """Tell whether a frame is of somebody else than PyTorch, whose own only pass the call on."""
    place = symbol.location
    return symbol.kind == "frame" and place is not None and not _TORCH.search(place.file)


def _of(profile: Profile, wanted: Callable[[Symbol], bool]) -> npt.NDArray[np.bool_]:
    chosen: npt.NDArray[np.bool_] = np.array([wanted(each) for each in profile.symbols], bool)
    return chosen[profile.symbol]
