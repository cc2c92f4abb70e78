"""Kernels of Triton that regressions are planted in: a product of matrices, a softmax, a copy."""

import triton
import triton.language as tl


@triton.jit
def exponential(x, top):
    return tl.exp(x - top)


@triton.jit
def gemm(
    A, B, C, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    a = A + rows[:, None] * stride_a + along[None, :]
    b = B + along[:, None] * stride_b + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a, mask=along[None, :] < K - k, other=0.0)
        right = tl.load(b, mask=along[:, None] < K - k, other=0.0)
        total = tl.dot(left, right, total)
        a += BLOCK_K
        b += BLOCK_K * stride_b
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * stride_c + columns[None, :], total.to(tl.bfloat16), mask=inside)


@triton.jit
def softmax(X, Y, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(X + row * stride + columns, mask=columns < N, other=-float("inf"))
    e = exponential(x, tl.max(x, axis=0))
    tl.store(Y + row * stride + columns, e / tl.sum(e, axis=0), mask=columns < N)


@triton.jit
def scale(X, Y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(Y + at, tl.load(X + at, mask=inside) * 2.0 + 1.0, mask=inside)


@triton.jit
def total(X, Y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for begin in tl.range(0, n, BLOCK, loop_unroll_factor=4):
        sums += tl.load(X + begin + at)
    tl.store(Y + at, sums)


class Pointer:
    """Type and address of a tensor, as a launch reads them."""

    def __init__(self, address, dtype="fp32"):
        self.address, self.dtype = address, dtype

    def data_ptr(self):
        return self.address


def aligned():
    scale[(64,)](Pointer(4096), Pointer(8192), 65536, BLOCK=1024)


def launched():
    scale[(64, 1)](Pointer(4096), Pointer(8192), 65536, BLOCK=1024)
