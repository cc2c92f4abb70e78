"""Consecutive short kernels that one kernel, or one CUDA graph, could replace.

Static: none. Dynamic: times, launches and gaps of kernels that are launched by one function, or
scope, in the order of the tree; those of functions that it calls are in the chain where all it
launches is short, and none in a long loop. Where each training step changes many tensors in place,
one after the other, the chain is the step's. A chain of them fused takes as long as its longest
kernel where each element is read and written once, and half of what is above that goes where
results in between are still written, as a backward pass wants them. Of the gaps before n kernels
(n - 1) / n go. Before late launches it is the host's time of which as much goes
(`Contexts.fewer_launches`): kernels that ran meanwhile hid a part of it. One operation that
launches kernels and products in a loop of its own, as a recurrence of cuDNN does, is left out.

A device holds a fixed number of launches (about a thousand) that wait for it. Where a chain fills
that queue, the host stands in it, though what the queue holds is done in no time; so the host comes
late with what it does next. Gaps before such work may go as well, no more than the host stood
there: none for sure, half likely.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import (
    AFTER_COPY,
    DEPENDENT,
    FOR_DATA,
    FOR_HOST,
    LATE,
    Column,
    Contexts,
    FewerLaunches,
    Mask,
)
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, listed, percent
from tileprof.analyzer.fixes import Fix, OptimizerForm, compiled_at
from tileprof.analyzer.numbers.shared import COLD, MOST_OF_A_KIND
from tileprof.analyzer.rules.program.eager_attention import PRODUCT_NAMES
from tileprof.analyzer.rules.program.numbers import (
    SMALL_KERNELS_FEWEST,
    SMALL_KERNELS_LOOP,
    SMALL_KERNELS_SHORT,
)
from tileprof.once import cached_property

_PRODUCT = re.compile(PRODUCT_NAMES + "|fmha|flash|attention|nccl|sort|fft", re.IGNORECASE)
"""Kernels that fusing their neighbours does not take in."""
_GRAPH = (
    " The device waits for the host between them: a CUDA graph (torch.compile with"
    ' mode="reduce-overhead", torch.cuda.graph) launches all of them at once.'
)
_FUSE = (
    "Fuse them: torch.compile the function around this line, write them as one kernel, or use the"
    " fused form where there is one (fused=True of optimizers, one norm, activation or loss)."
)

_OPTIMIZER = (
    "Give the optimizer fused=True, or foreach=True, both of which work on many parameters at once."
)
_FOREACH = (
    "Change all tensors by one call that takes lists of them: torch._foreach_mul_,"
    " torch._foreach_lerp_ and others; for an average of weights"
    " torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn does so."
)
_JIT = (
    "Call what these lines do in one function under jax.jit: XLA fuses what is in one program, and"
    " its host launches one."
)
_ONE_BY_ONE = "_single_tensor_"
"""How names begin of torch.optim's functions that update one parameter after the other."""


