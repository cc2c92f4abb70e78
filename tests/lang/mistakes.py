"""Kernels with one mistake each; what is said about it is a golden."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D103, F841, B007, SIM105, RUF059
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import contextlib

import tileprof
import tileprof.lang as T


def kernel(body):
    """A kernel whose only work is `body(A, B, bx)`."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32), n: T.int32):
        with T.Kernel(4, threads=128) as bx:
            T.macro(body)(A, B, n, bx)

    return lambda: tileprof.compile(main)


# -- names


def unknown_operation(A, B, n, bx):
    T.alloc_sharde((4,), T.float32)


def thread_operation(A, B, n, bx):
    T.debug_barrier()


def unknown_dtype(A, B, n, bx):
    T.alloc_shared((4,), "float31")


def type_before_shape(A, B, n, bx):
    T.alloc_shared("float32", (4,))


def unknown_argument(A, B, n, bx):
    T.reduce_sum(A, B, axis=1)


def missing_argument(A, B, n, bx):
    T.copy(A)


def wrong_policy(A, B, n, bx):
    T.gemm(A, B, B, policy="full")


def wrong_order(A, B, n, bx):
    T.use_swizzle(4, order="diagonal")


# -- shapes


def copy_shapes(A, B, n, bx):
    tile = T.alloc_shared((32, 16), T.float32)
    T.copy(A[bx * 16 : (bx + 1) * 16, 0:32], tile)


def copy_rank(A, B, n, bx):
    tile = T.alloc_shared((2, 4, 8), T.float32)
    T.copy(A[bx, 0], tile)


def gemm_shapes(A, B, n, bx):
    a = T.alloc_shared((64, 32), T.float16)
    b = T.alloc_shared((64, 32), T.float16)
    c = T.alloc_fragment((64, 64), T.float32)
    T.gemm(a, b, c)


def reduce_shape(A, B, n, bx):
    x = T.alloc_fragment((8, 16), T.float32)
    y = T.alloc_fragment((16,), T.float32)
    T.reduce_sum(x, y, dim=1)


def reduce_dim(A, B, n, bx):
    x = T.alloc_fragment((8, 16), T.float32)
    T.reduce_sum(x, x, dim=2)


def too_many_indices(A, B, n, bx):
    B[bx, 0, 1] = A[bx, 0]


def index_outside(A, B, n, bx):
    x = T.alloc_shared((8,), T.float32)
    x[8] = 0


def slice_of_unknown_size(A, B, n, bx):
    tile = T.alloc_shared((8,), T.float32)
    T.atomic_add(A[bx, 0 : bx + 8], tile)


def slice_with_step(A, B, n, bx):
    T.clear(A[0:8:2, 0])


def size_known_at_launch(A, B, n, bx):
    T.alloc_shared((n, 4), T.float32)


def view_of_other_size(A, B, n, bx):
    x = T.alloc_shared((8, 8), T.float32)
    T.reshape(x, (8, 9))


# -- element types


def integer_division(A, B, n, bx):
    B[bx, 0] = bx / 2


def bitwise_float(A, B, n, bx):
    B[bx, 0] = A[bx, 0] & 3


def float_index(A, B, n, bx):
    B[A[bx, 0], 0] = 1


def gemm_types(A, B, n, bx):
    a = T.alloc_shared((64, 32), T.float16)
    b = T.alloc_shared((32, 64), T.float32)
    c = T.alloc_fragment((64, 64), T.float32)
    T.gemm(a, b, c)


def gemm_accumulator(A, B, n, bx):
    a = T.alloc_shared((64, 32), T.float16)
    b = T.alloc_shared((32, 64), T.float16)
    c = T.alloc_fragment((64, 64), T.int32)
    T.gemm(a, b, c)


def scalar_from_buffer(A, B, n, bx):
    B[bx, 0] = T.exp(A)


def scalar_from_text(A, B, n, bx):
    B[bx, 0] = A[bx, 0] + "1"


def infinite_integer(A, B, n, bx):
    T.fill(B[0:4, 0:4], T.infinity("int32"))


# -- Python


def python_try(A, B, n, bx):
    try:
        B[bx, 0] = 1
    except ValueError:
        pass


