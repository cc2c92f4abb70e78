"""Tiles of a kernel that are copied more often than they need to be.

In: a kernel.  Out: `RoundTrip`s, fragments that go through shared memory and come back as they
were; `Relay`s, tiles of tensors that go to shared memory by way of another buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import RELAYS_LEAST_BITS
from tileprof.analyzer.tiles.effects import effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

__all__ = ["Relay", "RoundTrip", "relays", "round_trips"]


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A fragment that is copied to shared memory and back to itself."""

    fragment: str
    buffer: str
    there: Op
    back: Op


@dataclass(frozen=True, eq=False)
class Relay:
    """A buffer that takes a tile of a tensor, and is only copied on to shared memory."""

    tensor: str
    buffer: str
    target: str
    there: Op
    on: Op


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


@lru_cache(maxsize=2)
def relays(kernel: TileKernel) -> tuple[Relay, ...]:
    """Buffers between a tensor and shared memory that nothing else uses, of the same elements.

    A tile that goes on to a fragment is none: shared memory is how it gets there asynchronously.
    Nor is one that goes through registers in rows of fewer bytes than an asynchronous copy takes.
    """
    blocks = (block for op, _ in kernel.nested for block in op.blocks)
    return tuple(relay for block in blocks for relay in _relays(kernel, block.ops))


def _relays(kernel: TileKernel, ops: Sequence[Op]) -> Iterator[Relay]:
    effects = effects_of(kernel)
    copies = [op for op in ops if op.name in COPIES]
    for there in copies:
        source, buffer = map(effects.root, there.operands[:2])
        users = [op for op, _ in kernel.nested if buffer in map(effects.root, op.operands)]
        if len(users) != 2 or users[0] is not there or users[1] not in copies:
            continue
        target = effects.root(users[1].operands[1])
        held = [kernel.types[each] for each in (source, buffer, target)]
        if [held[0].space, held[2].space] != ["global", "shared"]:
            continue
        row = (held[1].extents or (0,))[-1] * held[1].bits
        fits = held[1].space == "shared" or (
            held[1].space == "fragment" and row >= RELAYS_LEAST_BITS
        )
        if fits and len({each.dtype for each in held}) == 1:
            yield Relay(source, buffer, target, there, users[1])