@dataclass(frozen=True, eq=False)
class _Chain:
    tree: Contexts
    nodes: list[int]
    caller: int
    """A frame of the user's function that launches all of them, also through others; -1 for none,
    and where each of its lines launches its own."""
    idle: float
    """Gaps before its kernels, ns."""
    late: float
    """Those of them in which the launch came late."""
    stood: float
    """What the host stood in its launches, as the device's queue was full, ns."""

    @cached_property
    def place(self) -> int:
        """The first kernel of a line with at least half as many launches as any other: a chain may
        begin with what is left of the line before."""
        lines: list[int] = self.tree.lines[self.nodes].tolist()
        launches = dict.fromkeys(lines, 0.0)
        for line, count in zip(lines, self.tree.count[self.nodes].tolist(), strict=True):
            launches[line] += count
        most = max(launches.values())
        first = next(line for line in launches if launches[line] >= most / 2)
        return self.nodes[lines.index(first)]

    @property
    def told(self) -> str:
        """Where it is, in a few words."""
        line = self.tree.profile.locations[self.caller] if self.caller >= 0 else None
        if line is None:
            return f" at {self.tree.told(self.place)}"
        return f" in {line.function or self.tree.profile.names[self.caller]}, {line.short}"

    @cached_property
    def is_of_optimizer(self) -> bool:
        """Whether most of its launches update parameters one by one."""
        tree = self.tree
        inside = tree.below(tree.where(lambda symbol: symbol.name.startswith(_ONE_BY_ONE)))
        nodes = np.array(self.nodes)
        return float(tree.count[nodes[inside[nodes]]].sum()) > self.launches / 2

    @cached_property
    def is_of_tensors(self) -> bool:
        """Whether each training step changes many tensors by it, one after the other, in place."""
        tree, training = self.tree, self.tree.program.training
        if training is None or self.is_of_optimizer:
            return False
        launches = float(np.median(tree.count[self.nodes]))
        often = launches > SMALL_KERNELS_LOOP * training.count
        return often and all(tree.op(node).endswith("_") for node in self.nodes)

    @cached_property
    def visits(self) -> float:
        """How often the chain ran: as the op around all of it, or as most of its kernels."""
        counts = self._counts
        if self.is_of_tensors and (training := self.tree.program.training):
            return float(training.count)
        if self.caller >= 0:  # lines launch some kernels several times
            return float(counts.min())
        usual = float(np.median(counts))
        ops = {int(self.tree.ops[node]) for node in self.nodes}
        around = float(self.tree.count[ops.pop()]) if len(ops) == 1 and -1 not in ops else 0.0
        return min(usual, around) if around else usual

    @cached_property
    def is_in_jax(self) -> bool:
        """Whether all of it is run by programs of JAX."""
        return bool((self.tree.programs_of_jax[self.nodes] >= 0).all())

    @cached_property
    def _counts(self) -> Column:
        """Launches of each kernel; in JAX together with its first one, which another path leads to,
        that of compiling."""
        tree, nodes = self.tree, np.array(self.nodes)
        counts: Column = tree.count[nodes]
        if self.is_in_jax:
            alike = tree.lines[nodes] * len(tree.profile.symbols) + tree.profile.symbol[nodes]
            counts = np.bincount(np.unique(alike, return_inverse=True)[1], counts).astype(float)
        return counts

    @cached_property
    def launches(self) -> float:
        return float(self.tree.count[self.nodes].sum())

    @cached_property
    def length(self) -> float:
        """Kernels of one visit."""
        return self.launches / self.visits

    @cached_property
    def time(self) -> float:
        return float(self.tree.time[self.nodes].sum())

    @cached_property
    def above(self) -> float:
        """Time of its kernels above that of the longest one, all of whose launches stay.

        Launches of one kernel work on other elements each: fused they move as much.
        """
        return self.time - float(self.tree.time[self.nodes].max())

    @cached_property
    def between(self) -> float:
        """Gaps that one kernel would not have, ns; without what recording adds to them."""
        return self._dependent + self.fewer.gaps

    @property
    def _dependent(self) -> float:
        """Gaps between dependent work that one kernel would not have, ns."""
        return (self.idle - self.late) * (1 - 1 / self.length)

    @cached_property
    def fewer(self) -> FewerLaunches:
        """What becomes shorter as one launch takes the place of all."""
        return self.tree.fewer_launches(self.nodes, self.late, 1 / self.length, self.above / 2)

    @cached_property
    def most_unrecorded(self) -> float:
        """The most that goes of the time without a recording, ns: the host's work for all of the
        launches, and its waits for the device's queue."""
        fewer = self.tree.fewer_launches(self.nodes, self.late, 0.0, self.above)
        return self.above * fewer.exposed + self._dependent + fewer.gaps + self.behind

    @cached_property
    def most_between(self) -> float:
        """Gaps that one kernel would not have, with what recording adds, ns."""
        return self.idle * (1 - 1 / self.length)

    @cached_property
    def behind(self) -> float:
        """Gaps elsewhere that may be for the host's having stood in this chain, ns."""
        if not self.stood:
            return 0.0
        tree = self.tree
        gaps = tree.idle(LATE, AFTER_COPY, FOR_HOST, FOR_DATA) & ~tree.compiling
        elsewhere = max(0.0, tree.avoidable(gaps) - self.late)
        return min(self.stood, elsewhere * self.stood / float(tree.standing.sum()))

    @cached_property
    def saved(self) -> float:
        return self.above / 2 + self.between + self.behind / 2


