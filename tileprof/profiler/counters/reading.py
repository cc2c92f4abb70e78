"""Counters of launches, from the images that CUPTI filled to numbers at the nodes of kernels.

In: batches of the native recorder: an image, and the launches of its context since the batch began.
Out: totals of devices with counters, by epoch and node.

CUPTI's ranges of launches have no names but numbers, which count a context's launches. So the
range with the n-th number is the n-th launch; where there are not as many ranges as launches, none
is taken for another: their counters go to a node of their own. A graph's kernels are ranges each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tileprof.profile import KernelInfo, Sketch
from tileprof.profile.counters import TIME
from tileprof.profiler.tree.contexts import Contexts
from tileprof.profiler.tree.totals import DeviceTotals
from tileprof.profiler.tree.tree import Node, Tree

from .control import CounterControl
from .host import CuptiFailure, Host, open_library
from .planning import Plan

GRAPH = "graph"
"""Name of the kernel that stands for all of a graph."""
UNKNOWN = "launches that could not be told apart"

_Key = tuple[int, int, str, int]
"""Epoch, context, function, device."""


@dataclass(slots=True)
class _Sum:
    """Sum over launches of one function at one calling path."""

    totals: DeviceTotals = field(default_factory=lambda: DeviceTotals("kernel"))
    times: list[int] = field(default_factory=list)


class CounterReading:
    """Turns batches into parts of a tree."""

    def __init__(
        self,
        native: ModuleType,
        tree: Tree,
        contexts: Contexts,
        kernels: list[KernelInfo],
        kernel_of: dict[int, int],
    ) -> None:
        self._native, self._tree, self._contexts = native, tree, contexts
        self._kernels, self._kernel_of = kernels, kernel_of
        self._places: dict[tuple[str, int], int] = {}
        """Place among the kernels, keyed by (function, device)."""
        self._host: Host | None = None

    def drain(self, control: CounterControl) -> Iterator[tuple[int, Node, DeviceTotals]]:
        """Hand out what was read since the last time, with its epoch."""
        plan = control.plan
        batches = self._native.counters_take() if plan is not None else []
        if plan is None or not batches:
            return
        sums: dict[_Key, _Sum] = {}
        for batch in batches:
            self._add(sums, plan, batch, control)
        for (epoch, context, function, device), one in sums.items():
            one.totals.sketch = Sketch.of(one.times)
            yield epoch, self._node(context, function, device), one.totals

    def _add(self, sums: dict[_Key, _Sum], plan: Plan, batch: Any, control: CounterControl) -> None:
        device, dropped, image, epochs, contexts, functions = batch
        launches = list(zip(epochs.tolist(), contexts.tolist(), functions.tolist()))
        try:
            host = self._opened(plan)
            order = in_order(host.ranges(image))
            values = [host.values(image, index, plan.asked.terms) for index in order]
        except CuptiFailure as failure:
            control.lose(len(launches), failure)
            return
        if [function for *_, function in launches] == [0]:
            # A graph, alone in its batch: a range for each of its kernels.
            launches *= len(order)
            if dropped:
                control.lose(dropped)
        if len(order) != len(launches):
            control.lose(len(launches))
            launches = [(max(epochs.tolist(), default=0), -1, 0)] * len(order)
        for row, (epoch, context, number) in zip(values, launches):
            if epoch:
                name = self._native.name(number) if number else ""
                one = sums.setdefault((epoch, context, name, device), _Sum())
                self._count(one, plan, dict(zip(plan.asked.terms, row)))

    def _opened(self, plan: Plan) -> Host:
        if self._host is None or self._host.chip != plan.chip:
            self._host = Host(open_library(plan.library), plan.chip)
        return self._host

    def _count(self, one: _Sum, plan: Plan, values: dict[str, float]) -> None:
        totals, time = one.totals, values[TIME]
        totals.count += 1
        if math.isfinite(time):
            ns = round(time)
            totals.sum += ns
            totals.least, totals.most = min(totals.least, ns), max(totals.most, ns)
            one.times.append(ns)
        else:
            totals.untimed += 1
        for counter in plan.asked.counters:
            value = counter.value(values)
            if math.isfinite(value):
                totals.count_up(counter.metric, value)

    def _node(self, context: int, function: str, device: int) -> Node:
        if context < 0:
            return self._kernel(self._tree.root, UNKNOWN, device)
        above = self._contexts.node(context)
        if above.kind == "kernel":
            return above
        name = self._native.demangled(function) if function else GRAPH
        return self._kernel(above, name, device)

    def _kernel(self, above: Node, name: str, device: int) -> Node:
        place = self._places.get((name, device))
        if place is None:
            place = self._places[name, device] = len(self._kernels)
            self._kernels.append(KernelInfo(name, f"cuda:{device}"))
        node = self._tree.child(above, "kernel", name, None, ("counted", name, device))
        self._kernel_of.setdefault(node.index, place)
        return node


def in_order(names: Sequence[str]) -> list[int]:
    """Indices of ranges in the order of their launches: by number, where all have one."""
    if all(name.isdecimal() for name in names) and len(set(names)) == len(names):
        return sorted(range(len(names)), key=lambda index: int(names[index]))
    return list(range(len(names)))
