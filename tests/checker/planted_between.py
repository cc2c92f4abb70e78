# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""More kernels with one fault between blocks each, as authors of larger kernels make them.

The lines of the fault end in `# 1` and, for a pair, `# 2`.
"""

import tileprof
import tileprof.lang as T

# -- atomics and plain accesses mixed


@tileprof.jit
def histogram_with_a_plain_tail(X, Counts):
    """Whole tiles count atomically, the last block adds its rest by a plain write."""
    X: T.Tensor((100,), T.int32)
    Counts: T.Tensor((8,), T.int32)
    with T.Kernel(4, threads=32) as bx:
        if bx < 3:
            for i in T.Parallel(32):
                T.atomic_add(Counts[X[bx * 32 + i]], 1)  # 1
        else:
            for i in T.serial(4):
                Counts[X[96 + i]] = Counts[X[96 + i]] + 1  # 2


@tileprof.jit
def maximum_read_while_it_grows(X, Most, Y):
    """Each block raises a maximum atomically, and divides by it without waiting for the others."""
    X: T.Tensor((4, 32), T.float32)
    Most: T.Tensor((1,), T.float32)
    Y: T.Tensor((4, 32), T.float32)
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(32):
            T.atomic_max(Most[0], X[bx, i])  # 2
        for i in T.Parallel(32):
            Y[bx, i] = X[bx, i] / Most[0]  # 1


@tileprof.jit
def ticket_written_back(Ticket, Order):
    """A block takes a ticket atomically; the first one also sets the next number."""
    Ticket: T.Tensor((1,), T.int32)
    Order: T.Tensor((4,), T.int32)
    with T.Kernel(4, threads=32) as bx:
        Order[bx] = T.atomic_add(Ticket[0], 1, return_prev=True)  # 2
        if bx == 0:
            Ticket[0] = 100  # 1


# -- split K


@tileprof.jit
def split_without_reset(A, B):
    """Parts along K are added to an output that nobody cleared."""
    A: T.Tensor((32, 64), T.float32)
    B: T.Tensor((64, 32), T.float32)
    C = T.empty((32, 32), T.float32)
    with T.Kernel(2, threads=128) as part:
        a = T.alloc_shared((32, 32), T.float32)
        b = T.alloc_shared((32, 32), T.float32)
        acc = T.alloc_fragment((32, 32), T.float32)
        T.clear(acc)
        T.copy(A[0, part * 32], a)
        T.copy(B[part * 32, 0], b)
        T.gemm(a, b, acc)
        T.atomic_add(C, acc)  # 1
    return C


@tileprof.jit
def split_cleared_by_the_first_part(A, B, C):
    """The first part along K clears the output to which all parts add."""
    A: T.Tensor((32, 64), T.float32)
    B: T.Tensor((64, 32), T.float32)
    C: T.Tensor((32, 32), T.float32)
    with T.Kernel(2, threads=128) as part:
        a = T.alloc_shared((32, 32), T.float32)
        b = T.alloc_shared((32, 32), T.float32)
        acc = T.alloc_fragment((32, 32), T.float32)
        if part == 0:
            T.clear(C)  # 1
        T.clear(acc)
        T.copy(A[0, part * 32], a)
        T.copy(B[part * 32, 0], b)
        T.gemm(a, b, acc)
        T.atomic_add(C, acc)  # 2


@tileprof.jit
def parts_summed_in_the_same_launch(A, Parts, C):
    """Each part is written to its own place; the last block sums all of them at once."""
    A: T.Tensor((4, 32), T.float32)
    Parts: T.Tensor((4, 32), T.float32)
    C: T.Tensor((32,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(32):
            Parts[bx, i] = A[bx, i] * 2.0  # 1
        if bx == 3:
            for i in T.Parallel(32):
                C[i] = Parts[0, i] + Parts[1, i] + Parts[2, i] + Parts[3, i]  # 2


@tileprof.jit
def parts_of_two_tiles_in_one_place(A, Parts):
    """The place of a part is counted without the tile: two tiles share it."""
    A: T.Tensor((2, 4, 32), T.float32)
    Parts: T.Tensor((8, 32), T.float32)
    with T.Kernel(2, 4, threads=32) as (tile, part):
        for i in T.Parallel(32):
            Parts[tile + part, i] = A[tile, part, i]  # 1


# -- in place between blocks


@tileprof.jit
def stencil_in_place(A):
    """Each block smooths its part of a row and reads a halo that its neighbours overwrite."""
    A: T.Tensor((4, 34), T.float32)
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_fragment((4, 18), T.float32)
        for i, j in T.Parallel(4, 18):
            s[i, j] = A[i, bx * 16 + j]  # 1
        for i, j in T.Parallel(4, 16):
            A[i, bx * 16 + j + 1] = s[i, j] + s[i, j + 1] + s[i, j + 2]  # 2


@tileprof.jit
def transposed_in_place(A):
    """Each tile is written where another block still reads."""
    A: T.Tensor((64, 64), T.float32)
    with T.Kernel(2, 2, threads=64) as (bx, by):
        s = T.alloc_shared((32, 32), T.float32)
        T.copy(A[by * 32, bx * 32], s)  # 1
        for i, j in T.Parallel(32, 32):
            A[bx * 32 + i, by * 32 + j] = s[j, i]  # 2


@tileprof.jit
def rows_normalised_in_parts(A):
    """Blocks of one row each scale their part by the sum of the whole row, in place."""
    A: T.Tensor((2, 64), T.float32)
    with T.Kernel(2, 2, threads=32) as (part, row):
        whole = T.alloc_fragment((64,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(A[row, :], whole)  # 1
        T.reduce_sum(whole, total, dim=0)
        for i in T.Parallel(32):
            A[row, part * 32 + i] = A[row, part * 32 + i] / total[0]  # 2


@tileprof.jit
def prefix_carried_over(A):
    """A block begins with the last sum of the block before, which may not have run."""
    A: T.Tensor((4, 32), T.float32)
    with T.Kernel(4, threads=32) as bx:
        carried = T.alloc_var(T.float32, init=0.0)
        if bx > 0:
            carried = A[bx - 1, 31]  # 1
        for i in T.Parallel(32):
            A[bx, i] = A[bx, i] + carried  # 2


# -- extents that are known at launch


@tileprof.jit
def tails_that_step_back(A):
    """The last tile begins at N - 32 instead of being cut: it overlaps the tile before."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        first = T.min(bx * 32, N - 32)
        for i in T.Parallel(32):
            A[first + i] = A[first + i] * 2.0  # 1


