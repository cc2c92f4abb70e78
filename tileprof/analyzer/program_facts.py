"""Facts of a program as a whole: its steps, the host's time, the names of its nodes.

In: a profile.  Out: `ProgramFacts`, which `cases.Program` adds the program's kernels to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.program.host import HostTime
from tileprof.analyzer.program.steady import Steps
from tileprof.analyzer.program.training_steps import TrainingSteps
from tileprof.analyzer.program.work_of_ops import WorkOfOps
from tileprof.once import cached_property
from tileprof.profile import (
    Column,
    Profile,
    labelled,
    users,
    whole_kernels,
    with_module_names,
)
from tileprof.profile.node_names import ONLY_COPIES


@dataclass(frozen=True, eq=False)
class ProgramFacts:
    """A profile of a program, and what follows from it as a whole."""

    profile: Profile

    def whole_kernels(self, metric: str) -> Column:
        """Per node, its own value, that of a kernel with its inside; 0 where nothing has any."""
        if metric not in self._wholes:
            self._wholes[metric] = self._whole_kernels(metric)
        return self._wholes[metric]

    @cached_property
    def _wholes(self) -> dict[str, Column]:
        return {}

    def _whole_kernels(self, metric: str) -> Column:
        profile = self.profile
        if metric not in profile.metrics:
            return np.zeros(len(profile))
        if profile.metrics[metric].adds != "sum":
            return profile.own[metric]
        return whole_kernels(profile, metric)

    @cached_property
    def device_time(self) -> float:
        """Return the time in which devices worked or had nothing to do, ns."""
        profile = self.profile
        whole = sum(
            float(profile.whole[name]) for name in ("time", "idle_time") if name in profile.metrics
        )
        # Gaps in which copies run are in the copies' time too.
        copied = profile.find(ONLY_COPIES, "idle") if "idle_time" in profile.metrics else []
        return whole - float(profile.own["idle_time"][copied].sum() if copied else 0)

    @cached_property
    def step_time(self) -> float:
        """Return the same for steps alone, without what comes only once, ns."""
        return self.steps.time

    @cached_property
    def steps(self) -> Steps:
        """Which nodes are of the program's steps."""
        return Steps(self.profile)

    @cached_property
    def host(self) -> HostTime:
        """The host's time, and which part of it is the program's work."""
        return HostTime(self.profile)

    @property
    def training(self) -> TrainingSteps | None:
        """Its training steps, found by the loop around its optimizer; None where there are none."""
        return self.host.training

    @cached_property
    def work(self) -> WorkOfOps:
        """Work of its kernels, as they and the operations around them say."""
        return WorkOfOps(self.profile)

    def path(self, node: int) -> tuple[str, ...]:
        """The names from the top down to a node: of the user's frames, modules, operations."""
        return tuple(filter(None, (self._names[each] for each in self.profile.path(node))))

    @cached_property
    def _names(self) -> list[str]:
        """Name in paths for each node, `""` for frames of libraries that pass calls on."""
        named = with_module_names(self.profile)
        shown = [users(each) for each in named.symbols]
        names = ["" if each is None else labelled(each).name for each in shown]
        return [names[each] for each in named.symbol.tolist()]

    @cached_property
    def shown(self) -> list[str]:
        """Name of each symbol, for modules their class, `""` for what only passes calls on."""
        shown = map(users, self.profile.symbols)
        return ["" if each is None else each.name for each in shown]
