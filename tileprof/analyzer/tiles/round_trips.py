"""Fragments of a tile kernel that go through shared memory and come back as they were.

In: a kernel.  Out: `RoundTrip`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.effects import effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

__all__ = ["RoundTrip", "round_trips"]


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A fragment that is copied to shared memory and back to itself."""

    fragment: str
    buffer: str
    there: Op
    back: Op


@lru_cache(maxsize=2)
def round_trips(kernel: TileKernel) -> tuple[RoundTrip, ...]:
    """Fragments that are copied to a shared buffer which only the copy back reads."""
    blocks = (block for op, _ in kernel.nested for block in op.blocks)
    return tuple(trip for block in blocks for trip in _trips(kernel, block.ops))


def _trips(kernel: TileKernel, ops: Sequence[Op]) -> Iterator[RoundTrip]:
    effects = effects_of(kernel)
    copies = [(at, op) for at, op in enumerate(ops) if op.name in COPIES]
    for at, there in copies:
        fragment, buffer = there.operands[:2]
        held = [kernel.types.get(each) for each in (fragment, buffer)]
        if [each.space for each in held if each] != ["fragment", "shared"]:
            continue
        if held[0] is None or held[1] is None or held[0].dtype != held[1].dtype:
            continue
        back = next(
            (b for b, op in copies if b > at and op.operands[:2] == (buffer, fragment)), None
        )
        if back is None:
            continue
        between = [effects.of(each) for each in ops[at + 1 : back]]
        readers = [op for op, _ in kernel.nested if buffer in op.operands and op is not there]
        changed = any({fragment, buffer} & each.written for each in between)
        if readers == [ops[back]] and not changed:
            yield RoundTrip(fragment, buffer, there, ops[back])
