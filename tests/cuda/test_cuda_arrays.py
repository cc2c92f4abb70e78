"""Arrays that say by `__cuda_array_interface__` where they lie, as CuPy's and Numba's do, as
arguments of kernels."""

from __future__ import annotations

import contextlib
import sys
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver
from tests.cuda.test_runtime import SIZES, aligned, executable
from tileprof import ir
from tileprof.errors import ArgumentError
from tileprof.runtime.arguments import allocate, describe
from tileprof.runtime.cuda import executable as cuda_module


class CudaArray:
    """An array on a GPU; its memory is that of a NumPy array."""

    def __init__(self, held: np.ndarray[Any, Any], stream: int | None, device: int = 0) -> None:
        self.held, self.stream, self.device = held, stream, device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kept = self.held.__array_interface__
        dense = self.held.flags.c_contiguous
        return {
            "shape": self.held.shape,
            "typestr": self.held.dtype.str,
            "strides": None if dense else self.held.strides,
            "data": (kept["data"][0], not self.held.flags.writeable),
            "stream": self.stream,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device


@pytest.fixture
def gpu() -> FakeDriver:
    """A GPU that takes such arrays as they are."""
    fake = FakeDriver()
    fake.sizes = dict(SIZES)
    return fake


def test_the_kernel_gets_their_addresses_on_their_stream(gpu: FakeDriver) -> None:
    """Nothing is copied; tensor maps are made of the same addresses."""
    held, needs = executable(gpu)
    a, c = (CudaArray(aligned((5, 136)), stream=48) for _ in "ac")
    result = held.run([a, c, 0.5, 1], (5, 136))
    (launched,) = gpu.launches
    words = launched.words()
    assert (words[0], words[4]) == (a.held.ctypes.data, c.held.ctypes.data)
    assert [e["address"] for e in gpu.encoded] == [a.held.ctypes.data]
    assert launched.stream == 48
    assert not result.copies
    assert not any("Memcpy" in name for name in gpu.names())
    assert needs == [(frozenset(), False)]


def test_a_stream_that_is_not_said_is_the_default(gpu: FakeDriver) -> None:
    """As the protocol has it for None: work that is waited for otherwise."""
    held, _ = executable(gpu)
    a, c = (CudaArray(aligned((5, 136)), stream=None) for _ in "ac")
    held.run([a, c, 0.5, 1], (5, 136))
    assert gpu.launches[0].stream == 1


def test_addresses_and_overlap_choose_the_variant(gpu: FakeDriver) -> None:
    """As for arrays of other frameworks."""
    held, needs = executable(gpu)
    whole = aligned((8, 136))
    odd = aligned((5, 136), offset=2)
    held.run([CudaArray(odd, 48), CudaArray(whole[:5], 48), 0.5, 1], (5, 136))
    assert needs[-1] == (frozenset({0}), False)
    held.run([CudaArray(whole[:5], 48), CudaArray(whole[1:6], 48), 0.5, 1], (5, 136))
    assert needs[-1][1]


def test_what_is_written_is_not_read_only(gpu: FakeDriver) -> None:
    """Refused before anything runs; what is only read may be."""
    held, _ = executable(gpu)
    a, c = aligned((5, 136)), aligned((5, 136))
    a.flags.writeable = False
    held.run([CudaArray(a, 48), CudaArray(c, 48), 0.5, 1], (5, 136))
    c.flags.writeable = False
    with pytest.raises(ArgumentError, match="is written by the kernel, but the array is read-only"):
        held.run([CudaArray(a, 48), CudaArray(c, 48), 0.5, 1], (5, 136))
    assert len(gpu.launches) == 1


def test_what_is_said_of_them() -> None:
    """Strides in elements, the device's number, who made them."""
    made = describe(CudaArray(np.zeros((4, 10), np.float16)[:, ::2], 2, device=1))
    assert made is not None
    assert (made.shape, made.strides, made.device) == ((4, 5), (10, 2), "cuda:1")
    assert made.dtype == ir.dtype("float16")
    assert made.framework == "dlpack"


def test_results_for_cupy_are_arrays_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device of the arguments."""
    asked: list[Any] = []

    @contextlib.contextmanager
    def on(number: int) -> Any:
        asked.append(number)
        yield

    def empty(shape: Any, dtype: Any) -> str:
        asked.append((shape, dtype))
        return "made"

    cupy = ModuleType("cupy")
    cupy.cuda = ModuleType("cupy.cuda")  # type: ignore[attr-defined]
    cupy.cuda.Device = on
    cupy.empty = empty  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    ours = type("ndarray", (CudaArray,), {"__module__": "cupy"})
    like = describe(ours(np.zeros((4, 10), np.float16), 2, device=1))
    assert like is not None
    assert like.framework == "cupy"
    assert allocate(like, (3, 4), ir.dtype("float32")) == "made"
    assert asked == [1, ((3, 4), np.dtype("float32"))]


class Loose(CudaArray):
    """An array that only has DLPack: who owns its memory may reuse it when it is gone."""

    __cuda_array_interface__ = property()


def test_an_array_of_dlpack_is_held_until_its_launch_is_over(
    gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller may drop it while the kernel runs; the next launch after that lets it go."""
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "check_writable", lambda *_: None)
    monkeypatch.setattr(cuda_module, "address", lambda value: value.held.ctypes.data)
    held, _ = executable(gpu)
    gone = []
    gpu.running = True
    for _ in range(3):
        a, c = (Loose(aligned((5, 136)), stream=None) for _ in "ac")
        gone.append(weakref.ref(a))
        held.run([a, c, 0.5, 1], (5, 136))
        del a, c
    assert [each() is None for each in gone] == [False, False, False]
    gpu.running = False
    held.run([Loose(aligned((5, 136)), None), Loose(aligned((5, 136)), None), 0.5, 1], (5, 136))
    assert [each() is None for each in gone] == [True, True, True]
    assert gpu.names().count("cuEventDestroy_v2") == 3
