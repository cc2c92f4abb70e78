"""Grouped matrix product, as in a mixture of experts: each expert multiplies its rows of A.

Rows lie expert after expert; `Ends[e]` is the row behind the last one of expert e.  A first launch
finds the expert and the rows of every tile, so that the second can load ahead from tile to tile.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def grouped_matmul(
    A, B, Ends, block_M: int = 128, block_N: int = 256, block_K: int = 64, stages=3, threads=256
):
    rows, K = T.const("rows, K")
    experts, N = T.const("experts, N")
    A: T.Tensor((rows, K), T.bfloat16)
    B: T.Tensor((experts, K, N), T.bfloat16)
    Ends: T.Tensor((experts,), T.int32)
    C = T.empty((rows, N), T.bfloat16)
    most = rows // block_M + experts  # every expert may have a tile that is not full
    Owner = T.alloc_global((most,), T.int32)
    First = T.alloc_global((most,), T.int32)
    Last = T.alloc_global((most,), T.int32)

    with T.Kernel(T.ceildiv(most, 128), threads=128) as bx:
        for lane in T.Parallel(128):
            tile = bx * 128 + lane
            before, start = T.int32(0), T.int32(0)
            owner, first, last = T.int32(0), T.int32(0), T.int32(0)
            for e in T.serial(experts):
                tiles = T.ceildiv(Ends[e] - start, block_M)
                if T.all_of(tile >= before, tile < before + tiles):
                    owner, first, last = e, start + (tile - before) * block_M, Ends[e]
                before, start = before + tiles, Ends[e]
            Owner[tile] = owner
            First[tile] = first
            Last[tile] = last

    with T.Kernel(T.ceildiv(N, block_N), most, threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        C_shared = T.alloc_shared((block_M, block_N), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        first, last = First[by], Last[by]

        if first < last:
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[first, k * block_K], A_shared)
                T.copy(B[Owner[by], k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            for i, j in T.Parallel(block_M, block_N):
                if first + i < last:
                    C[first + i, bx * block_N + j] = C_shared[i, j]
    return C


def reference(a, b, ends) -> np.ndarray:
    """In float64, expert by expert."""
    parts = zip(np.split(np.asarray(a, np.float64), ends[:-1]), np.asarray(b, np.float64))
    return np.concatenate([rows @ weights for rows, weights in parts])


def inputs(sizes, n: int, k: int, seed: int = 0) -> list[np.ndarray]:
    """Random operands for experts with so many rows each."""
    generator = np.random.default_rng(seed)
    shapes = (sum(sizes), k), (len(sizes), k, n)
    made = [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]
    return [*made, np.cumsum(sizes).astype(np.int32)]


def main(n: int = 320, k: int = 192) -> None:
    given = inputs((130, 0, 1, 256, 77), n, k)
    result = grouped_matmul(*given).astype(np.float32)
    np.testing.assert_allclose(result, reference(*given), rtol=1e-2, atol=1e-1)
    print(f"grouped_matmul of {len(given[2])} experts: agrees with NumPy")


if __name__ == "__main__":
    main()