def python_del(A, B, n, bx):
    x = 1
    del x


def python_class(A, B, n, bx):
    class Tile:
        pass


def python_yield(A, B, n, bx):
    yield A


def python_with(A, B, n, bx):
    with contextlib.nullcontext() as nothing:
        pass


def python_open(A, B, n, bx):
    with open("/no folder/of this name.txt", "w") as nothing:
        pass


def text_as_extent(A, B, n, bx):
    T.ceildiv(64, "32")


def python_match(A, B, n, bx):
    match n:
        case 1:
            pass


def walrus(A, B, n, bx):
    if bx > 1 and (y := A[bx, 0]) > 2:
        pass


def plain_helper(A, B, n, bx):
    def largest(x, y):
        return max(x, y)

    B[bx, 0] = largest(A[bx, 0], 3)


def index_of_list(A, B, n, bx):
    values = [1.0, 2.0, 3.0, 4.0]
    B[bx, 0] = values[bx]


def python_float(A, B, n, bx):
    B[bx, 0] = float(A[bx, 0])


def length(A, B, n, bx):
    for i in range(len(A)):
        B[i, 0] = 1


def while_true(A, B, n, bx):
    while True:
        B[bx, 0] = 1


def staged_assert(A, B, n, bx):
    assert A[bx, 0] > 0


def staged_return(A, B, n, bx):
    if bx > 1:
        return
    B[bx, 0] = 1


def staged_raise(A, B, n, bx):
    if bx > 1:
        raise ValueError("never")


def one_branch_only(A, B, n, bx):
    if bx > 1:
        x = A[bx, 0]
    B[bx, 0] = x


def used_after_loop(A, B, n, bx):
    for i in T.serial(4):
        x = A[bx, i]
    B[bx, 0] = x


def escapes_in_list(A, B, n, bx):
    found = []
    for i in T.serial(4):
        found.append(A[bx, i] * 2)
    B[bx, 0] = found[0]


def buffer_changes(A, B, n, bx):
    now, later = T.alloc_shared((4,), T.float32), T.alloc_shared((4,), T.float32)
    for i in T.serial(4):
        T.clear(now)
        now, later = later, now


def carried_in_parallel(A, B, n, bx):
    total = 0.0
    for i in T.Parallel(64):
        total += A[bx, i]
    B[bx, 0] = total


def break_in_parallel(A, B, n, bx):
    for i in T.Parallel(64):
        if A[bx, i] > 0:
            break


def break_of_unrolled(A, B, n, bx):
    for i in [1, 2, 3]:
        if A[bx, i] > 0:
            break


def loop_else(A, B, n, bx):
    for i in T.serial(4):
        B[bx, i] = 0
    else:
        B[bx, 0] = 1


def whole_buffer_plus(A, B, n, bx):
    x = T.alloc_fragment((4,), T.float32)
    x += 1


def loop_names(A, B, n, bx):
    for i, j in T.serial(4):
        B[i, j] = 0


def endless_macro(A, B, n, bx):
    endless(B, bx)


@T.macro
def endless(B, i):
    endless(B, i + 1)


def wrong_macro_call(A, B, n, bx):
    endless(B)


# -- places


def tile_in_parallel(A, B, n, bx):
    x = T.alloc_shared((4,), T.float32)
    for i in T.Parallel(4):
        T.clear(x)


def part_in_parallel(A, B, n, bx):
    for i in T.Parallel(64):
        A[i] = B[i, 0]


def parallel_in_parallel(A, B, n, bx):
    for i in T.Parallel(4):
        for j in T.Parallel(4):
            B[i, j] = 0


def scope_in_parallel(A, B, n, bx):
    for i in T.Parallel(4):
        with T.scope("inner"):
            B[bx, i] = 0


def kernel_in_kernel(A, B, n, bx):
    with T.Kernel(2) as by:
        B[by, 0] = 0


@T.prim_func
def threads(A: T.Tensor((4,), T.float32)):
    with T.Kernel(1, threads=2048) as bx:
        A[bx] = 0


