"""Steps of a training that marks none: the loop around `Optimizer.step`, and the parts of a step.

PyTorch opens a scope at each step of an optimizer, and counts its visits. The loop is read from the
user's source text that the profile holds: the innermost one around the line that led to the scope.
First uses within it (imports, compiling, operations that ran but once) are no part of a step.

In: a profile with its steps and the host's time.  Out: `TrainingSteps`, or None where no optimizer
stepped in a loop of the user's files.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tileprof.analyzer.numbers import STEADY_FEWEST
from tileprof.analyzer.program.calls import parsed
from tileprof.analyzer.program.compilers import compiles
from tileprof.analyzer.program.host import HostTime
from tileprof.analyzer.program.masks import Mask, backward, below, kind, outermost, where
from tileprof.analyzer.program.steady import Steps
from tileprof.errors import Location
from tileprof.profile import Profile, Symbol, optimizers_work, step_times
from tileprof.profile.node_names import LOADER_SCOPE

_STEP = re.compile(r"Optimizer\.step#")
_LOADER = re.compile(LOADER_SCOPE)
_ENGINE = re.compile(r"torch[/\\]autograd[/\\](graph|__init__)\.py$")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Parts:
    """Time of the parts of one step, ns."""

    data: float
    """In a DataLoader, on the host."""
    forward: float
    """All that is in none of the other parts."""
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
    """First line of the loop."""


def training_steps(profile: Profile, steps: Steps, host: HostTime) -> TrainingSteps | None:
    """Return the steps of the optimizer that stepped most often; None where none was in a loop."""
    if "count" not in profile.metrics:
        return None
    scopes = outermost(profile, _named(profile, _STEP) & kind(profile, "scope")) & steps.late
    found = dict[tuple[int, str, tuple[int, int]], dict[int, float]]()
    for node in np.flatnonzero(scopes).tolist():
        loop = _loop_around(profile, node)
        if loop is not None:
            key, line = loop
            lines = found.setdefault(key, {})
            lines[line] = lines.get(line, 0.0) + float(steps.count[node])
    # A set-up that an optimizer's step has ended: the visit under way then is counted at its end.
    ended = int(steps.knows_setup and step_times(profile.tables.provenance) is None)
    counts = {key: int(max(lines.values())) - ended for key, lines in found.items()}
    loop_key = max(counts, key=lambda each: counts[each], default=None)
    if loop_key is None or counts[loop_key] < STEADY_FEWEST:
        return None
    return _measured(profile, steps, host, loop_key, counts[loop_key])


def _measured(
    profile: Profile, steps: Steps, host: HostTime, loop: tuple[int, str, tuple[int, int]],
    count: int,
) -> TrainingSteps | None:  # fmt: skip
    parent, file, (first, last) = loop
    body = np.zeros(len(profile), bool)
    for node in np.flatnonzero(profile.parents == parent).tolist():
        place = profile.locations[node]
        body[node] = place is not None and place.file == file and first <= place.line <= last
    once = (steps.count > 0) & (steps.count < min(count / 2, STEADY_FEWEST))
    inside = below(profile, body) & ~below(profile, once | where(profile, compiles)) & steps.late
    on_devices = bool((steps.work * (inside & steps.inside)).any())
    column = np.where(inside, host.column, 0.0)
    whole = float(column.sum())
    if on_devices:
        column = np.where(inside & steps.inside, steps.work, 0.0)
        gaps = np.where(inside & steps.again, steps.idle, 0.0)
        whole = float(column.sum() + gaps.sum())
    if not whole:
        return None
    optimizer = optimizers_work(profile)
    backwards = below(profile, backward(profile) | where(profile, _is_engine)) & ~optimizer
    data = below(profile, _named(profile, _LOADER)) & ~optimizer & ~backwards
    rest = ~(optimizer | backwards | data)
    each = [float(column[mask].sum()) / count for mask in (data, rest, backwards, optimizer)]
    return TrainingSteps(
        count, whole / count, "devices" if on_devices else "host", Parts(*each),
        Location(file, first),
    )  # fmt: skip


def _is_engine(symbol: Symbol) -> bool:
    """Whether a frame is PyTorch's backward engine."""
    place = symbol.location
    named = symbol.kind == "frame" and "backward" in symbol.name
    return named and place is not None and bool(_ENGINE.search(place.file))


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
    """Return the first and last line of the innermost loop around a line, in its function.

    None where there is none, or the text is no Python that this version reads.
    """
    tree = parsed(source)
    if tree is None:
        return None
    found: tuple[int, int] | None = None
    nodes: list[ast.AST] = [tree]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            first, last = getattr(child, "lineno", 0), getattr(child, "end_lineno", 0) or 0
            if first and not first <= line <= last:
                continue
            if isinstance(child, _FUNCTIONS) and first < last:
                found = None  # a loop around a definition does not run what is in it
            elif isinstance(child, ast.For | ast.AsyncFor | ast.While):
                found = first, max(each.end_lineno or 0 for each in child.body)
                found = found if line <= found[1] else None
            nodes.append(child)
    return found