@tileprof.jit
def rows_of_a_wrong_width(A, width):
    """A matrix as one row, whose width is given rounded down."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    width: T.int32
    with T.Kernel(4, threads=32) as bx:
        for j in T.Parallel(12):
            A[bx * width + j] = 1.0  # 1


@tileprof.jit
def grid_with_a_block_too_many(A):
    """Blocks are folded onto rows by a remainder, one more than there are rows."""
    M = T.dynamic("M")
    A: T.Tensor((M, 8), T.float32)
    with T.Kernel(M + 1, threads=32) as bx:
        for j in T.Parallel(8):
            A[bx % M, j] = 1.0  # 1


# -- ragged offsets


@tileprof.jit
def ragged_without_a_mask(A, Offsets):
    """Tiles of 4 rows from each sequence's offset on; the last one of a sequence runs into the next
    one."""
    A: T.Tensor((16, 8), T.float32)
    Offsets: T.Tensor((4,), T.int32)
    with T.Kernel(2, 3, threads=32) as (tile, sequence):
        first = Offsets[sequence] + tile * 4
        if first < Offsets[sequence + 1]:
            for i, j in T.Parallel(4, 8):
                A[first + i, j] = 1.0  # 1


@tileprof.jit
def ragged_ends_included(A, Offsets):
    """The mask lets in the first row of the next sequence."""
    A: T.Tensor((16, 8), T.float32)
    Offsets: T.Tensor((4,), T.int32)
    with T.Kernel(3, threads=32) as sequence:
        for i, j in T.Parallel(16, 8):
            if Offsets[sequence] + i <= Offsets[sequence + 1]:
                A[Offsets[sequence] + i, j] = 1.0  # 1


@tileprof.jit
def page_of_two_sequences(Pages, Table):
    """Keys are appended to the page that a table names; two sequences have one page."""
    Pages: T.Tensor((6, 4), T.float32)
    Table: T.Tensor((3, 2), T.int32)
    with T.Kernel(3, threads=32) as sequence:
        for i in T.Parallel(4):
            Pages[Table[sequence, 1], i] = 1.0  # 1


@tileprof.jit
def experts_without_padding(X, Ends, Y):
    """Each expert writes whole tiles of 8 rows, though groups are not padded to them."""
    X: T.Tensor((24, 4), T.float32)
    Ends: T.Tensor((3,), T.int32)
    Y: T.Tensor((24, 4), T.float32)
    with T.Kernel(3, threads=32) as expert:
        first = T.if_then_else(expert == 0, 0, Ends[T.max(expert - 1, 0)])
        for k in T.serial(T.ceildiv(Ends[expert] - first, 8)):
            at = first + k * 8
            T.copy(X[at : at + 8, :], Y[at : at + 8, :])  # 1


# -- kernels of threads


@tileprof.jit
def threads_with_a_wrong_stride(A):
    """Each thread's elements are counted with half of the block's threads."""
    A: T.Tensor((256,), T.float32)
    with T.Kernel(2, threads=64) as bx:
        tx = T.get_thread_binding(0)
        for k in T.serial(2):
            A[bx * 64 + k * 64 + tx] = 1.0  # 1


@tileprof.jit
def one_result_of_a_grid(A, S):
    """Each block reduces over its threads, and all store to one place."""
    A: T.Tensor((4, 32), T.float32)
    S: T.Tensor((1,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        tx = T.get_thread_binding(0)
        part = T.alloc_local((1,), T.float32)
        total = T.alloc_local((1,), T.float32)
        part[0] = A[bx, tx]
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float32)]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(1, part[0], True, total[0], tx))
        if tx == 0:
            S[0] = total[0]  # 1


@tileprof.jit
def last_thread_reads_the_next_block(A):
    """Threads exchange with a neighbour in global memory: the last one's is another block's."""
    A: T.Tensor((128,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        tx = T.get_thread_binding(0)
        held = T.alloc_local((1,), T.float32)
        held[0] = A[T.min(bx * 32 + tx + 1, 127)]  # 1
        T.sync_threads()
        A[bx * 32 + tx] = held[0]  # 2


# -- roles of threads


@tileprof.jit
def role_writes_for_all_blocks(A, Flag):
    """One warp of each block does what one block should do."""
    A: T.Tensor((4, 64), T.float32)
    Flag: T.Tensor((2,), T.float32)
    with T.Kernel(4, threads=64) as bx:
        tx = T.get_thread_binding(0)
        if tx < 32:
            A[bx, tx] = 1.0
        else:
            if tx < 34:
                Flag[tx - 32] = A[bx, tx]  # 1
