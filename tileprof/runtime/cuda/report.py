"""Reports of a kernel on a GPU: the layout of `prelude/report.cuh`, read by the host.

In: the report buffer after a launch, and which launch it was.  Out: an error, or lines on stdout,
in the words of the `cpu` device.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.once import Guard
from tileprof.runtime.cpu.abi import Failure, Message
from tileprof.runtime.cpu.report import Speaking, line_of, raise_failure
from tileprof.runtime.device import taken

from .driver import HOST_PORTABLE_MAPPED, Driver

if TYPE_CHECKING:
    from .launch import Call, Function

_VALUES = 12
_CAPACITY = 1 << 20


class _Head(ctypes.Structure):
    """`TpReport`."""

    _fields_ = (
        ("failed", ctypes.c_int32), ("place", ctypes.c_int32), ("block", ctypes.c_int64),
        ("thread", ctypes.c_int64), ("values", ctypes.c_int64 * _VALUES),
        ("cursor", ctypes.c_uint64), ("capacity", ctypes.c_uint64), ("lost", ctypes.c_uint64),
        ("noted", ctypes.c_uint64),
    )  # fmt: skip


HEAD_BYTES = ctypes.sizeof(_Head)


class _Message(ctypes.Structure):
    """`TpMessage`."""

    block: int
    place: int
    thread: int
    words: int
    ready: int

    _fields_ = (
        ("block", ctypes.c_int64), ("place", ctypes.c_int32), ("thread", ctypes.c_int32),
        ("words", ctypes.c_int32), ("ready", ctypes.c_int32),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """The launch of a report: its numbers say something only beside this."""

    kernel: ir.Kernel = field(compare=False)
    source: Speaking
    """The variant; variants are told apart by identity."""
    number: int
    """Number of the launch among those of the kernel."""
    grid: tuple[int, ...]
    symbols: tuple[int, ...]
    in_order: bool = field(compare=False)
    """Whether blocks are numbered in the author's order; others are not named."""

    def extents(self) -> list[int]:
        """Return the grid where the reader looks for it: three extents for each launch."""
        return [0] * (3 * self.number) + [*self.grid, 0, 0, 0][:3]


class Report:
    """A report in mapped host memory, whose address is the same on the device."""

    def __init__(self, address: int, noted: int, capacity: int = 0) -> None:
        """`noted`: address of the word that a note sets; `capacity`: bytes for messages behind the
        head."""
        self.address = address
        self._capacity, self._noted = capacity, noted
        self._head = _Head.from_address(address)
        ctypes.memset(address, 0, HEAD_BYTES + capacity)
        self._head.capacity, self._head.noted = self._capacity, self._noted

    @property
    def failed(self) -> bool:
        """Whether something has failed; it can be raised once the launch is over."""
        return bool(self._head.failed)

    def clear(self) -> None:
        """Make ready for a launch; no other one uses it."""
        ctypes.memset(self.address, 0, HEAD_BYTES + self._written())
        self._head.capacity, self._head.noted = self._capacity, self._noted

    def forget_failure(self) -> None:
        """Let the next failure be noted, also by a launch that is under way."""
        self._head.failed = 0

    def _written(self) -> int:
        return min(int(self._head.cursor), self._capacity)

    def show(self, origin: Origin) -> None:
        """Write what the launch printed to stdout, blocks in order."""
        kernel, source = origin.kernel, origin.source
        messages = sorted(self._messages(source.places, origin.number), key=lambda m: m[0].block)
        lines = [
            line_of(head, body, kernel, source, origin.extents(), origin.symbols)
            for head, body in messages
        ]
        if self._head.lost:
            lines.append(f"({self._head.lost} more messages found no room)")
        if lines:
            sys.stdout.write("\n".join(lines) + "\n")

    def raise_failure(self, origin: Origin) -> None:
        """The error of the launch where it has failed."""
        head = self._head
        if head.failed:
            block = head.block if origin.in_order else -1
            failure = Failure(block=block, place=head.place, launch=origin.number)
            for at in range(_VALUES):
                failure.index[at] = head.values[at]
            raise_failure(failure, origin.kernel, origin.source, origin.extents(), origin.symbols)

    def _messages(self, places: Sequence[Place], launch: int) -> Iterator[tuple[Message, bytes]]:
        at = self.address + HEAD_BYTES
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


def _body(place: Place, words: bytes) -> bytes:
    """Return a message as the `cpu` device writes it: its elements without the rest of their
    words."""
    if not place.buffer or place.dtype is None:
        return words
    size = place.dtype.bytes
    return b"".join(words[at : at + size] for at in range(0, len(words), 8))


class Reports:
    """The reports of launches that are waited for; each is that of one launch at a time."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._free: list[Report] = []
        self._captured: Report | None = None
        self._making = Guard()

    def take(self) -> Report:
        """One that is ready for a launch."""
        report = taken(self._free) or self._made()
        report.clear()
        return report

    def _unread(self) -> Report:
        """Return the report of all captured launches that print or assert: graphs are not waited
        for, so nobody reads it."""
        with self._making:
            if self._captured is None:
                with self.driver.beside_captures():
                    self._captured = self._made()
            self._captured.clear()
            return self._captured

    def tell(self, told: Sequence[tuple[Report, Origin]]) -> None:
        """Say what launches that are over had to say, and take their reports back."""
        try:
            for report, origin in told:
                report.show(origin)
                report.raise_failure(origin)
        finally:
            self._free += [report for report, _ in told]

    def launch(self, function: Function, call: Call, origin: Origin) -> None:
        """Launch, wait, and say what the kernel had to say; into a graph: launch."""
        if self.driver.is_capturing(call.stream):
            function.launch(replace(call, report=self._unread().address))
            return
        report = self.take()
        function.launch(replace(call, report=report.address))
        try:
            self.driver.call("cuStreamSynchronize", call.stream)
        finally:
            # Of a failed launch too: an assertion that does not hold ends it.
            self.tell([(report, origin)])

    def _made(self) -> Report:
        end = HEAD_BYTES + _CAPACITY
        start = self.driver.pointer("cuMemHostAlloc", end + 8, HOST_PORTABLE_MAPPED)
        # Nobody reads the word: who waits looks at the report.
        return Report(start, start + end, _CAPACITY)
