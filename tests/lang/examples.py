"""Kernels of the frontend's goldens, as an author would write them."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T


@tileprof.jit
def matmul(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    dtype = T.float16
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel_size=10)
        T.clear(C_local)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, ko * block_K], A_shared)
            T.copy(B[ko * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        with T.scope("relu"):
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit(out_idx=[-1])
def matmul_lazy(M, N, K, block_M=64, block_N=64, block_K=32, dtype="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.annotate_layout({A_shared: T.make_swizzled_layout(A_shared)})
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_shared, disable_tma=True)
                T.copy(B[bx * block_N, ko * block_K], B_shared)
                T.gemm(
                    A_shared, B_shared, C_local, transpose_B=True, policy=T.GemmWarpPolicy.FullRow
                )
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tileprof.jit
def softmax(X, block: int = 2):
    m = T.dynamic("m")
    N = T.const("N")
    X: T.Tensor((m, N), T.float32)
    Y = T.empty((m, N), T.float32)
    with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
        x = T.alloc_fragment((block, N), T.float32)
        largest = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        T.annotate_safe_value({X: -T.infinity(T.float32)})
        T.copy(X[bx * block : (bx + 1) * block, :], x)
        T.reduce_max(x, largest, dim=1)
        for i, j in T.Parallel(block, N):
            x[i, j] = T.exp2((x[i, j] - largest[i]) * 1.44269504)
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(block, N):
            x[i, j] /= total[i]
        T.copy(x, Y[bx * block, 0])
    return Y


@tileprof.jit(out_idx=[3])
def flash_attention(batch, heads, seq_len, dim, is_causal, block_M=64, block_N=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [batch, seq_len, heads, dim]

    @T.prim_func
    def main(
        Q: T.Tensor(shape, T.float16),
        K: T.Tensor(shape, T.float16),
        V: T.Tensor(shape, T.float16),
        Output: T.Tensor(shape, T.float16),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], T.float16)
            K_shared = T.alloc_shared([block_N, dim], T.float16)
            V_shared = T.alloc_shared([block_N, dim], T.float16)
            acc_s = T.alloc_fragment([block_M, block_N], T.float32)
            acc_p = T.alloc_fragment([block_M, block_N], T.float16)
            acc_o = T.alloc_fragment([block_M, dim], T.float32)
            row_max = T.alloc_fragment([block_M], T.float32)
            previous = T.alloc_fragment([block_M], T.float32)
            rescale = T.alloc_fragment([block_M], T.float32)
            row_sum = T.alloc_fragment([block_M], T.float32)
            total = T.alloc_fragment([block_M], T.float32)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(total, 0)
            T.fill(row_max, -T.infinity(T.float32))
            blocks = T.ceildiv(seq_len, block_N)
            if is_causal:
                blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
            for k in T.Pipelined(blocks, num_stages=1):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    if is_causal:
                        visible = bx * block_M + i >= k * block_N + j
                        acc_s[i, j] = T.if_then_else(visible, 0, -T.infinity(acc_s.dtype))
                    else:
                        acc_s[i, j] = 0
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True)
                T.copy(row_max, previous)
                T.reduce_max(acc_s, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(previous[i] * scale - row_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + row_sum[i]
                T.copy(acc_s, acc_p)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= rescale[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_p, V_shared, acc_o)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= total[i]
            T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@tileprof.jit
def persistent(A, blocks: int = 3, group: int = 2):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    tile = T.ceildiv(M, 16), T.ceildiv(N, 16)
    with T.Kernel(blocks, threads=128) as block:
        shared = T.alloc_shared((16, 16), T.float32)
        for bx, by in T.Persistent(tile, blocks, block, group_size=group):
            T.copy(A[bx * 16, by * 16], shared)
            for i, j in T.Parallel(16, 16):
                shared[i, j] += 1
            T.copy(shared, B[bx * 16, by * 16])
    return B


@T.macro
def halves(x, limit):
    steps = 0
    while x > limit:
        x = x / 2
        steps += 1
    return steps


@tileprof.jit
def scalars(A, alpha: T.float32, n: T.int32, verbose: bool = False):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            at = bx * 32 + i
            if at < n:
                B[at] = halves(A[at], alpha)
            else:
                B[at] = 0
        if verbose:
            T.print(alpha, msg="alpha")
    return B
