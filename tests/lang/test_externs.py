"""Functions of CUDA that are called by name mean the same on every device."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from tests.lang.checks import refused_in_place, same_everywhere
from tileprof.errors import UnknownOperation

same = partial(same_everywhere, debug=False)
RNG = np.random.default_rng(8)


@tileprof.jit
def alike_in_warp(A):
    """The threads of a warp that have the same number."""
    A: T.Tensor((64,), T.int32)
    B = T.empty((64,), T.uint32)
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        B[tx] = T.call_extern(T.uint32, "__match_any_sync", 0xFFFFFFFF, A[tx])
    return B


@tileprof.jit
def halves(A):
    """Halves rounded toward zero."""
    A: T.Tensor((256,), T.float32)
    B = T.empty((256,), T.float16)
    with T.Kernel(1, threads=64):
        for i in T.Parallel(256):
            B[i] = T.call_extern("float16", "__float2half_rz", A[i])
    return B


@tileprof.jit
def unknown(A):
    """A function of a library of the author."""
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1, threads=32):
        A[0] = T.call_extern("float32", "my_function", A[1])


def test_match_any_gives_the_threads_with_the_same_value() -> None:
    """A bit for each thread of the warp, in all of them."""
    given = RNG.integers(0, 5, 64).astype(np.int32)
    rows = (given.reshape(2, 1, 32) == given.reshape(2, 32, 1)).reshape(64, 32)
    same(alike_in_warp, [given], (rows * (1 << np.arange(32, dtype=np.uint64))).sum(1))


def _toward_zero(x: np.float32) -> np.float16:
    with np.errstate(over="ignore"):
        near = np.float16(x)
    return near if not abs(np.float32(near)) > abs(x) else np.nextafter(near, np.float16(0))


def test_halves_are_rounded_toward_zero() -> None:
    """Also beyond the largest half, below the smallest, for infinities and NaN."""
    edges = [1e10, -1e10, np.inf, -np.inf, np.nan, 0, -0.0, 65519, 65520, 65536, 6e-8, 1e-9, -1e-9]
    spread = RNG.standard_normal(256 - len(edges)) * 10.0 ** RNG.integers(-9, 6, 256 - len(edges))
    given = np.array([*edges, *spread], np.float32)
    same(halves, [given], np.array([_toward_zero(x) for x in given]))


def test_function_without_a_known_meaning_is_refused() -> None:
    """The error names the function."""
    array = np.zeros(8, np.float32)
    refused_in_place(unknown, array, UnknownOperation, "`T.call_extern` of 'my_function'", __file__)


@tileprof.jit
def pairs(A, B):
    """The greatest magnitude of each column, two columns at once."""
    A: T.Tensor((8, 64), T.bfloat16)
    B: T.Tensor((64,), T.bfloat16)
    C = T.empty((64,), T.bfloat16)
    with T.Kernel(1, threads=8):
        tx = T.get_thread_binding()
        most = T.alloc_local((4,), T.bfloat16x2)
        plain = T.view(most, (8,), T.bfloat16)
        for i in T.unroll(8):
            for j in T.unroll(4):
                held = T.bfloat16x2(A[i, tx * 8 + j * 2], A[i, tx * 8 + j * 2 + 1])
                if i == 0:
                    most[j] = T.abs2(held)
                else:
                    most[j] = T.max2(T.abs2(held), most[j])
        for j in T.vectorized(8):
            C[tx * 8 + j] = plain[j] * B[tx * 8 + j]
    return C


def test_pairs_are_computed_half_by_half() -> None:
    """Pairs in a thread's own memory, which is also seen as single elements."""
    given = RNG.integers(-99, 99, (8, 64)).astype(ml_dtypes.bfloat16)
    factor = np.full(64, 2, ml_dtypes.bfloat16)
    same(pairs, [given, factor], abs(given.astype(np.float32)).max(0) * 2)


@tileprof.jit
def shifted(A):
    """Bits that go beyond a narrow number."""
    A: T.Tensor((32,), T.uint16)
    B = T.empty((32,), T.uint32)
    C = T.empty((32,), T.uint16)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            B[i] = T.cast(A[i] << 20, T.uint32) | T.cast(A[i] << 4, T.uint32)
            C[i] = A[i] << 4
    return B, C


def test_shift_of_a_narrow_number_keeps_its_bits() -> None:
    """Numbers in a program are int32, as in TileLang; a narrow target wraps around."""
    given = RNG.integers(0, 1 << 16, 32).astype(np.uint16)
    wide = given.astype(np.uint32)
    same_everywhere(shifted, [given], wide << 20 | wide << 4, given << 4)
