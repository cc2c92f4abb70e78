"""Tiles of a kernel that are copied more often than they need to be.

In: a kernel.  Out: `RoundTrip`s, fragments that go through shared memory and come back as they
were; `Relay`s, tiles of tensors that go to shared memory by way of another buffer; `Carried`
values, which an iteration of a loop stores in a tensor for the next one to load; `Spread` tiles,
whose elements are the same along an axis, and are only read one by one.

    for k: parallel i: … load O, [i] … store O, [i]            added up in memory
    for t: parallel i: … load H, [t - 1, i] … store H, [t, i]  handed on
    parallel i, j: store (load V, [i]), W, [i, j]              spread: a row of W is one element
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import RELAYS_LEAST_BITS
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

__all__ = ["Carried", "Relay", "RoundTrip", "Spread", "carried", "relays", "round_trips", "spreads"]


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


@dataclass(frozen=True, eq=False)
class Carried:
    """A value that goes from one iteration of a loop to the next one through a tensor."""

    tensor: str
    load: Op
    store: Op
    turns: float
    """Iterations of the loop."""


@dataclass(frozen=True, eq=False)
class Spread:
    """A tile that holds each of some values several times."""

    buffer: str
    store: Op
    """The only op that writes it."""
    loads: tuple[Op, ...]
    """All ops that read it."""
    places: frozenset[tuple[str, str, int]]
    """Loads of tensors whose places its elements choose: `load`, the tensor, and the line."""
    times: int
    """How many elements have the same value."""


@lru_cache(maxsize=2)
def spreads(kernel: TileKernel) -> tuple[Spread, ...]:
    """Return such tiles of a kernel: another loop over their elements could take the values from
    where they come from."""
    effects, found = effects_of(kernel), list[Spread]()
    for store, around in kernel.nested:
        loop = around[-1] if around else store
        buffer = store.operands[1] if store.name == "store" else ""
        made = effects.made.get(buffer)
        if made is None or made.name != "alloc" or loop.name != "parallel":
            continue
        depends, inside = effects.used(store.source), effects.of(loop).written
        same = [axis for axis in loop.arguments if axis not in depends]
        whole = sorted(store.listed) == sorted(loop.arguments)
        times = math.prod(int(effects.values.turns.get(axis, 1)) for axis in same)
        users = [op for op, _ in kernel.nested if buffer in map(effects.root, op.operands)]
        loads = [op for op in users if op is not store]
        apart = not any(op in loads for op in loop.walk())
        loaded = any(map(effects.is_buffer, depends)) and not depends & inside
        if whole and times > 1 and loaded and apart and {op.name for op in loads} == {"load"}:
            places = frozenset(
                ("load", op.source[1:], op.line) for op in kernel.named("load")
                if op.source in kernel.parameters
                and any(buffer in effects.used(index) for index in op.listed)
            )  # fmt: skip
            found.append(Spread(buffer, store, tuple(loads), places, times))
    return tuple(found)


@lru_cache(maxsize=2)
def carried(kernel: TileKernel) -> tuple[Carried, ...]:
    """Return such values of parallel loops inside of serial ones, by tensor and load."""
    found = list[Carried]()
    for parallel, around in kernel.nested:
        loops = [each for each in around if each.name == "for"]
        if parallel.name == "parallel" and loops:
            found += _carried(effects_of(kernel), parallel, loops[-1])
    return tuple(found)


def _carried(effects: Effects, parallel: Op, loop: Op) -> Iterator[Carried]:
    turns, index = effects.turns(loop), loop.arguments[0]
    accesses = [each for each in parallel.walk() if each.name in ("load", "store")]
    for store in accesses:
        if store.name == "load" or turns <= 1:
            continue
        tensor = effects.root(store.operands[1])
        held = effects.kernel.parameters.get(tensor)
        if held is None or held.type.space != "global":
            continue
        moves = any(index in effects.used(name) for name in store.listed)
        for load in accesses:
            if load.name != "load" or load.source != store.operands[1]:
                continue
            pairs = list(zip(load.listed, store.listed))
            apart = [p for p in pairs if effects.identity(p[0]) != effects.identity(p[1])]
            handed_on = apart and all(index in effects.used(n) for pair in apart for n in pair)
            if handed_on if moves else not apart:
                yield Carried(tensor, load, store, turns)


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
