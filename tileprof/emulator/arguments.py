"""What a `__global__` function is given: arrays between guard bytes, numbers, tensor maps."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.source import TensorMapSpec
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.ir.types import Dim

GUARD = 4096
ALIGNMENT = 256
# NaN for floats: a read outside shows in what is computed.
FILL = 0xFF

NUMBERS = {
    "float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "float8_e4m3": 5, "float8_e5m2": 6,
    "int8": 7, "uint8": 8, "bool": 8, "int32": 9, "uint32": 10, "int64": 11, "index": 11,
    "uint64": 12, "int16": 13, "uint16": 13,
}  # fmt: skip
"""Element types by their number in `runtime` (`Number`)."""


class DeviceArray:
    """A copy of an array in memory of its own, with guard bytes on both sides."""

    def __init__(self, array: np.ndarray[Any, Any], *, least_aligned: bool = False) -> None:
        self.array = array
        assert all(s >= 0 for s in array.strides), "negative strides"
        low = array.ctypes.data
        last = sum((n - 1) * s for n, s in zip(array.shape, array.strides))
        self._low, self.size = low, last + array.itemsize if array.size else 0
        self._memory = np.full(self.size + 2 * GUARD + 2 * ALIGNMENT, FILL, np.uint8)
        start = self._memory.ctypes.data + GUARD
        # Aligned as it was, so that what depends on it is the same; or no better than what a kernel
        # may ask, so that it cannot need more.
        by = low % ALIGNMENT
        if least_aligned and by % WIDEST_ACCESS == 0:
            by = WIDEST_ACCESS
        self.address = start + (by - start) % ALIGNMENT
        ctypes.memmove(self.address, low, self.size)

    def intact(self) -> bool:
        """Whether nothing was written around it."""
        at = self.address - self._memory.ctypes.data
        before, after = self._memory[:at], self._memory[at + self.size :]
        return bool((before == FILL).all() and (after == FILL).all())

    def copy_back(self) -> None:
        """Write what the kernel left to the array."""
        ctypes.memmove(self._low, self.address, self.size)


def number_bytes(value: Any, dtype: ir.DType) -> bytes:
    """A number as the function takes it."""
    return np.asarray(value).astype(dtype.to_numpy()).tobytes()


class _Map(ctypes.Structure):
    """`Map` of `include/emulator.h`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("extent", ctypes.c_int64 * 5),
        ("stride", ctypes.c_int64 * 5),
        ("box", ctypes.c_int32 * 5),
        ("swizzle", ctypes.c_int32),
    )


def tensor_map(spec: TensorMapSpec, address: int, named: Mapping[str, int]) -> bytes:
    """The 128 bytes of a map; AssertionError for what the driver would refuse."""
    size, rank = spec.dtype.bytes, len(spec.shape)
    shape = [value_of(d, named) for d in reversed(spec.shape)]
    strides = [value_of(d, named) * size for d in reversed(spec.strides)]
    box = list(reversed(spec.box))
    inner = box[0] * size
    assert 1 <= rank <= 5, f"a map of rank {rank}"
    assert len(box) == len(strides) == rank, f"{spec}: ranks differ"
    assert address % 16 == 0, f"{spec}: the tensor is not aligned to 16 bytes"
    assert strides[0] == size, f"{spec}: the innermost stride is not 1"
    assert all(s % 16 == 0 for s in strides[1:]), f"{spec}: strides are no multiples of 16 bytes"
    assert all(1 <= b <= 256 for b in box), f"{spec}: the box has 1 to 256 elements an axis"
    assert inner % 16 == 0, f"{spec}: rows of the box are no multiple of 16 bytes"
    # The hardware takes less than a line too, and spreads it in a way not emulated.
    assert spec.swizzle in (0, inner), f"{spec}: rows of the box are not one line of the swizzle"
    made = _Map(address, rank, NUMBERS[spec.dtype.name], swizzle=spec.swizzle)
    made.extent[:rank] = shape
    made.stride[:rank] = strides
    made.box[:rank] = box
    return bytes(made).ljust(128, b"\0")


def value_of(dim: Dim | tuple[Dim, ...], named: Mapping[str, int]) -> int:
    """An extent or a stride as a number; a tuple is a product."""
    parts: Sequence[Dim] = dim if isinstance(dim, tuple) else (dim,)
    return math.prod(p if isinstance(p, int) else named[p] for p in parts)
