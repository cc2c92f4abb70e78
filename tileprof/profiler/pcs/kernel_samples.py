"""Samples of program counters, and counts of instructions, at the kernels of a tree.

In: samples whose nodes are the recorder's, the tree that is built.  Out: the metric `pc_samples` at
kernels, or a metric for each count, and the samples with the tree's nodes. What knows its call path
is at the kernel below it. The rest is dealt out over the nodes of the same function, in proportion
to their time, as whole numbers that add up. Functions that have no node get one at the top: nothing
is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof.profile import Metric, PcSamples, TreeBuilder
from tileprof.profiler.tree import metrics
from tileprof.profiler.tree.numbers import Numbers
from tileprof.profiler.tree.tree import Node

FunctionsOf = Callable[[Node], Sequence[str]]
"""The CUDA functions whose work is at a kernel's node, by the names that the compiler gave them."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period of a session in the tree."""

    numbers: Numbers
    made: Sequence[int]
    """Node in the tree of each of the recorder's nodes; -1 for none."""

    def time(self, index: int) -> int:
        """Return what devices worked at a node, in ns."""
        launches, device = self.numbers.launches[index], self.numbers.device[index]
        return (launches.time if launches else 0) + (device.sum if device else 0)


def below(node: Node, function: str, functions_of: FunctionsOf) -> Node:
    """Return the kernel of a function right below the node of its launch, else that node."""
    if node.kind == "kernel":
        return node
    for each in node.children.values():
        if each.kind == "kernel" and function in functions_of(each):
            return each
    return node


def add_pc_samples(
    builder: TreeBuilder, held: PcSamples, periods: Sequence[Period], functions_of: FunctionsOf
) -> PcSamples:
    """Add the metrics to a tree, and return the samples with its nodes."""
    nodes = periods[-1].numbers.nodes if periods else []
    kernels: dict[str, list[int]] = {}
    for node in nodes:
        if node.kind == "kernel":
            for name in functions_of(node):
                kernels.setdefault(name, []).append(node.index)
    for metric, place, index, count in _parts(held):
        builder.declare(metric)
        function = held.functions[place]
        wanted = [index] if index >= 0 else kernels.get(function.name, [])
        homes = list(_homes(periods, wanted))
        if not homes:
            homes = [(builder.child(-1, "kernel", function.title), 1)]
        shares = shared_out(count, [weight for _, weight in homes])
        for (home, _), share in zip(homes, shares):
            builder.add(home, metric.name, share)
    last = np.full(len(nodes), -1, np.int64)
    for period in periods:
        made = np.array(period.made, np.int64)
        last[: len(made)] = np.where(made >= 0, made, last[: len(made)])
    return held.moved(last)


def _parts(held: PcSamples) -> Iterator[tuple[Metric, int, int, int]]:
    """Metric, function, node and number, where there are some; -1: the node is not known."""
    for place, index, samples in _by_node(held):
        yield metrics.PC_SAMPLES, place, index, samples
    counts = held.counts
    sums = counts.by_function(len(held.functions))
    for column, name in enumerate(counts.metrics):
        for place in np.flatnonzero(sums[:, column]).tolist():
            yield Metric(name, "1"), place, -1, int(sums[place, column])


def _by_node(held: PcSamples) -> Iterator[tuple[int, int, int]]:
    """Function, node and samples, where there are some."""
    width = int(held.rows.node.max(initial=-1)) + 2
    keys = held.rows.function.astype(np.int64) * width + held.rows.node + 1
    pairs, inverse = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(pairs), np.int64)
    np.add.at(counts, inverse, held.counted)
    for pair, count in zip(pairs.tolist(), counts.tolist()):
        if count:
            yield pair // width, pair % width - 1, count


def _homes(periods: Iterable[Period], indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Nodes of the tree with the time of each."""
    wanted = list(indices)
    for period in periods:
        for index in wanted:
            if index < len(period.made) and period.made[index] >= 0:
                yield period.made[index], period.time(index)


def shared_out(count: int, weights: Sequence[int]) -> list[int]:
    """Return whole parts of a number in proportion to weights; equal ones where all are 0."""
    if not any(weights):
        weights = [1] * len(weights)
    whole, before, shares = sum(weights), 0, []
    for weight in weights:
        after = before + weight
        shares.append(count * after // whole - count * before // whole)
        before = after
    return shares
