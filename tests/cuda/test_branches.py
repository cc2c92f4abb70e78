# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201
"""Accesses under `if` in parallel loops: results as the interpreter has them, in vectors where no
vector has points on both sides of the condition."""

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import Joined
from tileprof import ir
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.runtime.interpreter import InterpreterExecutable

M = T.dynamic("m")
BF16, F32, I32 = T.bfloat16, T.float32, T.int32


@T.prim_func
def rows(X: T.Tensor((M, 64), BF16), Y: T.Tensor((M, 64), BF16)):
    """Rows beyond the end are left out by the author."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            row = bx * 16 + i
            if row < M:
                Y[row, j] = X[row, j] * 2


@T.prim_func
def flat(X: T.Tensor((M,), F32), Y: T.Tensor((M,), F32)):
    """The end may be inside of a vector."""
    with T.Kernel(T.ceildiv(M, 256), threads=64) as bx:
        for i in T.Parallel(256):
            if bx * 256 + i < M:
                Y[bx * 256 + i] = X[bx * 256 + i] + 1.0


@T.prim_func
def select(X: T.Tensor((M, 64), BF16), Y: T.Tensor((M, 64), BF16)):
    """A choice between an element and a number."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            row = bx * 16 + i
            Y[row, j] = T.if_then_else(row < M - 1, X[row + 1, j], 3.0)


@T.prim_func
def columns(X: T.Tensor((M, 64), BF16), Y: T.Tensor((M, 64), BF16)):
    """Both branches fill a fragment; the border is at a multiple of a vector."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        x = T.alloc_fragment((16, 64), BF16)
        for i, j in T.Parallel(16, 64):
            if bx * 16 + i < M and j < 40:
                x[i, j] = X[bx * 16 + i, j]
            else:
                x[i, j] = T.cast(j, BF16)
        for i, j in T.Parallel(16, 64):
            if bx * 16 + i < M:
                Y[bx * 16 + i, j] = x[i, j]


@T.prim_func
def triangle(X: T.Tensor((M, 64), F32), Y: T.Tensor((M, 64), F32)):
    """A border inside of vectors, in some blocks."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if j <= bx * 16 + i:
                Y[bx * 16 + i, j] = X[bx * 16 + i, j]
            else:
                Y[bx * 16 + i, j] = -1.0


@T.prim_func
def looked_up(X: T.Tensor((M, 64), BF16), R: T.Tensor((M,), I32), Y: T.Tensor((M, 64), BF16)):
    """Which row is read is itself read, where there is one."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if bx * 16 + i < M:
                at = R[bx * 16 + i]
                if at >= 0:
                    Y[bx * 16 + i, j] = X[at, j]
                else:
                    Y[bx * 16 + i, j] = 0.0


@T.prim_func
def both_types(X: T.Tensor((M, 64), BF16), Y: T.Tensor((M, 64), F32)):
    """Vectors of 8 elements are two accesses of one tensor; the border divides them."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if j < 44:
                Y[bx * 16 + i, j] = T.cast(X[bx * 16 + i, j], F32)


@T.prim_func
def by_column(X: T.Tensor((64,), I32), Y: T.Tensor((M, 64), F32)):
    """Each element has a condition of its own."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if X[j] > 0:
                Y[bx * 16 + i, j] = T.cast(X[j], F32)


@T.prim_func
def by_fragment(X: T.Tensor((M, 64), F32), Y: T.Tensor((M, 64), F32)):
    """Registers decide, and are written where they did."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        keep = T.alloc_fragment((16,), F32)
        sums = T.alloc_fragment((16, 64), BF16)
        for i in T.Parallel(16):
            keep[i] = X[bx * 16 + i, 0]
        for i, j in T.Parallel(16, 64):
            sums[i, j] = 1.0
            if keep[i] > 0:
                sums[i, j] = T.cast(X[bx * 16 + i, j] * 2.0, BF16)
                for k in T.serial(3):
                    if k > j:
                        sums[i, j] = sums[i, j] + T.cast(X[bx * 16 + i, k], BF16)
            else:
                if j < 32:
                    Y[bx * 16 + i, j] = X[bx * 16 + i, j + 32]
        for i, j in T.Parallel(16, 64):
            if keep[i] > 0:
                Y[bx * 16 + i, j] = T.cast(sums[i, j], F32)


@T.prim_func
def updates(X: T.Tensor((M, 64), F32), Y: T.Tensor((M, 64), F32)):
    """What one branch wrote, another reads; one load decides on the next."""
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if bx * 16 + i < M:
                if X[bx * 16 + i, j] > 0:
                    Y[bx * 16 + i, j] = Y[bx * 16 + i, j] + 1.0
                if Y[bx * 16 + i, j] > 0:
                    X[bx * 16 + i, j] = Y[bx * 16 + i, j] * 2.0
                else:
                    X[bx * 16 + i, j] = 5.0
                    if j >= 32:
                        Y[bx * 16 + i, j] = 7.0


