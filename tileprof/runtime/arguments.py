"""Arrays of any framework, each by its cheapest way: address, shape, strides, element type.

NumPy arrays (bfloat16 and float8 of `ml_dtypes` included) by buffer address, PyTorch tensors by
pointer, shape and stride, arrays on a GPU by `__cuda_array_interface__`, anything else through
DLPack.  No framework is imported here that is not in use.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import ArgumentError, DTypeError, MissingDependencyError

from .dlpack import exported


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Properties of a tensor that a kernel may depend on: element type, shape and strides in
    elements, and the place.

    `strides` is None for row-major contiguous.  `device` is `cpu` or `cuda:N`.
    """

    dtype: ir.DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: str
    framework: str
    """`numpy`, `torch`, `cupy` or `dlpack`."""


# Keyed by what NumPy or PyTorch hand out, so that a warm call pays one look-up per argument.
_SPECS: dict[Any, TensorSpec] = {}
_MAX_SPECS = 10_000
_HUGE = 4 << 20
"""Bytes from which NumPy asks for huge pages."""
_DLPACK_CUDA = (2, 3, 13)
"""kDLCUDA, kDLCUDAHost, kDLCUDAManaged."""


def describe(value: Any) -> TensorSpec | None:
    """Return the spec of an array; None for anything that is not one (a Python scalar, a
    string)."""
    if isinstance(value, np.ndarray):
        contiguous = value.flags.c_contiguous
        key: Any = (value.dtype, value.shape, None if contiguous else value.strides)
        return _SPECS.get(key) or _remember(key, _numpy_spec(value))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.is_neg():
            raise ArgumentError(
                "a PyTorch view whose elements have other signs than its memory cannot be passed",
                hint="Use `.resolve_neg()`; such views are made by `.conj().imag`.",
            )
        stride = None if value.is_contiguous() else value.stride()
        key = (value.dtype, tuple(value.shape), stride, value.device)
        return _SPECS.get(key) or _remember(key, _torch_spec(value))
    if hasattr(value, "__cuda_array_interface__"):
        return _interface_spec(value)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return _dlpack_spec(value)
    return None


def _remember(key: Any, spec: TensorSpec) -> TensorSpec:
    if len(_SPECS) >= _MAX_SPECS:
        _SPECS.clear()
    # Plans know a spec by its identity: threads that describe at the same time get the same one.
    return _SPECS.setdefault(key, spec)


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


