"""The kernels that `benchmarks/kernels.py` measures: plain tile code, nothing written for one size.

Matrix products take their operands in any of three layouts: NN (A: M×K, B: K×N), NT (B: N×K) and
TN (A: K×M).
"""

import tileprof
import tileprof.lang as T


@tileprof.jit
def matmul(A, B, block_M: int = 128, block_N: int = 256, block_K: int = 64, stages: int = 4):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def matmul_nt(
    A,
    B,
    dtype: str = "bfloat16",
    block_M: int = 128,
    block_N: int = 256,
    block_K: int = 64,
    stages: int = 4,
    threads: int = 256,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K), dtype)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K), dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def matmul_tn(A, B, block_M: int = 128, block_N: int = 256, block_K: int = 64, stages: int = 4):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        A_shared = T.alloc_shared((block_K, block_M), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[k * block_K, by * block_M], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_A=True)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def matmul_skinny(A, B, tokens=16, block_N=64, block_K=256, stages=4, threads=128, shift=1):
    """Few rows of A: B's are the rows of the tile, so that none of them is empty."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, tokens), threads=threads) as (bx, by):
        weights = T.alloc_shared((block_N, block_K), T.bfloat16)
        rows = T.alloc_shared((tokens, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_N, tokens), T.float32)

        T.clear(C_local)
        for turn in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            # Blocks begin at different places, so that they ask different parts of memory.
            k = (turn + shift * bx) % T.ceildiv(K, block_K)
            T.copy(B[bx * block_N, k * block_K], weights)
            T.copy(A[by * tokens, k * block_K], rows)
            T.gemm(weights, rows, C_local, transpose_B=True)
        for i, j in T.Parallel(block_N, tokens):
            C[by * tokens + j, bx * block_N + i] = C_local[i, j]
    return C


@tileprof.jit
def softmax(X, threads: int = 256):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(M, threads=threads) as row:
        x = T.alloc_fragment((1, N), T.bfloat16)
        e = T.alloc_fragment((1, N), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)

        T.copy(X[row, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(1, N):
            e[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
        T.reduce_sum(e, total, dim=1)
        for i, j in T.Parallel(1, N):
            Y[row + i, j] = e[i, j] / total[i]
    return Y


@tileprof.jit
def rms_norm(X, W, epsilon: float = 1e-6, threads: int = 256):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N,), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(M, threads=threads) as row:
        x = T.alloc_fragment((1, N), T.bfloat16)
        square = T.alloc_fragment((1, N), T.float32)
        mean = T.alloc_fragment((1,), T.float32)

        T.copy(X[row, 0], x)
        for i, j in T.Parallel(1, N):
            square[i, j] = T.cast(x[i, j], T.float32) * T.cast(x[i, j], T.float32)
        T.reduce_sum(square, mean, dim=1)
        for i in T.Parallel(1):
            mean[i] = T.rsqrt(mean[i] / N + epsilon)
        for i, j in T.Parallel(1, N):
            Y[row + i, j] = T.cast(x[i, j], T.float32) * mean[i] * T.cast(W[j], T.float32)
    return Y


@tileprof.jit
def add(X, Y, block: int = 2048, threads: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.bfloat16)
    Y: T.Tensor((N,), T.bfloat16)
    Z = T.empty((N,), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]
    return Z


@tileprof.jit
def add_into(X, Y, Z, block: int = 2048, threads: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.bfloat16)
    Y: T.Tensor((N,), T.bfloat16)
    Z: T.Tensor((N,), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]


@tileprof.jit
def cast(X, block: int = 4096, threads: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i]
    return Y


@tileprof.jit
def transpose(X, block_M: int = 256, block_N: int = 128, threads: int = 256, rows: int = 16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((N, M), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        T.use_swizzle(rows)  # blocks that run together read and write long pieces of rows
        tile = T.alloc_shared((block_M, block_N), T.bfloat16)
        T.copy(X[by * block_M, bx * block_N], tile)
        for i, j in T.Parallel(block_N, block_M):
            Y[bx * block_N + i, by * block_M + j] = tile[j, i]
    return Y


@tileprof.jit
def transpose_stored(X, block_M: int = 128, block_N: int = 128, threads: int = 256, rows: int = 16,
                     kept: bool = True):  # fmt: skip
    """As `transpose`, whose result is stored as a whole tile, which L2 evicts first if not kept."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((N, M), T.bfloat16)
    policy = None if kept else "evict_first"

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        T.use_swizzle(rows)
        tile = T.alloc_shared((block_M, block_N), T.bfloat16)
        turned = T.alloc_shared((block_N, block_M), T.bfloat16)
        T.copy(X[by * block_M, bx * block_N], tile, eviction_policy=policy)
        for i, j in T.Parallel(block_N, block_M):
            turned[i, j] = tile[j, i]
        T.copy(turned, Y[bx * block_N, by * block_M], eviction_policy=policy)
    return Y


