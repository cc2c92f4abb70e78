import tileprof
import tileprof.lang as T


@tileprof.jit
def dequant(A, Packed, Scales, block_M: int = 64, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N,), T.float16)
    C = T.empty((M, N), T.float32)
    half = block_K // 2
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        packed = T.alloc_shared((block_N, half), T.uint8)
        W_tile = T.alloc_shared((block_N, block_K), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(Packed[bx * block_N, k * half], packed)
            for i, j in T.Parallel(block_N, half):
                scale = Scales[bx * block_N + i]
                low = T.cast(packed[i, j] & T.uint8(15), T.float16)
                high = T.cast(packed[i, j] >> T.uint8(4), T.float16)
                W_tile[i, 2 * j] = (low - T.float16(8)) * scale
                W_tile[i, 2 * j + 1] = (high - T.float16(8)) * scale
            T.gemm(A_tile, W_tile, C_tile, transpose_B=True)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
