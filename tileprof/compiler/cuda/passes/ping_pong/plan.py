"""Places where the warp groups of a loop could hand the tensor cores over, or why they could not.

A group's hold of the tensor cores begins before the first product after the loop's exponentials (or
its other arithmetic, where it has none) and ends behind the last one before the next exponentials.
In it a group may only wait for tiles that are loaded without what another group does while it holds
them: whoever waits for them could not do it.
It may also hold them until the product that these exponentials wait for is complete: then products
of two groups never share the tensor cores' time up to there, in whatever order these take them.
In: a loop of the consumers, with its waits and barriers.  Out: a `Plan`, or a reason against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tileprof import ir
from tileprof.compiler.cuda.lowering import line_of
from tileprof.compiler.cuda.tuning import (
    ORDINARY_PER_CYCLE,
    PING_PONG_ALONE,
    PING_PONG_STRAY,
    SPECIAL_PER_CYCLE,
    TENSOR_FLOPS_PER_CYCLE,
)
from tileprof.ir.instructions import Wgmma
from tileprof.remarks import Reason
from tileprof.remarks.loops import (
    ArithmeticApart,
    GroupsMeet,
    KeepsTurn,
    KeepsTurnForProducts,
    MayWaitForSlot,
    ProductsInside,
    SharesRows,
)

_CHEAP = {
    "neg", "not", "abs", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite",
    "popcount", "clz",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """Clocks of a multiprocessor's arithmetic units, for all threads of the block."""

    special: float = 0.0
    """Clocks of the unit for exponentials."""
    ordinary: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.special + other.special, self.ordinary + other.ordinary)

    @property
    def clocks(self) -> float:
        """Clocks of both."""
        return self.special + self.ordinary


@dataclass(frozen=True, slots=True)
class Plan:
    """The hand-overs of one loop."""

    loop: ir.For
    first: ir.AsyncGemm
    """The group waits for the tensor cores before it."""
    last: ir.AsyncGemm
    """The last product of a hold."""
    end: ir.OpBase
    """The group hands the tensor cores over behind it: that product, or the wait for one."""
    late: frozenset[ir.OpBase]
    """Waits for products behind exponentials of the iteration, which run beside these products."""
    wraps: bool
    """Whether a group keeps them from one iteration to the next."""
    share: float
    """Time of exponentials over that of products."""


def alternates_alone(share: float, products: Sequence[ir.Gemm]) -> bool:
    """Whether exponentials that take `share` of the time of a loop's products run beside those of
    another group only, in the order of an iteration."""
    return share >= PING_PONG_ALONE and all(p.a.dtype.bits == 8 for p in products)


def share_of(ops: Sequence[ir.OpBase], products: Sequence[ir.Gemm]) -> float:
    """Return the time of the exponentials of some ops over that of products."""
    return work_of(ops).special / sum(map(_clocks, products))


def plan_hand_over(
    loop: ir.For, launch: ir.Launch, groups: int, *, complete: bool
) -> Plan | Reason:
    """The hand-overs of a loop that holds products; `groups`: warp groups that run it; `complete`:
    a hold ends when the product that the next exponentials wait for is complete."""
    body = loop.body.ops
    at = [n for n, op in enumerate(body) if isinstance(op, ir.AsyncGemm)]
    products = [op for op in body if isinstance(op, ir.AsyncGemm)]
    if reason := _loop_reason(loop, products, groups):
        return reason
    # The last of the gaps goes on at the begin of the body.
    gaps = [body[a + 1 : b] for a, b in pairwise(at)]
    gaps.append([*body[at[-1] + 1 :], *body[: at[0]]])
    works = [work_of(gap) for gap in gaps]
    heavy = max(range(len(gaps)), key=lambda n: (works[n].special, works[n].ordinary))
    total = sum(works, Work())
    if total.clocks - works[heavy].clocks > PING_PONG_STRAY * total.clocks:
        return ArithmeticApart()
    wraps = heavy != len(gaps) - 1
    first, last = products[(heavy + 1) % len(products)], products[heavy]
    inside = [op for n in range(heavy + 1, heavy + len(gaps)) for op in gaps[n % len(gaps)]]
    rest = [op for op in body[body.index(first) + 1 :] if op not in products]
    end: ir.OpBase = last
    late: frozenset[ir.OpBase] = frozenset()
    if complete:
        behind = body[body.index(last) + 1 :]
        waits = [n for n, o in enumerate(behind) if isinstance(o, ir.Wait) and o.queue == "wgmma"]
        if waits and behind[waits[0]] in gaps[heavy]:
            end = behind[waits[0]]
            inside += behind[: waits[0]]
            more = (n for n in waits[1:] if work_of(behind[waits[0] : n]).special)
            late = frozenset(behind[n] for n in more)
    if reason := _section_reason(inside, len(rest) if wraps else len(inside), launch):
        return reason
    share = total.special / sum(_clocks(p.gemm) for p in products)
    return Plan(loop, first, last, end, late, wraps, share)