@T.prim_func
def in_shared(X: T.Tensor((M, 64), BF16), Y: T.Tensor((M, 64), BF16)):
    """Places in swizzled memory that are worked out inside of a branch, and of a loop."""
    with T.Kernel(T.ceildiv(M, 64), threads=128) as bx:
        s = T.alloc_shared((64, 64), BF16)
        T.copy(X[bx * 64, 0], s)
        c = T.alloc_fragment((64, 64), F32)
        T.gemm(s, s, c, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 32):
            if bx * 64 + i < M:
                Y[bx * 64 + i, j] = s[i, j + 32]
                for k in T.serial(2):
                    if k == 1:
                        Y[bx * 64 + i, j + 32] = s[63 - i, j]


def numbers(dtype, *shape):
    """Small numbers."""
    return np.random.default_rng(len(shape)).integers(-8, 9, shape).astype(dtype)


def arguments(name, m):
    """Arrays for a kernel."""
    half = ml_dtypes.bfloat16
    if name == "flat":
        return [numbers("f4", m), numbers("f4", m)]
    if name in ("triangle", "by_fragment", "updates"):
        return [numbers("f4", m, 64), np.zeros((m, 64), "f4")]
    if name == "looked_up":
        at = np.random.default_rng(0).integers(-m, m, m).astype("i4")
        return [numbers(half, m, 64), np.maximum(at, -1), numbers(half, m, 64)]
    if name == "both_types":
        return [numbers(half, m, 64), numbers("f4", m, 64)]
    if name == "by_column":
        return [numbers("i4", 64), numbers("f4", m, 64)]
    return [numbers(half, m, 64), np.zeros((m, 64), half)]


# fmt: off
FUNCTIONS = {
    f.__name__: f
    for f in (
        rows, flat, select, columns, triangle, looked_up, both_types, by_column, by_fragment,
        updates, in_shared,
    )
}
# fmt: on


@cache
def lowered(name):
    """The kernel, and what it becomes."""
    kernel = prove_bounds(simplify(tileprof.compile(FUNCTIONS[name]).program.kernel))
    return kernel, compile_cuda(kernel, find_target("sm_90a"))


def test_branches_do_what_they_say():
    """Whole blocks, and blocks at the edge."""
    made = {name: lowered(name) for name in FUNCTIONS}
    joined = Joined(program.source for _, program in made.values())
    for name, (kernel, program) in made.items():
        ir.verify(program.kernel)
        for m in (32, 23) if name != "flat" else (512, 300, 299):
            found = arguments(name, m)
            expected = [a.copy() for a in found]
            InterpreterExecutable(kernel).run(expected, (m,))
            joined.emulate(program.source, program.kernel, found, {"m": m}, seed=m)
            for one, other in zip(found, expected, strict=True):
                same = np.asarray(one, "f8"), np.asarray(other, "f8")
                np.testing.assert_array_equal(*same, err_msg=f"{name} {m}")


VECTORS = {
    "rows": {"get<8>": 1, "put_values<8>": 1},
    # Without and with a question: a block that is inside as a whole has vectors.
    "flat": {"get<4>": 1, "put<4>": 1},
    "select": {"get<8>": 2, "put_values<8>": 2},
    "columns": {"get<8>": 1, "put<8>": 1},
    "looked_up": {"get<8>": 1, "put<8>": 1},
}


@pytest.mark.parametrize("name", VECTORS)
def test_accesses_of_a_branch_are_vectors(name):
    """As the text says it."""
    text = lowered(name)[1].source.text
    for access, count in VECTORS[name].items():
        way, width = re.fullmatch(r"(\w+)(<\d>)", access).groups()
        # A load under a condition has a null pointer where it does not hold.
        assert len(re.findall(rf"tp_{way}_global(?:_where)?{width}", text)) >= count, text


def test_machine_code_has_vectors_alone():
    """SASS has no narrower access of global memory."""
    listing = disassemble(lowered("select")[1].cubin)
    assert "LDG.E.128" in listing
    assert not re.search(r"(LDG|STG)\.E(?!\.128)", listing)


def test_rows_are_counted_in_32_bits():
    """Extents have 31 bits, so that a block's number times its rows does, too."""
    assert "int64_t" not in lowered("flat")[1].source.text
    assert re.search(r"const int row = \(?bx \* 16\)? \+ i", lowered("rows")[1].source.text)


@pytest.mark.parametrize("name", ["both_types", "by_column"])
def test_a_vector_is_not_on_both_sides(name):
    """No access is wider than its condition is the same."""
    text = lowered(name)[1].source.text
    assert "tp_put_global<8>" not in text
    if name == "by_column":
        assert "tp_put" not in text
