"""Kernels whose accesses `show_counters` compares with hardware counters, and their arguments.

Names are different, and none is the beginning of another that follows: launches are told apart by
them.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.gpu_kernels import matmul_nt, rms_norm, softmax, transpose
from case_studies.attention import attention
from case_studies.attention import inputs as attention_inputs
from case_studies.fp8_matmul import fp8_matmul
from case_studies.fp8_matmul import inputs as fp8_inputs
from case_studies.matmul import matmul
from case_studies.vector_add import vector_add


@dataclass(frozen=True)
class Case:
    """A kernel with what makes its arguments."""

    kernel: Callable[..., Any]
    arguments: Callable[[np.random.Generator], list[Any]]
    about: str
    options: dict[str, Any] = field(default_factory=dict)
    """Other arguments by name: sizes and types."""
    title: str = ""
    """Name of the kernel in the IR; that of its function by default."""

    @property
    def name(self) -> str:
        """Name of the kernel in the IR."""
        return self.title or str(self.kernel.function.__name__)


@tileprof.jit
def transpose_plain(X, block: int = 64):
    """A transpose without a swizzle: rows have one element of padding."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((N, M), T.float32)
    with T.Kernel(N // block, M // block, threads=256) as (bx, by):
        tile = T.alloc_shared((block, block), T.float32)
        T.copy(X[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            Y[bx * block + i, by * block + j] = tile[j, i]
    return Y


@tileprof.jit
def gather_rows(A, Rows, rows: int = 8):
    """Whole rows in an order that a tensor names."""
    M, N, R = T.const("M, N, R")
    A: T.Tensor((M, N), T.float32)
    Rows: T.Tensor((R,), T.int32)
    B = T.empty((R, N), T.float32)
    with T.Kernel(R // rows, threads=128) as bx:
        for i, j in T.Parallel(rows, N):
            B[bx * rows + i, j] = A[Rows[bx * rows + i], j]
    return B


@tileprof.jit
def gather_words(A, At, block: int = 256):
    """Words anywhere in memory: each lane has a sector of its own."""
    N, R = T.const("N, R")
    A: T.Tensor((N,), T.float32)
    At: T.Tensor((R,), T.int32)
    B = T.empty((R,), T.float32)
    with T.Kernel(R // block, threads=256) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[At[bx * block + i]]
    return B


@tileprof.jit
def bank_conflicts(A):
    """Every eighth word of shared memory: 8 lanes meet in a bank, whatever the layout."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N // 8,), T.float32)
    with T.Kernel(N // 1024, threads=128) as bx:
        s = T.alloc_shared((1024,), T.float32)
        for i in T.Parallel(1024):
            s[i] = A[bx * 1024 + i]
        for i in T.Parallel(128):
            B[bx * 128 + i] = s[i * 8]
    return B


@tileprof.jit
def strided_read(A, step: int = 5, block: int = 256):
    """Every fifth word of global memory."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N // 5,), T.float32)
    with T.Kernel(N // (5 * block), threads=256) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[(bx * block + i) * step]
    return B


@tileprof.jit
def histogram(At, Bins, block: int = 256):
    """Atomic additions anywhere in 4,096 bins."""
    N = T.const("N")
    At: T.Tensor((N,), T.int32)
    Bins: T.Tensor((4096,), T.float32)
    with T.Kernel(N // block, threads=256) as bx:
        for i in T.Parallel(block):
            T.atomic_add(Bins[At[bx * block + i]], 1.0)


@tileprof.jit
def int4_unpack(Packed, rows: int = 4):
    """Two weights a byte, as bfloat16."""
    N, K = T.const("N, K")
    Packed: T.Tensor((N, K), T.uint8)
    W = T.empty((N, 2 * K), T.bfloat16)
    with T.Kernel(N // rows, threads=128) as bx:
        for i, j in T.Parallel(rows, 2 * K):
            byte = T.cast(Packed[bx * rows + i, j // 2], T.int32)
            W[bx * rows + i, j] = T.cast((byte >> (j % 2 * 4)) & 15, T.float32) - 8.0
    return W


@tileprof.jit
def masked_copy(A, limit: int = 1000):
    """Rows of which a mask takes the first elements only."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for j in T.Parallel(N):
            if j < limit:
                B[bx, j] = A[bx, j]
    return B


@tileprof.jit
def norm_in_parts(A, part: int = 512):
    """RMSNorm of rows that are read twice, part by part: from the front, then from the back.

    NVRTC writes both loops out and loads each part once.
    """
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        squares = T.alloc_fragment((part,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(squares)
        for k in T.serial(N // part):
            for j in T.Parallel(part):
                squares[j] += A[bx, k * part + j] * A[bx, k * part + j]
        T.reduce_sum(squares, total)
        for k in T.serial(N // part):
            for j in T.Parallel(part):
                at = (N // part - 1 - k) * part + j
                B[bx, at] = A[bx, at] * T.rsqrt(total[0] / N + 1e-12)
    return B


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Return what draws normal numbers of these shapes."""

    def make(draw: np.random.Generator) -> list[Any]:
        return [draw.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]

    return make


def _rows(draw: np.random.Generator) -> list[Any]:
    table = draw.standard_normal((4096, 256), np.float32)
    return [table, draw.integers(0, 4096, 2048, np.int32)]


def _words(draw: np.random.Generator) -> list[Any]:
    table = draw.standard_normal(1 << 20, np.float32)
    return [table, draw.integers(0, 1 << 20, 1 << 16, np.int32)]


def _bins(draw: np.random.Generator) -> list[Any]:
    return [draw.integers(0, 4096, 1 << 17, np.int32), np.zeros(4096, np.float32)]


def _bytes(draw: np.random.Generator) -> list[Any]:
    return [draw.integers(0, 256, (1024, 512), np.uint8)]


_BF16 = ml_dtypes.bfloat16
TRANSPOSE_PLAIN = tileprof.jit(transpose_plain.function, controls={"swizzle": False})
MATMUL_TMA = tileprof.jit(matmul_nt.function)

CASES: tuple[Case, ...] = (
    Case(vector_add, normal((1_000_003,), (1_000_003,)), "vector add with a masked tail"),
    Case(masked_copy, normal((512, 2048)), "copy of which a mask leaves out half"),
    Case(softmax, normal((512, 2048), dtype=_BF16), "softmax of rows"),
    Case(rms_norm, normal((512, 4096), (4096,), dtype=_BF16), "RMSNorm"),
    Case(norm_in_parts, normal((256, 2048)), "RMSNorm of rows read twice"),
    Case(transpose, normal((1024, 1024), dtype=_BF16), "transpose, swizzle chosen"),
    Case(TRANSPOSE_PLAIN, normal((512, 512)), "transpose without a swizzle"),
    Case(matmul, normal((512, 512), (512, 512)), "float32 GEMM, cp.async"),
    Case(MATMUL_TMA, normal((512, 512), (512, 512), dtype=_BF16), "bfloat16 GEMM, TMA and wgmma"),
    Case(attention, lambda draw: list(attention_inputs(1, 512, 512, 4, 2, 64)), "attention, TMA"),
    Case(gather_rows, _rows, "gather of rows"),
    Case(gather_words, _words, "gather of words"),
    Case(bank_conflicts, normal((1 << 17,)), "deliberate bank conflicts"),
    Case(strided_read, normal((5 << 16,)), "strided read"),
    Case(histogram, _bins, "atomic additions"),
    Case(int4_unpack, _bytes, "int4 unpacked"),
    Case(fp8_matmul, lambda draw: fp8_inputs(512, 512, 512), "fp8 weights, scaled and multiplied"),
)  # fmt: skip
