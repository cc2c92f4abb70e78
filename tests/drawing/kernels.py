# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Small kernels whose drawings the tests know."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def product(A, B, tile: int = 32):
    """A product whose edges are no multiples of the tiles, with a ring of three slots."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, tile), T.float32)
        b = T.alloc_shared((tile, tile), T.float32)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, tile), num_stages=3):
            T.copy(A[by * tile, k * tile], a)
            T.copy(B[k * tile, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def scattered(A, at):
    """Reads rows that a tensor names, writes odd columns, and leaves the even ones as they are."""
    A: T.Tensor((16, 8), T.float32)
    at: T.Tensor((4,), T.int32)
    with T.Kernel(2, threads=32) as bx:
        for i, j in T.Parallel(2, 8):
            if j % 2 == 1:
                A[bx * 2 + i, j] = A[at[bx * 2 + i], j] + 1.0


@tileprof.jit
def turned(A):
    """Reads the columns of shared memory: every thread of a warp in the same bank."""
    A: T.Tensor((64, 64), T.float32)
    B = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), T.float32)
        for i, j in T.Parallel(64, 64):
            s[i, j] = A[i, j]
        for i, j in T.Parallel(64, 64):
            B[i, j] = s[j, i] + s[i, j]
    return B


@tileprof.jit
def large(A, B):
    """Asks for more shared memory than any block has, and adds everything up at one place."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((1,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        s = T.alloc_shared((1024, 128), T.float32)
        for i in T.Parallel(32):
            s[i, 0] = A[bx * 32 + i]
        for i in T.Parallel(32):
            T.atomic_add(B[0], s[i, 0])


@tileprof.jit
def clashing(A):
    """Every block writes the same element."""
    A: T.Tensor((4,), T.float32)
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(1):
            A[i] = bx + 1.0


