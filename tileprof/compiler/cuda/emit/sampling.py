"""Marks that are looked at: each warp says its state in shared memory, one counts what it sees.

    warps with work   tp_publish(tp_state, 7, tp_clocks);
    the sampler       tp_sample<9, 16>(sampling, tp_states, tp_counts, tp_lane);

in the blocks that are looked at; others run the kernel without marks.

`prelude/sampling.cuh` has both; `passes/sampler.py` says which warp it is and where its memory is.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda import prelude
from tileprof.compiler.cuda.passes.sampler import STATE_BYTES, has_roles
from tileprof.compiler.cuda.source import Argument

from .context import Context

__all__ = ["Sampling"]

HEADER = "sampling.cuh"


class Sampling:
    """Each mark is a store to shared memory."""

    header = (HEADER, prelude.text(HEADER))
    parameter = "const __grid_constant__ TpSampling sampling"
    argument = Argument("sampling", 0)

    def __init__(self, launch: ir.Launch, states: int) -> None:
        hints = dict(launch.hints)
        self._watched, self._at = int(hints["sampler"]), int(hints["sampled"])
        self._states = states
        self.extra_warps = 0 if has_roles(launch) else 1

    def prologue(self, ctx: Context) -> None:
        """No warp is anywhere before it says so; one that has no other work begins to look."""
        line = ctx.writer.line
        line(f"TpState *const tp_states = (TpState *)(tp_shared + {self._at});")
        line("TpState *const tp_state = tp_states + tp_warp;")
        line("const bool tp_sampled = tp_block_is_sampled(sampling);")
        first = f"tp_sampled && tp_thread < {self._watched}"
        line(f"if ({first}) tp_states[tp_thread] = {{}};")
        if not self.extra_warps:
            return
        ctx.headers.add("barriers.cuh")
        line("if (tp_sampled) tp_barrier();")
        with ctx.writer.braces(f"if (tp_warp == {self._watched})"):
            self._look(ctx, "if (tp_sampled) ")
            line("return;")

    def beside(self, ctx: Context) -> None:
        """What the producer's other warps do."""
        with ctx.writer.braces(f"if (tp_warp == {self._watched})"):
            self._look(ctx)

    def _look(self, ctx: Context, condition: str = "") -> None:
        counts = self._at + STATE_BYTES * self._watched
        ctx.writer.line(
            f"{condition}tp_sample<{self._watched}, {self._states}>"
            f"(sampling, tp_states, (uint32_t *)(tp_shared + {counts}), tp_lane);"
        )

    def choice(self) -> str:
        """What was asked at the begin."""
        return "tp_sampled"

    def begin(self, ctx: Context, *, alone: bool = False) -> None:
        """The first mark says where the warp is."""
        ctx.writer.line("TpClocks tp_clocks = {0, 0};")

    def mark(self, ctx: Context, state: int) -> None:
        """Say it."""
        ctx.writer.line(f"tp_publish(tp_state, {state}, tp_clocks);")

    def end(self, ctx: Context) -> None:
        """Say that there is nothing more to see."""
        ctx.writer.line("tp_publish_end(tp_state, tp_clocks);")
