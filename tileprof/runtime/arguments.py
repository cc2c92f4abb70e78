"""Arrays of any framework, each by its cheapest way: address, shape, strides, element type.

NumPy arrays (bfloat16 and float8 of `ml_dtypes` included) by buffer address, PyTorch tensors by
pointer, shape and stride, anything else through DLPack.  No framework is imported here.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import ArgumentError, DTypeError

__all__ = ["TensorSpec", "address", "allocate", "as_array", "describe", "is_writable"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a kernel may depend on: element type, shape and strides in elements, and the place.

    `strides` is None for row-major contiguous.  `device` is `cpu` or `cuda:N`.
    """

    dtype: ir.DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: str
    framework: str
    """`numpy`, `torch` or `dlpack`."""


# Keyed by what NumPy or PyTorch hand out, so that a warm call pays one look-up per argument.
_SPECS: dict[Any, TensorSpec] = {}
_MAX_SPECS = 10_000
_HUGE = 4 << 20
"""Bytes from which NumPy asks for huge pages."""
_DLPACK_CUDA = (2, 3, 13)
"""kDLCUDA, kDLCUDAHost, kDLCUDAManaged."""


def describe(value: Any) -> TensorSpec | None:
    """The spec of an array; None for anything that is not one (a Python scalar, a string)."""
    if isinstance(value, np.ndarray):
        contiguous = value.flags.c_contiguous
        key: Any = (value.dtype, value.shape, None if contiguous else value.strides)
        return _SPECS.get(key) or _remember(key, _numpy_spec(value))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        stride = None if value.is_contiguous() else value.stride()
        key = (value.dtype, tuple(value.shape), stride, value.device)
        return _SPECS.get(key) or _remember(key, _torch_spec(value))
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return _dlpack_spec(value)
    return None


def _remember(key: Any, spec: TensorSpec) -> TensorSpec:
    if len(_SPECS) >= _MAX_SPECS:
        _SPECS.clear()
    _SPECS[key] = spec
    return spec


def _numpy_spec(value: np.ndarray[Any, Any]) -> TensorSpec:
    size = value.dtype.itemsize
    if not value.dtype.isnative or any(s % size for s in value.strides):
        raise ArgumentError(
            f"an array of {value.dtype} with strides of {value.strides} bytes cannot be passed",
            hint="Pass `np.ascontiguousarray(x)` in the machine's byte order.",
        )
    strides = None if value.flags.c_contiguous else tuple(s // size for s in value.strides)
    return TensorSpec(_dtype(value.dtype.name), value.shape, strides, "cpu", "numpy")


def _torch_spec(value: Any) -> TensorSpec:
    if str(value.layout) != "torch.strided" or value.is_quantized:
        raise ArgumentError(
            f"a PyTorch tensor of layout {value.layout} cannot be passed", hint="Use `.to_dense()`."
        )
    device = "cpu" if value.device.type == "cpu" else f"cuda:{value.device.index or 0}"
    if value.device.type not in ("cpu", "cuda"):
        raise ArgumentError(
            f"a PyTorch tensor on {value.device} cannot be passed",
            hint="Tensors on `cpu` and `cuda` devices can.",
        )
    strides = None if value.is_contiguous() else tuple(value.stride())
    name = str(value.dtype).removeprefix("torch.")
    return TensorSpec(_dtype(name), tuple(value.shape), strides, device, "torch")


def _dlpack_spec(value: Any) -> TensorSpec:
    kind, number = value.__dlpack_device__()
    if kind in _DLPACK_CUDA:
        shape = tuple(int(d) for d in value.shape)
        return TensorSpec(_dtype(str(value.dtype)), shape, None, f"cuda:{number}", "dlpack")
    spec = _numpy_spec(np.from_dlpack(value))
    return TensorSpec(spec.dtype, spec.shape, spec.strides, "cpu", "dlpack")


def _dtype(name: str) -> ir.DType:
    try:
        return ir.dtype(name)
    except DTypeError:
        raise ArgumentError(
            f"an array of {name} cannot be passed: no kernel has such elements",
            hint=f"Element types are: {', '.join(ir.DTYPES)}.",
        ) from None


def address(value: Any) -> int:
    """The address of the first element."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return address(as_array(value))


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the same memory; bfloat16 and float8 with their `ml_dtypes` types."""
    if isinstance(value, np.ndarray):
        return value
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return np.from_dlpack(value)
    plain = value.detach()
    spec = describe(value)
    assert spec is not None
    held = spec.dtype.to_numpy()
    if spec.dtype.name in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        bits = torch.uint16 if spec.dtype.bits == 16 else torch.uint8
        array: np.ndarray[Any, Any] = plain.view(bits).numpy().view(held)
        return array
    array = plain.numpy()
    return array


def is_writable(value: Any) -> bool:
    """Whether a kernel may write into the array."""
    return bool(value.flags.writeable) if isinstance(value, np.ndarray) else True


def allocate(spec: TensorSpec | None, shape: tuple[int, ...], dtype: ir.DType) -> Any:
    """A new array, not initialised, of the framework and device of `spec` (NumPy for None)."""
    if spec is None or spec.framework != "torch":
        return np.empty(shape, dtype.to_numpy())
    import torch

    name = {"float8_e4m3": "float8_e4m3fn"}.get(dtype.name, dtype.name)
    kind = getattr(torch, name)
    size = math.prod(shape) * dtype.bytes
    if spec.device == "cpu" and size >= _HUGE:
        # NumPy asks the system for huge pages and PyTorch does not: first touches of 4 KiB pages
        # can take longer than the kernel itself.
        return torch.from_numpy(np.empty(size, np.uint8)).view(kind).reshape(shape)
    return torch.empty(shape, dtype=kind, device=spec.device)
