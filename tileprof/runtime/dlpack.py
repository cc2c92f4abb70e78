"""DLPack's tensor as ctypes: for arrays on a GPU that have no other way in.

The layout is that of `dlpack.h`, version 0.8 and later.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tileprof.errors import ArgumentError

_CODES = {
    0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 10: "float8_e4m3", 12: "float8_e5m2",
}  # fmt: skip
_LEGACY_STREAM = 1


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportedTensor:
    """An array's description of itself; strides in elements, None for row-major contiguous."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


def exported(value: Any) -> ExportedTensor:
    """Return the tensor that `value.__dlpack__()` exports, ready on the legacy default stream. It
    does not own the memory: the caller keeps `value`."""
    capsule = value.__dlpack__(stream=_LEGACY_STREAM)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    kind = _CODES.get(tensor.code)
    if kind is None or tensor.lanes != 1:
        raise ArgumentError(
            f"an array of DLPack type {tensor.code} with {tensor.bits} bits cannot be passed",
            hint="Convert it to a type that kernels have.",
        )
    name = kind if kind in ("bool",) or kind.startswith("float8") else f"{kind}{tensor.bits}"
    rank = tensor.ndim
    strides = tuple(tensor.strides[:rank]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return ExportedTensor(address, name, tuple(tensor.shape[:rank]), strides)
