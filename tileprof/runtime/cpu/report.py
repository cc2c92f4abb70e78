"""Reports of a compiled kernel: failures as errors, printed values as lines."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol, assert_never

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.errors import BoundsError, DeviceAssertError, ExecutionError

from .abi import NO_MEMORY, Failure, Message, Run


class Speaking(Protocol):
    """Emitted source: places by the number that the kernel gives."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Ops that can fail or print."""


def raise_failure(
    failure: Failure,
    kernel: ir.Kernel,
    source: Speaking,
    grids: Sequence[int],
    symbols: Sequence[int],
) -> NoReturn:
    """The error that a failure stands for."""
    if failure.place == NO_MEMORY:
        raise ExecutionError(
            "there is not enough memory for the shared and fragment buffers of a block",
            location=kernel.location,
            hint="Use smaller tiles, or fewer threads: TILEPROF_NUM_THREADS.",
        )
    place = source.places[failure.place]
    grid = grids[3 * failure.launch : 3 * failure.launch + 3]
    held = list(failure.index)
    index, point = held[: place.rank], held[place.rank :]
    where = _where(kernel, failure.block, failure.launch, grid, place, point)
    inside = f", in {where}" if where else ""
    match place.kind:
        case "element" | "tile":
            raise _outside(place, index, _shape(place, kernel, symbols), inside)
        case "assert":
            said = f": {place.message}" if place.message else ""
            raise DeviceAssertError(
                f"the kernel's assertion failed{said}{inside}", location=place.location
            )
        case "step" | "print":
            raise ExecutionError(
                f"the step of a loop is 0{inside}",
                location=place.location,
                hint="A loop needs a step above or below 0.",
            )
        case _:
            assert_never(place.kind)


def _outside(place: Place, index: list[int], shape: tuple[int, ...], inside: str) -> BoundsError:
    what = f"`{place.buffer}` is {place.access} at {index}"
    if place.kind == "tile":
        what = f"a tile of {'×'.join(map(str, place.sizes))} of `{place.buffer}` begins at {index}"
    if any(i < 0 for i in index):
        return BoundsError(
            f"{what}: the index is negative (shape {list(shape)}){inside}",
            location=place.location,
            hint="Only a number known at compile time counts from the end, as in `A[-1]`;"
            " guard the access with `if`.",
        )
    return BoundsError(
        f"{what}, outside its shape {list(shape)}{inside}",
        location=place.location,
        hint="Only global tensors are guarded. Keep the index below the extent, or guard the access"
        " with `if`.",
    )


def _shape(place: Place, kernel: ir.Kernel, symbols: Sequence[int]) -> tuple[int, ...]:
    named = dict(zip(kernel.symbols, symbols))
    return tuple(d if isinstance(d, int) else int(named[d]) for d in place.shape)


def _where(
    kernel: ir.Kernel,
    block: int,
    launch: int,
    grid: Sequence[int],
    place: Place,
    point: Sequence[int],
) -> str:
    """`block (1, 0), point (i=3)`; '' outside a launch."""
    if block < 0:
        return ""
    axes = len(kernel.launches()[launch].grid)
    indices = []
    for extent in grid[:axes]:
        block, at = divmod(block, extent)
        indices.append(at)
    said = f"block ({', '.join(map(str, indices))})"
    if place.point:
        shown = ", ".join(f"{name}={at}" for name, at in zip(place.point, point))
        said += f", point ({shown})"
    return said


def show_printed(
    run: Run,
    kernel: ir.Kernel,
    source: Speaking,
    grids: Sequence[int],
    symbols: Sequence[int],
) -> None:
    """Write what the kernel printed to stdout: launches in order, blocks in order."""
    messages = sorted(_messages(run), key=lambda m: (m[0].launch, m[0].block))
    lines = [line_of(head, body, kernel, source, grids, symbols) for head, body in messages]
    if run.printed_lost:
        lines.append(f"({run.printed_lost} more messages found no room)")
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")


def _messages(run: Run) -> Iterator[tuple[Message, bytes]]:
    held = ctypes.string_at(run.printed, run.printed_bytes) if run.printed_bytes else b""
    at, head = 0, ctypes.sizeof(Message)
    while at < len(held):
        message = Message.from_buffer_copy(held, at)
        yield message, held[at + head : at + head + message.bytes]
        at += head + (message.bytes + 7) // 8 * 8


def line_of(
    head: Message,
    body: bytes,
    kernel: ir.Kernel,
    source: Speaking,
    grids: Sequence[int],
    symbols: Sequence[int],
) -> str:
    """One printed message as it is shown."""
    place = source.places[head.place]
    grid = grids[3 * head.launch : 3 * head.launch + 3]
    point: Sequence[int] = ()
    if place.buffer:
        assert place.dtype is not None
        shape = _shape(place, kernel, symbols)
        values = np.frombuffer(body, place.dtype.to_numpy(), math.prod(shape)).reshape(shape)
        said = f"{place.message}\n{np.array2string(values, separator=', ')}"
    else:
        count = len(place.point)
        point = np.frombuffer(body, np.int64, count).tolist()
        said = f"{place.message} {_scalar(place, body[8 * count :])}".strip()
    where = _where(kernel, head.block, head.launch, grid, place, point)
    return f"{where}: {said}" if where else said


def _scalar(place: Place, body: bytes) -> str:
    if place.dtype is None:
        return ""
    # Values of 16- and 8-bit floats are floats outside memory.
    held = place.dtype.to_numpy()
    if place.dtype.is_float and place.dtype.bits < 32:
        held = np.dtype(np.float32)
    return str(np.frombuffer(body, held, 1)[0])
