"""Waits for asynchronous work, each at the first op that needs it, with the largest correct count.

Matrix products of a warp group complete in the order in which they were committed.  A product whose
result, or whose operand, an op is about to touch must be complete; every younger one may still run.
In a loop the count is the least over all ways to get there.

    gemm → s          (group 1)
    gemm → o          (group 2)
    max of s          wait, 1 pending: group 2 runs on

A wait is said to come after the sums that stand before it: the assembler would let it go first, and
the arithmetic that is meant to run beside the product would wait for it.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.lowering import Lowering, Remarks
from tileprof.compiler.cuda.passes.control_flow import Flow, starts_loads
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, opened, per_launch
from tileprof.remarks.products import RunsWhile

from .groups import Group, State, committed
from .loops import first_wait, may_not_run, starts, sums_in, uses_earlier


def insert_waits(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Products of tensor cores become asynchronous; waits stand where results are needed."""
    return per_launch(kernel, lambda launch: wait_in_launch(launch, lowering))


def wait_in_launch(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Insert waits into one launch."""
    return _Waits(launch, lowering).done()


def _is_fragment(value: ir.Value) -> bool:
    return base(value).buffer.space == "fragment" and value.dtype.name == "float32"


def _summed(made: ir.Block) -> ir.Value | None:
    """The fragment that was last summed since products were issued or waited for."""
    for op in reversed(made.ops):
        match op:
            case ir.Wait(queue="wgmma") | ir.AsyncGemm() | ir.For() | ir.While() | ir.If():
                return None
            case ir.Reduce(kind="sum", target=target) if _is_fragment(target):
                return target
    return None


def _is_of_units(op: ir.OpBase) -> bool:
    """Whether tensor cores or TMA read what an op reads of shared memory."""
    return isinstance(op, ir.AsyncCopy) or is_of_warp_groups(op)


_Late = list[tuple[ir.RingRelease, frozenset[ir.Value]]]


class _Waits(Flow[State]):
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        super().__init__()
        self.launch = launch
        self.lowering = lowering
        self.tiles: dict[ir.Value, frozenset[ir.Value]] = {}
        """The buffers of each ring."""
        self.used: set[ir.Value] = set()
        """Buffers of shared memory that threads use themselves."""
        self.starts: set[ir.OpBase] = set()
        """Ops that write what a product then adds to."""
        self.in_role = False
        """Whether a producer loads for these threads, whose loops take turns as they stand."""
        self.drained: dict[ir.OpBase, bool] = {}
        """Loops, and whether their iterations wait at their end for what the next waits for."""
        self.apart: set[ir.OpBase] = set()
        """Those of them which nothing may run into."""

    def done(self) -> ir.Launch:
        """The launch with waits."""
        for op in ir.walk(self.launch.body):
            if isinstance(op, ir.AsyncCopy) and op.ring is not None:
                held = self.tiles.get(op.ring, frozenset())
                self.tiles[op.ring] = held | {base(op.target)}
            elif not _is_of_units(op):
                self.used |= {base(t.value) for t in op.accesses()}
        state = State()
        body = self.block(self.launch.body, state)
        self._drain(body, state)
        return self.launch.with_body(body)

    def block(self, block: ir.Block, state: State) -> ir.Block:
        """A copy of a block with waits; `state` becomes that at its end."""
        made = opened(block, self.mapping)
        late: _Late = []
        self.starts |= starts(block)
        for op in block.ops:
            if isinstance(op, ir.RingRelease):
                self._release(op, made, state, late)
            elif isinstance(op, ir.RingReceive | ir.Yield):
                # The number of the next tile is waited for when nothing of this one is held.
                self._release_all(made, state, late)
                self.emit(op, made)
            else:
                self._op(op, made, state, late)
            self._release_late(made, state, late)
        self._release_all(made, state, late)
        return made

    def _drain(self, block: ir.Block, state: State) -> None:
        """Nothing may be running when the threads end."""
        if state.wgmma:
            self._wait(state, block, 0, "the end")
        if state.stores:
            block.ops.append(ir.Wait("bulk", [], [], read=True, reason="the end"))

    # -- one op

    def _op(self, op: ir.OpBase, made: ir.Block, state: State, late: _Late) -> None:
        match op:
            case ir.For() | ir.While():
                self._enter(op, made, state)
                self.loop(op, made, state)
            case ir.If() if not starts_loads(op):
                self._start(op, made, state)
                self.branch(op, made, state)
            case ir.Break() | ir.Continue():
                self.jump(op, made, state)
            case ir.Roles():
                self._roles(op, made)
            case ir.Gemm() if is_of_warp_groups(op):
                self._product(op, made, state)
            case ir.Copy(lowering=Tma() as tma):
                self._store(op, tma, made, state)
            case _:
                self._start(op, made, state)
                for touch in op.all_accesses():
                    self._before(touch, op, made, state)
                if self.launch.block_threads <= WARP_GROUP:
                    # What was waited for has read its slots. A branch behind this op would keep the
                    # assembler from joining its products with sums of the next, and no other group
                    # has products that run while the producer waits for them.
                    self._release_late(made, state, late)
                regions = {n: self.copied(getattr(op, n)) for n in op.SPEC.regions}
                self.emit(op, made, regions)

    def _start(self, op: ir.OpBase, made: ir.Block, state: State) -> None:
        """Let no product run while an op, or a branch, writes what the next product adds to."""
        if op in self.starts and state.wgmma:
            # Otherwise the assembler runs all products of the kernel one by one.
            self._wait(state, made, 0, "the next product adds to what is written", op)

    def _enter(self, op: ir.For | ir.While, made: ir.Block, state: State) -> None:
        """Let no product run into a loop of products that add up elsewhere.

        Its registers would be held in all iterations, and where the first one with it meets the
        others without, the assembler would run all products of the kernel one by one.
        """
        products = [o for o in op.inner_ops() if is_of_warp_groups(o)]
        sums = {base(o.c) for o in products if isinstance(o, ir.Gemm)}
        others = [g.younger for g in state.wgmma if sums and g.result not in sums]
        if others:
            self._wait(state, made, min(others), "the loop adds up elsewhere", op)

    def _before(self, touch: ir.Access, op: ir.OpBase, made: ir.Block, state: State) -> None:
        """Wait for whatever an access conflicts with."""
        if not (state.wgmma or state.stores):
            return
        held = base(touch.value)
        reason = f"{op.mnemonic} uses {buffer_name(held)}"
        needed = [g for g in state.wgmma if g.result is held or (touch.writes and held in g.reads)]
        if needed:
            self._wait(state, made, min(g.younger for g in needed), reason, op)
        if touch.writes:
            self._await_stores(frozenset({held}), reason, op, made, state)

    def _await_stores(
        self,
        held: frozenset[ir.Value],
        reason: str,
        op: ir.OpBase,
        made: ir.Block,
        state: State,
    ) -> None:
        """Wait until bulk stores have read what is in these buffers."""
        reading = [g.younger for g in state.stores if g.reads & held]
        if reading:
            pending = min(reading)
            made.ops.append(
                ir.Wait("bulk", [], [], pending, read=True, reason=reason, span=op.span)
            )
            state.stores = tuple(g for g in state.stores if g.younger < pending)

    def _product(self, op: ir.Gemm, made: ir.Block, state: State) -> None:
        result = base(op.c)
        # Products into one accumulator run in order by themselves.
        for touch in op.accesses():
            if base(touch.value) is not result:
                self._before(touch, op, made, state)
        held = clone(op, self.mapping, {})
        assert isinstance(held, ir.Gemm)
        new = ir.AsyncGemm.of(held)
        made.ops.append(new)
        reads = frozenset({base(op.a), base(op.b)})
        state.wgmma = committed(state.wgmma, Group(op, 0, result, reads, new.result))

    def _store(self, op: ir.Copy, tma: Tma, made: ir.Block, state: State) -> None:
        """A tile stored by TMA: its source may be overwritten once it has been read."""
        for touch in op.accesses():
            self._before(touch, op, made, state)
        held = clone(op, self.mapping, {})
        assert isinstance(held, ir.Copy)
        new = ir.AsyncCopy(held.source, held.target, None, tma, op.hints, span=op.span)
        made.ops += [new, ir.Commit("bulk", span=op.span)]
        group = Group(op, 0, None, frozenset({base(op.source)}), new.result)
        state.stores = committed(state.stores, group)

    # -- control flow

    def loop(self, op: ir.OpBase, made: ir.Block, state: State) -> None:
        """`for` and `while`: products that the next iteration waits for before it does anything are
        waited for in theirs.

        Nothing runs beside them in between.  If a loop that may run zero times leaves products
        running, the assembler runs all products of the kernel one by one.  So it does where a sum
        of an earlier iteration is used while a product of this one runs: such a loop begins with
        none under way.
        """
        if op not in self.drained:
            self.drained[op] = False
            if may_not_run(op) or len(sums_in(op)) > 1:
                outer = self.lowering
                self.lowering = replace(outer, remarks=Remarks())
                tried = ir.Block()
                super().loop(op, tried, state.copy())
                self.lowering = outer
                made_once = tried.ops[-1]
                if uses_earlier(made_once):
                    self.apart.add(op)
                waits = may_not_run(op) and first_wait(made_once) is True
                self.drained[op] = waits or op in self.apart
        if op in self.apart and state.wgmma:
            self._wait(state, made, 0, "it is used beside a product of the loop", op)
        entry = state.copy()
        super().loop(op, made, state)
        inside = set(op.inner_ops())
        left = any(g.op in inside for g in state.wgmma)
        if left and may_not_run(op) and not self.in_role:
            self._guarded(op, made, state, entry)

    def _guarded(self, op: ir.OpBase, made: ir.Block, state: State, entry: State) -> None:
        """Put the loop just made, and a wait for its products, under the condition that it runs.

        Where ways with and without them meet, nothing may be running.
        """
        new = made.ops.pop()
        assert isinstance(new, ir.For)
        runs = ir.Compare("lt", new.start, new.stop, span=op.span)
        then, otherwise = ir.Block([], [new]), ir.Block()
        self._wait(state, then, 0, "a loop that may not run has this product", op)
        self._wait(entry, otherwise, 0, "not every way has this product", op)
        made.ops += [runs, ir.If(runs.result, then, otherwise, span=op.span)]
        state.become(state.copy(), entry)

    def _iteration(
        self, op: ir.OpBase, state: State
    ) -> tuple[dict[str, ir.Block], list[State], list[State]]:
        regions, again, left = super()._iteration(op, state)
        if self.drained.get(op) and state.wgmma:
            body = regions["body"]
            ends = [body.ops.pop()] if body.ops and isinstance(body.ops[-1], ir.Yield) else []
            self._wait(state, body, 0, "the next iteration waits for it", op)
            body.ops += ends
        return regions, again, left

    def branch(self, op: ir.If, made: ir.Block, state: State) -> None:
        """`if`: a product that may run after one way only is waited for on that way.

        Where ways with and without one meet, the assembler would run all products of the kernel one
        by one.
        """
        ways = (state.copy(), state.copy())
        blocks = [self.block(b, way) for b, way in zip((op.then, op.otherwise), ways)]
        running = [{g.op for g in way.wgmma} for way in ways]
        jumps = any(isinstance(o, ir.Break | ir.Continue) for b in blocks for o in b.ops[-1:])
        for block, way, other in zip(blocks, ways, running[::-1]):
            needed = [g.younger for g in way.wgmma if g.op not in other]
            if needed and not jumps:
                self._wait(way, block, min(needed), "not every way has this product", op)
        self.emit(op, made, dict(zip(("then", "otherwise"), blocks)))
        state.become(*ways)

    def _roles(self, op: ir.Roles, made: ir.Block) -> None:
        state, self.in_role = State(), True
        consumer = self.block(op.consumer, state)
        self._drain(consumer, state)
        self.emit(op, made, {"producer": self.copied(op.producer), "consumer": consumer})

    # -- slots of rings

    def _release(self, op: ir.RingRelease, made: ir.Block, state: State, late: _Late) -> None:
        """Free a slot as soon as nothing reads it any more."""
        tiles = self.tiles.get(op.ring, frozenset())
        readers = [g for g in state.wgmma if g.reads & tiles]
        if readers and not (op.lag or op.last):
            late.append((op, tiles))
            return
        if readers:
            # With a lag the readers of this iteration work on its slot, and may go on.
            pending = (
                0 if op.last else max((g.younger + 1 for g in readers if not g.age), default=0)
            )
            self._wait(state, made, pending, "the slot before is freed", op)
        self._free(op, made, state)

    def _free(self, op: ir.RingRelease, made: ir.Block, state: State) -> None:
        tiles = self.tiles.get(op.ring, frozenset())
        self._await_stores(tiles, "the slot is freed", op, made, state)
        fence = not self.used.isdisjoint(tiles)
        ring = self.mapping.get(op.ring, op.ring)
        made.ops.append(ir.RingRelease(ring, op.lag, op.last, fence, span=op.span))

    def _release_late(self, made: ir.Block, state: State, late: _Late) -> None:
        for entry in list(late):
            if not any(g.reads & entry[1] for g in state.wgmma):
                late.remove(entry)
                self._free(entry[0], made, state)

    def _release_all(self, made: ir.Block, state: State, late: _Late) -> None:
        for release, read in late:
            needed = [g.younger for g in state.wgmma if g.reads & read]
            if needed:
                self._wait(state, made, min(needed), "the slot is freed", release)
            self._free(release, made, state)
        late.clear()

    # -- waiting

    def _wait(
        self,
        state: State,
        made: ir.Block,
        pending: int,
        reason: str,
        op: ir.OpBase | None = None,
    ) -> None:
        """Wait until at most `pending` groups run; those that are complete leave the state."""
        done = [g for g in state.wgmma if g.younger >= pending]
        if not done:
            return
        visible = {v for o in made.ops for v in o.results}
        tokens = [g.token for g in done if g.token in visible]
        running = {g.result for g in state.wgmma if g.younger < pending}
        results = dict.fromkeys(
            self.mapping[g.result] for g in done if g.result is not None and g.result not in running
        )
        span = op.span if op is not None else None
        after = _summed(made)
        if after is not None:
            self.lowering.remarks.add("gemm", "", span, RunsWhile(buffer_name(after)))
        wait = ir.Wait(
            "wgmma", tokens, list(results), pending, reason=reason, after=after, span=span
        )
        made.ops.append(wait)
        state.wgmma = tuple(g for g in state.wgmma if g.younger < pending)
