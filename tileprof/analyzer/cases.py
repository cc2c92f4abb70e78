"""The kernels of a program, and the program around them, as rules ask about them.

In: a profile.  Out: `Program` with a `KernelCase` for each kernel, the longest first: its launches
and times, its compiler's remarks, its code with samples, the flops and bytes of its work, counters,
and what its device does at most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tileprof.analyzer.findings import TIERS, Place, Tier
from tileprof.analyzer.machine.code import Instruction, KernelCode, same_line
from tileprof.analyzer.machine.issued_products import element_of, issued_products, operations_of
from tileprof.analyzer.machine.reloads import reloaded_bytes
from tileprof.analyzer.machine.repeats import repetition, turns_of
from tileprof.analyzer.machine.stored import stored_share
from tileprof.analyzer.numbers.shared import HALFWAY, SCHEDULERS
from tileprof.analyzer.program.phases import Phase, phases
from tileprof.analyzer.program.seen_tensors import seen_kernel, seen_tensors
from tileprof.analyzer.program_facts import ProgramFacts
from tileprof.analyzer.roofs import Roofs
from tileprof.analyzer.tiles.conditions import masked_bytes, products_by_data
from tileprof.analyzer.tiles.work import written_share
from tileprof.errors import Location
from tileprof.kernel_ir import TileKernel
from tileprof.once import cached_property
from tileprof.profile import (
    Attribute,
    Column,
    DeviceInfo,
    KernelInfo,
    PcSamples,
    trials_of_xla,
)
from tileprof.profile.counters import RATES, SETS
from tileprof.remarks import Decision, Remark

_NUMBERED = re.compile(r"_\d+$")
_SITE_TIMES = {"block_time", "kernel_samples"}
_Decision = TypeVar("_Decision", bound=Decision)
_COUNTERS = {counter.metric.name for held in SETS.values() for counter in held}


def function_of(held: PcSamples, kernel: str) -> int | None:
    """Return which function of the samples is a kernel's, the one with the most of them."""
    for place in held.hottest:
        function = held.functions[place]
        if kernel in (function.title, function.name, _NUMBERED.sub("", function.name)):
            return place
    return None


def _of_launch(held: Mapping[str, Attribute], name: str) -> dict[str, Attribute]:
    """The facts of one of several launches."""
    before = f"{name}."
    return {key.removeprefix(before): held[key] for key in held if key.startswith(before)}


def _threads(held: Mapping[str, Attribute], name: str) -> int:
    """Of all blocks of a launch."""
    facts = _of_launch(held, name) if name else held
    return math.prod(_product(facts.get(each)) for each in ("grid", "block"))


def _product(extents: Attribute | None) -> int:
    """Of a fact as `132×1×1`; 0 where it is not known."""
    held = tuple(map(int, re.findall(r"\d+", extents if isinstance(extents, str) else "")))
    return math.prod(held) if held else 0


def _times_over(code: KernelCode) -> float:
    """How often a loop does its products again, as a turn does what the one before did."""
    again = repetition(code)
    if again is None or not any(operations_of(code.instructions[i].opcode) for i in again.loop):
        return 1.0
    return turns_of(code, again.loop)


