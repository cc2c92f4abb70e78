"""Steps of a training that marks none: the loop around `Optimizer.step`, and the parts of a step.

PyTorch opens a scope at each step of an optimizer, and counts its visits. The loop is read from the
user's source text that the profile holds: the innermost one around the line that led to the scope.
Trainers of libraries have their loop in a file of theirs, whose text no profile holds: then the
innermost function is taken that all parts of a step are called from. Where no optimizer steps,
because a program updates parameters itself, calls of the backward engine stand for the steps.
First uses within it (imports, compiling, operations that ran but once) are no part of a step.

In: a profile with its steps, and by node the host's time that counts, ns.  Out:
`TrainingSteps`, or None where no optimizer stepped in a loop of the user's files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tileprof.analyzer.numbers.programs import STEADY_FEWEST, TRAINING_STEPS_NEARLY_ALL
from tileprof.analyzer.program.compilers import compiles
from tileprof.analyzer.program.masks import (
    Column,
    Mask,
    backward,
    below,
    inclusive,
    kind,
    outermost,
    where,
)
from tileprof.analyzer.program.steady import Steps
from tileprof.analyzer.program.user_loops import loops_around
from tileprof.errors import Location
from tileprof.profile import Profile, Symbol, is_installed, optimizers_work, step_times
from tileprof.profile.node_names import LOADER_SCOPE
from tileprof.profile.transform.frames import is_module

_STEP = re.compile(r"Optimizer\.step#")
_LOADER = re.compile(LOADER_SCOPE)
_ENGINE = re.compile(r"torch[/\\]autograd[/\\](graph|__init__)\.py$")


@dataclass(frozen=True, slots=True)
class Parts:
    """Time of the parts of one step, ns; together without `untrained`, which `forward` contains."""

    data: float
    """In a DataLoader, on the host."""
    forward: float
    """All that is in none of the other parts."""
    untrained: float
    """Part of `forward` in modules of which no backward pass was seen: an evaluation in each step,
    or a model that is not trained."""
    backward: float
    optimizer: float


@dataclass(frozen=True, slots=True)
class TrainingSteps:
    """Steps that were found in a program."""

    count: int
    """Visits of the optimizer's step."""
    time_ns: float
    """Mean time of one step; with the first ones in it, where no set-up was kept apart."""
    of: Literal["host", "devices"]
    """Whose time that is: of devices where those were timed, gaps included."""
    parts: Parts
    location: Location
    """First line of the loop; where a library has it, the user's line that calls the library."""
    inside: Mask = field(compare=False, repr=False)
    """Nodes of the steps."""


def training_steps(profile: Profile, steps: Steps, host: Column) -> TrainingSteps | None:
    """Return the steps of the optimizer that stepped most often; None where none was found."""
    if "count" not in profile.metrics:
        return None
    optimizers = outermost(profile, _named(profile, _STEP) & kind(profile, "scope")) & steps.late
    if not optimizers.any():
        begun = below(profile, where(profile, _begins_backward)) & kind(profile, "op")
        return _of_users_loop(profile, steps, host, outermost(profile, begun) & steps.late)
    found = _of_users_loop(profile, steps, host, optimizers)
    return _of_library(profile, steps, host, optimizers) if found is None else found


def _of_users_loop(
    profile: Profile, steps: Steps, host: Column, ends: Mask
) -> TrainingSteps | None:
    """Return the steps of the loop of the user's with most visits of such nodes, one a step."""
    found = dict[tuple[int, str, tuple[int, int]], dict[int, float]]()
    for node in np.flatnonzero(ends).tolist():
        loop = _loop_around(profile, node)
        if loop is not None:
            key, line = loop
            lines = found.setdefault(key, {})
            lines[line] = lines.get(line, 0.0) + float(steps.count[node])
    counts = {key: int(max(lines.values())) for key, lines in found.items()}
    if not counts:
        return None
    key = max(counts, key=lambda each: counts[each])
    parent, file, (first, last) = key
    body = np.zeros(len(profile), bool)
    for node in np.flatnonzero(profile.parents == parent).tolist():
        place = profile.locations[node]
        body[node] = place is not None and place.file == file and first <= place.line <= last
    return _measured(profile, steps, host, body, counts[key], Location(file, first))


def _of_library(
    profile: Profile, steps: Steps, host: Column, optimizers: Mask
) -> TrainingSteps | None:
    """Return the steps that a library's trainer makes, at the user's line that calls it."""
    visits = np.where(optimizers, steps.count, 0)
    most = int(visits.argmax())
    count = float(visits[most])
    often = _loaders(profile, steps) & _as_often(steps, count)
    backwards = np.where(below(profile, backward(profile)) & steps.late, host, 0.0)
    for above in profile.path(most)[-2::-1]:
        place = profile.locations[above]
        if profile.kinds[above] != "frame" or place is None:
            continue
        body = _lines_of_call(profile, above)
        held = below(profile, body)
        if often.any() and not (often & held).any():
            continue
        if backwards[held].sum() < TRAINING_STEPS_NEARLY_ALL * backwards.sum():
            continue
        whole = int(visits[held].max())
        users = [each for each in profile.path(above) if _is_users(profile, each)]
        where_to = profile.locations[users[-1]] if users else place
        return _measured(profile, steps, host, body, whole, where_to or place)
    return None


def _loaders(profile: Profile, steps: Steps) -> Mask:
    return outermost(profile, _named(profile, _LOADER) & kind(profile, "scope")) & steps.late


def _as_often(steps: Steps, count: float) -> Mask:
    """Return nodes with about as many visits as there are steps."""
    found: Mask = (steps.count >= count / 2) & (steps.count <= 2 * count)
    return found


