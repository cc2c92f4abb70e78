"""The case studies at small sizes on the device of the process, each against NumPy.

    python -m tests.cuda.gpu.studies NAME...

Products of float32 keep the 10 bits of tf32 on a GPU: operands are small integers, or the limit is
that of tf32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tileprof
from benchmarks.studies import study

Array = np.ndarray[Any, Any]


def _integers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-4, 5, shape).astype(np.float32)


def matmul(rng: np.random.Generator) -> None:
    """Sizes that are no multiples of the tiles; exact."""
    a, b = _integers(rng, 65, 100), _integers(rng, 100, 132)
    np.testing.assert_array_equal(study("matmul").matmul(a, b), a @ b)


def vector_add(rng: np.random.Generator) -> None:
    """Exact."""
    a, b = (rng.standard_normal(1001, dtype=np.float32) for _ in range(2))
    np.testing.assert_array_equal(study("vector_add").vector_add(a, b), a + b)


def softmax(rng: np.random.Generator) -> None:
    """Rows of an odd number of elements."""
    x = rng.standard_normal((9, 333), dtype=np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    found = study("softmax").softmax(x)
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def rms_norm(rng: np.random.Generator) -> None:
    """Rows of an odd number of elements."""
    x, w = rng.standard_normal((9, 333), dtype=np.float32), _integers(rng, 333)
    expected = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(study("rms_norm").rms_norm(x, w), expected, rtol=1e-5, atol=1e-6)


def flash_attention(rng: np.random.Generator) -> None:
    """Full and causal."""
    made = study("flash_attention")
    q, k, v = (rng.standard_normal((1, 100, 2, 64), dtype=np.float32) for _ in range(3))
    for causal in (False, True):
        found = made.flash_attention(1, 2, 100, 64, causal)(q, k, v)
        np.testing.assert_allclose(found, made.reference(q, k, v, causal), rtol=0, atol=4e-3)


def int4_matmul(rng: np.random.Generator) -> None:
    """Scales that are powers of two: exact."""
    made = study("int4_matmul")
    a = _integers(rng, 65, 128).astype(ml_dtypes.bfloat16)
    levels = rng.integers(0, 16, (72, 128), dtype=np.uint8)
    scales = (2.0 ** rng.integers(-1, 2, (72, 4))).astype(np.float32)
    weights = (levels.astype(np.float32) - 8) * np.repeat(scales, 32, axis=1)
    found = made.int4_matmul(a, made.pack(levels), scales)
    np.testing.assert_array_equal(found, a.astype(np.float32) @ weights.T)


STUDIES: dict[str, Callable[[np.random.Generator], None]] = {
    f.__name__: f for f in (matmul, vector_add, softmax, rms_norm, flash_attention, int4_matmul)
}


def run(name: str, device: str = "cuda") -> None:
    """One of them."""
    with tileprof.device(device):
        STUDIES[name](np.random.default_rng(0))


if __name__ == "__main__":
    for given in sys.argv[1:]:
        run(given)
        print(given)
