"""The model of tiles: how long a configuration takes, and what bounds it.

In: the facts of a configuration, and a machine.  Out: an `Estimate`.

On a GPU each part of a block takes cycles of tensor cores, of shared memory, of the schedulers, of
special function units, and of the way to L2.  Blocks that share a multiprocessor share these units;
what they do not share is latency: a block that waits for loads waits alone.  So the multiprocessor
with the most blocks takes

    max( blocks x cycles of its busiest unit,  rounds x latency of a block )

and a launch takes that, or what memory and L2 take for its bytes, whichever is longest, joined by
a norm since limits that are near each other add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tileprof.binary.occupancy import occupancy
from tileprof.compiler.cuda.target import BANKS, WORD
from tileprof.compiler.cuda.tuning import BYTES_IN_FLIGHT, ORDINARY_PER_CYCLE, SPECIAL_PER_CYCLE

from .facts import KernelFacts, LaunchFacts, Part
from .machine import Gpu, Machine, Processor
from .numbers import (
    BLOCK_LATENCY,
    CPU_BLOCK_NS,
    CPU_ROW_NS,
    CPU_SCALAR_NS,
    FMA_EFFICIENCY,
    ISSUING_WARPS,
    ITERATION_LATENCY,
    LAUNCH_NS,
    LOAD_LATENCY,
    MMA_EFFICIENCY,
    OVERLAP_ALTERNATING,
    OVERLAP_BY_GROUPS,
    OVERLAP_PLANNED,
    PERSISTENT_LATENCY,
    REDUCE_LATENCY,
    SERIALISED,
    SHARPNESS,
    SPILL_TRIPS,
    UNSPECIALISED_LATENCY,
)

_SHARED_BYTES = BANKS * WORD
"""Bytes of shared memory per cycle of a multiprocessor."""
_EFFICIENCY = {"mma": MMA_EFFICIENCY, "fma": FMA_EFFICIENCY}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted time of one configuration."""

    ns: float
    limits: Mapping[str, float] = field(default_factory=dict)
    """Time in ns that each limit alone would allow, by its name."""
    occupancy: int = 0
    """Blocks that a multiprocessor holds, of the launch that takes longest."""
    waves: float = 0.0
    """Blocks over those that run at once, of that launch."""
    tail: float = 0.0
    """Share of that launch's time in which multiprocessors have no block left, 0 to 1."""

    @property
    def bound(self) -> str:
        """Name of the limit that takes longest; '' where nothing is known."""
        return max(self.limits, key=lambda name: self.limits[name], default="")


def estimate(facts: KernelFacts, machine: Machine) -> Estimate:
    """Return how long a call takes."""
    made = [_launch(each, machine) for each in facts.launches]
    if not made:
        return Estimate(math.inf)
    longest = max(made, key=lambda each: each.ns)
    names = dict.fromkeys(name for each in made for name in each.limits)
    limits = {name: sum(each.limits.get(name, 0.0) for each in made) for name in names}
    return Estimate(
        sum(each.ns for each in made), limits, longest.occupancy, longest.waves, longest.tail
    )


def _launch(facts: LaunchFacts, machine: Machine) -> Estimate:
    if isinstance(machine, Processor):
        return _on_processor(facts, machine)
    return _on_gpu(facts, machine)


# -- GPUs


@dataclass(frozen=True, slots=True)
class _Cycles:
    """Cycles of each unit of a multiprocessor for one iteration of a part."""

    tensor: float
    shared: float
    issue: float
    special: float
    l2: float

    def named(self) -> dict[str, float]:
        """Cycles by the names that explanations use."""
        return {
            "tensor cores": self.tensor, "shared memory": self.shared,
            "instructions": self.issue, "special functions": self.special,
        }  # fmt: skip


def _on_gpu(facts: LaunchFacts, machine: Gpu) -> Estimate:
    held = occupancy(
        facts.registers, facts.shared, facts.threads, machine.multiprocessor, facts.barriers
    )
    resident = held.blocks
    if resident == 0 or facts.blocks == 0:
        return Estimate(math.inf if facts.blocks else LAUNCH_NS)
    if facts.persistent:
        resident = 1
    cycles = [_part_cycles(part, facts, machine, resident) for part in facts.parts]
    busy: dict[str, float] = {}
    for part, each in zip(facts.parts, cycles):
        for name, amount in each.named().items():
            busy[name] = busy.get(name, 0.0) + part.times * amount
    latency = sum(_latency(part, each, facts) for part, each in zip(facts.parts, cycles)) + (
        PERSISTENT_LATENCY if facts.persistent else BLOCK_LATENCY
    )
    most = math.ceil(facts.blocks / machine.sms)
    rounds = math.ceil(most / resident)
    to_ns = 1e9 / machine.clock
    limits = {name: most * amount * to_ns for name, amount in busy.items() if amount}
    limits["latency"] = rounds * latency * to_ns
    limits |= _memory(facts, machine, resident)
    ns = _joined(limits.values()) + LAUNCH_NS
    running = machine.sms * resident
    waves = facts.blocks / running
    spread = facts.blocks / machine.sms
    in_sm = max((v for n, v in limits.items() if n not in ("memory", "L2")), default=0.0)
    tail = (1 - spread / most) if in_sm >= 0.8 * max(limits.values()) else 0.0
    return Estimate(ns, limits, held.blocks, waves, tail)