@tileprof.jit
def ring(A, B, tile: int = 128, deep: int = 64):
    """A product whose tiles a producer warp group loads, four iterations ahead."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
        a = T.alloc_shared((tile, deep), T.bfloat16)
        b = T.alloc_shared((tile, deep), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // deep, num_stages=4):
            T.copy(A[by * tile, k * deep], a)
            T.copy(B[bx * tile, k * deep], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def repeated(X, W):
    """Rows that are read twice, a factor that stays in the loop, and words that lie backwards."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(2, threads=128) as bx:
        s = T.alloc_shared((N,), T.float32)
        for k in T.serial(M // 2):
            for j in T.Parallel(N):
                s[j] = X[bx * (M // 2) + k, j]
            for j in T.Parallel(N):
                Y[bx * (M // 2) + k, j] = s[N - 1 - j] * W[j] + X[bx * (M // 2) + k, j]
    return Y


@tileprof.jit
def neighbours(X, part: int = 512):
    """Sums of neighbouring parts: each part but the first and last is asked for twice."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for k in T.serial(N // part - 1):
            for j in T.Parallel(part):
                Y[bx, k * part + j] = X[bx, k * part + j] + X[bx, (k + 1) * part + j]
    return Y


@tileprof.jit
def doubled(X, part: int = 512):
    """Each part for two iterations."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, 2 * N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for k in T.serial(2 * N // part):
            for j in T.Parallel(part):
                Y[bx, k * part + j] = X[bx, (k // 2) * part + j]
    return Y


@tileprof.jit
def weighted(X, W, part: int = 512, rows: int = 4):
    """Rows by weights that stay in the loop, which is written out along a row only."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M // rows, threads=128) as bx:
        for k in T.serial(rows):
            for u in T.unroll(N // part):
                for j in T.Parallel(part):
                    at = u * part + j
                    Y[bx * rows + k, at] = X[bx * rows + k, at] * W[at]
        for j in T.Parallel(N):
            Y[bx * rows, j] = W[j] + X[bx * rows, j]
    return Y


@tileprof.jit
def left_early(X):
    """A loop that some blocks leave: what it asks for is not there behind it."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for k in T.unroll(4):
            if k + bx > 2:
                break
            for j in T.Parallel(512):
                Y[bx, k * 512 + j] = X[bx, k * 512 + j]
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j] + 1.0
    return Y


@tileprof.jit
def scaled(X, count: T.int32, factor: T.float32):
    """The first elements of each row, by a number."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        for j in T.Parallel(N):
            if j < count:
                Y[bx, j] = X[bx, j] * factor
    return Y


@tileprof.jit
def pairs(X):
    """Two neighbours of the result share an element."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, 2 * N), T.float16)
    with T.Kernel(M, threads=128) as bx:
        for j in T.Parallel(2 * N):
            Y[bx, j] = X[bx, j // 2]
    return Y


@tileprof.jit
def interleaved(X):
    """Exchanges neighbours in shared memory and in the result; the last row has no vector."""
    M, J = T.const("M, J")
    X: T.Tensor((M, J), T.float16)
    Y = T.empty((M, J), T.float16)
    with T.Kernel(T.ceildiv(M, 2), threads=128) as bx:
        s = T.alloc_shared((J,), T.float16)
        for j in T.Parallel(J // 2):
            s[2 * j + 1] = X[2 * bx, 2 * j]
            s[2 * j] = X[2 * bx, 2 * j + 1]
        for i, j in T.Parallel(2, J // 2):
            Y[2 * bx + i, 2 * j] = s[2 * j + 1]
            Y[2 * bx + i, 2 * j + 1] = s[2 * j]
    return Y


@tileprof.jit
def kept(X):
    """Rows without their first element, which is kept where all threads see it."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    Z = T.empty((M,), T.float32)
    Both = T.empty((M, 2), T.float32)
    with T.Kernel(M, threads=128) as bx:
        first = T.alloc_shared((1,), T.float32)
        first[0] = X[bx, 0]
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j] - first[0]
        square = X[bx, 1]
        Z[bx] = square * square
        twice = X[bx, 2] * 2.0
        Both[bx, 0] = twice
        Both[bx, 1] = -twice
    return Y, Z, Both


@tileprof.jit
def widened(X):
    """Rows by way of a fragment of another type, and back."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M // 4, threads=128) as bx:
        source = T.alloc_shared((4, N), T.bfloat16)
        target = T.alloc_shared((4, N), T.bfloat16)
        held = T.alloc_fragment((4, N), T.float32)
        T.copy(X[bx * 4, 0], source)
        T.copy(source, held)
        for i, j in T.Parallel(4, N):
            held[i, j] = held[i, j] * 2.0
        T.copy(held, target)
        T.copy(target, Y[bx * 4, 0])
    return Y


@tileprof.jit
def from_registers(A, B):
    """A product whose first operand is loaded to registers before."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(M // 64, threads=128) as bx:
        a_shared = T.alloc_shared((64, K), T.float16)
        b_shared = T.alloc_shared((K, N), T.float16)
        a = T.alloc_fragment((64, K), T.float16)
        c = T.alloc_fragment((64, N), T.float32)
        T.copy(A[bx * 64, 0], a_shared)
        T.copy(B, b_shared)
        T.copy(a_shared, a)
        T.gemm(a, b_shared, c, clear_accum=True)
        T.copy(c, C[bx * 64, 0])
    return C


@tileprof.jit
def by_rows(A, B, S):
    """A product whose tiles are scaled row by row: what a thread needs of S lies apart."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    S: T.Tensor((M, K // 64), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(N // 128, M // 64, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((128, 64), T.float16)
        c = T.alloc_fragment((64, 128), T.float32)
        total = T.alloc_fragment((64, 128), T.float32)
        T.clear(total)
        for k in T.Pipelined(K // 64, num_stages=3):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 128, k * 64], b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 128):
                total[i, j] += c[i, j] * S[by * 64 + i, k]
        T.copy(total, C[by * 64, bx * 128])
    return C


@tileprof.jit
def by_columns(A, B, S):
    """The same column by column, of which a thread needs neighbours."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    S: T.Tensor((K // 64, N), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(N // 128, M // 64, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((128, 64), T.float16)
        c = T.alloc_fragment((64, 128), T.float32)
        total = T.alloc_fragment((64, 128), T.float32)
        T.clear(total)
        for k in T.Pipelined(K // 64, num_stages=3):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 128, k * 64], b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 128):
                total[i, j] += c[i, j] * S[k, bx * 128 + j]
        T.copy(total, C[by * 64, bx * 128])
    return C


@tileprof.jit
def listed(A, B, First):
    """Tiles from one number of a list to the next, multiplied."""
    E, R, N = T.const("E, R, N")
    A: T.Tensor((E, 64, 32), T.bfloat16)
    B: T.Tensor((E * 32, N), T.bfloat16)
    First: T.Tensor((R,), T.int32)
    C = T.empty(((R - 1) * 64, N), T.bfloat16)
    with T.Kernel(N // 64, R - 1, threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), T.bfloat16)
        b = T.alloc_shared((32, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(First[by + 1] - First[by], num_stages=2):
            T.copy(A[First[by] + k, 0:64, 0:32], a)
            T.copy(B[(First[by] + k) * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


@tileprof.jit
def chosen(X, Keep):
    """Whole numbers where a mask is set, zeros elsewhere; nothing is cut."""
    X: T.Tensor((4, 256), T.int16)
    Keep: T.Tensor((4, 256), T.uint8)
    Y = T.empty((4, 256), T.int16)
    with T.Kernel(1, threads=128):
        for i, j in T.Parallel(4, 256):
            if Keep[i, j] != 0:
                Y[i, j] = X[i, j]
            else:
                Y[i, j] = 0
    return Y


@tileprof.jit
def chosen_narrow(X, Keep):
    """The same of bfloat16."""
    X: T.Tensor((4, 256), T.bfloat16)
    Keep: T.Tensor((4, 256), T.uint8)
    Y = T.empty((4, 256), T.bfloat16)
    with T.Kernel(1, threads=128):
        for i, j in T.Parallel(4, 256):
            if Keep[i, j] != 0:
                Y[i, j] = X[i, j]
            else:
                Y[i, j] = 0.0
    return Y


@tileprof.jit
def chosen_inside(X, Keep):
    """Whole numbers where a mask is set, inside of a tile's part of a smaller tensor."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int16)
    Keep: T.Tensor((M, N), T.uint8)
    Y = T.empty((M, N), T.int16)
    with T.Kernel(T.ceildiv(N, 256), T.ceildiv(M, 4), threads=128) as (bx, by):
        for i, j in T.Parallel(4, 256):
            if by * 4 + i < M and bx * 256 + j < N:
                if Keep[by * 4 + i, bx * 256 + j] != 0:
                    Y[by * 4 + i, bx * 256 + j] = X[by * 4 + i, bx * 256 + j]
                else:
                    Y[by * 4 + i, bx * 256 + j] = 0
    return Y


@tileprof.jit
def scaled_inside(X, Scale):
    """Rows times a scale of their own in registers, where the row is inside."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(N // 96, T.ceildiv(M, 16), threads=128) as (bx, by):
        held = T.alloc_fragment((16, 96), T.float32)
        T.copy(X[by * 16, bx * 96], held)
        for i, j in T.Parallel(16, 96):
            if by * 16 + i < M:
                held[i, j] *= Scale[by * 16 + i]
        T.copy(held, Y[by * 16, bx * 96])
    return Y
