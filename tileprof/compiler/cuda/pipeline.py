"""The passes of the CUDA lowering, in order, with the reason for each position."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.instrument import Mode, note_scopes, place_marks, strip
from tileprof.once import cached_property
from tileprof.remarks import Remark

from .controls import Controls
from .emit.unit import emit
from .limits import check_launches
from .lowering import Lowering, Remarks
from .passes.alternate import alternate
from .passes.barriers import insert_barriers
from .passes.choice.choose import choose
from .passes.choice.dealt_rows import deal_rows
from .passes.conditions import join_conditions
from .passes.dependents import start_early
from .passes.early_loads import load_early
from .passes.expand import expand
from .passes.exponentials import speed_exponentials
from .passes.fuse_copies import fuse_copies
from .passes.guarded_loads import unguard
from .passes.idle_blocks import skip_idle
from .passes.layout.access_costs import count_accesses
from .passes.layout.layouts import infer_layouts
from .passes.masks import narrow_masks
from .passes.memory import plan_memory
from .passes.multicast import form_clusters
from .passes.operand_slices import slice_operands
from .passes.outer_views import move_views_inside
from .passes.overlap.overlap import overlap
from .passes.own_tiles import keep_own
from .passes.peel.peel import peel
from .passes.persist.persist import persist
from .passes.ping_pong.ping_pong import hand_over
from .passes.pipeline.pipeline import pipeline
from .passes.residents import pair_blocks
from .passes.row_slices import slice_rows
from .passes.row_tiles import load_rows
from .passes.sample_counts import plan_sample_counts
from .passes.shifted import shift_points
from .passes.sums.late_sums import delay_sums
from .passes.turned import turn_products
from .passes.waits.waits import insert_waits
from .source import CudaSource
from .target import Target

if TYPE_CHECKING:
    from .build import Cubin


@dataclass(frozen=True, slots=True)
class Pass:
    """One step from kernel to kernel; its name is what `--emit ir:NAME` and the goldens say."""

    name: str
    apply: Callable[[ir.Kernel, Lowering], ir.Kernel]


PASSES: tuple[Pass, ...] = (
    # Before all that looks for what a launch reads: from here on, it has its own views.
    Pass("outer_views", move_views_inside),
    # Before what counts exponentials and before any op is copied.
    Pass("exponentials", speed_exponentials),
    # Before instructions are chosen, which depends on whether a loop always runs.
    Pass("idle_blocks", skip_idle),
    # Before instructions are chosen: a loop may run ahead that loads what a condition leaves out.
    Pass("guarded_loads", unguard),
    # Before instructions are chosen, and before slices of what warp groups multiply.
    Pass("turned", turn_products),
    # Before instructions are chosen: each slice is a product of its own.
    Pass("row_slices", slice_rows),
    # First: layouts follow from the instructions, and instructions need only shapes and types.
    Pass("choose", choose),
    # What no instruction does as a whole is elementwise: one form for all that follows.
    Pass("expand", expand),
    # Before ops are copied into several loops: each branch is looked at once.
    Pass("conditions", join_conditions),
    # Before ops are copied: a tile has one load and one product that reads it.
    Pass("dealt_rows", deal_rows),
    # Before anything has a place: ops of one iteration are copied into three loops.
    Pass("overlap", overlap),
    # Masks are loops over elements now, and no product is in slices yet.
    Pass("peel", peel),
    # After it: conditions are no longer as the author wrote them.
    Pass("masks", narrow_masks),
    # Before layouts: each slice is a fragment of its own.
    Pass("slices", slice_operands),
    # Before what is left of loads goes a single iteration ahead, in registers.
    Pass("row_tiles", load_rows),
    # After all passes that look for a loop's products: fragments for what is loaded are new.
    Pass("early_loads", load_early),
    # Before layouts: which register is meant follows from the place in the loop.
    Pass("shifted", shift_points),
    # Before layouts: those of the loops over such a tile become one.
    Pass("own_tiles", keep_own),
    # Before buffers are multiplied and code is moved: each tile still has one place.
    Pass("layouts", infer_layouts),
    # Now it is known which threads share a row, and what is converted; loops are still whole.
    Pass("late_sums", delay_sums),
    # Before blocks are numbered anew: addresses still follow from the author's indices.
    Pass("multicast", form_clusters),
    # Loops over tiles stand before loads move into roles: rings then outlive a tile.
    Pass("persist", persist),
    # Needs to know which copies are asynchronous and which products read them.
    Pass("pipeline", pipeline),
    # Roles are apart: the producer fills slots one by one, however many the consumers hold.
    Pass("alternate", alternate),
    # After it: products of different iterations are in their final order.
    Pass("waits", insert_waits),
    # After waits, which may stand between two copies; before buffers share bytes.
    Pass("copies", fuse_copies),
    # After waits, which say until when an asynchronous op reads a buffer.
    Pass("memory", plan_memory),
    # Now it is known how much shared memory a block takes.
    Pass("residents", pair_blocks),
    # Hazards are between bytes, and buffers share bytes only now.
    Pass("barriers", insert_barriers),
    # After barriers, which decide with waits whether a group may keep others waiting.
    Pass("turns", hand_over),
    # Any place would do: it only notes which launches wait for which.
    Pass("dependents", start_early),
    # Last: waits, barriers and what a role does are what is measured, and no other pass has to know
    # of marks or decides otherwise because of them.
    Pass("marks", lambda kernel, lowering: place_marks(kernel, lowering.instrument)),
    # How much the sampler counts depends on how many states there are.
    Pass("sample_counts", plan_sample_counts),
)


@dataclass
class CudaProgram:
    """A kernel lowered for a GPU; the cubin is made on demand."""

    kernel: ir.Kernel
    """After all passes."""
    source: CudaSource
    target: Target
    controls: Controls
    remarks: tuple[Remark, ...]
    """Decisions of the passes, and why."""
    stages: dict[str, int]
    """Time of each pass, of emission and, once it is made, of the cubin, in ns."""

    @cached_property
    def cubin(self) -> Cubin:
        """The binary, from the cache or from NVRTC."""
        from .build import compile_cubin

        start = time.perf_counter_ns()
        made = compile_cubin(self.source, self.target, self.controls)
        self.stages["nvrtc"] = time.perf_counter_ns() - start
        return made

    @cached_property
    def all_remarks(self) -> tuple[Remark, ...]:
        """Those of the passes, then what the binary shows: spills, serialisation, occupancy."""
        from .resources import binary_remarks

        return (*self.remarks, *binary_remarks(self.cubin, self.source.launches, self.target))

    @property
    def known_remarks(self) -> tuple[Remark, ...]:
        """All remarks; without NVRTC those of the passes."""
        try:
            return self.all_remarks
        except MissingDependencyError:
            return self.remarks


def compile_cuda(
    kernel: ir.Kernel,
    target: Target,
    controls: Controls | None = None,
    unaligned: frozenset[int] = frozenset(),
    *,
    aliased: bool = False,
    instrument: Mode = "off",
    observe: Callable[[str, ir.Kernel], None] | None = None,
) -> CudaProgram:
    """Lower a kernel that the common passes have seen; `observe(name, kernel)` sees it after each
    pass.  `instrument`: what is measured inside; records for the cpu are taken out.  KernelError
    with a place where the kernel cannot run on the target."""
    lowering = Lowering(target, controls or Controls(), Remarks(), unaligned, aliased, instrument)
    kernel = strip(kernel)
    if instrument != "off":
        # Here, because the first pass takes scopes apart.
        kernel = note_scopes(kernel)
    _check_names(kernel, lowering.controls)
    stages: dict[str, int] = {}
    for step in PASSES:
        start = time.perf_counter_ns()
        kernel = step.apply(kernel, lowering)
        stages[step.name] = time.perf_counter_ns() - start
        if observe is not None:
            observe(step.name, kernel)
    start = time.perf_counter_ns()
    count_accesses(kernel, lowering)
    source = emit(kernel, target, lowering.controls, unaligned, aliased, instrument)
    check_launches(kernel, source, lowering)
    stages["emit"] = time.perf_counter_ns() - start
    return CudaProgram(kernel, source, target, lowering.controls, lowering.remarks.all(), stages)


def _check_names(kernel: ir.Kernel, controls: Controls) -> None:
    """UsageError for a control about a buffer that the kernel has not."""
    tensors = [p.name for p in kernel.params if isinstance(p.type, ir.BufferType)]
    shared = [
        op.result.name
        for op in kernel.ops()
        if isinstance(op, ir.Alloc) and op.space == "shared" and op.result.name
    ]
    known = dict.fromkeys([*tensors, *shared])
    for name in controls.synchronous:
        if name not in known:
            raise UsageError(
                f"the control `synchronous` names `{name}`, which `{kernel.name}` has not",
                location=kernel.location,
                hint=f"It has: {', '.join(known)}.",
            )
