"""Choose an instruction for every matrix product and every copy of a tile.

A copy from global to shared memory is done by TMA in a pipelined loop that feeds tensor cores (a
producer warp group issues it), else by cp.async, else element by element.  A fragment that is
stored, or added to a tensor, goes through shared memory and TMA where it holds a matrix product, or
a sum of them; so does one whose elements a loop adds.  A tile that lies in shared memory is added
from there.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.pipeline.gathers import is_plain_gather
from tileprof.compiler.cuda.passes.pipeline.roles import load_reason, loads_of, role_reason
from tileprof.compiler.cuda.passes.pipeline.with_first import copies_with_first
from tileprof.compiler.cuda.tuning import RING_BARRIER_BYTES
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir import instructions
from tileprof.ir.memory import base
from tileprof.ir.rewriter import inline_scopes, per_launch, with_originals, with_rule
from tileprof.remarks import Candidate, Decision, Reason, Severity
from tileprof.remarks.copies import (
    AlsoRead,
    AlsoUsed,
    AlsoWritten,
    AskedReason,
    CachePolicy,
    CpAsync,
    CpAsyncCandidate,
    ElementAtomics,
    LoadsAndStores,
    NoAtomic,
    NoProducerGroup,
    NothingOverlaps,
    OnlyTmaAsks,
    ProducerElsewhere,
    StagedTma,
    StagedTmaCandidate,
    StoredAgain,
    StoresFromRegisters,
    Tma,
    TmaAdds,
    TmaAddsTile,
    TmaLoad,
    TmaStore,
)
from tileprof.remarks.launches import MemoryForStaged

from .added_products import added_products
from .added_tiles import added_tile
from .copies import bulk_reason, cp_async_width, kept_in_l2, tensor_of, wish_against
from .forwarded import forward_elements
from .groups import with_threads
from .operands import emit_product
from .passed_through import take_out_passed
from .stored_again import stored_again

ADDED = ("float32", "float16", "bfloat16", "int32", "uint32")
"""Types that TMA adds (PTX ISA, "cp.reduce.async.bulk.tensor")."""


def choose(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Choose the `lowering` of every product and copy, and which launches have warp roles."""

    def change(launch: ir.Launch) -> ir.Launch:
        # Here, because what decides over loads decides over instructions.
        launch = forward_elements(with_threads(launch, lowering), lowering)
        launch = take_out_passed(launch, lowering)
        return _Launch(kernel, launch, lowering).chosen()

    return per_launch(kernel, change)


