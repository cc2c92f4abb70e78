"""Marks that are counted: each warp adds up in which states it was at points of time.

    TpSampled tp_seen = tp_sampled(tp_cycles, 16);
    tp_sample(tp_seen, 7);
    tp_sampled_end(tp_seen, sampling, 16);

`prelude/sampling.cuh` has them; `passes/sample_counts.py` says where in shared memory.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda import prelude
from tileprof.compiler.cuda.passes.sample_counts import CYCLES_BYTES
from tileprof.compiler.cuda.source import Argument

from .context import Context

HEADER = "sampling.cuh"


class Sampling:
    """Each mark ends a state, whose points are counted."""

    header = (HEADER, prelude.text(HEADER))
    parameter = "const __grid_constant__ TpSampling sampling"
    argument = Argument("sampling", 0)
    choice = "tp_block_is_sampled(sampling)"

    def __init__(self, launch: ir.Launch, states: int) -> None:
        self._at, self._states = launch.schedule.sample_counts, states

    def begin(self, ctx: Context, *, alone: bool = False) -> None:
        """None is counted so far."""
        line = ctx.writer.line
        place = f"tp_shared + {self._at} + tp_warp * {CYCLES_BYTES * self._states}"
        line(f"TpCycles *const tp_cycles = (TpCycles *)({place});")
        call = "tp_sampled_alone" if alone else "tp_sampled"
        line(f"TpSampled tp_seen = {call}(tp_cycles, {self._states});")

    def mark(self, ctx: Context, state: int) -> None:
        """The state before is over."""
        ctx.writer.line(f"tp_sample(tp_seen, {state});")

    def end(self, ctx: Context) -> None:
        """Add the warp's counts to the kernel's."""
        ctx.writer.line(f"tp_sampled_end(tp_seen, sampling, {self._states});")