def int4(byte, high):
    """The weight in the low or the high half of a byte: 0…15 stand for -8…7.

    The four bits go where a float32 of 2**23 has its lowest, which takes no conversion.
    """
    half = (T.cast(byte, T.uint32) >> T.cast(high * 4, T.uint32)) & T.uint32(15)
    return T.reinterpret(half | T.uint32(0x4B000000), T.float32) - 8388616.0


@tileprof.jit
def matmul_int4(A, Packed, Scales, block_M=128, block_N=128, block_K=64, stages=4, threads=256):
    """Weights go through registers into shared memory: C = A · Wᵀ."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_fragment((block_N, block_K), T.bfloat16)
        W_shared = T.alloc_shared((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], packed)
            for i, j in T.Parallel(block_N, block_K):
                weights[i, j] = int4(packed[i, j // 2], j % 2)
            T.copy(weights, W_shared)
            T.gemm(A_shared, W_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] *= Scales[bx * block_N + j]
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def matmul_int4_t(A, Packed, Scales, block_M=128, block_N=128, block_K=64, stages=4, threads=256):
    """Weights are multiplied from registers: Cᵀ = W · Aᵀ, N×M, which suits few rows of A."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N,), T.float32)
    C = T.empty((N, M), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_fragment((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], packed)
            for i, j in T.Parallel(block_N, block_K):
                weights[i, j] = int4(packed[i, j // 2], j % 2)
            T.gemm(weights, A_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_N, block_M):
            C_local[i, j] *= Scales[bx * block_N + i]
        T.copy(C_local, C[bx * block_N, by * block_M])
    return C


@tileprof.jit
def matmul_int4_split(
    A, Packed, Scales, block_M=16, block_N=128, block_K=256, stages=4, threads=256, parts=2
):
    """Few rows of A: blocks that share weights' rows each add up a part of K; Cᵀ, N×M.

    One warp of arithmetic a scheduler cannot keep up with memory; wide blocks have two.
    """
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N,), T.float32)
    Parts = T.empty((parts, N, M), T.float32)
    C = T.empty((N, M), T.bfloat16)
    turns = K // block_K // parts

    with T.Kernel(N // block_N, T.ceildiv(M, block_M), parts, threads=threads) as (bx, by, part):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_fragment((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)

        T.clear(C_local)
        for turn in T.Pipelined(turns, num_stages=stages):
            k = part * turns + turn
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], packed)
            for i, j in T.Parallel(block_N, block_K):
                weights[i, j] = int4(packed[i, j // 2], j % 2)
            T.gemm(weights, A_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_N, block_M):
            Parts[part, bx * block_N + i, by * block_M + j] = C_local[i, j]

    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, block_M), threads=128) as (bx, by):
        total = T.alloc_fragment((64, block_M), T.float32)
        T.clear(total)
        for part in T.unroll(parts):
            for i, j in T.Parallel(64, block_M):
                total[i, j] += Parts[part, bx * 64 + i, by * block_M + j]
        for i, j in T.Parallel(64, block_M):
            C[bx * 64 + i, by * block_M + j] = total[i, j] * Scales[bx * 64 + i]
    return C, Parts


@tileprof.jit
def multiply_add(A, B, C, block: int = 1024):
    """The least that a call with three tensors and a new one does; they are flat."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C: T.Tensor((N,), T.float32)
    D = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            at = bx * block + i
            D[at] = A[at] * B[at] + C[at]
    return D


@tileprof.jit
def multiply_add_backward(dD, A, B, block: int = 1024):
    N = T.const("N")
    dD: T.Tensor((N,), T.float32)
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    dA = T.empty((N,), T.float32)
    dB = T.empty((N,), T.float32)
    dC = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            at = bx * block + i
            dA[at] = dD[at] * B[at]
            dB[at] = dD[at] * A[at]
            dC[at] = dD[at]
    return dA, dB, dC
