"""Pipelined loops of a tile kernel, as its IR has them: stages, and bytes that a stage takes.

In: a kernel's IR as text, and how it was launched.  Out: `Ring`; how many stages would fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from tileprof.analyzer.cases import KernelCase

__all__ = ["Ring", "rings_of", "spare_bytes"]

_LOOP = re.compile(r"^( *)for pipelined .*\{num_stages = (\d+)\} body\(%(\w+)", re.MULTILINE)
_COPY = re.compile(r"\bcopy %\w+, (%\w+)")
_SHARED = re.compile(r"(%\w+) = alloc shared .*: shared<([\d, ]+), (\w+)> *$", re.MULTILINE)
_MULTIPROCESSOR = {"sm_90": 228 << 10, "sm_100": 228 << 10, "sm_80": 164 << 10}
"""Bytes of shared memory (CUDA C++ Programming Guide, "Compute Capabilities")."""
_RESERVED = 1 << 10
"""Of these, what each block takes for the system."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A loop whose loads run ahead."""

    variable: str
    stages: int
    stage_bytes: int
    """Of shared memory, that one more stage takes."""


def rings_of(ir: str) -> tuple[Ring, ...]:
    """The pipelined loops that load tiles into shared memory, those of the fewest stages first."""
    sizes = {name: _bytes(shape, dtype) for name, shape, dtype in _SHARED.findall(ir)}
    found = []
    for loop in _LOOP.finditer(ir):
        body, _, _ = ir[loop.end() :].partition(f"\n{loop[1]}}}")
        targets = set(_COPY.findall(body)) & sizes.keys()
        if targets:
            found.append(Ring(loop[3], int(loop[2]), sum(sizes[each] for each in targets)))
    return tuple(sorted(found, key=lambda ring: ring.stages))


def _bytes(shape: str, dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return (
        prod(int(extent) for extent in shape.split(",")) * max(int(bits[0]) if bits else 8, 8) // 8
    )


def spare_bytes(case: KernelCase) -> int | None:
    """Shared memory that a block can still take while as many blocks fit; None if not known."""
    blocks, taken = case.number("blocks_per_sm"), case.number("dynamic_shared_bytes")
    target = str(case.attributes.get("target", "sm_90")).rstrip("af")
    if not blocks or taken is None or target not in _MULTIPROCESSOR:
        return None
    held = int(taken + (case.number("static_shared_bytes") or 0))
    return _MULTIPROCESSOR[target] // int(blocks) - _RESERVED - held
