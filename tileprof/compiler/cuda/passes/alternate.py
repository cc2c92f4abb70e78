"""Products of a loop into two accumulators in turn, each used while the next one runs.

A loop whose only product is used at once, and starts again at 0 in each iteration, leaves a warp
group's tensor cores idle while it uses the sums.  Another warp group may multiply meanwhile, but
groups that wait for the same tiles, and store a result together, do the same at the same time.
With a second accumulator a group has a product of its own under way:

    for k                       for k in steps of 4
      wait ring                   wait ring; gemm A_s, B_s → p0            of k
      gemm A_s, B_s → p     ⇒     wait ring; gemm A_s, B_s → p1            of k + 1
      release ring                use p0;    release ring                  of k
      use p                       wait ring; gemm A_s, B_s → p0            of k + 2
                                  …
                                  use p1                                   of k + 3
                                release ring

The four iterations of a step end with no product under way: where a sum of an earlier iteration of
a loop is used beside a product of this one, the assembler runs all products of the kernel one by
one.  A slot is freed when the product after the one that read it has been issued.

In: a launch with roles and rings, before its products are asynchronous.  Out: such loops of the
consumers with several iterations in one; iterations that are left over have a loop of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import fragment_registers, registers_available
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import ALTERNATING, OTHER_REGISTERS
from tileprof.compiler.passes.identities import folded
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks.products import Alternates

from .overlap.rotation import Part


def alternate(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with two accumulators where registers hold them, unless the author has products in
    another order."""
    controls = lowering.controls
    if controls.overlap is False or controls.ping_pong or not controls.delayed_release:
        return kernel
    return per_launch(kernel, lambda launch: _alternated(launch, lowering))


@dataclass(frozen=True)
class _Plan:
    """A loop, and the positions of ops in its body."""

    trips: range
    product: ir.Gemm
    head: tuple[int, ...]
    """Positions of what the product waits for, and of the product."""
    tail: tuple[int, ...]
    """Everything else that does something, without the releases of the head's rings."""
    used: int
    """Position of the first op of the tail that uses the product."""
    rings: tuple[ir.Value, ...]


def _alternated(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    roles = next((o for o in launch.body.ops if isinstance(o, ir.Roles)), None)
    if roles is None or launch.block_threads < 2 * WARP_GROUP:
        return launch
    held = [o.result for o in ir.walk(roles.consumer) if isinstance(o, ir.Alloc)]
    threads = launch.block_threads + WARP_GROUP
    most = roles.consumer_registers or registers_available(threads, lowering.target)
    plans: dict[ir.OpBase, _Plan] = {}
    for loop in (o for o in ir.walk(roles.consumer) if isinstance(o, ir.For)):
        plan = _plan(loop, roles.consumer)
        if plan is None:
            continue
        sums = base(plan.product.c)
        if fragment_registers([*held, sums], launch.block_threads) <= most - OTHER_REGISTERS:
            held.append(sums)
            plans[loop] = plan
            told = Alternates(buffer_name(sums))
            lowering.remarks.add("gemm", "", plan.product.span, told)
    if not plans:
        return launch
    mapping: dict[ir.Value, ir.Value] = {}
    seconds: dict[ir.OpBase, ir.Value] = {}

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        for plan in plans.values():
            if old is base(plan.product.c).owner:
                assert isinstance(new, ir.Alloc)
                builder.emit(new)
                name = f"{buffer_name(new.result)}_other"
                second = ir.Alloc(new.space, new.shape, new.dtype, new.layout, hint=name)
                seconds[old] = builder.emit(second).result
                return [new.result]
        if old not in plans:
            return None
        assert isinstance(new, ir.For)
        plan = plans[old]
        first = base(plan.product.c)
        assert first.owner is not None
        _Steps(new, plan, (mapping[first], seconds[first.owner]), mapping, builder).emit()
        return []

    return with_originals(launch, rule, mapping)


# -- which loops


def _plan(loop: ir.For, consumer: ir.Block) -> _Plan | None:
    """Return how a loop's iterations are taken apart; None where they cannot be."""
    trips, ops = loop.static_range, loop.body.ops
    if trips is None or len(trips) < ALTERNATING or loop.results or loop.schedule.crowded:
        return None
    products = [o for o in ir.walk(loop.body) if isinstance(o, ir.Gemm)]
    if len(products) != 1 or products[0] not in ops or not is_of_warp_groups(products[0]):
        return None
    (product,) = products
    sums = base(product.c)
    if not product.clear or product.c is not sums or not isinstance(sums.owner, ir.Alloc):
        return None
    waits = _waits_for(product, loop.body)
    if waits is None or any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(loop.body)):
        return None
    rings = tuple(dict.fromkeys(o.ring for o in waits))
    releases = [o for o in ops if isinstance(o, ir.RingRelease) and o.ring in rings]
    if any(o.lag or o.last for o in releases) or len(releases) != len(rings):
        return None
    slots = {r for o in waits for r in o.results}
    head = {*waits, product}
    tail = [o for o in ops if o not in head and o not in releases and not _floats(o)]
    tiles = {base(product.a), base(product.b)}
    uses = [o for o in tail if any(base(t.value) is sums for t in o.all_accesses())]
    touched = {base(t.value) for o in tail for t in o.all_accesses()}
    if not uses or ops.index(uses[0]) < ops.index(product) or not tiles.isdisjoint(touched):
        return None
    if any(not slots.isdisjoint(o.all_operand_values()) for o in tail):
        return None
    inside = set(ir.walk(loop.body))
    if any(o not in inside and sums in map(base, o.operand_values()) for o in ir.walk(consumer)):
        return None
    place = {op: at for at, op in enumerate(ops)}
    order = sorted(place[o] for o in head)
    return _Plan(trips, product, tuple(order), tuple(place[o] for o in tail), place[uses[0]], rings)