def _clocks(op: ir.Gemm) -> float:
    """Return the clocks of the tensor cores for one product."""
    return 2 * prod(op.mnk) / TENSOR_FLOPS_PER_CYCLE * op.a.dtype.bits / 16


# -- what the loop is made of


def _loop_reason(loop: ir.For, products: Sequence[ir.AsyncGemm], groups: int) -> Reason | None:
    if any(isinstance(o, ir.AsyncGemm) and o not in products for o in ir.walk(loop.body)):
        return ProductsInside()
    for product in products:
        instruction = product.lowering
        if not isinstance(instruction, Wgmma) or instruction.rows != groups:
            return SharesRows(line_of(product))
    for op in loop.body.ops:
        for inner in op.with_inner_ops():
            if _meets(inner, op):
                return GroupsMeet(line_of(inner))
    return None


def _meets(op: ir.OpBase, outer: ir.OpBase) -> bool:
    """Whether all consumers wait for each other at an op; `outer`: the op of the loop's body that
    it is, or is in."""
    if isinstance(op, ir.Atomic):
        # What one thread gets is told to all.
        return not isinstance(outer, ir.Parallel)
    return isinstance(op, ir.Barrier) or getattr(op, "scratch", None) is not None


# -- arithmetic


def work_of(ops: Sequence[ir.OpBase]) -> Work:
    """The arithmetic of some ops; bodies of loops count once."""
    return sum(map(_work, ops), Work())


def _work(op: ir.OpBase) -> Work:
    match op:
        case ir.Parallel(extents=extents, body=body):
            points = prod(_extent(e) for e in extents)
            special = sum(map(_is_special, ir.walk(body)))
            others = sum(map(_is_ordinary, ir.walk(body)))
            return Work(points * special / SPECIAL_PER_CYCLE, points * others / ORDINARY_PER_CYCLE)
        case ir.Reduce(source=source):
            return Work(0, prod(source.buffer.static_shape) / ORDINARY_PER_CYCLE)
        case ir.For() | ir.While() | ir.If():
            return sum((work_of(b.ops) for b in op.blocks()), Work())
        case _:
            return Work()


def _extent(value: ir.Value) -> int:
    return int(value.owner.value) if isinstance(value.owner, ir.Constant) else 1


def _is_special(op: ir.OpBase) -> bool:
    match op:
        case ir.Unary(kind=kind):
            return kind not in _CHEAP
        case ir.Binary(kind=kind):
            return kind in ("div", "pow", "atan2")
        case _:
            return False


def _is_ordinary(op: ir.OpBase) -> bool:
    pure = (ir.Unary, ir.Binary, ir.Compare, ir.Fma, ir.Select, ir.Cast)
    return isinstance(op, pure) and op.result.type != ir.index and not _is_special(op)


# -- what a group may do while it holds the tensor cores


def _section_reason(inside: Sequence[ir.OpBase], split: int, launch: ir.Launch) -> Reason | None:
    """`inside`: ops between the products of one hold; those from `split` on are of the next
    iteration."""
    freed: list[tuple[int, ir.RingRelease]] = []
    for number, op in enumerate(inside):
        nested = [*op.inner_ops()]
        if any(isinstance(o, ir.Wait | ir.RingWait | ir.RingRelease) for o in nested):
            return KeepsTurn(op.mnemonic, line_of(op))
        match op:
            case ir.Wait(queue="wgmma"):
                return KeepsTurnForProducts(op.reason)
            case ir.RingRelease():
                freed.append((number, op))
            case ir.RingWait():
                for before, release in freed:
                    later = before < split <= number
                    if _needs(launch, op, release, later):
                        return MayWaitForSlot(line_of(op))
    return None


def _needs(launch: ir.Launch, wait: ir.RingWait, release: ir.RingRelease, later: bool) -> bool:
    """Whether a tile may only be loaded once all groups did a release that comes before it in the
    same hold; `later`: it is a tile of the next iteration.

    Before tile i of one ring, the producer loads tiles of the other up to i, or up to i - 1 where
    it comes to that ring later; to load tile j it needs slot j - stages to be free.
    """
    acquired = list(_acquired(launch, {wait.ring, release.ring}))
    ring = release.ring.owner
    if not isinstance(ring, ir.Ring) or any(len(set(a)) != len(a) for a in acquired):
        return True
    both = [a for a in acquired if len(a) == 2]
    behind = bool(both) and all(a[0] is wait.ring for a in both)
    return later - behind - ring.stages + release.lag >= 0


def _acquired(launch: ir.Launch, rings: set[ir.Value]) -> Iterator[list[ir.Value]]:
    """Rings whose slots each block of the producer fills, in order, among some."""
    for roles in launch.body.ops:
        if isinstance(roles, ir.Roles):
            inner = (b for o in ir.walk(roles.producer) for b in o.blocks())
            for block in (roles.producer, *inner):
                taken = [o.ring for o in block.ops if isinstance(o, ir.RingAcquire)]
                yield [ring for ring in taken if ring in rings]
