"""Ops of a GPU's lowering: asynchronous work and its tokens, rings of buffers, warp roles.

They appear after the passes of a GPU backend; the author's program has none of them.  An
asynchronous op gives a token; `wait` names the tokens it waits for, or how many of the youngest
groups of a queue may still run, which is how the hardware counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Literal

from .core import Block, OpBase, Value, attribute, op, operand, operands, region
from .effects import Effect, Queue
from .instructions import CpAsync, ProductInstruction, Tma, copy_instruction, product_instruction
from .tile import Gemm, Hints, Policy, ReduceKind
from .types import index, ring, token


@op("async_copy", gives=token)
class AsyncCopy(OpBase):
    """Start to copy a tile between global and shared memory.

    With a `ring` its completion counts on the barrier of the ring's slot; without one it belongs to
    the next group of its queue.
    """

    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.WRITE)
    ring: Value | None = operand(Effect.WRITE, optional=True)
    lowering: Tma | CpAsync = attribute(default=Tma(), read=copy_instruction)
    hints: Hints = attribute(default=())
    multicast: int = attribute(default=1)
    """Blocks of the cluster that get the tile, each at the same place, each on its own barrier."""
    chunks: tuple[int, ...] = attribute(default=(0,))
    """Beginnings of the tiles that a point of a parallel loop copies, in elements along the row
    from the first; all are inside of the tensor if that one is."""

    @property
    def runs_in(self) -> Queue | None:
        """Stores and loads have one each; what comes through a ring is in none."""
        if self.ring is not None:
            return None
        return "bulk" if self.target.buffer.space == "global" else "cp.async"


@op("async_gemm", gives=token)
class AsyncGemm(OpBase):
    """Start a matrix product on the tensor cores and commit it as one group (see `Gemm`)."""

    a: Value = operand(Effect.READ)
    b: Value = operand(Effect.READ)
    c: Value = operand(Effect.READ | Effect.WRITE, unless="clear")
    transpose_a: bool = attribute(default=False)
    transpose_b: bool = attribute(default=False)
    clear: bool = attribute(default=False)
    policy: Policy = attribute(default="square")
    hints: Hints = attribute(default=())
    lowering: ProductInstruction | None = attribute(default=None, read=product_instruction)

    @property
    def runs_in(self) -> Queue:
        """Return the queue of matrix products."""
        return "wgmma"

    @property
    def gemm(self) -> Gemm:
        """The product as an op that ends when it is done."""
        return Gemm(**{name: getattr(self, name) for name in _PRODUCT})

    @classmethod
    def of(cls, product: Gemm) -> AsyncGemm:
        """The op that starts a product."""
        return cls(**{name: getattr(product, name) for name in _PRODUCT})


_PRODUCT = tuple(each.name for each in fields(AsyncGemm) if each.init and each.name != "hint")
"""Fields that a product and the op that starts it have in common: all but names of results."""


@op("commit", effect=Effect.WRITE, on="queue")
class Commit(OpBase):
    """End a group of asynchronous copies of a queue."""

    queue: Queue = attribute(positional=True)


@op("wait", effect=Effect.READ | Effect.WRITE, on="queue")
class Wait(OpBase):
    """Go on once at most `pending` groups of the queue are still running; `tokens` are what is
    waited for, where they are in sight.  `read` waits only until sources may be overwritten."""

    queue: Queue = attribute(positional=True)
    tokens: list[Value] = operands(Effect.READ)
    held: list[Value] = operands(Effect.PURE)
    """Fragments that may be used from here on; what is waited for has written them."""
    pending: int = attribute(default=0)
    read: bool = attribute(default=False)
    reason: str = attribute(default="")
    """Op that needs the result, for remarks."""
    behind: bool = attribute(default=False)
    """Whether all arithmetic before it is done there, beside the products."""
    after: Value | None = operand(Effect.PURE, default=None)
    """A fragment whose sums are there first: what they are of is computed beside the products."""


@op("barrier", effect=Effect.READ | Effect.WRITE, on="threads")
class Barrier(OpBase):
    """A barrier of all threads of the role, or of the block outside of roles."""

    reason: str = attribute(default="")


@op("fence", effect=Effect.READ | Effect.WRITE, on="threads")
class Fence(OpBase):
    """Shared memory that this thread wrote is visible to asynchronous units after it."""

    reason: str = attribute(default="")


@op("convert_layout")
class ConvertLayout(OpBase):
    """Copy a fragment into one of the same shape and another register layout."""

    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.WRITE)
    scratch: Value | None = operand(Effect.READ | Effect.WRITE, default=None)
    """A shared buffer that it goes through; None where shuffles do."""


@op("all_reduce")
class AllReduce(OpBase):
    """Combine the parts of a fragment that partial reductions left in each thread: after it all
    threads that hold an element have the whole."""

    kind: ReduceKind = attribute(positional=True)
    target: Value = operand(Effect.READ | Effect.WRITE)
    lanes: tuple[int, ...] = attribute(default=())
    """Distances in lanes of the butterfly."""
    warps: tuple[tuple[int, int], ...] = attribute(default=())
    """Digits of the warp number that tell the parts of an element apart: weight and radix."""
    scratch: Value | None = operand(Effect.READ | Effect.WRITE, default=None)
    """A shared buffer through which warps combine their parts; None where none do."""

    def verify(self) -> Iterator[str]:
        """Parts are of sums."""
        if self.kind != "sum":
            yield f"combines parts of a {self.kind}"


@op("grid", effect=Effect.PURE, gives=index)
class GridPosition(OpBase):
    """`block`: the number of this block; `blocks`: how many run; `rank`: the number of this block
    in its cluster.  A persistent block takes the tile of its own number first, and then those whose
    number is its own plus a multiple of `blocks`, or what `next_tile` gives it."""

    kind: Literal["block", "blocks", "rank"] = attribute(positional=True)


@op("next_tile", effect=Effect.READ | Effect.WRITE, on="tiles", gives=index)
class NextTile(OpBase):
    """Take the number of the next tile from the counter of the launch, which all blocks share:
    `blocks`, `blocks` + 1, …; `total` or more where none is left.  A block asks once for each tile
    that it has done, so the counter is asked `total` times in a launch and then starts anew."""

    total: Value = operand()


@op("ring", effect=Effect.WRITE, on="threads", gives=ring)
class Ring(OpBase):
    """`stages` slots that a producer fills and consumers free, each with a full and an empty
    barrier.  The position lives outside of every loop, so a ring may be used by several loops in
    turn and by every tile of a persistent block."""

    stages: int = attribute()
    bytes: int = attribute()
    """Bytes that arrive in a slot before it is full; 0: a slot holds a number, see `ring_send`."""
    consumers: int = attribute()
    """Arrivals of one block that free a slot."""
    cluster: int = attribute(default=1)
    """Blocks whose producers fill a slot together: it is free once all of them freed it."""
    offset: int = attribute(default=-1)
    """Bytes from the start of shared memory to its barriers; -1 before it is planned."""


@op("ring_acquire", gives=index)
class RingAcquire(OpBase):
    """Producer: wait until the next slot is free and expect its bytes; gives the slot."""

    ring: Value = operand(Effect.READ | Effect.WRITE)


@op("ring_commit")
class RingCommit(OpBase):
    """Producer: go on to the next slot."""

    ring: Value = operand(Effect.WRITE)


@op("ring_wait", gives=index)
class RingWait(OpBase):
    """Consumer: wait until the next slot is full; gives the slot."""

    ring: Value = operand(Effect.READ | Effect.WRITE)


@op("ring_release")
class RingRelease(OpBase):
    """Consumer: free a slot and go on to the next.  With `lag` 1 it frees the slot before this one
    (nothing the first time), because the work on this one may still run; `last` frees the one that
    a lag left over and does not go on.  `fence`: threads have read the slot themselves, and what
    they read has to be there before TMA, which keeps no order with them, fills it again."""

    ring: Value = operand(Effect.WRITE)
    lag: int = attribute(default=0)
    last: bool = attribute(default=False)
    fence: bool = attribute(default=False)


@op("ring_send")
class RingSend(OpBase):
    """Producer: wait until the next slot is free, put a number there and go on."""

    ring: Value = operand(Effect.READ | Effect.WRITE)
    value: Value = operand()


@op("ring_receive", gives=index)
class RingReceive(OpBase):
    """Consumer: wait until the next slot is full, take its number, free it and go on."""

    ring: Value = operand(Effect.READ | Effect.WRITE)


@op("roles", effect=Effect.CONTROL)
class Roles(OpBase):
    """Warp specialisation: threads behind the block's own run `producer`, those run `consumer`."""

    producer: Block = region()
    consumer: Block = region()
    producer_registers: int = attribute(default=0)
    consumer_registers: int = attribute(default=0)
    """Registers a thread that `setmaxnreg` asks for; 0 leaves them."""

    def verify(self) -> Iterator[str]:
        """No arguments."""
        if self.producer.args or self.consumer.args:
            yield "roles take no arguments"


@op("turn_start", effect=Effect.WRITE, on="turns")
class TurnStart(OpBase):
    """The warp groups of the consumers will take turns, one after the other and the first again
    after the last; the first group has the first turn."""


@op("turn_wait", effect=Effect.READ | Effect.WRITE, on="turns")
class TurnWait(OpBase):
    """Consumer: go on once the warp group before this one has passed its turn."""


@op("turn_pass", effect=Effect.WRITE, on="turns")
class TurnPass(OpBase):
    """Consumer: the turn goes to the next warp group, `ahead` of the arithmetic behind it."""

    ahead: bool = attribute(default=False)


@op("mark", effect=Effect.READ | Effect.WRITE, on="sites")
class Mark(OpBase):
    """A mark: from here on, the calling warp is in this state of the kernel's table."""

    state: int = attribute()
