"""Loads from global memory that begin before the work that they would otherwise stand behind.

    gemm a, b, c                                 parallel [64] body(i)
    parallel [64] body(i)                  ⇒       store (load G, [i]), early, [i]
      store (load G, [i]), S, [i]                gemm a, b, c
                                                 parallel [64] body(i)
                                                   store (load early, [i]), S, [i]

The compiler of the CUDA text keeps loads behind the waits and barriers of a product.  What threads
load themselves, and not TMA or cp.async, would therefore take its whole latency in each iteration.
Where a block has one warp group that computes, nothing else runs meanwhile; where an iteration's
products take less than a load, too little.  What such a loop of known length loads is loaded an
iteration ahead, behind the last use of what was loaded before; with one warp group also what it
loads in front of its first product, which waits for that.

    for k in 0 … n                               early = load G, [0]
      early = load G, [k]                        for k in 0 … n
      gemm a, b, c                        ⇒        gemm a, b, c
      use early                                    use early
                                                   early = load G, [min(k + 1, n - 1)]

A tile of narrow elements, whose loads may be outside of a tensor, goes to shared memory right in
front of the tile of the same shape that the product reads (`fuse_copies` makes them one loop):
where branches meet, such elements are unpacked, which waits for them.

In: elementwise ops as `parallel`, without layouts.  Out: the same; what is loaded early is held in
fragments, as far as there are registers for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import product_cycles
from tileprof.compiler.cuda.target import WARP_GROUP, WORD
from tileprof.compiler.cuda.tuning import (
    BYTES_IN_FLIGHT,
    EARLY_BYTES,
    LOAD_CYCLES,
)
from tileprof.errors import Location
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync, Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch
from tileprof.remarks.layouts import LoadedAhead, LoadedEarly

from .loads_ahead import may_rotate, places, rotated, with_taken
from .pipeline.roles import written_globals


def load_early(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Let threads load from tensors that nobody writes before they wait for products."""
    params = set(kernel.param_values())

    def change(launch: ir.Launch) -> ir.Launch:
        written = set(written_globals(launch))
        if written and lowering.aliased:
            return launch
        return _Early(launch, params - written, lowering).done()

    return per_launch(kernel, change)


