"""Costs of a kernel's machine code: instructions, registers, memory, blocks that run at once.

In: a cubin and its launch.  Out: numbers by name, which differences are made of. A form that is
not known has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tileprof import binary
from tileprof.binary.occupancy import MULTIPROCESSORS, occupancy
from tileprof.errors import CubinError, MissingDependencyError

from .forms import Forms

RESOURCES = (
    "registers", "static shared bytes", "stack bytes", "spill instructions", "named barriers",
    "blocks per SM",
)  # fmt: skip
"""Names of facts that are resources; the others are about the code."""
_MOST_OPCODES = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """A number of one form that is not the same on both sides."""

    name: str
    old: int | None
    new: int | None

    def __str__(self) -> str:
        return f"{self.name} {_shown(self.old)} → {_shown(self.new)}"


def _shown(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def resources(forms: Forms) -> dict[str, int]:
    """Return the resources of the kernel's machine code, of several functions the largest."""
    if not forms.cubin:
        return {}
    found: dict[str, int] = {}
    read = binary.read(forms.cubin)
    for each in read.kernels:
        held = each.resources
        facts = {
            "registers": held.registers,
            "static shared bytes": held.shared_bytes,
            "stack bytes": held.local_bytes,
            "spill instructions": held.spill_instructions or 0,
            "named barriers": held.barriers,
        }
        for name, value in facts.items():
            found[name] = max(found.get(name, 0), value)
    blocks = _blocks(found, forms.launch, read.architecture)
    return found if blocks is None else {**found, "blocks per SM": blocks}


def _blocks(facts: Mapping[str, int], launch: Mapping[str, str], architecture: str) -> int | None:
    digits = architecture.removeprefix("sm_").rstrip("af")
    of = MULTIPROCESSORS.get((int(digits[:-1]), int(digits[-1])))
    threads, shared = (launch.get(name, "") for name in ("threads", "dynamic shared bytes"))
    if of is None or not threads.isdigit():
        return None
    dynamic = int(shared) if shared.isdigit() else 0
    return occupancy(
        facts.get("registers", 0), facts.get("static shared bytes", 0) + dynamic, int(threads), of,
        facts.get("named barriers", 0),
    ).blocks  # fmt: skip


@lru_cache(maxsize=256)
def opcodes(cubin: bytes) -> Counter[str]:
    """Return how often each opcode stands in the code; nothing without nvdisasm."""
    found: Counter[str] = Counter()
    if not cubin:
        return found
    try:
        for function in binary.read(cubin).functions.values():
            found.update(each.opcode for each in function.instructions if each.name != "NOP")
    except (MissingDependencyError, CubinError):
        return Counter()
    return found


def numbers(forms: Forms) -> dict[str, int]:
    """Return everything that is known of a kernel's machine code, as numbers by name."""
    total = opcodes(forms.cubin).total()
    return {**({"instructions": total} if total else {}), **resources(forms)}


def changed_resources(old: Forms, new: Forms) -> tuple[Fact, ...]:
    """Return the resources that differ; nothing where a side has no machine code."""
    before, after = resources(old), resources(new)
    if not before or not after:
        return ()
    return tuple(
        Fact(name, before.get(name), after.get(name))
        for name in RESOURCES
        if before.get(name) != after.get(name)
    )


def changed_code(old: Forms, new: Forms) -> tuple[Fact, ...]:
    """Return how many instructions the code has, and the opcodes whose number changed most."""
    before, after = opcodes(old.cubin), opcodes(new.cubin)
    if not before or not after:
        return ()
    moved = {name: after[name] - before[name] for name in before | after}
    most = sorted((n for n in moved if moved[n]), key=lambda n: (-abs(moved[n]), n))
    total = Fact("instructions", before.total(), after.total())
    kinds = [Fact(name, before[name], after[name]) for name in most[:_MOST_OPCODES]]
    return tuple(fact for fact in (total, *kinds) if fact.old != fact.new)
