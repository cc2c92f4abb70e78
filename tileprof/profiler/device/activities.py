"""Nodes for the work of GPUs: kernels, copies, fills, waits, overhead, idle time.

In: totals of the native recorder, each of a calling context and a kind of work.  Out: numbers at
nodes below those contexts. A kernel of ours has a node already; other work gets one of its own.

CUPTI's numbers for kinds of memory, copies, waits and overhead are those of `cupti_activity.h`.
"""

from __future__ import annotations

import math
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tileprof.profile import KernelInfo, Sketch, split_sketches
from tileprof.profile.node_names import (
    AFTER_COPY,
    AFTER_WAIT,
    BEFORE_UNKNOWN,
    DEPENDENT,
    FOR_DATA,
    FOR_HOST,
    LATE,
    ONLY_COPIES,
)
from tileprof.profiler.device import devices
from tileprof.profiler.device.timeline import NOTHING, Part, device_part
from tileprof.profiler.tree.contexts import Contexts
from tileprof.profiler.tree.sampled_nodes import Trail
from tileprof.profiler.tree.totals import DeviceTotals, Parts
from tileprof.profiler.tree.tree import Node, Tree

_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA",
               8: "DtoD", 9: "HtoH", 10: "PtoP"}  # fmt: skip
_MEMORIES = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device",
             7: "managed"}  # fmt: skip
_HOST = (1, 2)
_OVERHEADS = {1: "compiling", 1 << 16: "CUPTI buffers", 2 << 16: "CUPTI instrumentation",
              3 << 16: "CUPTI resources", 4 << 16: "module loading", 5 << 16: "function loading",
              6 << 16: "command buffer full", 7 << 16: "CUPTI buffers",
              8 << 16: "unified memory"}  # fmt: skip
_DATA_LOADER = os.path.join("torch", "utils", "data", "dataloader.py")
_IDLE = {"launch": LATE, "sync": AFTER_WAIT, "copy": AFTER_COPY, "queue": DEPENDENT,
         "waiting_copy": ONLY_COPIES, "unknown": BEFORE_UNKNOWN}  # fmt: skip

_AT_ONCE = 256
"""Gaps that are numbers of Python's at a time."""


