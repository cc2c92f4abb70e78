"""Arrays of every framework: described, addressed and seen as NumPy without a copy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileprof import ir
from tileprof.errors import ArgumentError
from tileprof.runtime.arguments import (
    TensorSpec,
    address,
    allocate,
    as_array,
    describe,
    is_writable,
)

NUMPY_TYPES = ["float64", "float32", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]
TORCH_TYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "int32",
    "int64",
    "uint8",
    "bool",
]


@pytest.mark.parametrize("name", [*NUMPY_TYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numpy_arrays(name: str) -> None:
    """Element type, shape and contiguity of NumPy arrays, those of ml_dtypes included."""
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    array = np.zeros((3, 4), dtype=kind)
    assert describe(array) == TensorSpec(ir.dtype(name), (3, 4), None, "cpu", "numpy")
    transposed = describe(array.T)
    assert transposed is not None
    assert transposed.strides == (1, 4)
    assert as_array(array) is array


@pytest.mark.parametrize("name", [*TORCH_TYPES, "float8_e4m3fn", "float8_e5m2"])
def test_torch_tensors(name: str) -> None:
    """A PyTorch tensor is seen in place: a write through the array shows in the tensor."""
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3, 4, dtype=getattr(torch, name))
    assert describe(tensor) == TensorSpec(ir.dtype(name), (3, 4), None, "cpu", "torch")
    assert address(tensor) == tensor.data_ptr()
    array = as_array(tensor)
    assert array.shape == (3, 4)
    array[1, 2] = 1
    assert float(tensor[1, 2].to(torch.float32)) == 1
    sliced = describe(tensor[:, 1:])
    assert sliced is not None
    assert sliced.strides == (4, 1)


def test_tensors_that_need_gradients() -> None:
    """A leaf that requires grad is passed like any other."""
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2, requires_grad=True)
    assert as_array(tensor).tolist() == [1, 1]


class OnlyDLPack:
    """An array of a framework that tileprof has never heard of."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_anything_with_dlpack() -> None:
    """DLPack is enough: same memory, same address."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    foreign = OnlyDLPack(array)
    assert describe(foreign) == TensorSpec(ir.dtype("float32"), (2, 3), None, "cpu", "dlpack")
    assert address(foreign) == address(array)


@pytest.mark.parametrize("value", [3, 2.5, True, np.float32(1), "text", None])
def test_scalars_are_no_arrays(value: Any) -> None:
    """Python and NumPy scalars are described by nobody."""
    assert describe(value) is None


def test_refused_arrays() -> None:
    """What cannot be passed is refused with a way out."""
    with pytest.raises(ArgumentError, match="complex64 cannot be passed") as caught:
        describe(np.zeros(3, dtype=np.complex64))
    assert "bfloat16" in caught.value.hint
    swapped = np.zeros(3, dtype=">f4")
    with pytest.raises(ArgumentError, match="cannot be passed"):
        describe(swapped)
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"torch.sparse_coo cannot be passed"):
        describe(torch.eye(3).to_sparse())


def test_allocation_follows_the_first_argument() -> None:
    """NumPy in, NumPy out; PyTorch in, PyTorch out."""
    bfloat16 = ir.dtype("bfloat16")
    assert allocate(describe(np.zeros(1)), (2, 3), bfloat16).dtype == ml_dtypes.bfloat16
    torch = pytest.importorskip("torch")
    made = allocate(describe(torch.zeros(1)), (2, 3), bfloat16)
    assert (made.dtype, tuple(made.shape)) == (torch.bfloat16, (2, 3))
    large = allocate(describe(torch.zeros(1)), (3, 1 << 20), bfloat16)
    assert (large.dtype, tuple(large.shape)) == (torch.bfloat16, (3, 1 << 20))
    assert large.is_contiguous()


def test_read_only_arrays_are_known() -> None:
    """A kernel that writes must not be given one."""
    array = np.zeros(3)
    assert is_writable(array)
    array.flags.writeable = False
    assert not is_writable(array)


def test_a_fake_tensor_has_no_address() -> None:
    """Kernels can be compiled for it, and not be called with it."""
    torch = pytest.importorskip("torch")
    fake_tensor: Any = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake_tensor.FakeTensorMode():
        tensor = torch.ones(7)
    assert describe(tensor) is describe(torch.ones(7))
    with pytest.raises(ArgumentError, match="without memory") as caught:
        address(tensor)
    assert "tileprof.op" in caught.value.hint


@pytest.mark.parametrize("transform", ["vmap", "functionalize"])
def test_a_tensor_of_a_transform_is_refused(transform: str) -> None:
    """It stands for another one, and has no address."""
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match="without memory"):
        getattr(torch.func, transform)(lambda x: torch.tensor(address(x)))(torch.ones(2, 3))
    assert address(torch.ones(0)) == 0
