"""Why kernels take longer than their floors, as far as their launches, names and samples tell.

In: a program's tree and its floors.  Out: for each kernel's node, parts of the time beyond its
floor, each with a typed cause and an upper bound. They need no suggestion: often there is nothing
to gain in this program, because the device waits for the host anyway.

- `layout`: a library's kernel only changes a layout. At most all of it.
- `few-blocks`: a grid is less than one wave, and w of the places for blocks are filled. At most
  1 - w of the time.
- `last-wave`: several waves, the last of them not full. At most the idle part of the last wave.
- `short-launch`: at most one wave, in less than `SHORTFALLS_SHORT`. At most all of it.
- `older-instructions`: a kernel of older GPUs, whose products use mma instead of wgmma.
  At most the time by which mma takes longer.
- `second-read`: batch and group norms read their input for the sums, then to apply them.
- `instructions`: how often schedulers issue (samples); without samples, kernels of PyTorch that
  compute an index for each element. At most the time in which schedulers issue.

A launch of at most one wave takes as long as its longest block, because all blocks run side by
side. Up to a whole wave, more work in more blocks hardly takes longer: so with w of the places
filled, 1 - w of the time is lost. In a short launch the rest is latency too: it starts, loads once,
and ends. A long launch of one whole wave is not explained by that, and stays unexplained.

Parts are taken in this order, and never more than is beyond the floor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.contexts import Column, Contexts
from tileprof.analyzer.findings import duration
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.kernel.launches import Launch, busy_share, launch_of
from tileprof.analyzer.numbers.reports import (
    SHORTFALLS_ISSUED,
    SHORTFALLS_REWRITTEN,
    SHORTFALLS_SHORT,
)
from tileprof.analyzer.numbers.shared import HOPPER, MMA_OF_WGMMA
from tileprof.analyzer.program.convolutions import changes_layout
from tileprof.analyzer.program.types_by_name import roofs_by_name

Shortfall: TypeAlias = Literal[
    "layout", "few-blocks", "last-wave", "short-launch", "older-instructions", "second-read",
    "instructions",
]  # fmt: skip

SHORTFALLS: Mapping[Shortfall, str] = {
    "layout": "layout changes for convolutions",
    "few-blocks": "grids that do not fill the device",
    "last-wave": "last waves that are not full",
    "short-launch": "latency of short launches",
    "older-instructions": "instructions of older GPUs (mma)",
    "second-read": "norms that read their input twice",
    "instructions": "issue of instructions",
}
"""Causes in words, as parts of a kernel's time."""

_OLDER = re.compile(r"(^|[^a-z0-9])(sm(70|75|80|86)|cutlass_(70|75|80)|ampere|turing|volta)_")
"""Names of library kernels that were built for GPUs before Hopper."""
_NORM = re.compile(r"(batch|group|instance)_?norm", re.IGNORECASE)
_ONE_READ = re.compile(r"singleread|persist|fw_inf|transform_input", re.IGNORECASE)
"""Kernels that read once: some keep their input, others are given statistics (inference)."""
_INDEXED = re.compile(
    r"::elementwise_kernel<|_(cuda|out)_frame\b|_pool\w*_(backward_)?n(chw|hwc)\b"
)
"""PyTorch's kernels that divide the number of an element into its coordinates."""


_GENERATED = re.compile(
    r"elementwise|reduce_kernel|pool\w*[_123]|norm|bn_(fw|bw)|moments|softmax|upsample",
    re.IGNORECASE,
)
"""Kernels of operations that compilers generate code for, by their names."""