def _floats(op: ir.OpBase) -> bool:
    """Whether an op only computes a value, which stands where it is needed."""
    return is_pure(op) or isinstance(op, ir.View | ir.Reinterpret)


def _waits_for(product: ir.Gemm, block: ir.Block) -> list[ir.RingWait] | None:
    """The slots that a product waits for; None where its operands follow from anything else that
    the block does."""
    found: list[ir.RingWait] = []
    open_ = [product.a, product.b]
    seen: set[ir.OpBase] = set()
    while open_:
        op = open_.pop().owner
        if op is None or op in seen or op not in block.ops:
            continue
        seen.add(op)
        if isinstance(op, ir.RingWait):
            found.append(op)
        elif not _floats(op):
            return None
        open_ += op.all_operand_values()
    return found or None


# -- several iterations as one


@dataclass
class _Steps:
    """The loops in the place of one, which has been rebuilt: positions are those of the old one."""

    loop: ir.For
    plan: _Plan
    sums: tuple[ir.Value, ir.Value]
    mapping: Mapping[ir.Value, ir.Value]
    builder: ir.Builder

    def emit(self) -> None:
        """Append them, and free the last slot."""
        trips = self.plan.trips
        whole = len(trips) // ALTERNATING * ALTERNATING
        self._over(trips[:whole], ALTERNATING)
        if len(trips) > whole:
            self._over(trips[whole:], 1)
        for ring in self._rings():
            self.builder.emit(ir.RingRelease(ring, 1, last=True, span=self.loop.span))

    def _rings(self) -> Iterator[ir.Value]:
        for ring in self.plan.rings:
            yield self.mapping.get(ring, ring)

    def _over(self, trips: range, together: int) -> None:
        """A loop over these values of the counter, so many in an iteration."""
        counter = self.loop.body.args[0]
        first = ir.Value(counter.type, counter.name)
        body = ir.Builder(ir.Block([first]), self.loop.span)
        numbers = [first]
        for at in range(1, together):
            step = body.constant(at * trips.step)
            numbers.append(folded(ir.Binary("add", first, step), body))
        self._head(body.block, first, 0)
        self._release(body)
        for at in range(together):
            if at + 1 < together:
                self._head(body.block, numbers[at + 1], at + 1)
            self._tail(body, numbers[at], at, last=at + 1 == together)
        ends = trips.start, trips.stop, trips.step * together
        start, stop, step = (self.builder.constant(n) for n in ends)
        kept = self.loop.hints, self.loop.schedule
        made = ir.For("serial", start, stop, step, body.block, 0, *kept, span=self.loop.span)
        self.builder.emit(made)

    def _part(self, block: ir.Block, k: ir.Value, at: int) -> Part:
        (counter,) = self.loop.body.args
        return Part(self.loop, {counter: k, self.sums[0]: self.sums[at % 2]}, block)

    def _head(self, block: ir.Block, k: ir.Value, at: int) -> None:
        self._part(block, k, at).place(self.plan.head)

    def _tail(self, body: ir.Builder, k: ir.Value, at: int, *, last: bool) -> None:
        part = self._part(body.block, k, at)
        for position in self.plan.tail:
            part.place([position])
            if position == self.plan.used and not last:
                self._release(body)

    def _release(self, body: ir.Builder) -> None:
        """Free the slot before the one that the youngest product reads."""
        for ring in self._rings():
            body.emit(ir.RingRelease(ring, 1, span=self.plan.product.span))
