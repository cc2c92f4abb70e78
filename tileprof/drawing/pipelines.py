"""Rings of slots as a GPU runs them: who fills a slot, who waits for whom, and on which barrier.

In: a kernel after all passes for a target.  Out: a `Pipeline` for each ring of slots, from the ops
that wait and arrive.  Nothing is measured here: these are facts of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tileprof import ir
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base

Kind = Literal["mbarrier", "cp.async"]


@dataclass(frozen=True, slots=True)
class Use:
    """An op that fills or reads a slot."""

    op: str
    line: int
    buffer: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Slots that are filled ahead of the iterations that read them."""

    kind: Kind
    """`mbarrier`: a producer fills and waits for `empty`, consumers wait for `full`; `cp.async`:
    all threads fill, and wait for their own groups."""
    slots: int
    fills: tuple[Use, ...]
    reads: tuple[Use, ...]
    bytes: int
    """Bytes that fill a slot; 0 where all threads copy."""
    arrivals: int
    """Warps that free a slot, of one block; 0 for cp.async."""
    lag: int
    """Iterations after its own in which a slot is freed, because the product on it still runs."""
    ahead: int
    """Iterations by which all threads start copies early; 0 for a producer, which runs as far ahead
    as there are free slots."""
    pending: int
    """Groups that may still be under way when an iteration begins; 0 for a producer."""
    cluster: int
    """Blocks that fill and free a slot together."""
    persistent: bool
    """Whether a block goes on with the next slot at its next tile."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the buffers that have these slots."""
        return tuple(dict.fromkeys(each.buffer for each in self.fills))


def pipelines_of(kernel: ir.Kernel) -> tuple[Pipeline, ...]:
    """Return the rings of a kernel after all passes, launch by launch."""
    return tuple(found for op in kernel.launches() for found in (*_rings(op), *_groups(op)))


def _use(op: ir.OpBase, value: ir.Value) -> Use:
    return Use(op.mnemonic, op.span.line if op.span else 0, base(value).name or "buffer")


def _reads(ops: list[ir.OpBase], filled: set[ir.Value]) -> tuple[Use, ...]:
    """Return what reads buffers, each op once a line."""
    return tuple(
        dict.fromkeys(
            _use(op, each.value)
            for op in ops
            if not isinstance(op, ir.View)
            for each in op.accesses()
            if each.reads and base(each.value) in filled
        )
    )


def _rings(launch: ir.Launch) -> Iterator[Pipeline]:
    """Yield the rings that tiles go through; those of numbers and those of one use are left out."""
    ops = list(ir.walk(launch.body))
    looped = {inner for op in ops if isinstance(op, ir.For) for inner in ir.walk(op.body)}
    for ring in ops:
        if not isinstance(ring, ir.Ring):
            continue
        copies = [o for o in ops if isinstance(o, ir.AsyncCopy) and o.ring is ring.result]
        if not any(copy in looped for copy in copies):
            continue
        releases = [o for o in ops if isinstance(o, ir.RingRelease) and o.ring is ring.result]
        yield Pipeline(
            "mbarrier",
            ring.stages,
            tuple(dict.fromkeys(_use(copy, copy.target) for copy in copies)),
            _reads(ops, {base(copy.target) for copy in copies}),
            ring.bytes,
            ring.consumers,
            max((each.lag for each in releases), default=0),
            0,
            0,
            ring.cluster,
            launch.schedule.persistent > 0,
        )


def _groups(launch: ir.Launch) -> Iterator[Pipeline]:
    """Yield the loops whose threads copy ahead by cp.async."""
    for loop in ir.walk(launch.body):
        if not isinstance(loop, ir.For):
            continue
        ops = list(ir.walk(loop.body))
        copies = [o for o in ops if isinstance(o, ir.AsyncCopy) and isinstance(o.lowering, CpAsync)]
        waits = [o for o in loop.body.ops if isinstance(o, ir.Wait) and o.queue == "cp.async"]
        buffers = {base(copy.target) for copy in copies}
        slots = max((int(each.buffer.static_shape[0]) for each in buffers), default=0)
        if not waits or slots < 2:
            continue
        pending = max(each.pending for each in waits)
        waits_first = ops.index(waits[0]) < ops.index(copies[0])
        yield Pipeline(
            "cp.async",
            slots,
            tuple(dict.fromkeys(_use(copy, copy.target) for copy in copies)),
            _reads(ops, buffers),
            0,
            0,
            0,
            pending + waits_first,
            pending,
            1,
            launch.schedule.persistent > 0,
        )