class Shortfalls:
    """Parts of the time beyond floors, by cause and node, in steps, ns."""

    def __init__(self, tree: Contexts, floors: Floors) -> None:
        self._tree, self._floors = tree, floors
        self._blocks = np.nan_to_num(tree.program.whole_kernels("blocks"))
        self.by_cause: dict[Shortfall, Column] = {}
        for case in tree.program.kernels:
            launch = launch_of(case)
            for node in case.nodes:
                left = float(tree.time[node] - floors.floor[node])
                for cause, most in self._most(case, launch, node):
                    part = min(left, most)
                    if part > 0:
                        column = self.by_cause.setdefault(cause, np.zeros(len(tree.parents)))
                        column[node] += part
                        left -= part

    def of(self, nodes: list[int]) -> dict[Shortfall, float]:
        """Return the parts of some nodes' time by cause, ns."""
        sums = {cause: float(column[nodes].sum()) for cause, column in self.by_cause.items()}
        return {cause: time for cause, time in sums.items() if time > 0}

    def _most(
        self, case: KernelCase, launch: Launch | None, node: int
    ) -> Iterator[tuple[Shortfall, float]]:
        """Yield the causes of a node, each with the most that it accounts for, ns."""
        tree, floor = self._tree, float(self._floors.floor[node])
        time, limit = float(tree.time[node]), self._floors.limits.get(node, "")
        if not time or case.ir:
            return
        if changes_layout(case.name):
            yield "layout", time
        if launch is not None and not launch.tiles:
            yield from self._of_waves(launch, node, time)
        if limit == "arithmetic" and _is_older(case):
            yield "older-instructions", floor * (1 / MMA_OF_WGMMA - 1)
        if limit == "memory":
            yield "second-read", floor * _read_again(tree, case.name, node)
        if case.sampled is not None:
            yield "instructions", busy_share(case.sampled) * time - floor
        elif _INDEXED.search(case.name):
            yield "instructions", SHORTFALLS_ISSUED * time - floor

    def _of_waves(
        self, launch: Launch, node: int, time: float
    ) -> Iterator[tuple[Shortfall, float]]:
        launches = float(self._tree.count[node])
        blocks = float(self._blocks[node]) / launches if launches else 0.0
        waves = blocks / (launch.multiprocessors * launch.held)
        if not blocks:
            return
        if waves <= 1:
            yield "few-blocks", (1 - waves) * time
            whole = float(self._tree.own("time")[node])
            if whole < SHORTFALLS_SHORT * launches:
                yield "short-launch", time
        elif blocks.is_integer():  # else its launches have several grids
            # A multiprocessor that holds several blocks is idle only once it has none.
            each = waves if launch.held == 1 else blocks / launch.multiprocessors
            yield "last-wave", (1 - each / math.ceil(each)) * time


def rewritten(tree: Contexts, floors: Floors) -> Column:
    """Return by node the time that kernels of a compiler's own take for the same work, in steps,
    ns: never more than its kernel takes now, which stands for others than norms, poolings, sums and
    kernels by element, for tile kernels, which compilers call as they are, and where memory does
    not set the floor.

    A compiler writes norms, poolings and sums itself: none of them is held up by a library's grid
    or by an index that is computed for each element. Norms still read their input twice.
    """
    found = tree.time.copy()
    for case in tree.program.kernels:
        if case.ir:
            continue
        for node in case.nodes:
            if floors.limits.get(node) == "memory" and _GENERATED.search(case.name):
                bytes_again = 1 + _read_again(tree, case.name, node)
                least = floors.floor[node] * bytes_again / SHORTFALLS_REWRITTEN
                least = max(least, SHORTFALLS_SHORT * tree.count[node] * tree.part_in_steps(node))
                found[node] = min(found[node], least)
    return found


def _read_again(tree: Contexts, name: str, node: int) -> float:
    """Return the bytes that a norm reads twice, as a part of those that it has to move."""
    op = int(tree.ops[node])
    if op < 0 or not _NORM.search(tree.profile.names[op]) or _ONE_READ.search(name):
        return 0.0
    # Of two tensors forward, and of three backward, all that are inputs are read twice.
    return 2 / 3 if tree.backward[node] else 1 / 2


def in_words(sums: Mapping[Shortfall, float]) -> str:
    """Return causes with their times (ns) as a part of a sentence, the longest first."""
    ranked = sorted(sums.items(), key=lambda item: -item[1])
    return ", ".join(f"{SHORTFALLS[cause]} {duration(time)}" for cause, time in ranked)


def _is_older(case: KernelCase) -> bool:
    device = case.device_info
    on_tensor_cores = any(each.startswith("tensor") for each in roofs_by_name(case.name)[:1])
    is_hopper = device is not None and device.major >= HOPPER
    return is_hopper and on_tensor_cores and bool(_OLDER.search(case.name))
