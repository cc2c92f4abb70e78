"""The least time that each kernel of a program could take, by what it has to move and to compute.

In: the tree of a program, and what its devices were measured to do at most.  Out: by kernel's node
the floor of its time in steps, and what sets it: memory, arithmetic, or the launch itself.

What has to be moved and computed is that of the tile program, where there is one; of a library's or
another compiler's kernel, what it or the operation of a framework around it is known to work on.
Several kernels of one operation share that (`work_of_ops`); one that only changes a layout for a
convolution has nothing to do but to be launched. A floor is never longer than the time
that was measured: not all of the work was done, or caches gave a part of it. Bytes that not even
the L2 could have moved in that time are wrong, and so not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.contexts import Column, Contexts
from tileprof.analyzer.numbers.reports import (
    FLOORS_CACHED,
    FLOORS_IMPOSSIBLE,
    FLOORS_LAUNCH_NS,
    FLOORS_USUAL,
)
from tileprof.analyzer.program.types_by_name import roofs_by_name
from tileprof.analyzer.roofs import Roofs
from tileprof.profile import DevicePeak

Limit: TypeAlias = Literal["", "memory", "arithmetic", "launch"]
"""What sets a floor; nothing where the work of a kernel, or its device, is not known."""

_MULTIPLIED = {
    "f8e4m3fn": "tensor_float8_e4m3", "f8e5m2": "tensor_float8_e4m3", "bf16": "tensor_bfloat16",
    "f16": "tensor_float16", "f32": "tensor_tf32",
}  # fmt: skip
"""By the type that XLA says a kernel multiplies, the highest roof that keeps the result's type."""


