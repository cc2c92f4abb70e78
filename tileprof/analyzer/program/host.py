"""What the host's time of a program is, and which part of it is its work.

A recording has more of the host's time than the program's own work: libraries are imported, and
the recorder compiles and loads what it observes with. Shares of all of that say little: importing
PyTorch alone takes seconds. What is left is narrowed to the program's steps where they are known,
by the phase that the recorder gave or by scopes of the program in which nearly all of it is.

In: a profile.  Out: `HostTime`: a column with one entry per node, ns, and what shares are of.
"""

from __future__ import annotations

import re

import numpy as np

from tileprof.analyzer.numbers.programs import STEADY_FEWEST, STEADY_NEARLY_ALL
from tileprof.analyzer.program.masks import Column, Mask, below, kind, outermost, where
from tileprof.analyzer.program.steady import Steps
from tileprof.analyzer.program.threads import Threads
from tileprof.analyzer.program.training_steps import TrainingSteps, training_steps
from tileprof.once import cached_property
from tileprof.profile import Profile, Symbol, is_installed
from tileprof.profile.node_names import LOADER_SCOPE, OPTIMIZER_SCOPE

_OF_TILEPROF = "(tileprof)"
"""Ending of the names of operations that are the recorder's own work."""
_PARTS = re.compile(rf"{OPTIMIZER_SCOPE}|{LOADER_SCOPE}|(Distributed)?DataParallel\.|torch::")
"""Scopes that PyTorch opens by itself: parts of a training step, never the step. All time in
optimizers would otherwise pass for all time in steps."""


class HostTime:
    """The host's time of a program by node, and its parts."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._steps = Steps(profile)
        self._all = np.zeros(len(profile))
        if "cpu_time" in profile.metrics:
            own = profile.own["cpu_time"] + profile.absorbed["cpu_time"]
            self._all = np.nan_to_num(own.astype(np.float64))

    @cached_property
    def recording(self) -> Mask:
        """Nodes that are the recorder's own work."""
        own = where(
            self.profile, lambda each: each.kind == "op" and each.name.endswith(_OF_TILEPROF)
        )
        return below(self.profile, own)

    @cached_property
    def importing(self) -> Mask:
        """Nodes of imports of installed libraries, the recorder's own work left out."""
        # An installed module at the top is the program itself, as with `run -m`.
        parents = self.profile.parents
        imported = where(self.profile, _imports) & (parents >= 0)
        # What a line takes that imports, a module of the program's own too, beside the module
        # below it, is finding and loading it.
        modules = where(self.profile, _is_module) & (parents >= 0)
        lines = np.zeros_like(imported)
        lines[parents[modules]] = True
        lines &= kind(self.profile, "frame")
        return (below(self.profile, imported) | lines) & ~self.recording

    @cached_property
    def total(self) -> float:
        """All of the program's host time, imports included, ns."""
        return float(self._all[~self.recording].sum())

    @cached_property
    def imports(self) -> float:
        """Time in which libraries were imported, ns."""
        return float(self._all[self.importing].sum())

    @cached_property
    def step_scopes(self) -> Mask:
        """Outermost scopes of the program that are its steps; none where those are not known."""
        steps = self._steps
        scopes = where(
            self.profile, lambda each: each.kind == "scope" and not _PARTS.match(each.name)
        )
        repeated = scopes & steps.late & (steps.count >= STEADY_FEWEST)
        loops = outermost(self.profile, repeated)
        held = float(self._work[below(self.profile, loops)].sum())
        whole = float(self._work.sum())
        return loops if whole and held >= STEADY_NEARLY_ALL * whole else np.zeros_like(loops)

    @cached_property
    def column(self) -> Column:
        """By node, its own host time that is work of the program, in its steps if known, ns."""
        if self.step_scopes.any():
            return np.where(below(self.profile, self.step_scopes), self._work, 0.0)
        return self._work

    @cached_property
    def training(self) -> TrainingSteps | None:
        """The program's training steps, found by the loop around its optimizer."""
        return training_steps(self.profile, self._steps, self.column)

    @property
    def in_training(self) -> Mask:
        """Nodes of its training steps; none where there are none."""
        training = self.training
        return np.zeros(len(self.profile), bool) if training is None else training.inside

    @property
    def work(self) -> Column:
        """By node, its own host time that is neither import nor the recorder's work, ns."""
        return np.where(self.importing | self.recording, 0.0, self._all)

    @cached_property
    def threads(self) -> Threads:
        """The threads that `column` is the time of."""
        return Threads(self.profile, self.column, self._all)

    @cached_property
    def whole(self) -> float:
        """The sum of `column`: what shares are of, ns."""
        return float(self.column.sum())

    @property
    def whose(self) -> str:
        """What shares are of, as texts say it."""
        if self._more_than_steps:
            return "the host's time after set-up"
        if self._knows_steps:
            return "the host's time in its steps"
        return "the host's time without imports" if self.imports else "the host's time"

    @property
    def wall(self) -> str:
        """What shares of the longest thread are of, as texts say it."""
        if self._more_than_steps:
            return "the wall time after set-up"
        if self._knows_steps:
            return "the wall time of its steps"
        return "the wall time without imports" if self.imports else "the wall time"

    @property
    def part(self) -> str:
        """What becomes faster where shares of `whole` become faster, as texts say it."""
        if self._more_than_steps:
            return "the program after set-up"
        if self._knows_steps:
            return "a step"
        return "the program without imports" if self.imports else "the program"

    @cached_property
    def _more_than_steps(self) -> bool:
        """Whether much of what came after set-up is not of training steps, as a generation is."""
        if self.step_scopes.any() or not self._knows_phases or self.training is None:
            return False
        return float(self.column[self.in_training].sum()) < STEADY_NEARLY_ALL * self.whole

    @property
    def _knows_steps(self) -> bool:
        return self._knows_phases or bool(self.step_scopes.any())

    @cached_property
    def _knows_phases(self) -> bool:
        late = self._steps.late
        return bool(self._all[late].any() and self._all[~late].any())

    @cached_property
    def _work(self) -> Column:
        counted = ~(self.importing | self.recording)
        if self._knows_phases:
            counted &= self._steps.late
        return np.where(counted, self._all, 0.0)


def _imports(symbol: Symbol) -> bool:
    place = symbol.location
    return _is_module(symbol) and place is not None and is_installed(place.file)


def _is_module(symbol: Symbol) -> bool:
    return symbol.kind == "frame" and symbol.name == "<module>"
