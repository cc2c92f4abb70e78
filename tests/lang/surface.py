"""Every operation of the language in a small kernel."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103, F841
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T

SIZE = 16


@tileprof.jit
def elementwise(A, B, fn, out_dtype="float32"):
    """`out[i] = fn(A[i], B[i])`."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), out_dtype)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            C[i] = fn(A[i], B[i])
    return C


@tileprof.jit
def integers(A, fn, dtype="int32"):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    C = T.empty((N,), T.int32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            C[i] = fn(A[i])
    return C


@tileprof.jit
def reductions(A, kind: str, dim: int, clear: bool, reduce=None):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    size = N if dim in (0, -2) else M
    C = T.empty((size,), T.float32)
    with T.Kernel(1):
        x = T.alloc_fragment((M, N), T.float32)
        y = T.alloc_fragment((size,), T.float32)
        T.copy(A, x)
        T.fill(y, 2)
        if reduce is None:
            T.reduce(x, y, kind, dim, clear)
        else:
            reduce(x, y, dim=dim, clear=clear)
        T.copy(y, C)
    return C


@tileprof.jit
def bit_reductions(A, kind: str):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.int32)
    C = T.empty((M, 1), T.int32)
    with T.Kernel(1):
        x = T.alloc_fragment((M, N), T.int32)
        y = T.alloc_fragment((M, 1), T.int32)
        T.copy(A, x)
        if kind == "bitand":
            T.reduce_bitand(x, y)
        elif kind == "bitor":
            T.reduce_bitor(x, y, dim=1)
        else:
            T.reduce_bitxor(x, y, dim=-1)
        T.copy(y, C)
    return C


@tileprof.jit
def scans(A, dim: int, reverse: bool, largest: bool):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1):
        x = T.alloc_shared((M, N), T.float32)
        y = T.alloc_shared((M, N), T.float32)
        T.copy(A, x)
        if largest:
            T.cummax(x, y, dim=dim, reverse=reverse)
            T.copy(y, x)
        else:
            T.cumsum(x, dim=dim, reverse=reverse)
        T.copy(x, C)
    return C


@tileprof.jit
def views(A):
    A: T.Tensor((4, 8), T.float32)
    B = T.empty((32,), T.float32)
    C = T.empty((4, 16), T.uint16)
    D = T.empty((8, 4), T.float32)
    with T.Kernel(1):
        x = T.alloc_shared((4, 8), T.float32)
        T.copy(A, x)
        T.copy(T.reshape(x, (32,)), B)
        T.copy(T.view(x, dtype=T.uint16), C)
        flat = T.Tensor((8, 4), T.float32, x.data)
        T.copy(flat, D)
    return B, C, D


