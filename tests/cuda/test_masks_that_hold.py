# mypy: ignore-errors
# ruff: noqa: ANN201
"""Masks of columns that hold everywhere, beside those of rows that depend on numbers in memory."""

import itertools

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import need_machine_code
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


def ragged_sums(columns: int):
    """Sums along rows that a table gives, 32 columns at a time; rows beyond the last are zero."""

    @T.prim_func
    def ragged_sums(
        X: T.Tensor((40, columns), "float16"),
        Ends: T.Tensor((3,), "int32"),
        Sums: T.Tensor((2, 32), "float32"),
    ) -> None:
        with T.Kernel(2, threads=128) as block:
            x = T.alloc_fragment((32, 32), "float16")
            added = T.alloc_fragment((32, 32), "float32")
            sums = T.alloc_fragment((32,), "float32")
            first = Ends[block]
            rows = Ends[block + 1] - first
            T.clear(added)
            for k in range(T.ceildiv(columns, 32)):
                for i, j in T.Parallel(32, 32):
                    if i < rows and k * 32 + j < columns:
                        x[i, j] = X[first + i, k * 32 + j]
                    else:
                        x[i, j] = 0
                for i, j in T.Parallel(32, 32):
                    added[i, j] += x[i, j]
            T.reduce_sum(added, sums, dim=1)
            T.copy(sums, Sums[block, 0])

    return ragged_sums


@pytest.mark.spread(without=["96-True"])
@pytest.mark.parametrize(("columns", "holds"), [(128, True), (96, True), (120, False)])
def test_rows_are_read_in_vectors(columns: int, holds: bool) -> None:
    """Where all columns are there, also in blocks whose rows are not all there."""
    program = compile_cuda(
        tileprof.compile(ragged_sums(columns)).program.kernel, find_target("sm_90a")
    )
    assert (f"{columns} - (k * 32)" in program.source.text) != holds
    x = np.random.default_rng(0).integers(-4, 5, (40, columns)).astype(np.float16)
    for ends in ([0, 32, 40], [0, 7, 39], [5, 5, 37]):
        got = np.full((2, 32), np.nan, np.float32)
        emulate(program.source, program.kernel, [x, np.array(ends, np.int32), got])
        want = np.zeros((2, 32), np.float32)
        for block, (first, end) in enumerate(itertools.pairwise(ends)):
            want[block, : end - first] = x[first:end].astype(np.float32).sum(1)
        np.testing.assert_array_equal(got, want)


@pytest.mark.sweep
def test_no_element_is_read_alone() -> None:
    """The machine code has no load of two bytes, in neither form of the loop."""
    need_machine_code()
    program = compile_cuda(tileprof.compile(ragged_sums(128)).program.kernel, find_target("sm_90a"))
    text = disassemble(program.cubin)
    assert "LDG.E.128" in text
    assert "LDG.E.U16" not in text