class _Early:
    """Moves loads within one block after the other."""

    def __init__(self, launch: ir.Launch, fixed: set[ir.Value], lowering: Lowering) -> None:
        self.launch = launch
        self.fixed = fixed
        """Tensors that stay as they are while the launch runs."""
        self.lowering = lowering
        self.loops = 0
        """Loops around the block at hand, all of whose tiles have memory of their own."""

    def done(self) -> ir.Launch:
        """The launch with its loads moved."""
        return self.launch.with_body(self._block(self.launch.body)[1])

    def _block(
        self, block: ir.Block, loop: ir.For | None = None
    ) -> tuple[list[ir.OpBase], ir.Block]:
        """Return what goes in front of a block, and the block; that of a `loop` may load ahead."""
        ops = [each for op in block.ops for each in self._inside(op)]
        first = next((at for at, op in enumerate(ops) if self._takes_time(op)), len(ops))
        if any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(block)):
            return [], ir.Block(block.args, ops)
        head = ops[:first]
        if loop is not None:
            # Where one group computes, what stands in front of a product keeps it waiting, too.
            alone = self.launch.block_threads == WARP_GROUP
            for before in (True, False) if alone else (False,):
                moved = self._moved(ops[first:], before=before, ahead=True)
                found, late = places(head, moved.early) if moved.early else None, moved.late()
                if found is not None and may_rotate(moved.early, late):
                    for name, span in moved.told:
                        self.lowering.remarks.add("load", name, span, LoadedAhead())
                    in_front, body = rotated(loop, found, moved.early, late)
                    return in_front, ir.Block(block.args, [*head, *body])
        moved = self._moved(ops[first:], before=False, ahead=loop is not None)
        for name, span in moved.told:
            self.lowering.remarks.add("load", name, span, LoadedEarly())
        return [], ir.Block(block.args, [*head, *moved.early, *moved.late()])

    def _moved(self, ops: list[ir.OpBase], *, before: bool, ahead: bool) -> _Moved:
        """Return what of a block goes first: of what stands behind a product, or also before it."""
        moved = _Moved(ops, self.fixed)
        for op in ops if before else moved.behind_products():
            if isinstance(op, ir.Load):
                moved.move(op)
            elif self.loops and isinstance(op, ir.Parallel) and self._joins(op, moved):
                moved.move_whole(op)
            elif isinstance(op, ir.Parallel) and not any(o.SPEC.regions for o in op.body.ops):
                self._split(op, moved, ahead=ahead)
        return moved

    def _inside(self, op: ir.OpBase) -> list[ir.OpBase]:
        if isinstance(op, ir.If) and not op.results:
            then, otherwise = (self._block(block)[1] for block in (op.then, op.otherwise))
            return [replace(op, then=then, otherwise=otherwise)]
        if not isinstance(op, ir.For):
            return [op]
        self.loops += 1
        before, body = self._block(op.body, op if self._goes_ahead(op) else None)
        self.loops -= 1
        return [*before, replace(op, body=body)]

    def _goes_ahead(self, loop: ir.For) -> bool:
        """Whether nothing that runs meanwhile hides a load of an iteration: one warp group computes
        in a loop of known length while others load, or products take less than a load."""
        trips = loop.static_range
        known = trips is not None and len(trips) > 1 and not loop.results
        alone = (
            self.launch.block_threads == WARP_GROUP
            or product_cycles(ir.walk(loop.body)) < LOAD_CYCLES
        )
        return known and alone and self.launch.schedule.warp_roles and loop.kind == "pipelined"

    def _takes_time(self, op: ir.OpBase) -> bool:
        """Whether loads are better begun before this op."""
        if isinstance(op, ir.Copy):
            return isinstance(op.lowering, Tma | CpAsync)
        loads = isinstance(op, ir.Parallel) and any(
            base(t.value) in self.fixed for t in op.all_accesses()
        )
        return loads or _multiplies(op)

    def _joins(self, op: ir.Parallel, moved: _Moved) -> bool:
        """Whether a tile is better brought to shared memory with the one that the product reads."""
        first = moved.ops[0]
        ours, theirs = self._copied(op), self._copied(first)
        if ours is None or theirs is None or not isinstance(first, ir.Parallel):
            return False
        (load, store), (other, _) = ours, theirs
        narrow = not load.in_bounds and load.buffer.dtype.bytes < WORD
        shape = op.static_extents
        alike = load.buffer.dtype == other.buffer.dtype and shape == first.static_extents
        points = math.prod(shape or ()) // self.launch.block_threads
        few = 0 < 2 * points * load.buffer.dtype.bytes <= BYTES_IN_FLIGHT
        return narrow and alike and few and moved.is_untouched(base(store.buffer), op)

    def _copied(self, op: ir.OpBase) -> tuple[ir.Load, ir.Store] | None:
        """The load and the store of a loop that copies a tile of a tensor to shared memory."""
        if not isinstance(op, ir.Parallel) or op.origin != "copy" or not op.static_extents:
            return None
        store, load = op.body.ops[-1], op.body.ops[-2] if len(op.body.ops) > 1 else None
        if not isinstance(store, ir.Store) or not isinstance(load, ir.Load):
            return None
        shared = store.buffer.buffer.space == "shared" and store.value is load.result
        return (load, store) if shared and load.buffer in self.fixed else None

    def _split(self, op: ir.Parallel, moved: _Moved, *, ahead: bool) -> None:
        """Fill fragments with what a loop loads from global memory, before it; `ahead`: it may be
        loaded in the iteration before, where the assembler does not find by itself what all points
        load alike."""
        shape = op.static_extents
        if not shape:
            return
        taken: dict[ir.OpBase, tuple[ir.Value, list[int]]] = {}
        for load in op.body.ops:
            inside = moved.slice_of(load, op.body)
            if not inside:
                continue
            assert isinstance(load, ir.Load)
            along = _dims(op, inside)
            if not along:  # the same for all points
                value = moved.move_scalar(_outside(op, inside), inside) if ahead else None
                if value is not None:
                    taken[load] = value, []
                    moved.told.append((buffer_name(load.buffer), load.span))
                continue
            # An element of each row, or column, is held once for all points of it.
            size = load.results[0].dtype.bytes * -(
                -math.prod(shape[d] for d in along) // self.launch.block_threads
            )
            if size > moved.free or not moved.move_all(_outside(op, inside)):
                continue
            moved.free -= size
            name = buffer_name(load.buffer)
            held = ir.Alloc(
                "fragment",
                tuple(shape[d] for d in along),
                load.buffer.dtype,
                hint=f"{name}_early",
                span=op.span,
            )
            body = ir.clone_block(ir.Block([op.body.args[d] for d in along], inside), {})
            value = body.ops[-1].result
            body.ops.append(ir.Store(value, held.result, list(body.args), True, span=load.span))
            extents = [op.extents[d] for d in along]
            moved.early += [held, ir.Parallel(extents, body, op.hints, span=op.span)]
            taken[load] = held.result, along
            moved.told.append((name, load.span))
        if taken:
            moved.replaced[op] = with_taken(op, taken)