def _interface_spec(value: Any) -> TensorSpec:
    """Return an array on a GPU that says where it is: CuPy's, Numba's."""
    held = value.__cuda_array_interface__
    kind = getattr(value, "dtype", None) or np.dtype(held["typestr"])
    dtype = _dtype(str(kind))
    strides = held.get("strides")
    shape = tuple(int(d) for d in held["shape"])
    elements = (
        None
        if strides is None
        else _unless_row_major(shape, tuple(s // dtype.bytes for s in strides))
    )
    number = value.__dlpack_device__()[1] if hasattr(value, "__dlpack_device__") else 0
    framework = "cupy" if type(value).__module__.startswith("cupy") else "dlpack"
    return TensorSpec(dtype, shape, elements, f"cuda:{number}", framework)


def _dlpack_spec(value: Any) -> TensorSpec:
    kind, number = value.__dlpack_device__()
    if kind in _DLPACK_CUDA:
        held = exported(value)
        strides = None if held.strides is None else _unless_row_major(held.shape, held.strides)
        return TensorSpec(_dtype(held.dtype), held.shape, strides, f"cuda:{number}", "dlpack")
    spec = _numpy_spec(np.from_dlpack(value))
    return TensorSpec(spec.dtype, spec.shape, spec.strides, "cpu", "dlpack")


def _unless_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """None for the strides of a contiguous array; those of extents of 1 say nothing."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return strides
        expected *= extent
    return None


def _dtype(name: str) -> ir.DType:
    try:
        return ir.dtype(name)
    except DTypeError:
        raise ArgumentError(
            f"an array of {name} cannot be passed: no kernel has such elements",
            hint=f"Element types are: {', '.join(n for n, d in ir.DTYPES.items() if d.bits)}.",
        ) from None


def address(value: Any) -> int:
    """Return the address of the first element."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    if hasattr(value, "data_ptr"):
        try:
            # A fake tensor would warn and then give the address 0.
            found = 0 if _is_fake(value) else int(value.data_ptr())
        except RuntimeError:  # under `torch.vmap`
            found = 0
        if not found and math.prod(value.shape):
            raise ArgumentError(
                "a PyTorch tensor without memory, a fake one or one that a transform of functions "
                "passes, cannot be passed",
                hint="`tileprof.op` makes a kernel an operator, which takes them.",
            )
        return found
    if hasattr(value, "__cuda_array_interface__"):
        return int(value.__cuda_array_interface__["data"][0])
    return address(np.from_dlpack(value)) if is_host(value) else exported(value).address


def _is_fake(value: Any) -> bool:
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(value, fake.FakeTensor)


def outlives_its_owner(value: Any) -> bool:
    """Return whether memory that an array frees is reused after the work that was enqueued on its
    stream. That holds for PyTorch and for what has `__cuda_array_interface__`, not for DLPack
    alone."""
    return (
        isinstance(value, np.ndarray)
        or hasattr(value, "data_ptr")
        or (hasattr(value, "__cuda_array_interface__"))
    )


def is_host(value: Any) -> bool:
    """Return whether an array lies in the memory of the host."""
    if isinstance(value, np.ndarray):
        return True
    if hasattr(value, "is_cuda"):
        return not value.is_cuda
    if hasattr(value, "__cuda_array_interface__"):
        return False
    return value.__dlpack_device__()[0] not in _DLPACK_CUDA


_LEGACY_STREAM = 1


def stream_of(value: Any, number: int) -> int:
    """Return the stream of device `number` on which the framework of an array works now."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return int(torch._C._cuda_getCurrentRawStream(number))
    held = getattr(value, "__cuda_array_interface__", None)
    return int((held and held.get("stream")) or _LEGACY_STREAM)


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return a NumPy array over the same memory; bfloat16 and float8 with their `ml_dtypes`
    types."""
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
    """Return whether a kernel may write into the array."""
    if isinstance(value, np.ndarray):
        return bool(value.flags.writeable)
    if hasattr(value, "data_ptr"):
        return True
    held = getattr(value, "__cuda_array_interface__", None)
    return held is None or not held["data"][1]


def check_writable(kernel: ir.Kernel, written: Iterable[int], values: Sequence[Any]) -> None:
    """Raise ArgumentError where one of the parameters that a kernel writes is read-only."""
    for at in written:
        if not is_writable(values[at]):
            raise ArgumentError(
                f"`{kernel.params[at].name}` is written by the kernel, but the array is read-only",
                location=kernel.location,
                hint="Pass a copy, which can be written.",
            )


def allocate(spec: TensorSpec | None, shape: tuple[int, ...], dtype: ir.DType) -> Any:
    """Return a new array, not initialised, of the framework and device of `spec` (NumPy for
    None)."""
    if spec is None or (spec.framework != "torch" and spec.device == "cpu"):
        return np.empty(shape, dtype.to_numpy())
    if spec.framework == "cupy":
        import cupy

        with cupy.cuda.Device(int(spec.device.removeprefix("cuda:"))):
            return cupy.empty(shape, dtype.to_numpy())
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            f"an output on {spec.device} needs PyTorch or CuPy",
            hint="Write into an argument instead of a tensor from `T.empty`.",
        ) from None
    kind = getattr(torch, _TORCH_NAMES.get(dtype.name, dtype.name))
    size = math.prod(shape) * dtype.bytes
    if spec.device == "cpu" and size >= _HUGE:
        # NumPy asks the system for huge pages and PyTorch does not: first touches of 4 KiB pages
        # can take longer than the kernel itself.
        return torch.from_numpy(np.empty(size, np.uint8)).view(kind).reshape(shape)
    return torch.empty(shape, dtype=kind, device=spec.device)


_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn", "index": "int64"}


def word_of(type_: ir.DType) -> Callable[[Any], int]:
    """Return a function from a number to its bits as an element of a type, in an unsigned word of
    its size."""
    if type_.is_integer:
        mask = (1 << type_.bits) - 1
        return lambda value: int(value) & mask
    if type_.kind == "bool":
        return lambda value: int(bool(value))
    if type_.name == "float64":
        return lambda value: int(_bits_of_double(float(value)))
    held, bits = type_.to_numpy(), np.dtype(f"uint{type_.bits}")
    return lambda value: int(np.asarray(value, np.float64).astype(held).view(bits))


def _bits_of_double(value: float) -> int:
    (word,) = struct.unpack("=Q", struct.pack("=d", value))
    return int(word)