class Floors:
    """Floors of a program's kernels, in steps where these are known; by node, ns."""

    def __init__(self, tree: Contexts) -> None:
        self._tree = tree
        self.assumed = False
        """Whether roofs of some device were not measured, and are those of others of its name."""
        self.floor: Column = np.zeros(len(tree.parents))
        self.limits: dict[int, Limit] = {}
        """By node of a kernel that ran in steps."""
        for case in tree.program.kernels:
            for node in case.nodes:
                if tree.time[node] > 0:
                    roofs = self.roofs(case)
                    self.floor[node], limit = self._of(case, roofs, node)
                    self.limits[node] = limit
                    self.assumed |= roofs is not case.roofs and limit in ("memory", "arithmetic")

    def roofs(self, case: KernelCase) -> Roofs:
        """Return the roofs of a kernel's device; usual ones where they were not measured."""
        info = case.device_info
        usual = FLOORS_USUAL.get(info.name, {}) if info is not None else {}
        if case.roofs.peaks or not usual:
            return case.roofs
        return replace(
            case.roofs,
            peaks={
                name: DevicePeak(
                    case.device, "", "", name, value,
                    "flop/s" if name.startswith(("tensor", "fma")) else "bytes/s", value, 0, 0, "",
                )
                for name, value in usual.items()
            },
        )  # fmt: skip

    def lacks_roofs(self, case: KernelCase) -> bool:
        """Return whether a kernel's work is known, and nothing of what its device reaches."""
        if self.roofs(case).peaks:
            return False
        nodes = list(case.nodes)
        counted = (self._tree.bytes[nodes] + self._tree.flops[nodes]).any()
        return bool(counted or case.roofs.needed_bytes or case.roofs.needed_flops)

    def _of(self, case: KernelCase, roofs: Roofs, node: int) -> tuple[float, Limit]:
        """The longest of what its work takes at each roof and what launching it takes."""
        time = float(self._tree.time[node])
        if self._tree.program.work.needless[node]:
            # It does nothing of its operation's work.
            return min(FLOORS_LAUNCH_NS * float(self._tree.count[node]), time), "launch"
        known: dict[Limit, float] = dict(self._work_floors(case, roofs, node))
        if not any(known.values()):
            # Whatever it does is not known: a kernel that hardly takes a launch's time is at it.
            known = {}
        launches = float(self._tree.count[node])
        known["launch"] = FLOORS_LAUNCH_NS * launches
        limit = max(known, key=lambda name: known[name])
        if limit == "launch" and len(known) == 1 and time > 2 * known["launch"]:
            return 0.0, ""
        return min(known[limit], time), limit

    def on_tensor_cores(self, case: KernelCase, node: int) -> float:
        """Return what the work of a node would take at least on tensor cores that round 32-bit
        floats, ns; infinite where their rate is not known."""
        roofs = self.roofs(case)
        rate, memory = roofs.peaks.get("tensor_tf32"), roofs.memory_peak
        if rate is None:
            return float("inf")
        computed = float(self._tree.flops[node]) / rate.value * 1e9
        if memory is None:
            return computed
        moved = float(self._tree.bytes[node]) / memory.value * 1e9
        beyond = self._beyond_sums(case, node, 1e9 / memory.value, 1e9 / rate.value)
        return max(moved, computed) + beyond

    def _work_floors(self, case: KernelCase, roofs: Roofs, node: int) -> Mapping[Limit, float]:
        if case.ir:
            part = float(self._tree.time[node]) / case.time if case.time else 0.0
            return {_limit(roofs.peaks[name]): floor * part for name, floor in roofs.floors.items()}
        peaks = roofs.peaks
        memory = roofs.memory_peak
        arithmetic = _arithmetic_peak(case.name, peaks, str(case.attributes.get("multiplies", "")))
        moved = case.needed_part * float(self._tree.bytes[node])
        computed = float(self._tree.flops[node])
        seconds = float(self._tree.time[node]) / 1e9
        if memory and moved > FLOORS_IMPOSSIBLE * _fastest(peaks, memory) * seconds:
            moved = 0.0
        by_memory = moved / memory.value * 1e9 if memory else 0.0
        by_arithmetic = computed / arithmetic.value * 1e9 if arithmetic else 0.0
        if by_memory and by_arithmetic and memory and arithmetic:
            beyond = self._beyond_sums(case, node, 1e9 / memory.value, 1e9 / arithmetic.value)
            by_memory, by_arithmetic = (
                (by_memory + beyond, by_arithmetic)
                if by_memory > by_arithmetic
                else (by_memory, by_arithmetic + beyond)
            )
        return {"memory": by_memory, "arithmetic": by_arithmetic}

    def _beyond_sums(self, case: KernelCase, node: int, a_byte: float, a_flop: float) -> float:
        """Return how much longer than the longer one of both sums the work of a node takes, ns.

        Its visits are of several shapes: some are limited by their bytes, others by their flops.
        What no octave is known of is one kind more.
        """
        work, part = self._tree.program.work, self._tree.part_in_steps(node)
        bytes_left, flops_left = (
            float(each[node]) / part if part else 0.0
            for each in (self._tree.bytes, self._tree.flops)
        )
        moved = bytes_left * a_byte * case.needed_part
        computed, summed = flops_left * a_flop, 0.0
        for flops, moving in work.kinds.values():
            summed += max(flops[node] * a_flop, moving[node] * a_byte * case.needed_part)
            bytes_left -= moving[node]
            flops_left -= flops[node]
        rest = max(flops_left * a_flop, bytes_left * a_byte * case.needed_part, 0.0)
        return part * max(0.0, float(summed + rest) - max(moved, computed))


def _limit(peak: DevicePeak) -> Limit:
    return "memory" if peak.unit == "bytes/s" else "arithmetic"


def _fastest(peaks: Mapping[str, DevicePeak], memory: DevicePeak) -> float:
    """Return the bytes a second that the L2 gives, from its roof or from the memory's."""
    cached = peaks.get("l2_read")
    return max(memory.value, cached.value if cached else FLOORS_CACHED * memory.value)


def _arithmetic_peak(
    name: str, peaks: Mapping[str, DevicePeak], multiplied: str = ""
) -> DevicePeak | None:
    """The roof of a kernel's arithmetic by its name, else by the type that it is known to
    multiply; the highest one where neither tells."""
    for roof in roofs_by_name(name):
        if roof in peaks:
            return peaks[roof]
    if (roof := _MULTIPLIED.get(multiplied, "")) in peaks:
        return peaks[roof]
    rates = [each for each in peaks.values() if each.unit == "flop/s"]
    return max(rates, key=lambda each: each.value, default=None)