class _Moved:
    """The ops of a block from the first one on that takes time, some of which go before it."""

    def __init__(self, ops: list[ir.OpBase], fixed: set[ir.Value]) -> None:
        self.ops = ops
        self.fixed = fixed
        self.makers = {r: op for op in ops for r in op.results}
        self.early: list[ir.OpBase] = []
        self.replaced: dict[ir.OpBase, ir.OpBase] = {}
        self.free = EARLY_BYTES
        """Bytes of a thread that may still be taken."""
        self.told: list[tuple[str, Location | None]] = []
        """Names and places of what is loaded early, for remarks."""

    def behind_products(self) -> Iterator[ir.OpBase]:
        """Yield the ops that stand behind a product."""
        return itertools.dropwhile(lambda op: not _multiplies(op), self.ops)

    def late(self) -> list[ir.OpBase]:
        """Return what stays, in order."""
        return [self.replaced.get(o, o) for o in self.ops if o not in self.early]

    def move(self, op: ir.Load) -> None:
        """Load a scalar early, where its place can be computed."""
        size = op.buffer.dtype.bytes
        if self._may_move(op) and size <= self.free and self.move_all(op.results):
            self.free -= size

    def move_scalar(
        self, outside: Iterable[ir.Value], inside: Sequence[ir.OpBase]
    ) -> ir.Value | None:
        """Load early what is the same for all points of a loop; None where it cannot be."""
        size = inside[-1].results[0].dtype.bytes
        if size > self.free or not self.move_all(outside):
            return None
        self.free -= size
        made = ir.clone_block(ir.Block([], list(inside)), {}).ops
        self.early += made
        return made[-1].results[0]

    def move_whole(self, op: ir.Parallel) -> None:
        """Run a loop early, where what it needs can be computed."""
        if self.move_all(_outside(op, op.body.ops)):
            self.early.append(op)
            load = op.body.ops[-2]
            assert isinstance(load, ir.Load)
            self.told.append((buffer_name(load.buffer), load.span))

    def is_untouched(self, tile: ir.Value, op: ir.OpBase) -> bool:
        """Whether nothing before an op uses a tile."""
        before = self.ops[: self.ops.index(op)]
        return not any(base(t.value) is tile for o in before for t in o.all_accesses())

    def move_all(self, values: Iterable[ir.Value]) -> bool:
        """Compute values early; False where they depend on what is made in between."""
        needed: list[ir.OpBase] = []
        if not all([self._needs(v, needed) for v in values]):
            return False
        self.early += needed
        return True

    def _needs(self, value: ir.Value, needed: list[ir.OpBase]) -> bool:
        op = self.makers.get(value)
        if op is None or op in self.early or op in needed:
            return True
        if not self._may_move(op) or not all([self._needs(v, needed) for v in op.operand_values()]):
            return False
        needed.append(op)
        return True

    def _may_move(self, op: ir.OpBase) -> bool:
        return is_pure(op) or (isinstance(op, ir.Load) and op.buffer in self.fixed)

    def slice_of(self, load: ir.OpBase, body: ir.Block) -> list[ir.OpBase]:
        """The ops of a loop that a load from global memory needs, itself as the last one; none
        where it is no such load."""
        if not isinstance(load, ir.Load) or load.buffer not in self.fixed:
            return []
        wanted, found = set(load.indices), list[ir.OpBase]([load])
        for op in reversed(body.ops[: body.ops.index(load)]):
            if wanted & set(op.results):
                if not is_pure(op):
                    return []
                found.insert(0, op)
                wanted |= set(op.operand_values())
        return found


def _multiplies(op: ir.OpBase) -> bool:
    return isinstance(op, ir.Gemm) or any(isinstance(o, ir.Gemm) for o in op.inner_ops())


def _outside(op: ir.Parallel, inside: Iterable[ir.OpBase]) -> list[ir.Value]:
    """Return what a part of a loop needs from around it."""
    made = {r for o in op.body.ops for r in o.results} | set(op.body.args)
    return [*op.extents, *(v for o in inside for v in o.operand_values() if v not in made)]


def _dims(op: ir.Parallel, inside: Iterable[ir.OpBase]) -> list[int]:
    """Return the dimensions of a loop on which a part of it depends."""
    used = {v for o in inside for v in o.operand_values()}
    return [d for d, variable in enumerate(op.body.args) if variable in used]