@tileprof.jit
def atomics(A, totals):
    """In place: sums, greatest and least of A, by element and by tile."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    totals: T.Tensor((4, 4), T.int32)
    before = T.empty((N,), T.int32)
    with T.Kernel(N, threads=32) as bx:
        T.atomic_add(totals[0, 0], A[bx])
        T.atomic_max(totals[0, 1], A[bx], memory_order="relaxed")
        T.atomic_min(totals[0, 2], A[bx])
        before[bx] = T.atomic_add(totals[0, 3], 1, return_prev=True)
        tile = T.alloc_fragment((2, 4), T.int32)
        T.fill(tile, A[bx])
        T.atomic_add(totals[1:3, :], tile)
        T.atomic_max(totals[3, 0], tile[0:1, :])
    return before


@tileprof.jit
def regions(A, first: T.int32):
    """Every way to name a part of a tensor."""
    A: T.Tensor((4, 8, 16), T.float32)
    B = T.empty((4, 8, 16), T.float32)
    with T.Kernel(4) as bx:
        tile = T.alloc_shared((8, 16), T.float32)
        row = T.alloc_shared((16,), T.float32)
        T.copy(A[bx, 0, 0], tile)
        T.copy(tile, B[bx, :, :])
        T.copy(A[bx, first : first + 1, :], row)
        T.copy(row, B[bx, 0, :])
        T.copy(A[bx, 2:4, 4:8], tile[0:2, 0:4])
        T.copy(tile[0:2, 0:4], B[bx, 2, 8])
        T.copy(A[bx, 7, 15], B[bx, 7, 0])
        B[bx, 6, 0:4] = 5
        B[bx, 6, 4:8] = tile[0, 0:4]
        T.copy(A[bx, ..., 3], B[bx, ..., -1])
        T.clear(B[bx, 5])
    return B


@tileprof.jit
def products(A, B, transpose_a: bool, transpose_b: bool, clear: bool):
    A: T.Tensor((16, 16), T.float16)
    B: T.Tensor((16, 16), T.float16)
    C = T.empty((16, 16), T.float32)
    with T.Kernel(1):
        a = T.alloc_shared((2, 16, 16), T.float16)
        b = T.alloc_shared((16, 16), T.float16)
        c = T.alloc_fragment((16, 16), T.float32)
        T.copy(A, a[1, :, :])
        T.copy(B, b)
        T.fill(c, 1)
        T.gemm(
            a[1, :, :],
            b,
            c,
            transpose_A=transpose_a,
            transpose_B=transpose_b,
            clear_accum=clear,
            policy=T.GemmWarpPolicy.FullCol,
        )
        T.copy(c, C)
    return C


@tileprof.jit
def loops(A):
    A: T.Tensor((8,), T.float32)
    B = T.empty((7, 8), T.float32)
    with T.Kernel(1):
        for i in T.serial(8):
            B[0, i] = A[i]
        for i in T.Serial(0, 8, 2):
            B[1, i] = A[i]
            B[1, i + 1] = 0
        for i in T.unroll(8, unroll_factor=4):
            B[2, i] = A[i] * 2
        for i in T.Unroll(7, -1, -1):
            B[3, i] = A[i]
        for i in T.vectorized(8):
            B[4, i] = A[i]
        for i in T.Pipelined(1, 8, num_stages=2, order=[0], stage=[0]):
            B[5, i] = A[i]
        B[5, 0] = 9
        for i in T.Parallel(8, coalesced_width=4):
            B[6, i] = A[i]
    return B


@tileprof.jit
def variables(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N, 4), T.float32)
    with T.Kernel(N) as bx:
        count = T.alloc_var(T.int32, 0)
        total = T.alloc_var("float32", init=0.0)
        local = T.alloc_local((4,), T.float32)
        T.clear(local)
        while count < 5:
            count += 1
            total = total + A[bx]
            local[count % 4] += total
        held = total
        total = -1
        B[bx, 0] = held
        B[bx, 1] = count
        B[bx, 2] = local[1]
        B[bx, 3] = total
    return B


@T.macro
def divide(x, y: T.Ref, z: T.Ref, by=2):
    """By value, by reference, with a default; returns two values."""
    x = x / by
    y = x
    z += 1
    return x, by


@tileprof.jit
def macros(A):
    A: T.Tensor((4,), T.float32)
    B = T.empty((4, 4), T.float32)
    with T.Kernel(4) as bx:
        y = T.alloc_var(T.float32, 0)
        B[bx, 3] = 10
        half, two = divide(A[bx], y, B[bx, 3])
        third, _ = divide(A[bx], y, B[bx, 3], by=3)
        B[bx, 0] = half
        B[bx, 1] = third + y
        B[bx, 2] = two
    return B


@tileprof.jit
def strided(A):
    M, N, dM, dN = T.dynamic("M, N, dM, dN")
    A: T.StridedTensor[[M, N], [dM, dN], T.float32]
    B = T.empty((N, M), A.dtype)
    with T.Kernel(M) as bx:
        for i in T.serial(A.shape[1]):
            B[i, bx] = A[bx, i]
    return B


@tileprof.jit
def computed_extent(A, n: T.int32):
    m = T.dynamic("m")
    A: T.Tensor[[m], T.float32]
    B = T.empty((T.ceildiv(m, 4), n + 1), T.float32)
    with T.Kernel(T.ceildiv(m, 4)) as bx:
        for i in T.serial(n + 1):
            B[bx, i] = A[bx * 4] + i
    return B


@tileprof.jit
def diagnostics(A):
    A: T.Tensor((4,), T.int32)
    with T.Kernel(1):
        T.print(A[1], msg="second")
        T.print(A, msg="all")
        T.print("only text")
        T.device_assert(A[0] == 1, "first")


@tileprof.jit
def wishes(A):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1) as bx:
        x = T.alloc_shared((64, 64), T.float16)
        y = T.alloc_fragment((64, 64), T.float16)
        T.use_swizzle(4, order="column")
        T.use_swizzle(4, enable=False)
        T.annotate_layout(
            {x: T.Layout(x.shape, lambda i, j: (j, i)), y: T.Fragment(y.shape, lambda i, j: i)}
        )
        T.annotate_l2_hit_ratio({A: 0.5})
        T.assume(bx >= 0)
        T.no_set_max_nreg()
        T.disable_warp_group_reg_alloc()
        T.annotate_safe_value({A: 1})
        T.copy(A[bx, 1], x, coalesced_width=8, eviction_policy="evict_first")
        T.copy(x, A[bx, 0])


@tileprof.jit
def two_launches(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    partial = T.alloc_global((N,), T.float32)
    with T.Kernel(N) as bx:
        partial[bx] = A[bx] * 2
    with T.Kernel(N) as bx:
        B[bx] = partial[N - 1 - bx]
    return B