def _part_cycles(part: Part, facts: LaunchFacts, machine: Gpu, resident: int) -> _Cycles:
    tensor = sum(
        p.flops / machine.cycles(p.roof) / _EFFICIENCY.get(p.instruction, 1.0)
        for p in part.products
    )
    binary = facts.binary
    if binary and binary.serialised:
        tensor *= SERIALISED
    spilled = 0.0
    if part.times > 1:
        # A register that is lacking is stored once and loaded once.
        words = binary.spilled / 4 if binary else 2 * facts.lacking
        spilled = SPILL_TRIPS * words * facts.workers
    # Few warps cannot fill the schedulers.
    warps = resident * facts.workers / 32
    filled = min(1.0, warps / ISSUING_WARPS)
    issue = (part.ordinary + spilled) / (ORDINARY_PER_CYCLE * filled) + part.requests
    return _Cycles(
        tensor,
        (part.shared + 4 * spilled) / _SHARED_BYTES,
        issue,
        part.special / (SPECIAL_PER_CYCLE * min(1.0, warps / 4)),
        (part.loads + part.stores) / machine.cycles("l2_read"),
    )


def _latency(part: Part, cycles: _Cycles, facts: LaunchFacts) -> float:
    """Return the cycles that one block alone takes for all iterations of a part."""
    # An instruction of tensor cores reads its operands from shared memory while it multiplies.
    units = (max(cycles.tensor, cycles.shared), cycles.issue, cycles.special)
    longest, together = max(units), sum(units)
    overlap = OVERLAP_BY_GROUPS * (facts.groups > 1)
    if facts.alternating or facts.planned:
        overlap = OVERLAP_ALTERNATING if facts.alternating else OVERLAP_PLANNED
    work = together - overlap * (together - longest)
    work += REDUCE_LATENCY * part.reductions
    if part.waited:
        batches = max(1, math.ceil(part.waited / (BYTES_IN_FLIGHT * facts.workers)))
        work += LOAD_LATENCY * batches
    if part.stages > 0 and part.loads:
        work += ITERATION_LATENCY if facts.threads > facts.workers else UNSPECIALISED_LATENCY
        # A slot is filled, multiplied and freed; so many slots are on their way at once.
        turn = max(work, (LOAD_LATENCY + cycles.l2 + work) / part.stages)
        return turn * part.times + (0.0 if facts.persistent else LOAD_LATENCY)
    if part.loads > part.waited:
        work += LOAD_LATENCY
    return work * part.times


def _memory(facts: LaunchFacts, machine: Gpu, resident: int) -> dict[str, float]:
    """Return the times that memory and L2 take for a launch's bytes, in ns."""
    roofs = machine.roofs
    asked = sum(p.loads * p.times for p in facts.parts) * facts.blocks
    running = machine.sms * resident
    read = min(facts.memory_bytes, key=lambda each: abs(each[0] - running), default=(0, asked))[1]
    written = facts.written_bytes
    rate = roofs.get("hbm_copy" if min(read, written) > 0.2 * max(read, written) else "hbm_read")
    made = {"memory": (read + written) / rate * 1e9} if rate else {}
    if l2 := roofs.get("l2_read"):
        # Blocks of a cluster share one of two operands, of about equal size.
        made["L2"] = (asked / facts.cluster**0.5 + written) / l2 * 1e9
    return made


def _joined(limits: Iterable[float]) -> float:
    """Return the norm of times, which is a little above the longest."""
    held = [each for each in limits if each > 0]
    most = max(held, default=0.0)
    if not most:
        return 0.0
    return most * float(sum((each / most) ** SHARPNESS for each in held) ** (1 / SHARPNESS))


# -- processors


def _on_processor(facts: LaunchFacts, machine: Processor) -> Estimate:
    limits = {"arithmetic": 0.0, "caches": 0.0, "loops": 0.0}
    rate = next((r for size, r in machine.caches if facts.local_bytes <= size), machine.memory)
    for part in facts.parts:
        flops = sum(p.flops for p in part.products)
        scalar = part.ordinary + part.special
        limits["arithmetic"] += part.times * (
            flops / machine.flops * 1e9 + CPU_SCALAR_NS * scalar / 8
        )
        moved = part.loads + part.stores + part.shared
        limits["caches"] += part.times * moved / rate * 1e9
        limits["loops"] += part.times * CPU_ROW_NS * part.rows
    limits["blocks"] = CPU_BLOCK_NS
    threads = min(machine.threads, max(facts.blocks, 1))
    most = math.ceil(facts.blocks / threads)
    limits = {name: most * ns for name, ns in limits.items() if ns}
    return Estimate(
        sum(limits.values()), limits, 1, facts.blocks / machine.threads,
        1 - facts.blocks / threads / most if most else 0.0,
    )  # fmt: skip
