# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""Small kernels whose lowering `docs/language.md` speaks of, with the names that it uses."""

import tileprof.lang as T


def product(dtype="bfloat16", m=256, n=512, threads=256, tile_n=256, stages=3, transposed=False):
    """Tiles of 128 rows; N columns, or K ones where B is transposed."""

    @T.prim_func
    def main(
        A: T.Tensor((m, 1024), dtype),
        B: T.Tensor((n, 1024) if transposed else (1024, n), dtype),
        C: T.Tensor((m, n), T.bfloat16),
    ):
        with T.Kernel(T.ceildiv(n, tile_n), T.ceildiv(m, 128), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((128, 64), dtype)
            B_shared = T.alloc_shared((tile_n, 64) if transposed else (64, tile_n), dtype)
            C_local = T.alloc_fragment((128, tile_n), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(16, num_stages=stages):
                T.copy(A[by * 128, k * 64], A_shared)
                if transposed:
                    T.copy(B[bx * tile_n, k * 64], B_shared)
                else:
                    T.copy(B[k * 64, bx * tile_n], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transposed)
            T.copy(C_local, C[by * 128, bx * tile_n])

    return main


@T.prim_func
def converting(A: T.Tensor((128, 64), T.float32), C: T.Tensor((128, 64), T.bfloat16)):
    """Copies that no asynchronous instruction does."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((128, 64), T.bfloat16)
        for _ in T.Pipelined(2, num_stages=2):
            T.copy(A, A_shared)
            T.copy(A_shared, C)


@T.prim_func
def read_and_written(C: T.Tensor((128, 64), T.bfloat16)):
    """A tensor that is loaded and stored."""
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((128, 64), T.bfloat16)
        T.copy(C, tile)
        T.copy(tile, C)


@T.prim_func
def transpose(X: T.Tensor((64, 64), T.bfloat16), Y: T.Tensor((64, 64), T.bfloat16)):
    """Through shared memory."""
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.bfloat16)
        T.copy(X, tile)
        for i, j in T.Parallel(64, 64):
            Y[i, j] = tile[j, i]


@T.prim_func
def fragments(
    A: T.Tensor((64,), T.int32), X: T.Tensor((64, 64), T.float32), Y: T.Tensor((64,), T.float32)
):
    """Fragments that cannot stay in registers, each for a reason of its own."""
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((64,), T.float32)
        g = T.alloc_fragment((64, 64), T.float32)
        h = T.alloc_fragment((64,), T.float32)
        s = T.alloc_fragment((64,), T.float32)
        T.clear(f)
        T.copy(X, g)
        T.clear(h)
        T.clear(s)
        T.cumsum(s, dim=0)
        for i in T.Parallel(64):
            T.atomic_add(h[i], g[i, i])
        for i in T.Parallel(64):
            Y[i] = f[A[i] % 64] + h[i] + s[i]
        Y[0] = f[0]


@T.prim_func
def reshaped(A: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
    """A buffer of a product that is also seen otherwise."""
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        flat = T.reshape(tile, (4096,))
        for i in T.Parallel(4096):
            flat[i] = A[i // 64, i % 64]
        T.gemm(tile, tile, c, clear_accum=True)
        T.copy(c, C)


@T.prim_func
def wishes(A: T.Tensor((512, 64), T.float16), C: T.Tensor((512, 64), T.float16)):
    """What is asked for and answered."""
    with T.Kernel(2, 4, threads=128) as (bx, by):
        T.use_swizzle(4)
        x = T.alloc_fragment((64, 64), T.float16)
        T.annotate_layout({x: T.Fragment((64, 64), lambda i, j: (i, j))})
        T.copy(A[(by * 2 + bx) * 64, 0], x)
        T.copy(x, C[(by * 2 + bx) * 64, 0])


@T.prim_func
def atomics(X: T.Tensor((128,), T.bfloat16), Y: T.Tensor((128,), T.bfloat16)):
    """A sum that one target has in hardware."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            T.atomic_add(Y[i], X[i])


@T.prim_func
def matrices(A: T.Tensor((64, 64), T.bfloat16), C: T.Tensor((64, 64), T.bfloat16)):
    """A product whose tiles move between fragments and shared memory."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        held = T.alloc_fragment((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(A, b)
        T.copy(a, held)
        T.gemm(held, b, c, clear_accum=True)
        T.copy(c, b)
        T.copy(b, C)


@T.prim_func
def lines(
    A: T.Tensor((64, 16), T.float32),
    B: T.Tensor((4, 256), T.float32),
    C: T.Tensor((1, 1024), T.float32),
):
    """Scans of many short lines, of some longer ones, and of a long one."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 16), T.float32)
        b = T.alloc_shared((4, 256), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.cumsum(a, dim=1)
        T.copy(a, A)
        T.cumsum(b, dim=1)
        T.copy(b, B)
        c = T.alloc_shared((1, 1024), T.float32)
        T.copy(C, c)
        T.cumsum(c, dim=1)
        T.copy(c, C)


@T.prim_func
def left_early(A: T.Tensor((128, 64), T.float16), C: T.Tensor((32, 64), T.float16)):
    """Loads of a loop that may end before its last turn."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((32, 64), T.float16)
        for k in T.Pipelined(4, num_stages=3):
            T.copy(A[k * 32, 0], A_shared)
            T.copy(A_shared, C)
            if A_shared[0, 0] > 0:
                break
