"""Names that TileLang's kernels use around tiles: annotated buffers, tfloat32, barriers."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.errors import KernelError


@T.macro
def ordered(values: T.SharedBuffer([32], T.int32), rounds: Any) -> None:
    """Sort by exchanges of neighbours at a power of two."""
    for upper in T.serial(rounds):
        for lower in T.serial(upper + 1):
            for i in T.Parallel(32):
                j = i ^ (1 << (upper - lower))
                rising = (i & (1 << (upper + 1))) == 0
                if i < j and ((rising and values[i] > values[j]) or (
                    not rising and values[i] < values[j]
                )):  # fmt: skip
                    held = values[i]
                    values[i] = values[j]
                    values[j] = held
            T.sync_threads()


def kernel_of(space: Any, size: int = 32, dtype: str = "int32") -> Any:
    """A kernel that sorts a buffer of this kind."""

    @T.prim_func
    def sort(A: T.Tensor((size,), dtype)) -> None:
        with T.Kernel(1, threads=32):
            held = space((size,), dtype)
            T.copy(A, held)
            ordered(held, 5)
            T.copy(held, A)

    return sort


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_a_macro_takes_the_buffer_that_it_names(device: str) -> None:
    """Exchanges take effect in the order in which they are written."""
    values = np.random.default_rng(0).permutation(32).astype(np.int32)
    with tileprof.device(device):
        tileprof.compile(kernel_of(T.alloc_shared))(values)
    np.testing.assert_array_equal(values, np.arange(32))


@pytest.mark.parametrize(
    ("space", "size", "dtype"),
    [(T.alloc_fragment, 32, "int32"), (T.alloc_shared, 64, "int32"), (T.alloc_shared, 32, "uint8")],
)
def test_another_buffer_is_refused(space: Any, size: int, dtype: str) -> None:
    """Memory, shape and element type are those of the annotation."""
    with pytest.raises(KernelError, match=r"`values` is .*, and the macro takes shared<32, int32>"):
        tileprof.compile(kernel_of(space, size, dtype))


def test_what_an_annotation_of_a_tile_says() -> None:
    """Each memory has one, in both spellings."""
    made = [T.SharedBuffer((4, 8), "float16"), T.FragmentBuffer[8, "int8"], T.LocalBuffer[2]]
    shown = [str(ir.BufferType(m.shape, m.kind, m.space)) for m in made]
    assert shown == ["shared<4, 8, float16>", "fragment<8, int8>", "local<2, float32>"]


def test_tfloat32_is_float32() -> None:
    """In memory, as a type of arguments, and as a conversion."""

    @T.prim_func
    def copy(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), T.tfloat32)) -> None:
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), dtype=T.tfloat32)
            T.copy(A, tile)
            for i in T.Parallel(8):
                B[i] = T.tfloat32(tile[i])

    a, b = np.linspace(0, 1, 8, dtype=np.float32), np.zeros(8, np.float32)
    tileprof.compile(copy)(a, b)
    np.testing.assert_array_equal(a, b)
    assert T.tfloat32 == "float32"


def test_a_barrier_stands_between_operations_only() -> None:
    """Points of a loop have no order in which one could wait for another."""

    @T.prim_func
    def wait(A: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] = 0
                T.sync_threads()

    with pytest.raises(KernelError, match=r"cannot stand inside `T\.Parallel`"):
        tileprof.compile(wait)