def find(program: Program) -> Iterator[Draft]:
    """The chains that take the most time, those of one function and phase together."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    places = dict[Hashable, list[_Chain]]()
    for chain in _chains(tree):
        line = tree.line(chain.place)
        where = (line.file, line.function) if line else None
        phase = bool(tree.backward[chain.place])
        kind = chain.is_of_optimizer, chain.is_of_tensors
        places.setdefault((where, phase, kind), []).append(chain)
    worst = sorted(places.values(), key=lambda held: -sum(each.saved for each in held))
    for chains in worst[:MOST_OF_A_KIND]:
        if tree.share(sum(each.saved for each in chains)) >= COLD:
            yield _draft(tree, chains)


def _chains(tree: Contexts) -> Iterator[_Chain]:
    """Runs of short kernels that nothing else comes in between, within one caller."""
    kernels = tree.kind("kernel") & (tree.time > 0) & ~tree.compiling
    idle, late = tree.gaps_before(kernels, DEPENDENT, LATE), tree.gaps_before(kernels, LATE)
    callers = _callers(tree, kernels)
    for nodes in tree.runs(kernels, lambda node: callers[node].visit if node in callers else None):
        frames = {callers[node].frame for node in nodes} - {-1}
        caller = min(frames, default=-1)
        yield from _long_enough(tree, nodes, caller, idle, late)


def _long_enough(
    tree: Contexts, nodes: list[int], caller: int, idle: Column, late: Column
) -> Iterator[_Chain]:
    calls = tree.parents[nodes]
    around = {*calls.tolist(), *tree.parents[calls].tolist()} - {-1}
    stood = float(tree.standing[np.isin(tree.parents, list(around))].sum())
    chain = _Chain(tree, nodes, caller, float(idle[nodes].sum()), float(late[nodes].sum()), stood)
    programs = set(tree.programs_of_jax[nodes].tolist())
    # Whatever is left in one program, XLA had reasons not to fuse.
    fused = len(programs) == 1 and programs != {-1}
    if chain.length >= SMALL_KERNELS_FEWEST and not fused and not _loops_inside(tree, nodes):
        yield chain


def _loops_inside(tree: Contexts, nodes: list[int]) -> bool:
    """Return whether one operation of a library launches the kernels in a loop of its own, with
    products in between, as cuDNN's recurrences do: no compiler sees that loop."""
    ops = set(tree.ops[nodes].tolist())
    if len(ops) != 1 or -1 in ops:
        return False
    (op,) = ops
    least = max(float(tree.count[nodes].min()) / 2, SMALL_KERNELS_LOOP * float(tree.count[op]))
    beside = np.flatnonzero((tree.ops == op) & tree.kind("kernel") & (tree.count >= least))
    return any(_PRODUCT.search(tree.profile.names[node]) for node in beside)


def _fusible(tree: Contexts, node: int) -> bool:
    # A kernel whose launches were not counted has no mean, and is in no chain of short ones.
    short = tree.count[node] > 0 and tree.time[node] < SMALL_KERNELS_SHORT * tree.count[node]
    return bool(short) and not _PRODUCT.search(tree.profile.names[node])


@dataclass(slots=True)
class _Visit:
    """What a visit of a function launches, itself and through others, in one pass."""

    fusible: bool = True
    fewest: float = math.inf
    """Launches of the kernel with the fewest."""
    most: float = 0.0
    kernels: int = 0

    def take(self, fusible: bool, launches: float) -> None:
        self.kernels += 1
        self.fusible &= fusible
        self.fewest, self.most = min(self.fewest, launches), max(self.most, launches)

    @property
    def is_one_chain(self) -> bool:
        """Whether all of it is one chain: a loop would launch some kernels more often."""
        return self.fusible and self.most <= SMALL_KERNELS_LOOP * self.fewest


class _Caller(NamedTuple):
    visit: Hashable
    """What kernels of one chain have in common."""
    frame: int = -1
    """A frame of it, where it launches through other functions."""


