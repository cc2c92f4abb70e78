"""Attention and what goes with it at small sizes on the device of the process, against float64.

    python -m tests.cuda.gpu.attention_studies NAME...

Lengths end before, at and behind the edges of tiles; some blocks have nothing to do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import tileprof
from benchmarks.studies import study

__all__ = ["STUDIES", "run"]

LIMIT = 1e-2
"""Of the relative error in the Frobenius norm: weights are rounded to bfloat16 between products."""
Array = np.ndarray[Any, Any]


def _compare(found: Array, expected: Array, what: object, limit: float = LIMIT) -> None:
    difference = found.astype(np.float64) - expected
    size = np.linalg.norm(expected)
    assert np.linalg.norm(difference) <= limit * size, (what, np.linalg.norm(difference) / size)


def attention() -> None:
    """Heads of queries that share keys; full, causal, in a window; each width of a head."""
    made = study("attention")
    for length, keys, groups, dim in (
        (64, 128, 2, 64), (65, 129, 1, 64), (300, 300, 2, 128), (1, 1000, 1, 128),
        (257, 513, 2, 256),
    ):  # fmt: skip
        given = made.inputs(1, length, keys, 2, groups, dim)
        for causal in (False, True):
            options = {"block_N": 64} if dim == 256 else {}
            out, lse = made.attention(*given, causal=causal, **options)
            for found, expected in zip((out, lse), made.reference(*given, causal), strict=True):
                _compare(found, expected, (length, keys, groups, dim, causal))
    given = made.inputs(1, 300, 300, 2, 1, 64)
    out, _ = made.attention(*given, causal=True, window=100)
    _compare(out, made.reference(*given, True, 100)[0], "window")


def attention_varlen() -> None:
    """Sequences of one row, of none, and with fewer keys than queries."""
    made = study("attention_varlen")
    for lengths, keys in (((1, 128, 129), (1, 128, 300)), ((60, 0, 3), (60, 10, 2))):
        given = made.inputs(lengths, keys, 4, 2, 64)
        for causal in (False, True):
            out = made.attention_varlen(*given, longest=200, causal=causal)
            _compare(out, made.reference(*given, causal), (lengths, keys, causal))


def attention_backward() -> None:
    """All three gradients."""
    forward, made = study("attention"), study("attention_backward")
    for length, keys, groups in ((64, 128, 2), (65, 130, 1), (300, 300, 1)):
        given = forward.inputs(1, length, keys, 2, groups, 64)
        d_out = forward.inputs(1, length, keys, 2, groups, 64, seed=1)[0]
        for causal in (False, True):
            out, lse = forward.attention(*given, causal=causal)
            found = made.gradients(*given, out, lse, d_out, causal)
            for each, expected in zip(found, made.reference(*given, d_out, causal), strict=True):
                _compare(each, expected, (length, keys, groups, causal))


def sparse_attention() -> None:
    """Rows of tiles that look at some, at all, and at none."""
    made = study("sparse_attention")
    rng = np.random.default_rng(0)
    given = study("attention").inputs(1, 300, 400, 2, 1, 64)
    for share in (0.5, 1.0):
        mask = rng.random((1, 2, 3, 4)) < share
        mask[0, 0, 1] = False
        out = made.sparse_attention(*given, *made.lists(mask))
        _compare(out, made.reference(*given, mask), share)


def mla_decode() -> None:
    """Parts with nothing in them too."""
    made = study("mla_decode")
    for keys, splits in ((1, 1), (65, 2), (200, 7)):
        given = made.inputs(2, 64, keys)
        _compare(made.mla_decode(*given, splits=splits), made.reference(*given), (keys, splits))


def paged_attention() -> None:
    """Sequences that end anywhere in a page or are empty; each way to share heads of keys."""
    made = study("paged_attention")
    given = made.inputs((1, 128, 129, 300, 0), 32, 4, 64, size=128)
    expected = made.reference(*given)
    whole = list(given)
    whole[1:3] = (x.reshape(len(x), -1, 64) for x in given[1:3])
    for splits in (1, 4):
        _compare(made.paged_attention(*given, splits=splits), expected, splits)
        found = made.paged_attention_whole(*whole, groups=4, splits=splits, rows=64)
        _compare(found, expected, ("whole", splits))


def chunk_scan() -> None:
    """One part of a chunk and several, several groups."""
    made = study("chunk_scan")
    for chunks, size, groups in ((1, 128, 1), (2, 256, 2), (3, 256, 1)):
        given = made.inputs(2, chunks, size, groups, 16, 64, 128)
        for options in ({}, {"block_K": 64}, {"near": 1}):
            found = made.chunk_scan(*given, **options)
            _compare(found, made.reference(*given), (chunks, size, groups, options))


def fp8_matmul() -> None:
    """Rows beyond the tiles on both sides."""
    made = study("fp8_matmul")
    for m, n, k in ((257, 129, 256), (1, 200, 384)):
        given = made.inputs(m, n, k)
        _compare(made.fp8_matmul(*given), made.reference(*given), (m, n, k))


def block_scaled_gemm() -> None:
    """Rows beyond the tiles on both sides; in a tile for each number of warp groups."""
    made = study("block_scaled_gemm")
    for m, n, k in ((193, 129, 256), (1, 200, 384), (300, 256, 1024)):
        given = made.inputs(m, n, k)
        for rows in (64, 128, 192):
            found = made.block_scaled_gemm(*given, block_M=rows, threads=2 * rows)
            _compare(found, made.reference(*given), (m, n, k, rows))


def fp8_attention() -> None:
    """Lengths that TMA can and cannot load; heads of queries that share keys."""
    made = study("fp8_attention")
    for length, keys, groups, dim in (
        (64, 128, 2, 64), (65, 144, 1, 64), (300, 300, 2, 128), (1, 1000, 1, 128),
        (1040, 1040, 1, 128),
    ):  # fmt: skip
        given = made.inputs(1, length, keys, 2, groups, dim)
        for causal in (False, True):
            found, expected = (
                made.fp8_attention(*given, causal=causal), made.reference(*given, causal)
            )  # fmt: skip
            _compare(found, expected, (length, keys, groups, dim, causal), made.LIMIT)


def grouped_matmul() -> None:
    """Experts without rows, with one, with less and more than a tile."""
    made = study("grouped_matmul")
    for sizes in ((0, 0, 5), (1, 129, 0, 128), (130, 0, 1, 256, 77)):
        given = made.inputs(sizes, 264, 136)
        _compare(made.grouped_matmul(*given), made.reference(*given), sizes)


_ALL: Iterable[Callable[[], None]] = (
    attention, attention_varlen, attention_backward, sparse_attention, mla_decode, paged_attention,
    chunk_scan, fp8_matmul, block_scaled_gemm, fp8_attention, grouped_matmul,
)  # fmt: skip
STUDIES: dict[str, Callable[[], None]] = {f.__name__: f for f in _ALL}


def run(name: str, device: str = "cuda") -> None:
    """One of them."""
    with tileprof.device(device):
        STUDIES[name]()


if __name__ == "__main__":
    for given in sys.argv[1:]:
        run(given)
        print(given)
