"""Copies of tiles whose rows are known at launch only: chosen as for fixed rows, checked there."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.source import CudaSource, RowsSpec
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import EmulationError, emulate
from tileprof.remarks.copies import CpAsync, LoadsAndStores, StagedTma, StrideAtLaunch, TmaLoad
from tileprof.runtime.cuda.tensor_maps import fitting, unaligned_params

ALIGNED, RAGGED = (70, 72, 80), (70, 70, 76)
"""M, N and K; rows of the second are 140 and 152 bytes apart."""


def product(*, apart: bool = False) -> Any:
    """A matrix product of which nothing is known before its launch; `apart`: rows of A have a
    distance of their own."""
    M, N, K, step = T.dynamic("m"), T.dynamic("n"), T.dynamic("k"), T.dynamic("step")
    left: Any = (
        T.StridedTensor((M, K), (step, 1), "float16") if apart else T.Tensor((M, K), "float16")
    )

    @T.prim_func
    def product(
        A: left,
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ) -> None:
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return product


KERNEL: ir.Kernel = tileprof.compile(product()).program.kernel


def named(extents: tuple[int, int, int]) -> dict[str, int]:
    """The kernel's symbols."""
    return dict(zip(("m", "n", "k"), extents))


def run(program: CudaProgram, extents: tuple[int, int, int], offset: int = 0) -> None:
    """Emulate on random matrices, which begin `offset` elements behind a multiple of 16 bytes."""
    m, n, k = extents
    rng = np.random.default_rng(0)

    def placed(shape: tuple[int, int]) -> np.ndarray[Any, Any]:
        raw = np.zeros(shape[0] * shape[1] + 64, np.float16)
        start = -raw.ctypes.data % 64 // 2 + offset
        held = raw[start : start + shape[0] * shape[1]].reshape(shape)
        held[:] = rng.standard_normal(shape)
        return held

    a, b, c = placed((m, k)), placed((k, n)), placed((m, n))
    want = a.astype(np.float32) @ b.astype(np.float32)
    emulate(program.source, program.kernel, [a, b, c], named(extents))
    np.testing.assert_allclose(c.astype(np.float32), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("target", "decisions", "rows"),
    [
        ("sm_90a", {TmaLoad, StagedTma}, set()),
        ("sm_80", {CpAsync}, {RowsSpec(0, 8, ("k",)), RowsSpec(1, 8, ("n",))}),
    ],
)
def test_rows_known_at_launch_are_copied_asynchronously(
    target: str, decisions: set[type], rows: set[RowsSpec]
) -> None:
    """The first variant takes rows for multiples of 16 bytes, and names those to look at."""
    program = compile_cuda(KERNEL, TARGETS[target])
    assert decisions <= {type(r.decision) for r in program.remarks if r.op == "copy"}
    (launch,) = program.source.launches
    assert set(launch.rows) == rows
    assert unaligned_params([launch], named(ALIGNED)) == frozenset()
    run(program, ALIGNED)


@pytest.mark.parametrize(
    ("target", "found"), [("sm_90a", frozenset({0, 1, 2})), ("sm_80", frozenset({0, 1}))]
)
def test_ragged_rows_have_a_variant_of_loads_and_stores(target: str, found: frozenset[int]) -> None:
    """The launch asks for it by itself; it keeps wide accesses where addresses allow them."""
    first = compile_cuda(KERNEL, TARGETS[target])
    assert unaligned_params(first.source.launches, named(RAGGED)) == found
    with pytest.raises((EmulationError, AssertionError)):
        run(first, RAGGED)
    program = compile_cuda(KERNEL, TARGETS[target], unaligned=found)
    run(program, RAGGED)
    loads = [r for r in program.remarks if isinstance(r.decision, LoadsAndStores)]
    reasons = {r.reason for each in loads for r in each.rejected}
    assert {StrideAtLaunch("k"), StrideAtLaunch("n")} <= reasons
    assert "(uint64_t)A % 16 == 0" in program.source.text
    run(compile_cuda(KERNEL, TARGETS[target], unaligned=frozenset({0, 1, 2})), RAGGED, offset=1)


def test_a_variant_may_ask_for_more() -> None:
    """Without a producer for B, A is copied in chunks, whose rows have to end at multiples, too."""
    kernel = tileprof.compile(product(apart=True)).program.kernel
    tried = []

    def compiled(unaligned: frozenset[int]) -> CudaSource:
        tried.append(unaligned)
        return compile_cuda(kernel, TARGETS["sm_90a"], unaligned=unaligned).source

    m, n, k = RAGGED
    values = {**named(RAGGED), "step": 80}
    unaligned, source = fitting(compiled, lambda made: made.launches, values)
    assert tried == [frozenset(), frozenset({1, 2}), frozenset({0, 1, 2})]
    assert unaligned == tried[-1]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, 80), (k, n)))
    c = np.zeros((m, n), np.float16)
    emulate(source, kernel, [a[:, :k], b, c], values)
    np.testing.assert_array_equal(c, a[:, :k] @ b)


def test_named_strides_go_into_tensor_maps() -> None:
    """Strides that are symbols of their own are not those of a row-major tensor."""
    rows, step = T.dynamic("rows"), T.dynamic("step")

    @T.prim_func
    def scale(
        A: T.StridedTensor((rows, 64), (step, 1), "float32"), C: T.Tensor((64, 64), "float32")
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((32, 64), "float32")
            for i in T.Pipelined(2, num_stages=2):
                T.copy(A[i * 32, 0], a)
                T.copy(a, C[i * 32, 0])

    kernel = tileprof.compile(scale).program.kernel
    program = compile_cuda(kernel, TARGETS["sm_90a"])
    (launch,) = program.source.launches
    counts = [s.strides for s in launch.maps if s.param == 0]
    counts += [(*n, 1) for r in launch.rows for n in (r.counts,)]
    assert ("step", 1) in counts
    held = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    c = np.zeros((64, 64), np.float32)
    emulate(program.source, program.kernel, [held[:, :64], c], {"rows": 64, "step": 96})
    np.testing.assert_array_equal(c, held[:, :64])
