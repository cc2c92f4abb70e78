"""Blocks of an odd number of warps, and converted tiles that are only copied on."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for, results_everywhere
from tileprof.remarks.copies import PassedThrough
from tileprof.remarks.launches import EvenWarps

RNG = np.random.default_rng(11)


@tileprof.jit
def mixed(A, w, width: int = 256, threads: int = 96):
    """Rows of four are loaded in another type, copied on and added up with weights."""
    N, W = T.const("N, W")
    A: T.Tensor((N, 4, W), T.float16)
    w: T.Tensor((4,), T.float32)
    out = T.empty((N, W), T.float32)
    with T.Kernel(N, threads=threads) as i:
        for k in T.Pipelined(T.ceildiv(W, width), num_stages=2):
            tile = T.alloc_shared((4, width), T.float32)
            mine = T.alloc_fragment((4, width), T.float32)
            total = T.alloc_fragment((width,), T.float32)
            T.copy(A[i, 0, k * width], tile)
            T.copy(tile, mine)
            T.clear(total)
            for h in T.serial(4):
                for j in T.Parallel(width):
                    total[j] += w[h] * mine[h, j]
            T.copy(total, out[i, k * width])
    return out


@tileprof.jit
def used_again(A, width: int = 256):
    """The tile is read by others, too."""
    N, W = T.const("N, W")
    A: T.Tensor((N, W), T.float16)
    out = T.empty((N, W), T.float32)
    with T.Kernel(N, threads=64) as i:
        tile = T.alloc_shared((width,), T.float32)
        mine = T.alloc_fragment((width,), T.float32)
        T.copy(A[i, 0], tile)
        T.copy(tile, mine)
        for j in T.Parallel(width):
            out[i, j] = mine[j] - tile[width - 1 - j]
    return out


def made_by(function: Any, arrays: list[Any], **static: Any) -> tuple[Any, str]:
    """The decisions about a kernel for a GPU, and its text."""
    kernel = function.compile(*arrays, **static).program.kernel
    program = compiled_for(kernel, "sm_90a", None, {})
    return [r.decision for r in program.remarks], program.source.text


def test_weighted_rows() -> None:
    """The last tile passes the end of a row."""
    a, w = RNG.standard_normal((3, 4, 250)).astype("f2"), np.arange(4, dtype="f4")
    right = np.einsum("nhw,h->nw", a.astype("f4"), w)
    for device, (found,) in results_everywhere(mixed, [a, w]):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5, err_msg=device)


def test_an_odd_number_of_warps_becomes_a_power_of_two() -> None:
    """256 elements do not divide among three warps; 288 do."""
    a, w = RNG.standard_normal((3, 4, 256)).astype("f2"), np.arange(4, dtype="f4")
    found, _ = made_by(mixed, [a, w])
    assert EvenWarps(64, 96, 3) in found
    assert not any(isinstance(d, EvenWarps) for d in made_by(mixed, [a, w], width=288)[0])
    assert not any(isinstance(d, EvenWarps) for d in made_by(mixed, [a, w], threads=128)[0])


@tileprof.jit
def product(A, B, threads: int = 160, tile: int = 64):
    """A product of threads of which the author has one warp for the loads."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, tile), threads=threads) as (bx, by):
        a = T.alloc_shared((tile, 64), T.float16)
        b = T.alloc_shared((128, 64), T.float16)
        c = T.alloc_fragment((tile, 128), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * tile, k * 64], a)
            T.copy(B[bx * 128, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * 128])
    return C


def test_products_get_warp_groups_where_a_warp_is_over() -> None:
    """128 of 160 threads multiply, by wgmma; with 192 rows, three groups of 384 stay."""
    a, b = (RNG.integers(-3, 4, s).astype("f2") for s in ((64, 128), (128, 128)))
    found, text = made_by(product, [a, b])
    assert EvenWarps(128, 160, 5) in found
    assert "wgmma" in text
    rows = RNG.integers(-3, 4, (192, 128)).astype("f2")
    kept, _ = made_by(product, [rows, b], threads=384, tile=192)
    assert not any(isinstance(d, EvenWarps) for d in kept)
    right = a.astype("f4") @ b.astype("f4").T
    for device, (result,) in results_everywhere(product, [a, b]):
        np.testing.assert_array_equal(result, right, err_msg=device)


def test_a_converted_tile_is_not_taken_through_shared_memory() -> None:
    """No barrier is left in the loop; a tile that others read stays."""
    a, w = RNG.standard_normal((3, 4, 256)).astype("f2"), np.arange(4, dtype="f4")
    found, text = made_by(mixed, [a, w])
    assert PassedThrough() in found
    assert "tp_barrier" not in text.partition("__global__")[2]
    row = np.ascontiguousarray(a[:, 0])
    found, _ = made_by(used_again, [row])
    assert PassedThrough() not in found
    for device, (out,) in results_everywhere(used_again, [row]):
        right = row.astype("f4") - row[:, ::-1]
        np.testing.assert_allclose(out, right, rtol=1e-3, atol=1e-2, err_msg=device)