def _without_evaluation(profile: Profile, steps: Steps, body: Mask, count: float) -> Mask:
    """Return lines of a step without those that only evaluate, with a loader of their own."""
    loaders = _loaders(profile, steps)
    other = loaders & ~_as_often(steps, count)
    trains = backward(profile) | _named(profile, _STEP) | (loaders & ~other)
    found = body.copy()
    for line in np.flatnonzero(body).tolist():
        held = _subtree(profile, line)
        found[line] = not (held & other).any() or (held & trains).any()
    return found


def _lines_of_call(profile: Profile, node: int) -> Mask:
    """Return the lines of the function that a frame is a line of, called from the same place."""
    place, found = profile.locations[node], np.zeros(len(profile), bool)
    for each in np.flatnonzero(profile.parents == profile.parents[node]).tolist():
        other = profile.locations[each]
        same = profile.kinds[each] == "frame" and profile.names[each] == profile.names[node]
        found[each] = same and other is not None and place is not None and other.file == place.file
    return found


def _is_users(profile: Profile, node: int) -> bool:
    place = profile.locations[node]
    return profile.kinds[node] == "frame" and place is not None and not is_installed(place.file)


def _measured(
    profile: Profile, steps: Steps, host: Column, body: Mask, visits: int, location: Location
) -> TrainingSteps | None:
    """Return what is in such lines of a step's function, by their visits."""
    # A set-up that an optimizer's step has ended: the visit under way then is counted at its end.
    ended = int(steps.knows_setup and step_times(profile.tables.provenance) is None)
    count = visits - ended
    if count < STEADY_FEWEST:
        return None
    once = (steps.count > 0) & (steps.count < min(count / 2, STEADY_FEWEST))
    body = _without_evaluation(profile, steps, body, count)
    inside = below(profile, body) & ~below(profile, once | where(profile, compiles)) & steps.late
    on_devices = bool((steps.work * (inside & steps.inside)).any())
    column = np.where(inside, host, 0.0)
    whole = float(column.sum())
    if on_devices:
        column = np.where(inside & steps.inside, steps.work, 0.0)
        gaps = np.where(inside & steps.again, steps.idle, 0.0)
        whole = float(column.sum() + gaps.sum())
    if not whole:
        return None
    optimizer = optimizers_work(profile)
    if not optimizer.any():
        optimizer = _updates(profile, body)
    backwards = below(profile, backward(profile) | where(profile, is_engine)) & ~optimizer
    data = below(profile, _named(profile, _LOADER)) & ~optimizer & ~backwards
    rest = ~(optimizer | backwards | data)
    masks = (data, rest, rest & untrained(profile), backwards, optimizer)
    each = [float(column[mask].sum()) / count for mask in masks]
    return TrainingSteps(
        count, whole / count, "devices" if on_devices else "host", Parts(*each),
        Location(location.file, location.line), inside,
    )  # fmt: skip


def untrained(profile: Profile) -> Mask:
    """Return what is in forward passes of modules without nodes of a backward pass below."""
    trains = inclusive(profile, backward(profile).astype(np.float64)) > 0
    modules = outermost(profile, where(profile, is_module))
    return below(profile, modules & ~trains)


def _updates(profile: Profile, body: Mask) -> Mask:
    """Return operations that change parameters, in lines after those of the backward engine.

    A program without an optimizer does so in place, outside of modules: `p.data.add_(p.grad)`.
    """
    engine, lines = where(profile, is_engine), np.zeros(len(profile), bool)
    tops = np.flatnonzero(body).tolist()
    for top in tops:
        place = profile.locations[top]
        earlier = [
            each for each in tops
            if (other := profile.locations[each]) is not None and place is not None
            and other.line < place.line
        ]  # fmt: skip
        lines[top] = any((engine & _subtree(profile, each)).any() for each in earlier)
    in_place = where(profile, lambda symbol: symbol.kind == "op" and symbol.name.endswith("_"))
    modules = below(profile, where(profile, is_module))
    return below(profile, in_place & below(profile, lines) & ~modules)


def _subtree(profile: Profile, top: int) -> Mask:
    alone = np.zeros(len(profile), bool)
    alone[top] = True
    return below(profile, alone)


def is_engine(symbol: Symbol) -> bool:
    """Whether a frame is PyTorch's backward engine."""
    place = symbol.location
    named = symbol.kind == "frame" and "backward" in symbol.name
    return named and place is not None and bool(_ENGINE.search(place.file))


def _begins_backward(symbol: Symbol) -> bool:
    """Whether a frame is the function of PyTorch's that makes the gradient of a loss, 1, once a
    backward pass."""
    place = symbol.location
    return (
        symbol.kind == "frame" and symbol.name == "_make_grads"
        and place is not None and bool(_ENGINE.search(place.file))
    )  # fmt: skip


def _named(profile: Profile, pattern: re.Pattern[str]) -> Mask:
    return where(profile, lambda symbol: bool(pattern.match(symbol.name)))


def _loop_around(
    profile: Profile, node: int
) -> tuple[tuple[int, str, tuple[int, int]], int] | None:
    """Return the innermost loop of the user's files around a node, and the line in it."""
    for above in profile.path(node)[::-1]:
        place = profile.locations[above]
        if profile.kinds[above] != "frame" or place is None:
            continue
        span = innermost_loop(profile.tables.sources.get(place.file, ""), place.line)
        if span is not None:
            return (int(profile.parents[above]), place.file, span), place.line
    return None


def innermost_loop(source: str, line: int) -> tuple[int, int] | None:
    """Return the first and last line of the innermost loop around a line, in its function."""
    loops = loops_around(source, line)
    return loops[-1] if loops else None
