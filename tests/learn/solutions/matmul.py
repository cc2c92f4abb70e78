import tileprof
import tileprof.lang as T


@tileprof.jit
def matmul(A, B, block_M: int = 64, block_N: int = 32, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_K, block_N), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(B[k * block_K, bx * block_N], B_tile)
            T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
