"""Marks as text: how a warp says which state of the kernel it is in.

A way of saying it is a `Marks`: what a function takes for it, and what stands where a role begins,
at each mark, and where the role ends.  `Recording` writes each mark with the time into a slot of
device memory (`instrument/slots.py`); `Sampling` adds up how long states last.  The text of a
kernel that is not measured knows nothing of this module.
"""

from __future__ import annotations

from typing import Protocol

from tileprof import ir
from tileprof.compiler.cuda.source import Argument
from tileprof.compiler.cuda.target import SETMAXNREG_UNIT, WARP_GROUP
from tileprof.instrument import Mode
from tileprof.instrument.slots import cuda_text

from .context import Context
from .sampling import Sampling

RECORDS_HEADER = "records.cuh"


class Marks(Protocol):
    """One way of emitting marks."""

    header: tuple[str, str]
    """Name and text of the header that the statements need."""
    parameter: str
    """Text of the function's parameter."""
    argument: Argument
    choice: str
    """Condition, asked once, of blocks that run the text with marks; others run it without."""

    def begin(self, ctx: Context, *, alone: bool = False) -> None:
        """Write the begin of a role: run by whole warps, or `alone` by one thread of a warp."""

    def mark(self, ctx: Context, state: int) -> None:
        """From here on the warp is in a state."""

    def end(self, ctx: Context) -> None:
        """Write the end of a role; by the threads that ran `begin`."""


class Recording:
    """Each mark becomes a record, written by one lane of the warp."""

    header = (RECORDS_HEADER, cuda_text())
    parameter = "const __grid_constant__ TpRecording recording"
    argument = Argument("recording", 0)
    choice = "tp_block_is_recorded(recording)"

    def begin(self, ctx: Context, *, alone: bool = False) -> None:
        """Claim a slot."""
        together = "tp_begin_block" if ctx.role == "block" else "tp_begin"
        call = "tp_begin_alone" if alone else together
        ctx.writer.line(f"TpWarp tp_record = {call}(recording);")

    def mark(self, ctx: Context, state: int) -> None:
        """Write a record."""
        ctx.writer.line(f"tp_mark(tp_record, {state});")

    def end(self, ctx: Context) -> None:
        """Hand the slot over."""
        ctx.writer.line("tp_end(tp_record);")


def marks_of(launch: ir.Launch, mode: Mode, states: int) -> Marks | None:
    """Return how the marks of a launch among so many states are emitted; None without any."""
    if mode == "off" or not any(isinstance(op, ir.Mark) for op in ir.walk(launch.body)):
        return None
    return Sampling(launch, states) if mode == "sample" else Recording()


def emit_mark(ctx: Context, op: ir.Mark) -> None:
    """One mark; nothing in the text of blocks that run without."""
    if ctx.marks:
        ctx.marks.mark(ctx, op.state)


def role_registers(op: ir.Roles, threads: int) -> tuple[int, int]:
    """Return what `setmaxnreg` leaves to each thread of the producer and of `threads` consumers.

    Marks keep some registers in use beside those that suffice to load.  The consumers give them:
    a block has no others, and one that asks for more than it has waits for ever.
    """
    if not op.consumer_registers:
        return op.producer_registers, op.consumer_registers
    groups = threads // WARP_GROUP
    return op.producer_registers + groups * SETMAXNREG_UNIT, op.consumer_registers - SETMAXNREG_UNIT