@dataclass(frozen=True, eq=False)
class KernelCase:
    """One kernel of a program: all its launches."""

    program: Program = field(repr=False)
    name: str
    nodes: tuple[int, ...] = field(repr=False)
    """Its nodes in the tree, the longest first."""
    info: KernelInfo | None = field(default=None, repr=False)

    # -- time

    @cached_property
    def time(self) -> float:
        """What its device worked on it, the places inside it included, ns; 0 if not measured."""
        return self.total("time")

    @cached_property
    def launches(self) -> int:
        """How often it was launched."""
        profile = self.program.profile
        return (
            int(profile.own["count"][list(self.nodes)].sum()) if "count" in profile.metrics else 0
        )

    @cached_property
    def share(self) -> float:
        """Share of the time of all kernels, 0 to 1."""
        return self.time / self.program.kernel_time if self.program.kernel_time else 0.0

    @cached_property
    def of_steps(self) -> float:
        """Share of its device's time in steps, idle time included, 0 to 1."""
        whole = self.program.step_time
        return min(1.0, self.time / whole) if whole else 0.0

    def total(self, metric: str) -> float:
        """A metric of its launches with the places inside it, 0 where there is none."""
        return float(np.nansum(self.program.whole_kernels(metric)[list(self.nodes)]))

    def rate(self, name: str) -> float | None:
        """A rate of hardware counters by the name that views show it by, None where not counted."""
        rate = RATES[name]
        below = self.total(rate.below)
        return rate.factor * self.total(rate.above) / below if below else None

    # -- what the compiler says

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """Facts about the kernel as it was compiled and launched; of several launches of one
        program, the one that samples see most, else the one of the most threads."""
        held = self.info.attributes if self.info else {}
        others = {each.removesuffix(".grid") for each in held if each.endswith(".grid")}
        own = self._launched(held, others) if others else ""
        return {**held, **_of_launch(held, own)} if own else held

    def _launched(self, held: Mapping[str, Attribute], others: set[str]) -> str:
        """The name that one of the `others` has before its facts; nothing for the first launch."""
        if (code := self.sampled) is not None:
            name = code.held.functions[code.position].name
            return name if name in others else ""
        return max(("", *sorted(others)), key=lambda each: _threads(held, each))

    def number(self, attribute: str) -> float | None:
        """A fact that is a number."""
        value = self.attributes.get(attribute)
        return float(value) if isinstance(value, int | float) else None

    def extents(self, attribute: str) -> tuple[int, ...]:
        """A fact as `132×1×1`: blocks of a grid, threads of a block; nothing where not known."""
        return tuple(map(int, re.findall(r"\d+", str(self.attributes.get(attribute, "")))))

    def extent(self, attribute: str) -> int:
        """The product of its extents; 0 where they are not known."""
        return math.prod(held) if (held := self.extents(attribute)) else 0

    def blocks_of(self, number: int) -> int:
        """Return the blocks of one of its program's launches, from 0; 0 where not known."""
        held = self.info.attributes if self.info else {}
        return _product(held.get(f"{self.name}_{number}.grid" if number else "grid"))

    @property
    def ir(self) -> str:
        """The text of its program; nothing where it is not a tile kernel."""
        return self.info.ir if self.info else ""

    @cached_property
    def tiles(self) -> TileKernel:
        """Its program; an empty one where it is not a tile kernel."""
        return (self.info.program if self.info else None) or TileKernel()

    @property
    def cuda(self) -> str:
        """The text that its program was compiled to; nothing where it is not a tile kernel."""
        return self.info.code if self.info else ""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Decisions of the compiler, and what was measured inside the kernel."""
        return self.info.remarks if self.info else ()

    def decided(self, kind: type[_Decision], op: str = "") -> Iterator[tuple[Remark, _Decision]]:
        """Yield the remarks whose decision is of a kind, with it; `op` names the kind of op."""
        for each in self.remarks:
            if isinstance(each.decision, kind) and op in ("", each.op):
                yield each, each.decision

    @cached_property
    def device(self) -> str:
        """`cuda:0`, or nothing where it is not known."""
        return self.info.device if self.info else ""

    @cached_property
    def device_info(self) -> DeviceInfo | None:
        """The GPU that it ran on; None where the profile does not describe it."""
        known = self.program.profile.tables.devices
        return next((each for each in known if each.device == self.device), None)

    # -- its code

    @cached_property
    def code(self) -> KernelCode | None:
        """Its function with the most samples; None where nothing of it was sampled or counted."""
        held = self.program.profile.tables.pc
        place = function_of(held, self.name)
        return None if place is None else KernelCode(held, place)

    @property
    def sampled(self) -> KernelCode | None:
        """Its code, where there are samples of it."""
        return self.code if self.code is not None and self.code.whole else None

    # -- its work, and what the device does at most

    @cached_property
    def roofs(self) -> Roofs:
        """What its work takes at its device's roofs."""
        held = self.program.profile.tables.device_peaks
        peaks = {each.name: each for each in held if each.device == self.device}
        moved = self.needed_part * self.total("bytes")
        return Roofs(
            peaks, self.tiles, self.time, self.launches, moved, self._flops, self._issued,
            self._written, self._optional,
        )  # fmt: skip

    @cached_property
    def _written(self) -> float:
        """Share of the kernel's bytes that are written, 0 to 1."""
        if self.ir or self.sampled is None:
            return written_share(self.tiles)
        return stored_share(self.sampled)

    @cached_property
    def _issued(self) -> str:
        """The type of most products in its code."""
        code = self.code
        where = code.where(lambda each: bool(operations_of(each.opcode))) if code else []
        hot = code.hottest(where) if code else None
        return element_of(hot.opcode)[0] if hot else ""

    @cached_property
    def needed_part(self) -> float:
        """Of the bytes that are known of a kernel without a program, those but for what it loads
        after it stored it, and for tensors that nothing reads: who counts tensors that are loaded
        and stored counts these twice."""
        moved, code = self.total("bytes"), self.sampled
        threads = self.extent("grid") * self.extent("block") * self.launches
        if self.ir or not moved or code is None or not threads:
            return 1.0
        return max(HALFWAY, 1 - (threads * reloaded_bytes(code) + self.unread_bytes) / moved)

    @cached_property
    def unread_bytes(self) -> float:
        """Bytes of all launches that it stores for nobody, as its text tells."""
        held = seen_tensors(self.program.profile.tables, self.name, "unread")
        return float(self.launches * sum(each.elements * each.width for _, each, _ in held))

    @property
    def _optional(self) -> float:
        """Bytes of all launches that what is in memory may leave unread."""
        if self.tiles.nested:
            return self.launches * masked_bytes(self.tiles)
        kernel, launches = seen_kernel(self.program.profile.tables, self.name)
        sizes = [
            tensor.elements * tensor.width for each in launches
            for name in (kernel.partly if kernel else ()) if (tensor := each.tensor(name))
        ]  # fmt: skip
        return float(self.launches * sum(sizes) / len(launches)) if sizes else 0.0

    @cached_property
    def _flops(self) -> float:
        """What its program computes, once; where data leave products out, what samples say was
        issued, and nothing where that is not known."""
        flops, code, device = self.total("flops"), self.sampled, self.device_info
        if flops and code is not None and not self.ir:
            flops /= _times_over(code)
        if not flops or not products_by_data(self.tiles):
            return flops
        if code is None or device is None:
            return 0.0
        cycles = self.time * device.clock_mhz / 1e3 * device.multiprocessors * SCHEDULERS
        return min(flops, issued_products(code, cycles))

    # -- places

    @cached_property
    def path(self) -> tuple[str, ...]:
        """The names down to the longest of its nodes."""
        return self.program.path(self.nodes[0]) if self.nodes else (self.name,)

    def place(
        self, location: Location | None = None, op: str = "", sass: tuple[int, int] | None = None
    ) -> Place:
        """A place in this kernel; without one, that of the kernel."""
        return Place(self.name, self.path, op, location or self.location, sass)

    def at(self, instruction: Instruction) -> Place:
        """Return the place of an instruction: its user's line, the op there, its offset."""
        line, offset = self.line_of(instruction), instruction.offset
        return self.place(line, self.op_at(line), (offset, offset))

    def line_of(self, instruction: Instruction) -> Location | None:
        """Return the line of the kernel's own source that an instruction came from.

        Triton's line tables name the line of its library that sums or sorts, and not the call of
        it. Then it is the line of the last instruction before whose text the profile has.
        """
        line, texts = self.user_line(instruction.place), self.program.profile.tables.sources
        told = self.info is not None and bool(self.info.source_file)
        if line is None or line.file in texts or told or self.code is None:
            return line
        before = (each.place for each in reversed(self.code.instructions[: instruction.index]))
        return next((each for each in before if each and each.file in texts), line)

    @cached_property
    def location(self) -> Location | None:
        """Where the kernel is in its source."""
        if self.info and self.info.source_file:
            return Location(self.info.source_file, self.info.source_line)
        return self.program.profile.locations[self.nodes[0]] if self.nodes else None

    def user_line(self, location: Location | None) -> Location | None:
        """The line of the kernel's own source that code came from, through what was inlined."""
        here = location
        while here is not None:
            if self.info is None or here.file == self.info.source_file:
                return here
            here = here.caller
        return location

    def at_lines(
        self, code: KernelCode, lines: Container[int], among: Iterable[int] | None = None
    ) -> list[int]:
        """Return the places of instructions whose lines in the kernel's own source are these."""
        places = range(len(code.instructions)) if among is None else among
        return [
            index for index in places
            if (here := self.user_line(code.instructions[index].place)) and here.line in lines
        ]  # fmt: skip

    def line(self, number: int) -> Location | None:
        """Return a line of the kernel's own source; for 0, or where that is not known, the kernel's
        own."""
        here = self.location
        return Location(here.file, number) if here is not None and number else here

    def op_at(self, location: Location | None) -> str:
        """The op that a remark names at that line, or nothing."""
        remark = self.remark_at(location)
        return remark.subject if remark is not None else ""

    def remark_at(self, location: Location | None) -> Remark | None:
        """Return the first remark at that line."""
        here = self.user_line(location)
        return next((each for each in self.remarks if same_line(here, each.location)), None)