class _Launch:
    def __init__(self, kernel: ir.Kernel, launch: ir.Launch, lowering: Lowering) -> None:
        self.kernel = kernel
        self.lowering = lowering
        self.threads = launch.block_threads
        self.chained = any(
            isinstance(o, ir.Gemm) and base(o.a).buffer.space == "fragment"
            for o in ir.walk(launch.body)
        )
        self.launch = with_rule(with_rule(launch, inline_scopes), self._gemm)
        self.reshaped = {
            base(o.base) for o in ir.walk(self.launch.body) if isinstance(o, ir.Reinterpret)
        }
        self.no_roles = role_reason(self.launch, self._can_bulk, lowering)
        """Why loads are not left to a producer warp group; None where they are."""
        ops = list(ir.walk(self.launch.body))
        self.read = {base(t.value) for o in ops for t in o.accesses() if t.reads}
        self.writes = Counter(base(t.value) for o in ops for t in o.accesses() if t.writes)
        self.again = stored_again(self.launch)
        self.products = {base(o.c) for o in ops if isinstance(o, ir.Gemm)}
        self.stored = self.products | added_products(ops, self.products)
        """Fragments that are stored through shared memory."""
        loops = [o for o in ops if isinstance(o, ir.For) and o.kind == "pipelined"]
        self.around = [
            o
            for o in ops
            if isinstance(o, ir.For) and o not in loops and any(x in loops for x in ir.walk(o.body))
        ]
        """Loops around those that load ahead."""
        self.loops = {op: loop for loop in loops for op in loop.body.ops}
        self.with_first = copies_with_first(self.launch, self._runs_ahead) if self.no_roles else {}
        """Copies that a loop waits for together with its own first ones."""

    def chosen(self) -> ir.Launch:
        """The launch with every choice made."""
        made = with_originals(self.launch, self._copy)
        return made.scheduled(replace(made.schedule, warp_roles=not self.no_roles))

    def _gemm(self, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Gemm):
            return None
        emit_product(op, self.threads, self.lowering, builder, chained=self.chained)
        return []

    def _can_bulk(self, op: ir.Copy) -> Reason | None:
        tensor = tensor_of(op.source, self.kernel)
        reshaped = base(op.target) in self.reshaped
        return wish_against(op, "tma") or bulk_reason(
            tensor, op.target, self.lowering, reshaped=reshaped
        )

    def _runs_ahead(self, loop: ir.For) -> bool:
        """Whether a loop loads by cp.async, as far as is known before there are layouts."""
        if loop.kind != "pipelined" or self.lowering.stages(loop) < 2:
            return False
        return any(is_plain_gather(o) or self._is_grouped(o) for o in loop.body.ops)

    def _is_grouped(self, op: ir.OpBase) -> bool:
        if not isinstance(op, ir.Copy) or wish_against(op, "cp.async"):
            return False
        if base(op.target).buffer.space != "shared" or base(op.source).buffer.space != "global":
            return False
        tensor = tensor_of(op.source, self.kernel)
        return cp_async_width(tensor, op.target, self.lowering)[0] > 0

    # -- one copy

    def _copy(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(before, ir.TileAtomic) and isinstance(op, ir.TileAtomic):
            return self._atomic(before, op, builder)
        if isinstance(before, ir.Parallel) and isinstance(op, ir.Parallel):
            return self._added(before, op, builder)
        if not isinstance(before, ir.Copy) or not isinstance(op, ir.Copy):
            return None
        match base(op.source).buffer.space, base(op.target).buffer.space:
            case "global", "shared":
                builder.emit(replace(op, lowering=self._load(before, self.loops.get(before))))
            case "shared", "global":
                builder.emit(replace(op, lowering=self._store(before, op)))
            case "fragment", "global" if before.source in self.stored:
                self._stage(before, op, builder)
            case _:
                return None
        return []

    def _load(
        self, op: ir.Copy, loop: ir.For | None
    ) -> instructions.Tma | instructions.CpAsync | None:
        """The instruction of a copy from global to shared memory; None for loads and stores."""
        tensor = tensor_of(op.source, self.kernel)
        bulk = load_reason(self.launch, op, self._can_bulk)
        if bulk is None and self.no_roles is None:
            self._note(op, TmaLoad(kept_in_l2(op)))
            return instructions.Tma()
        against = bulk
        if against is None:
            assert self.no_roles is not None
            against = NoProducerGroup(self.no_roles)
        width, reason = cp_async_width(tensor, op.target, self.lowering)
        if wish := wish_against(op, "cp.async"):
            width, reason = 0, wish
        stages = 0 if loop is None else self.lowering.stages(loop)
        ahead = stages > 1 or op in self.with_first
        if width and ahead and self.no_roles is not None:
            missed = self._could_bulk(loop, bulk)
            self._note(op, CpAsync(width), (Tma(), against), missed=missed)
            return instructions.CpAsync(width)
        if width:
            reason = ProducerElsewhere() if ahead else NothingOverlaps()
        assert reason is not None
        rejected = ((Tma(), against), (CpAsyncCandidate(), reason))
        missed = stages > 1 and not isinstance(reason, AskedReason)
        self._note(op, LoadsAndStores(), *rejected, missed=missed)
        return None

    def _could_bulk(self, loop: ir.For | None, reason: Reason | None) -> bool:
        """Whether a loop that feeds warp groups loads without TMA, by the kernel's own doing."""
        feeds = loop is not None and any(is_of_warp_groups(o) for o in ir.walk(loop.body))
        own = reason is not None and not isinstance(reason, AskedReason)
        return feeds and self.lowering.target.has_tma and own

    def _store(self, before: ir.Copy, op: ir.Copy) -> instructions.Tma | None:
        """The instruction of a copy from shared to global memory; None for loads and stores."""
        reason = self._store_reason(before, op.target, before.source)
        if reason:
            self._note(op, LoadsAndStores(), (Tma(), reason))
            return None
        self._note(op, TmaStore(kept_in_l2(op)))
        return instructions.Tma()

    def _store_reason(self, before: ir.Copy, target: ir.Value, tile: ir.Value) -> Reason | None:
        """Why TMA cannot store a tile."""
        if base(target) in self.read:
            return AlsoRead(buffer_name(target))
        if before in self.again:
            return StoredAgain()
        if self.writes[base(target)] > 1:
            return AlsoWritten(buffer_name(target))
        tensor, reshaped = tensor_of(target, self.kernel), base(tile) in self.reshaped
        return bulk_reason(tensor, tile, self.lowering, store=True, reshaped=reshaped)

    def _memory_reason(self, op: ir.OpBase, staged: ir.Alloc) -> Reason | None:
        """Why there is no shared memory for a staged tile; None where there may be.

        In a loop around loads, the producer runs ahead into the next iteration: rings and the tile
        are alive together.
        """
        if self.no_roles is not None or not any(op in ir.walk(o.body) for o in self.around):
            return None
        rings: dict[ir.Value, int] = {}
        for copy in ir.walk(self.launch.body):
            if not isinstance(copy, ir.Copy) or base(copy.target).buffer.space != "shared":
                continue
            if load_reason(self.launch, copy, self._can_bulk) is None:
                loop = self.loops.get(copy)
                stages = 1 if loop is None else max(self.lowering.stages(loop), 1)
                held = math.prod(copy.target.buffer.static_shape) * copy.target.dtype.bytes
                rings[copy.target] = max(stages * held, rings.get(copy.target, 0))
        needed = sum(rings.values()) + math.prod(staged.shape) * staged.dtype.bytes
        there = self.lowering.target.shared_per_block
        return MemoryForStaged("tile", needed, there) if needed > there else None

    def _stage(self, before: ir.Copy, op: ir.Copy, builder: ir.Builder) -> None:
        """Store a matrix product: through shared memory where TMA can take it from there."""
        shape = op.source.buffer.static_shape
        name = f"{buffer_name(op.target)}_staged"
        staged = ir.Alloc("shared", shape, op.target.dtype, hint=name, span=op.span)
        reason = self._store_reason(before, op.target, staged.result)
        if reason := reason or self._memory_reason(before, staged):
            self._note(op, StoresFromRegisters(), (StagedTmaCandidate(), reason))
            builder.emit(op)
            return
        builder.emit(staged)
        builder.emit(ir.Copy(op.source, staged.result, op.hints, span=op.span))
        builder.emit(ir.Copy(staged.result, op.target, op.hints, instructions.Tma(), span=op.span))
        self._note(op, StagedTma(kept_in_l2(op)))

    # -- one tile that is added

    def _atomic(
        self, before: ir.TileAtomic, op: ir.TileAtomic, builder: ir.Builder
    ) -> list[ir.Value] | None:
        """A product, or a tile in shared memory, that is added to a tensor: by TMA, which needs no
        address for each element."""
        if base(op.target).buffer.space != "global":
            return None
        added = instructions.Tma(reduce=op.kind)
        if base(op.source).buffer.space == "shared":
            if reason := self._atomic_reason(op, before.source):
                self._note(op, ElementAtomics(), (Tma(), reason))
                return None
            builder.emit(ir.Copy(op.source, op.target, op.hints, added, span=op.span))
            self._note(op, TmaAddsTile())
            return []
        if before.source not in self.products:
            return None
        shape, name = op.source.buffer.static_shape, f"{buffer_name(op.target)}_staged"
        staged = ir.Alloc("shared", shape, op.target.dtype, hint=name, span=op.span)
        if reason := self._atomic_reason(op, staged.result):
            self._note(op, ElementAtomics(), (StagedTmaCandidate(), reason))
            return None
        builder.emit(staged)
        builder.emit(ir.Copy(op.source, staged.result, span=op.span))
        builder.emit(ir.Copy(staged.result, op.target, op.hints, added, span=op.span))
        self._note(op, TmaAdds())
        return []

    def _added(
        self, before: ir.Parallel, op: ir.Parallel, builder: ir.Builder
    ) -> list[ir.Value] | None:
        """A loop over elements that adds a product: as a tile, where TMA then adds it."""
        loop = self.loops.get(before)
        block = self.launch.body if loop is None else loop.body
        if not any(o is before for o in block.ops):
            return None
        made = added_tile(op)
        loads = [o for o in before.body.ops if isinstance(o, ir.Load)]
        if made is None or base(loads[0].buffer) not in self.products:
            return None
        added = made.op
        shape, dtype = added.source.buffer.static_shape, added.target.dtype
        name = f"{buffer_name(added.target)}_staged"
        staged = ir.Alloc("shared", shape, dtype, hint=name, span=op.span)
        if added.source.dtype != dtype or self._atomic_reason(added, staged.result):
            return None
        if self._held(block) + _bytes(staged.result) > self._most():
            return None
        for each in (*made.offsets, made.part, staged):
            builder.emit(each)
        builder.emit(ir.Copy(added.source, staged.result, span=op.span))
        lowering = instructions.Tma(reduce=added.kind)
        builder.emit(ir.Copy(staged.result, added.target, (), lowering, span=op.span))
        self._note(added, TmaAdds())
        return []

    def _held(self, block: ir.Block) -> int:
        """Bytes of the shared buffers that a block uses, those that are loaded with all stages."""
        stages: dict[ir.Value, int] = {}
        for loop in set(self.loops.values()):
            for copy in loads_of(loop.body):
                stages[base(copy.target)] = max(self.lowering.stages(loop), 1)
        used = {base(t.value) for o in ir.walk(block) for t in o.accesses()}
        return sum(_bytes(v) * stages.get(v, 1) for v in used if v.buffer.space == "shared")

    def _most(self) -> int:
        """Bytes of shared memory that a block can have beside barriers."""
        return self.lowering.target.shared_per_block - RING_BARRIER_BYTES

    def _atomic_reason(self, op: ir.TileAtomic, tile: ir.Value) -> Reason | None:
        """Why TMA cannot add a tile to a tensor."""
        if op.kind != "add" or op.target.dtype.name not in ADDED:
            return NoAtomic(op.kind, str(op.target.dtype))
        for other in ir.walk(self.launch.body):
            uses = any(base(t.value) is base(op.target) for t in other.accesses())
            atomic = isinstance(other, ir.Atomic | ir.TileAtomic) and other.kind == op.kind
            if uses and not atomic:
                return AlsoUsed(buffer_name(op.target))
        tensor, reshaped = tensor_of(op.target, self.kernel), base(tile) in self.reshaped
        return bulk_reason(tensor, tile, self.lowering, store=True, reshaped=reshaped)

    def _note(
        self,
        op: ir.Copy | ir.TileAtomic,
        decision: Decision,
        *rejected: tuple[Candidate, Reason],
        missed: bool = False,
    ) -> None:
        name = f"{buffer_name(op.source)} → {buffer_name(op.target)}"
        kind = "copy"
        if isinstance(op, ir.TileAtomic):
            kind, name = "atomic", f"{op.kind} {name}"
        elif (policy := kept_in_l2(op)) and "policy" not in decision.facts:
            rejected = (*rejected, (CachePolicy(policy), OnlyTmaAsks()))
        severity: Severity = "missed" if missed else "info"
        self.lowering.remarks.add(kind, name, op.span, decision, *rejected, severity=severity)


def _bytes(value: ir.Value) -> int:
    """Bytes of a tile."""
    return math.prod(value.buffer.static_shape) * value.dtype.bytes
