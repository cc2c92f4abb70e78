# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201
"""Tiles whose rows lie as the next product needs the sums: which of them, and the same results."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.products import DealtRows

ROWS, HEADS = 64, 2


@tileprof.jit
def two_products(
    Q, K, Vt, Out,
    keys: int = 160, dim: int = 128, tile: int = 64, kind: str = "plain",
    dtype: str = "float8_e4m3",
):  # fmt: skip
    """`Out = (Q Kᵀ) V` for each head, with every third column of the first product doubled."""
    Q: T.Tensor((ROWS, dim), dtype)
    K: T.Tensor((keys, HEADS, dim), dtype)
    Vt: T.Tensor((HEADS, dim, -(-keys // 16) * 16), dtype)
    Out: T.Tensor((HEADS, ROWS, dim), T.float32)
    with T.Kernel(HEADS, threads=128) as head:
        q = T.alloc_shared((ROWS, dim), dtype)
        k = T.alloc_shared((tile, dim), dtype)
        v = T.alloc_shared((dim, tile), dtype)
        scores = T.alloc_fragment((ROWS, tile), T.float32)
        weights = T.alloc_fragment((ROWS, tile), dtype)
        output = T.alloc_fragment((ROWS, dim), T.float32)
        T.copy(Q, q)
        T.clear(output)
        for n in T.Pipelined(T.ceildiv(keys, tile), num_stages=2):
            T.copy(K[n * tile : (n + 1) * tile, head, :], k)
            T.copy(Vt[head, :, n * tile : (n + 1) * tile], v)
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
            if kind == "read":
                for i, j in T.Parallel(ROWS, tile):
                    scores[i, j] += T.cast(k[j, 0], T.float32)
            for i, j in T.Parallel(ROWS, tile):
                at = tile - 1 - j if kind == "turned" else j
                doubled = T.if_then_else((n * tile + at) % 3 == 0, 2.0, 1.0)
                weights[i, j] = T.cast(scores[i, at] * doubled, dtype)
            T.gemm(weights, v, output, transpose_B=True)
        T.copy(output, Out[head, :, :])


def given(keys, dim, dtype):
    """Operands so sparse that every sum is a small integer, whatever order it is added in."""
    rng = np.random.default_rng(keys + dim)
    dtype = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "bfloat16": ml_dtypes.bfloat16}[dtype]
    q = rng.integers(-1, 2, (ROWS, dim)) * (rng.random((ROWS, dim)) < 4 / dim)
    k = rng.integers(-1, 2, (keys, HEADS, dim))
    v = rng.integers(-1, 2, (HEADS, dim, keys)) * (rng.random((HEADS, dim, keys)) < 0.2)
    v = np.pad(v, ((0, 0), (0, 0), (0, -keys % 16)))
    return [x.astype(dtype) for x in (q, k, v)]


def compiled(controls=None, **options):
    """The kernel for options."""
    kernel = two_products.compile(**options).program.kernel
    return kernel, compile_cuda(kernel, find_target("sm_90a"), controls or Controls())


def is_dealt(program):
    """Whether the rows of K are dealt, which the remarks and the text say alike."""
    said = [r.decision for r in program.remarks if isinstance(r.decision, DealtRows)]
    assert said in ([], [DealtRows("k", "weights")])
    assert (" dealt\n" in program.source.text) == bool(said)
    return bool(said)


@pytest.mark.parametrize(("dim", "keys", "tile"), [(64, 132, 96), (256, 100, 32)])
def test_same_results(dim, keys, tile):
    """Tiles of one panel and of two, and last ones that are cut."""
    kernel, program = compiled(dim=dim, keys=keys, tile=tile)
    assert is_dealt(program)
    assert "shuffle_index" not in program.source.text
    q, k, v = given(keys, dim, "float8_e4m3")
    out = np.zeros((HEADS, ROWS, dim), np.float32)
    emulate(program.source, kernel, [q, k, v, out], {}, seed=1)
    scores = np.einsum("id,jhd->hij", q.astype(np.float32), k.astype(np.float32))
    scores[:, :, ::3] *= 2
    assert np.abs(scores).max() <= 16
    np.testing.assert_array_equal(
        out, np.einsum("hij,hdj->hid", scores, v[:, :, :keys].astype(np.float32))
    )


@pytest.mark.spread("boxes", "read", "no wgmma")
@pytest.mark.parametrize(
    ("options", "controls"),
    [
        ({"keys": 162}, Controls()),
        ({"tile": 48}, Controls()),
        ({"kind": "read"}, Controls()),
        ({"kind": "turned"}, Controls()),
        ({"dtype": "bfloat16"}, Controls()),
        ({}, Controls(tma=False)),
        ({}, Controls(wgmma=False)),
    ],
    ids=["boxes", "halves", "read", "turned", "16 bits", "no TMA", "no wgmma"],
)
def test_rows_stay_in_order(options, controls):
    """Tiles that boxes cannot count by four, others read, or that gain nothing are not dealt."""
    assert is_dealt(compiled()[1])
    assert not is_dealt(compiled(controls, **options)[1])


def test_no_slices_of_clusters():
    """Blocks of a cluster do not load slices of such a tile for each other."""
    text = compiled(Controls(cluster=2))[1].source.text
    assert " dealt\n" in text
    assert not any("multicast" in line and "K" in line for line in text.splitlines())