def _callers(tree: Contexts, kernels: Mask) -> dict[int, _Caller]:
    """Return for each fusible kernel the outermost visit of the user's functions that is one chain,
    else the innermost; an operation where there is none."""
    visits = dict[Hashable, _Visit]()
    around = {node: list(_frames(tree, node)) for node in np.flatnonzero(kernels).tolist()}
    fusible = {node: _fusible(tree, node) for node in around}
    for node, frames in around.items():
        for frame in frames:
            visit = visits.setdefault(_key(tree, frame, node), _Visit())
            visit.take(fusible[node], float(tree.count[node]))
    callers = dict[int, _Caller]()
    for node, frames in around.items():
        if not fusible[node]:
            continue
        if not frames:
            if tree.ops[node] >= 0:
                callers[node] = _Caller(int(tree.ops[node]))
            continue
        callers[node] = _Caller(tree.visit(frames[0]))
        launched = visits[_key(tree, frames[0], node)].kernels
        for frame in frames[1:]:
            visit = visits[_key(tree, frame, node)]
            if not visit.is_one_chain:
                break
            if visit.kernels > launched:  # else it is only on the way
                callers[node], launched = _Caller(tree.visit(frame), frame), visit.kernels
    return callers


def _frames(tree: Contexts, node: int) -> Iterator[int]:
    """Yield the user's frames and scopes around a node, the innermost first."""
    while node >= 0 and (at := int(tree.lines[node])) >= 0:
        yield at
        node = int(tree.parents[at])


def _key(tree: Contexts, frame: int, kernel: int) -> Hashable:
    return tree.visit(frame), bool(tree.backward[kernel])


def _draft(tree: Contexts, chains: list[_Chain]) -> Draft:
    first = max(chains, key=lambda each: each.saved)
    time, launches, idle, late, stood, behind = (
        sum(getattr(each, what) for each in chains)
        for what in ("time", "launches", "idle", "late", "stood", "behind")
    )
    measured = (
        f"{first.length:.0f} kernels in a row, {launches:,.0f} launches in all, of"
        f" {duration(time / launches)} on average: {percent(tree.share(time))} of"
        f" {tree.whose}"
    )
    names = list(dict.fromkeys(tree.op(node) or tree.profile.names[node] for node in first.nodes))
    evidence = [Evidence("activities", measured)]
    evidence.append(Evidence("activities", f"their operations: {listed(names)}"))
    if idle:
        text = f"another {percent(tree.share(idle))} is lost in gaps before them"
        evidence.append(
            Evidence(
                "activities", f"{text}, {percent(late / idle, 0)} of it because launches are late"
            )
        )
        evidence.append(Evidence("activities", tree.recording))
    if behind:
        text = (
            f"the host is blocked for {duration(stood)} in these launches, because the device's"
            f" queue is full; {percent(tree.share(behind))} is lost in gaps elsewhere, before its"
            " next launches"
        )
        evidence.append(Evidence("activities", text))
    above, between, most, unrecorded = (
        sum(getattr(each, what) for each in chains)
        for what in ("above", "between", "most_between", "most_unrecorded")
    )
    low, mid = between / 2, above / 2 + between + behind / 2
    high = above + most + behind
    nodes = [node for each in chains for node in each.nodes]
    before = () if behind else tree.ended_by(nodes, DEPENDENT, LATE)
    saving = tree.saving(low, mid, high, between + behind / 2, most + behind, unrecorded)
    row = f"{first.length:.0f} short kernels in a row{first.told}"
    title, advice = row, _FUSE
    if first.is_of_optimizer:
        title, advice = f"The optimizer updates one parameter after the other: {row}", _OPTIMIZER
    elif first.is_of_tensors:
        title, advice = f"A loop changes one tensor after the other: {row}", _FOREACH
    if first.is_in_jax:
        advice = _JIT
    elif late > idle / 2:
        advice += _GRAPH
    place = tree.place(first.place if first.caller < 0 else first.caller)
    fixes: tuple[Fix, ...] = (OptimizerForm(), OptimizerForm("foreach"))
    if not first.is_of_optimizer:
        fixes = () if first.is_of_tensors or first.is_in_jax else compiled_at(place.location)
    exposed = sum(each.fewer.exposed * each.above for each in chains) / above if above else 1.0
    return Draft("suggestion", title, place, tuple(evidence), advice, "", saving,
                 nodes=tuple(nodes), gaps=before, launches_go=True, exposed=exposed,
                 fixes=fixes)  # fmt: skip


RULE = ProgramRule("small-kernels", find)
