"""What a kernel on a GPU had to say: the layout of `prelude/report.cuh`, read by the host.

In: the report buffer after a launch.  Out: an error, or lines on stdout, in the words of the `cpu`
device.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence

from tileprof import ir
from tileprof.compiler.codegen import Place

from .cpu_abi import Failure, Message
from .cpu_report import Speaking, line_of, raise_failure
from .cuda_driver import HOST_PORTABLE_MAPPED, Driver

__all__ = ["Report"]

_VALUES = 12
_CAPACITY = 1 << 20


class _Head(ctypes.Structure):
    """`TpReport`."""

    _fields_ = (
        ("failed", ctypes.c_int32),
        ("place", ctypes.c_int32),
        ("block", ctypes.c_int64),
        ("thread", ctypes.c_int64),
        ("values", ctypes.c_int64 * _VALUES),
        ("cursor", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
    )


class _Message(ctypes.Structure):
    """`TpMessage`."""

    block: int
    place: int
    thread: int
    words: int
    ready: int

    _fields_ = (
        ("block", ctypes.c_int64),
        ("place", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("words", ctypes.c_int32),
        ("ready", ctypes.c_int32),
    )


class Report:
    """A report buffer: mapped host memory, whose address is the same on the device."""

    def __init__(self, driver: Driver) -> None:
        self._size = ctypes.sizeof(_Head) + _CAPACITY
        self.address = driver.pointer("cuMemHostAlloc", self._size, HOST_PORTABLE_MAPPED)
        self._head = _Head.from_address(self.address)
        ctypes.memset(self.address, 0, self._size)
        self._head.capacity = _CAPACITY

    def clear(self) -> None:
        """Make ready for a launch."""
        ctypes.memset(self.address, 0, ctypes.sizeof(_Head) + self._written())
        self._head.capacity = _CAPACITY

    def _written(self) -> int:
        return min(int(self._head.cursor), _CAPACITY)

    def show(
        self, kernel: ir.Kernel, source: Speaking, launch: int, grid: Sequence[int],
        symbols: Sequence[int],
    ) -> None:  # fmt: skip
        """Write what launch `launch` printed to stdout, blocks in order."""
        grids = _padded(launch, grid)
        messages = sorted(self._messages(source.places, launch), key=lambda m: m[0].block)
        lines = [line_of(head, body, kernel, source, grids, symbols) for head, body in messages]
        if self._head.lost:
            lines.append(f"({self._head.lost} more messages found no room)")
        if lines:
            sys.stdout.write("\n".join(lines) + "\n")

    def raise_failure(
        self, kernel: ir.Kernel, source: Speaking, launch: int, grid: Sequence[int],
        symbols: Sequence[int], *, in_order: bool = True,
    ) -> None:  # fmt: skip
        """The error of launch `launch` where it has failed; blocks that are not numbered in the
        author's order are not named."""
        head = self._head
        if head.failed:
            block = head.block if in_order else -1
            failure = Failure(block=block, place=head.place, launch=launch)
            for at in range(_VALUES):
                failure.index[at] = head.values[at]
            raise_failure(failure, kernel, source, _padded(launch, grid), symbols)

    def _messages(self, places: Sequence[Place], launch: int) -> Iterator[tuple[Message, bytes]]:
        at = self.address + ctypes.sizeof(_Head)
        end = at + self._written()
        size = ctypes.sizeof(_Message)
        while at + size <= end:
            head = _Message.from_address(at)
            if not head.ready:
                return  # the first that found no room; what came after it found none either
            words = ctypes.string_at(at + size, 8 * head.words)
            body = _body(places[head.place], words)
            yield Message(block=head.block, bytes=len(body), place=head.place, launch=launch), body
            at += size + 8 * head.words


def _padded(launch: int, grid: Sequence[int]) -> list[int]:
    """Extents of launch `launch` where the reader looks for them: three for each launch."""
    return [0] * (3 * launch) + [*grid, 0, 0, 0][:3]


def _body(place: Place, words: bytes) -> bytes:
    """A message as the `cpu` device writes it: its elements without the rest of their words."""
    if not place.buffer or place.dtype is None:
        return words
    size = place.dtype.bytes
    return b"".join(words[at : at + size] for at in range(0, len(words), 8))
