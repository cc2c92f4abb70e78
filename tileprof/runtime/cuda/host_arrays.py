"""Host arrays on a GPU: copied in before a launch and out after it.

Arrays that overlap stay one piece of memory, and strides stay as they are: the piece between the
first and the last byte of an array is copied as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof.runtime.arguments import as_array
from tileprof.runtime.device import HostCopy

from .device import CudaDevice


@dataclass(slots=True)
class _Piece:
    """Bytes `start` to `end` of the host, and their place on the device."""

    start: int
    end: int
    device: int = 0
    read: bool = False
    """Whether what the host holds is needed."""


class Staged:
    """Device memory for the host arrays of one call; `addresses` by the parameter's position."""

    def __init__(
        self, device: CudaDevice, stream: int, arrays: dict[int, Any], outputs: Iterable[int]
    ) -> None:
        self._device, self._stream = device, stream
        self._pieces: list[_Piece] = []
        self.copies: list[HostCopy] = []
        spans = {at: _span(as_array(array)) for at, array in arrays.items()}
        for at, (start, end, _) in spans.items():
            self._cover(start, end, at not in outputs)
        try:
            self._copy_in()
        except BaseException:
            self.free()
            raise
        self.addresses = {at: self._place(first) for at, (_, _, first) in spans.items()}
        self._spans = spans

    def _cover(self, start: int, end: int, read: bool) -> None:
        """Add a range; pieces that it touches become one with it."""
        made = _Piece(start, end, read=read)
        kept = []
        for piece in self._pieces:
            if piece.start < made.end and made.start < piece.end:
                made = _Piece(
                    min(made.start, piece.start),
                    max(made.end, piece.end),
                    read=made.read or piece.read,
                )
            else:
                kept.append(piece)
        self._pieces = [*kept, made]

    def _copy_in(self) -> None:
        driver = self._device.driver
        for piece in self._pieces:
            size = piece.end - piece.start
            piece.device = driver.pointer("cuMemAllocAsync", max(size, 1), self._stream)
            if piece.read and size:
                began = time.perf_counter_ns()
                driver.call("cuMemcpyHtoDAsync_v2", piece.device, piece.start, size, self._stream)
                driver.call("cuStreamSynchronize", self._stream)
                self.copies.append(HostCopy("in", size, time.perf_counter_ns() - began))

    def _piece(self, address: int) -> _Piece:
        return next(p for p in self._pieces if p.start <= address <= p.end)

    def _place(self, address: int) -> int:
        piece = self._piece(address)
        return piece.device + (address - piece.start)

    def copy_out(self, written: Sequence[int]) -> None:
        """Bring back what the kernel wrote; waits for it."""
        driver = self._device.driver
        for at in written:
            if at in self._spans:
                start, end, _ = self._spans[at]
                began = time.perf_counter_ns()
                if end > start:
                    driver.call(
                        "cuMemcpyDtoHAsync_v2", start, self._place(start), end - start, self._stream
                    )
                driver.call("cuStreamSynchronize", self._stream)
                self.copies.append(HostCopy("out", end - start, time.perf_counter_ns() - began))

    def free(self) -> None:
        """Give the device memory back."""
        for piece in self._pieces:
            if piece.device:
                # After a fault the memory is gone with its context.
                self._device.driver.function("cuMemFreeAsync")(piece.device, self._stream)


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int, int]:
    """Return the first byte of an array, the byte after its last, and the address of its element
    0."""
    first = start = int(array.__array_interface__["data"][0])
    if not array.size:
        return first, first, first
    end = start + array.itemsize
    for extent, stride in zip(array.shape, array.strides):
        start += min((extent - 1) * stride, 0)
        end += max((extent - 1) * stride, 0)
    return start, end, first