@dataclass(frozen=True, eq=False)
class Program(ProgramFacts):
    """A program with its kernels."""

    @cached_property
    def kernels(self) -> tuple[KernelCase, ...]:
        """The longest first."""
        cases = [KernelCase(self, *each) for each in self._grouped()]
        return tuple(sorted(cases, key=lambda case: -case.time))

    def _grouped(self) -> Iterator[tuple[str, tuple[int, ...], KernelInfo | None]]:
        profile, groups = self.profile, dict[tuple[str, int], list[int]]()
        # What XLA tries is no kernel of the program, whatever could be better about it.
        tried = trials_of_xla(profile)
        for node in profile.find(kind="kernel"):
            if tried[node]:
                continue
            info = profile.tables.node_kernels.get(node, -1)
            groups.setdefault((profile.names[node], info), []).append(node)
        times = self.whole_kernels("time")
        for (name, info), nodes in groups.items():
            nodes.sort(key=lambda node: -float(times[node]))
            yield name, tuple(nodes), profile.tables.kernels[info] if info >= 0 else None

    @cached_property
    def kernel_time(self) -> float:
        """Of all kernels, ns."""
        return sum(case.time for case in self.kernels)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Its phases by the host's time; none where it neither trains nor generates, or devices
        were timed, which work while the host goes on."""
        return phases(self.host) if self.only_host else ()

    @cached_property
    def share_of_devices(self) -> float:
        """Part of the program's time that its devices take, 0 to 1.

        It is 1 where GPUs were timed, which work while the host goes on. Kernels of the CPU run in
        the host's threads, beside the host's own work.
        """
        if {each.device for each in self.kernels} != {"cpu"}:
            return 1.0
        whole = self.step_time + self.host.threads.wall
        return self.step_time / whole if whole else 1.0

    @property
    def only_host(self) -> bool:
        """Whether all that is known is the host's time: nothing ran on a device."""
        return not self.kernels and not self.kernel_time and self.host.total > 0

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The kinds of evidence in the profile."""
        tables, metrics = self.profile.tables, self.profile.metrics
        present = {
            "static": bool(tables.kernels),
            "host": self.only_host,
            "activities": self.kernel_time > 0,
            "scopes": bool(_SITE_TIMES & metrics.keys()),
            "samples": bool(tables.pc.recordings),
            "counters": bool(tables.pc.counts.recordings or _COUNTERS & metrics.keys()),
        }
        return tuple(tier for tier in TIERS if present[tier])

    def node_at(self, path: tuple[str, ...], location: Location | None = None) -> int:
        """Return the node with that path of names, of several the one of the line, or else with
        the most time; -1 for none."""
        ends = [node for node, name in enumerate(self._names) if path and name == path[-1]]
        found = [node for node in ends if self.path(node) == path]
        time = self._ranking
        line = location and (location.file, location.line)

        def rank(node: int) -> tuple[bool, float]:
            places = (self.profile.locations[each] for each in self.profile.path(node))
            here = any(place and (place.file, place.line) == line for place in places)
            return here, float(time[node])

        return max(found, key=rank, default=-1)

    @cached_property
    def _ranking(self) -> Column:
        metric = "time" if self.kernel_time else "cpu_time"
        profile = self.profile
        return profile.total(metric) if metric in profile.metrics else np.zeros(len(profile))