class Activities:
    """Turns the native recorder's totals into parts of a tree."""

    def __init__(
        self,
        native: ModuleType,
        tree: Tree,
        contexts: Contexts,
        trail: Trail,
        kernels: list[KernelInfo],
        kernel_of: dict[int, int],
    ) -> None:
        self._native = native
        self._tree = tree
        self._contexts = contexts
        self._trail = trail
        self._kernels = kernels
        self._kernel_of = kernel_of
        self._places: dict[int, int] = {}
        """Number of a variant to its place among the kernels."""
        self._variants: list[Variant] = []
        self._functions: dict[int, list[str]] = {}
        """Place of a kernel of ours to the CUDA functions whose facts it has."""
        self._traced = NOTHING
        self._whats = {number: name for name, number in native.WHATS.items()}
        self._waits = {number: name for name, number in native.WAITS.items()}
        self._reasons = {number: name for name, number in native.IDLE_REASONS.items()}

    def drain(self, settle: bool) -> Iterator[tuple[int, Node, DeviceTotals]]:
        """Hand out what was counted since the last time, with its epoch.

        With `settle`, idle time up to the last record; without, what may still be put in order
        waits.
        """
        drained = self._native.gpu_drain(settle)
        names = ("epoch", "context", "what", "detail")
        sketches = sketches_of(drained)
        streams = _streams_of(drained["streams"])
        nodes: dict[tuple[int, int, int], int] = {}
        for row, key in enumerate(zip(*(drained[name].tolist() for name in names))):
            epoch, context, what, detail = key
            node = self._node(context, self._whats[what], detail, drained, row)
            nodes[context, what, detail] = node.index
            totals = _totals(self._whats[what], drained, row, sketches[row])
            totals.streams = streams.get(row, {})
            yield epoch, node, totals

        yield from self._gaps(drained["gaps"])

        # Each event on the timeline is in one of these totals.
        self._traced = device_part(drained["timeline"], nodes)

    def traced(self) -> Part:
        """Hand over the single events of the last `drain`."""
        return self._traced

    def functions_of(self, node: Node) -> tuple[str, ...]:
        """Return the CUDA functions whose work is at a kernel's node, as the compiler wrote
        them."""
        which = node.key[1] if node.key is not None else None
        if isinstance(which, tuple) and which[:1] == ("gpu",):
            return (self._variants[which[1]].name,)
        return tuple(self._functions.get(self._kernel_of.get(node.index, -1), ()))

    def _node(self, context: int, what: str, detail: int, drained: Any, row: int) -> Node:
        above = self._contexts.node(context)
        match what:
            case "kernel":
                return self._kernel(above, detail, drained, row)
            case "memcpy":
                return self._tree.child(above, "memcpy", _copy_name(detail), None)
            case "memset":
                return self._tree.child(above, "memset", _memory_name(detail), None)
            case "sync":
                return self._tree.child(above, "sync", self._waits[detail], None)
            case "idle":
                reason = self._reasons[detail & 0xFFFF]
                return self._tree.child(above, "idle", _IDLE[reason], None)
            case _:
                name = _OVERHEADS.get(detail, f"overhead {detail:#x}")
                return self._tree.child(above, "api", f"{name} (overhead)", None)

    def _gaps(self, gaps: Any) -> Iterator[tuple[int, Node, DeviceTotals]]:
        """Hand out long gaps, all of a node as one: where the host is slow there are thousands."""
        found: dict[tuple[int, int], tuple[Node, array[int]]] = {}
        columns = [gaps[name] for name in ("from", "to", "epoch", "context", "detail")]
        for first in range(0, len(columns[0]), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            for begin, end, epoch, context, detail in zip(*(c[part].tolist() for c in columns)):
                for node, ns in self._gap(begin, end, context, detail):
                    known = found.setdefault((epoch, node.index), (node, array("q")))
                    known[1].append(ns)
        for (epoch, _), (node, times) in found.items():
            yield epoch, node, _idle(times)

    def _gap(self, begin: int, end: int, context: int, detail: int) -> Iterator[tuple[Node, int]]:
        """Give a long gap to where the main thread was in it, if there were looks at it."""
        looks = self._trail.between(begin, end)
        if not looks:
            yield self._node(context, "idle", detail, None, 0), end - begin
        seen = given = 0
        for at, times in Counter(looks).items():
            name = FOR_DATA if _loads_data(at) else FOR_HOST
            # Shares of all looks so far: rounded one by one they would not add up to the gap.
            seen += times
            share = (end - begin) * seen // len(looks) - given
            given += share
            yield self._tree.child(at, "idle", name, None), share

    def _kernel(self, above: Node, variant: int, drained: Any, row: int) -> Node:
        if variant >= len(self._variants):
            new = self._native.gpu_variants(len(self._variants))
            self._variants += [Variant(*each) for each in new]
        if above.kind == "kernel":
            self._add_facts(above, self._variants[variant], _grid(drained, row))
            return above
        if variant not in self._places:
            self._places[variant] = len(self._kernels)
            self._kernels.append(self._described(self._variants[variant], _grid(drained, row)))
        place = self._places[variant]
        node = self._tree.child(above, "kernel", self._kernels[place].name, None, ("gpu", variant))
        self._kernel_of.setdefault(node.index, place)
        return node

    def _described(self, variant: Variant, grid: Extent) -> KernelInfo:
        name, device = self._native.demangled(variant.name), f"cuda:{variant.device}"
        return KernelInfo(name, device, attributes=attributes(variant, grid))

    def _add_facts(self, above: Node, variant: Variant, grid: Extent) -> None:
        """Say of a kernel of ours what its CUDA functions take, once of each; the first plainly."""
        place = self._kernel_of.get(above.index)
        if place is None:
            return
        functions = self._functions.setdefault(place, [])
        if variant.name not in functions:
            prefix = f"{self._native.demangled(variant.name)}." if functions else ""
            functions.append(variant.name)
            kernel = self._kernels[place]
            facts = {f"{prefix}{key}": fact for key, fact in attributes(variant, grid).items()}
            self._kernels[place] = replace(kernel, attributes={**kernel.attributes, **facts})


def _loads_data(node: Node) -> bool:
    """Tell whether a node is within PyTorch's data loader."""
    at: Node | None = node
    while at is not None:
        if at.location is not None and at.location.file.endswith(_DATA_LOADER):
            return True
        at = at.parent
    return False


def _streams_of(drained: Any) -> dict[int, Parts]:
    """Return the parts of each row by stream; none of what ran on no device."""
    found: dict[int, Parts] = {}
    names = ("row", "device", "stream", "count", "sum")
    for row, device, stream, count, ns in zip(*(drained[name].tolist() for name in names)):
        found.setdefault(row, {})[device << 32 | stream] = count, ns
    return found


def _idle(times: array[int]) -> DeviceTotals:
    """Return the totals of idle times at one node, in ns."""
    totals = DeviceTotals("idle")
    totals.count, totals.sum, totals.least, totals.most = (
        len(times), sum(times), min(times), max(times),
    )  # fmt: skip
    totals.sketch = Sketch.of(np.frombuffer(times, np.int64))
    return totals


def _grid(drained: Any, row: int) -> Extent:
    x, y, z = (int(drained[f"grid_{axis}"][row]) for axis in "xyz")
    return x, y, z


def sketches_of(drained: Any) -> list[Sketch]:
    """Return the sketch of each row; a row's buckets ascend."""
    columns = (drained[f"sketch_{name}"] for name in ("bucket", "count"))
    return split_sketches(drained["sketch_start"].tolist(), *columns)


def _totals(what: str, drained: Any, row: int, sketch: Sketch) -> DeviceTotals:
    totals = DeviceTotals(what)
    totals.count = int(drained["count"][row])
    totals.untimed = int(drained["untimed"][row])
    totals.slack = int(drained["slack"][row])
    totals.bytes = int(drained["bytes"][row])
    totals.blocks = int(drained["blocks"][row])
    if totals.count > totals.untimed:
        totals.sum = int(drained["sum"][row])
        totals.least, totals.most = int(drained["min"][row]), int(drained["max"][row])
        totals.sketch = sketch
    return totals


def _copy_name(detail: int) -> str:
    """Direction, kinds of the host's memory, and devices of a copy between two."""
    kind, source, target = detail & 15, detail >> 4 & 15, detail >> 8 & 15
    name = _DIRECTIONS.get(kind, "copy")
    hosts = [_MEMORIES[memory] for memory in (source, target) if memory in _HOST]
    if kind == 10:
        return f"{name} {detail >> 16 & 255}→{detail >> 24 & 255}"
    return " ".join([name, *dict.fromkeys(hosts)])


def _memory_name(detail: int) -> str:
    return f"memset {_MEMORIES.get(detail & 15, '')}".strip()


Extent: TypeAlias = tuple[int, int, int]
Attributes: TypeAlias = dict[str, str | int | float]


class Variant(NamedTuple):
    """A kernel with all that decides how many of its blocks fit; the native recorder's order."""

    name: str
    """Name in the compiler's spelling (mangled)."""
    device: int
    registers: int
    """Registers per thread."""
    block: Extent
    cluster: Extent
    """Extent of a cluster in blocks; zeros without clusters."""
    static_shared: int
    """Bytes of a block."""
    dynamic_shared: int
    local: int
    """Bytes of a thread."""


def attributes(variant: Variant, grid: Extent) -> Attributes:
    """Return what a variant uses per launch, and how its device holds it."""
    found: Attributes = {
        "grid": _shown(grid),
        "block": _shown(variant.block),
        "registers": variant.registers,
        "static_shared_bytes": variant.static_shared,
        "dynamic_shared_bytes": variant.dynamic_shared,
        "local_bytes": variant.local,
    }
    if any(blocks > 1 for blocks in variant.cluster):
        found["cluster"] = _shown(variant.cluster)
    return found | _occupancy(variant, grid)


def _occupancy(variant: Variant, grid: Extent) -> Attributes:
    device = devices.find(variant.device)
    if device is None or device.limits is None:
        return {}
    from tileprof.binary.occupancy import occupancy

    shared = variant.static_shared + variant.dynamic_shared
    threads = math.prod(variant.block)
    held = occupancy(variant.registers, shared, threads, device.limits)
    # A cluster runs as a whole or not at all.
    cluster = max(math.prod(variant.cluster), 1)
    at_once = device.multiprocessors * held.blocks // cluster * cluster
    if not at_once:
        return {}  # the kernel ran, so the device holds more than is known here
    return {
        "occupancy": held.share,
        "blocks_per_sm": held.blocks,
        "limited_by": ", ".join(held.scarce),
        "waves": math.prod(grid) / at_once,
    }


def _shown(extent: Extent) -> str:
    return "×".join(map(str, extent))
