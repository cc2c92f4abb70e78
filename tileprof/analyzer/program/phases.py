"""Phases of a program that trains or generates with PyTorch, as far as its tree shows them.

- training: the lines of the loop around the optimizer (`training_steps`)
- generation: below a function called `generate`, as models of Hugging Face have it
- loading: data loaders outside of the training's loop, and functions that read models from files
- evaluation: forward passes of modules outside of these, of which no backward pass was seen, below
  a function or scope named after an evaluation, or after a call of `eval()` in the same function
- inference: all other such forward passes, as rollouts of reinforcement learning have them
- set-up: what came before the recorder's first step
- other: the rest

A node is in the first of these that it fits. Imports and the recorder's own work are in none.

In: the host's time of a program.  Out: `Phase` of those that took time, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from tileprof.analyzer.program.calls import calls_in_function
from tileprof.analyzer.program.host import HostTime
from tileprof.analyzer.program.masks import Column, Mask, below, inclusive, where
from tileprof.analyzer.program.training_steps import untrained
from tileprof.errors import Location
from tileprof.profile import SETUP, Profile, Symbol, is_installed
from tileprof.profile.node_names import LOADER_SCOPE

PhaseName: TypeAlias = Literal[
    "training", "generation", "loading", "evaluation", "inference", "set-up", "other"
]
_LOADER = re.compile(LOADER_SCOPE)
_READS = re.compile(r"(^|\.)(from_pretrained|load_dataset)$")
"""Functions that read a model, a tokenizer or a data set, in any library."""
_EVALUATION = re.compile(
    r"Eval|Valid|(^|[\W_\d])(eval[a-z]*|valid[a-z]*|val|tests?|testing)(?=[\W_\d]|$)"
)
"""Names of functions and scopes that evaluate a model."""
_LOADS = re.compile(r"(torch/serialization|safetensors/torch)\.py$")
"""Files whose functions `load` and `load_file` read tensors."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a program."""

    name: PhaseName
    time_ns: float
    """Time of the host's threads in it."""
    location: Location | None
    """The user's line that leads to most of it; None where no line is known."""


def phases(host: HostTime) -> tuple[Phase, ...]:
    """Return the phases of a program; empty where it shows neither training nor generation."""
    profile = host.profile
    forward = untrained(profile)
    named: dict[PhaseName, Mask] = {
        "training": host.in_training,
        "generation": below(profile, where(profile, _generates)),
        "loading": below(profile, where(profile, _is_loading)),
        "evaluation": forward & _evaluations(profile, forward),
        "inference": forward,
        "set-up": where(profile, lambda symbol: symbol.phase.startswith(SETUP)),
    }
    time, left = host.work, np.ones(len(profile), bool)
    found = list[Phase]()
    for name in get_args(PhaseName):
        inside = left & named.get(name, left)
        left &= ~inside
        if whole := float(time[inside].sum()):
            found.append(Phase(name, whole, _place(profile, inside, time)))
    told = {each.name for each in found}
    return tuple(found) if told & {"training", "generation"} else ()


def _place(profile: Profile, inside: Mask, time: Column) -> Location | None:
    """Return the user's line from which the program comes to most of a phase's time; where no line
    of the user's leads there, the first one in it."""
    whole = inclusive(profile, np.where(inside, time, 0.0))
    node, found = -1, None
    while below_it := profile.children(node):
        node = max(below_it, key=lambda each: float(whole[each]))
        place = profile.locations[node]
        if found is not None and inside[node]:
            break
        if profile.kinds[node] == "frame" and place is not None and not is_installed(place.file):
            found = place
    return found


def _generates(symbol: Symbol) -> bool:
    name = symbol.name.rpartition(".")[2]
    return symbol.kind == "frame" and name == "generate"


def _evaluations(profile: Profile, forward: Mask) -> Mask:
    """Return what is below places of the user's program that evaluate models.

    Only places that lead to such `forward` passes are judged: programs have many others.
    """
    above = (inclusive(profile, forward.astype(np.float64)) > 0) & ~forward
    sources = profile.tables.sources
    found = [
        number
        for number in set(profile.symbol[above].tolist())
        if _evaluates(profile.symbols[number], sources)
    ]
    return below(profile, above & np.isin(profile.symbol, found))


def _evaluates(symbol: Symbol, sources: Mapping[str, str]) -> bool:
    """Judge a scope by its name, and a line by its function's name and the text before it."""
    place = symbol.location
    if symbol.kind == "scope":
        return bool(_EVALUATION.search(symbol.name))
    if symbol.kind != "frame" or place is None or is_installed(place.file):
        return False
    if _EVALUATION.search(symbol.name.rpartition(".")[2]):
        return True
    calls = calls_in_function(sources.get(place.file, ""), place.line, "eval")
    return any(line <= place.line for line in calls)


def _is_loading(symbol: Symbol) -> bool:
    if symbol.kind == "scope":
        return bool(_LOADER.match(symbol.name))
    place = symbol.location
    if symbol.kind != "frame" or place is None or not is_installed(place.file):
        return False
    loads = symbol.name in ("load", "load_file") and _LOADS.search(place.file)
    return bool(loads or _READS.search(symbol.name))