@T.prim_func
def outside(A: T.Tensor((4,), T.float32)):
    A[0] = 1
    with T.Kernel(1) as bx:
        A[bx] = 0


@T.prim_func
def no_launch(A: T.Tensor((4,), T.float32)):
    pass


@T.prim_func
def grid_names(A: T.Tensor((4,), T.float32)):
    with T.Kernel(1, 2) as (bx, by, bz):
        A[bx] = 0


@T.prim_func
def symbol_of_nothing(A: T.Tensor((4,), T.float32)):
    m = T.dynamic("m")
    with T.Kernel(m) as bx:
        A[bx] = 0


@T.prim_func
def no_annotation(A, B: T.Tensor((4,), T.float32)):
    with T.Kernel(1) as bx:
        B[bx] = 0


@tileprof.jit
def const_of_nothing(A):
    M = T.const("M")
    A: T.Tensor((M * 2,), T.float32)
    with T.Kernel(M) as bx:
        A[bx] = 0


@tileprof.jit
def const_too_early(A):
    M = T.const("M")
    if M > 4:
        pass
    A: T.Tensor((M,), T.float32)
    with T.Kernel(M) as bx:
        A[bx] = 0


@tileprof.jit
def annotated_too_late(A):
    with T.Kernel(A.shape[0]) as bx:
        A[bx] = 0
    A: T.Tensor((4,), T.float32)


@tileprof.jit
def returns_a_number(A):
    A: T.Tensor((4,), T.float32)
    with T.Kernel(1) as bx:
        A[bx] = 0
    return 3


@tileprof.jit
def forgets_an_output(A):
    A: T.Tensor((4,), T.float32)
    B = T.empty((4,), T.float32)
    with T.Kernel(1) as bx:
        B[bx] = 0


def outside_of_a_kernel():
    T.alloc_shared((4,), T.float32)


def called_program():
    threads(1)


def unknown_option():
    tileprof.jit(fast=True)


def compile_of_function():
    tileprof.compile(kernel)


def wrong_eviction(A, B, n, bx):
    T.copy(A, B, eviction_policy="first")


BODIES = {
    "names": [
        unknown_operation, thread_operation, unknown_dtype, type_before_shape, unknown_argument,
        missing_argument, wrong_policy, wrong_eviction, wrong_order,
    ],
    "shapes": [
        copy_shapes, copy_rank, gemm_shapes, reduce_shape, reduce_dim, too_many_indices,
        index_outside, slice_of_unknown_size, slice_with_step, size_known_at_launch,
        view_of_other_size,
    ],
    "dtypes": [
        integer_division, bitwise_float, float_index, gemm_types, gemm_accumulator,
        scalar_from_buffer, scalar_from_text, infinite_integer,
    ],
    "python": [
        python_try, python_del, python_class, python_yield, python_with, python_open,
        text_as_extent, python_match, walrus,
        plain_helper, index_of_list, python_float, length, while_true, staged_assert,
        staged_return, staged_raise, one_branch_only, used_after_loop, escapes_in_list,
        buffer_changes, carried_in_parallel, break_in_parallel, break_of_unrolled, loop_else,
        whole_buffer_plus, loop_names, endless_macro, wrong_macro_call,
    ],
    "places": [
        tile_in_parallel, part_in_parallel, parallel_in_parallel, scope_in_parallel,
        kernel_in_kernel,
    ],
}  # fmt: skip
MISTAKES = {group: {b.__name__: kernel(b) for b in bodies} for group, bodies in BODIES.items()}
MISTAKES["signatures"] = {
    "named_extent": lambda: T.Tensor(("M", 4), T.float32),
    **{
        f.__name__: (lambda f=f: tileprof.compile(f))
        for f in (
            threads, outside, no_launch, grid_names, symbol_of_nothing, no_annotation,
        )
    },
    **{
        f.__name__: f.compile
        for f in (
            const_of_nothing, const_too_early, annotated_too_late, returns_a_number,
            forgets_an_output,
        )
    },
    **{
        f.__name__: f
        for f in (outside_of_a_kernel, called_program, unknown_option, compile_of_function)
    },
    "jit_of_program": lambda: tileprof.jit(out_idx=-1)(threads),
}  # fmt: skip
