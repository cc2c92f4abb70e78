"""What a program does again and again, in its steps, and what only once: set-up and first uses.

A short recording of a program that runs for days has seconds before its first step, and in that
step libraries that load and memory that is set aside: shares of all of its time say little of the
steps. So devices' time is that of steps where they are known: by the phase that the recorder gave,
by the scopes in which nearly all of the work is done, by long loops of the user's in which nearly
all kernels run (`user_loops`), or by kernels that run again and again. What
was compiled but once is in none, nor what XLA tried then. Of what is in them, gaps that did not
come at every other visit are left out, too.

In: a profile.  Out: masks of nodes, times in ns.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.numbers.programs import (
    STEADY_FEWEST,
    STEADY_FIRST,
    STEADY_MANY,
    STEADY_NEARLY_ALL,
    STEADY_ONCE,
)
from tileprof.analyzer.program.compilers import compiles, compiling, first_uses
from tileprof.analyzer.program.masks import (
    Column,
    Ids,
    Mask,
    below,
    inclusive,
    kind,
    nearest,
    outermost,
    own,
    where,
)
from tileprof.analyzer.program.user_loops import UserLoop, long_loops
from tileprof.once import cached_property
from tileprof.profile import SETUP, Profile, trials_of_xla, whole_kernels
from tileprof.profile.node_names import FOR_DATA, FOR_HOST, LATE, ONLY_COPIES
from tileprof.profile.sketch import value_of

_LONG = (FOR_HOST, FOR_DATA)


class Steps:
    """Which of a profile's nodes are of its steps."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.count = own(profile, "count")
        timed = "time" in profile.metrics
        self.work = (whole_kernels(profile, "time") if timed else np.zeros(len(profile))).astype(
            float
        )

    @cached_property
    def idle(self) -> Column:
        """Time in which devices had nothing to do, by node, ns.

        Of gaps before late launches, as many as come in the first steps count as the next shorter
        ones: there each operation is loaded, and libraries choose their kernels.
        """
        found, sketches = own(self.profile, "idle_time"), self.profile.tables.sketches
        late = where(self.profile, lambda symbol: symbol.name == LATE) & (found > 0)
        for node in np.flatnonzero(late & (self.visits > STEADY_MANY)).tolist():
            if sketch := sketches.get((node, "idle_time")):
                values = value_of(sketch.buckets)
                usual = sketch.quantile(1 - STEADY_FIRST / self.visits[node])
                shorter = np.minimum(values, usual) @ sketch.counts
                found[node] *= float(shorter / (values @ sketch.counts))
        return found

    @cached_property
    def late(self) -> Mask:
        """Nodes that are not known to be of the time before the first step, by their phase."""
        return where(self.profile, lambda symbol: not symbol.phase.startswith(SETUP))

    @cached_property
    def knows_setup(self) -> bool:
        """Whether what came before the first step is told from the steps."""
        return not bool(self.late.all())

    @cached_property
    def loops(self) -> Ids:
        """By node, the outermost scope around it that was visited again and again; -1 for none."""
        scopes = kind(self.profile, "scope") & (self.count >= STEADY_FEWEST)
        return nearest(self.profile, outermost(self.profile, scopes))

    @cached_property
    def inside(self) -> Mask:
        """Nodes of steps; all, where steps are not known."""
        steps = self.late & self._in_users_loops
        if self._by_scopes:
            steps = self.late & (self.loops >= 0)
        return steps & ~self._compiled_once

    @cached_property
    def _by_scopes(self) -> bool:
        """Whether nearly all of the work is done in scopes that were visited again and again."""
        work = np.where(self.late, self.work, 0.0)
        held = float(work[self.loops >= 0].sum())
        return held > 0 and held >= STEADY_NEARLY_ALL * float(work.sum())

    @cached_property
    def users_loops(self) -> tuple[UserLoop, ...]:
        """The user's loops that are the steps; none where the recorder or scopes tell those, or
        where kernels outside of loops do more than a small part of the work."""
        if self.knows_setup or self._by_scopes:
            return ()
        found = long_loops(self.profile, self.count)
        held = np.zeros(len(self.profile), bool)
        for loop in found:
            held |= loop.around
        # Copies of weights to the device may take longer than a few seconds of steps.
        work = np.where(kind(self.profile, "kernel"), self.work, 0.0)
        whole = float(work.sum())
        return found if whole and float(work[held].sum()) >= STEADY_NEARLY_ALL * whole else ()

    @cached_property
    def with_ends(self) -> Mask:
        """Nodes of steps, and waits at the ends of the user's loops: there the host waits for what
        it was ahead by in all iterations."""
        found = self.inside.copy()
        for loop in self.users_loops:
            found |= loop.around
        return found

    @cached_property
    def _in_users_loops(self) -> Mask:
        """Nodes of the user's loops; all, where those are not the steps."""
        inside = np.full(len(self.profile), not self.users_loops)
        for loop in self.users_loops:
            inside |= loop.inside
        return inside

    @cached_property
    def compiling(self) -> Mask:
        """What compiles, or tries variants, with all below."""
        return compiling(self.profile)

    @cached_property
    def _compiled_once(self) -> Mask:
        """What was compiled in one visit of a compiler's scope, with all below; first uses of JAX's
        functions and trials of XLA.

        A program that compiles anew in each step does so in each visit of the same scope.
        """
        scopes = below(self.profile, where(self.profile, compiles)) & kind(self.profile, "scope")
        once = outermost(self.profile, scopes) & (self.count > 0) & (self.count < self.least)
        return below(self.profile, once) | first_uses(self.profile) | trials_of_xla(self.profile)

    @cached_property
    def repeats(self) -> bool:
        """Whether nearly all of the work comes again and again, so that what does not is told."""
        fewest = 2 if self.knows_setup else STEADY_FEWEST
        work = np.where(self.inside, self.work, 0.0)
        return bool(0 < STEADY_NEARLY_ALL * work.sum() <= work[self.count >= fewest].sum())

    @cached_property
    def again(self) -> Mask:
        """Gaps of devices that come in each step, or nearly; all, where work does not, either."""
        idle = kind(self.profile, "idle") & self.inside
        if not self.repeats:
            return idle
        seen = (self.count >= self.least) | self._seen(idle)
        compiled = self.compiling & (self.count < self._usual / 2)
        return idle & seen & ~self._of_lines_run_once & ~self._first_uses & ~compiled

    @cached_property
    def _first_uses(self) -> Mask:
        """Gaps without a scope that came once or twice, where most work runs many times: a device
        waits for what is loaded, or set up, before a kernel's first launch."""
        many = not self.knows_setup and self._usual >= STEADY_MANY
        rare: Mask = (self.loops < 0) & (self.count < STEADY_FEWEST) & many
        return rare

    @cached_property
    def _of_lines_run_once(self) -> Mask:
        """Gaps without a scope, at lines whose kernels run once where most work runs many times.

        What stands before and after a loop: its gaps may be several, as each operation is loaded.
        """
        launches, kernels = (
            inclusive(self.profile, np.where(self._launched, column, 0.0))
            for column in (self.count, np.ones(len(self.profile)))
        )
        line = nearest(self.profile, kind(self.profile, "frame"))
        rare = (kernels > 0) & (launches <= STEADY_ONCE * kernels) & (self._usual >= STEADY_MANY)
        once: Mask = (self.loops < 0) & (line >= 0) & rare[line]
        return once

    @cached_property
    def _launched(self) -> Mask:
        return kind(self.profile, "kernel") & (self.count > 0)

    @cached_property
    def _usual(self) -> float:
        """How often a kernel runs, the median by work in steps; 0 where there is none."""
        order = np.argsort(self.count)
        worked = np.cumsum(np.where(self._launched & self.inside, self.work, 0.0)[order])
        if not worked[-1]:
            return 0.0
        return float(self.count[order[int(np.searchsorted(worked, worked[-1] / 2))]])

    def _seen(self, idle: Mask) -> Mask:
        """Long gaps that come often enough together with others of their reason and scope.

        Each stands where the host was seen in it, which is not at the same place each time. Where
        it was seen but once does not count: first uses are at places of their own.
        """
        named = where(self.profile, lambda symbol: symbol.name in _LONG)
        scope = nearest(self.profile, kind(self.profile, "scope"))
        twice = idle & named & (self.count >= 2) & (scope >= 0)
        alike = scope * len(self.profile.symbols) + self.profile.symbol
        _, group = np.unique(alike, return_inverse=True)
        together = np.bincount(group, np.where(twice, self.count, 0.0))[group]
        seen: Mask = twice & (together >= self.least)
        return seen

    @cached_property
    def visits(self) -> Column:
        """Number of steps, by node; 0 where steps have no scope."""
        visits = np.where(self.loops >= 0, self.count[self.loops], 0.0)
        for loop in self.users_loops:
            visits[loop.inside] = loop.iterations
        return visits

    @cached_property
    def least(self) -> Column:
        """Visits that are every other one of a step, by node; 2 where steps have no scope."""
        return np.maximum(2.0, self.visits / 2)

    @cached_property
    def time(self) -> float:
        """What devices worked in steps, and had nothing to do in each of them."""
        # Gaps in which copies run are in the copies' time too.
        gaps = self.again & where(self.profile, lambda symbol: symbol.name != ONLY_COPIES)
        return float(self.work[self.inside].sum() + self.idle[gaps].sum())

    @cached_property
    def once(self) -> float:
        """Gaps that are left out."""
        return float(self.idle[kind(self.profile, "idle") & ~self.again].sum())
