import tileprof
import tileprof.lang as T

INSTRUCTION = "wgmma"  # what multiplies the tiles: "wgmma", "mma" or "fma"
STRIDE = 1001 * 2  # bytes from one row of A to the next
PADDED = -(-1001 // 8) * 8  # the smallest K from 1001 on for which both tiles are loaded by TMA


@tileprof.jit
def scores(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_N, block_K), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(B[bx * block_N, k * block_K], B_tile)
            T.gemm(A_tile, B_tile, C_tile, transpose_B=True)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
