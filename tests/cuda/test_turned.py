# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Products of float8 with few rows, of the transposed tiles: which of them, and the same sums."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import function
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate
from tileprof.remarks.products import GemmInstruction, Turned

DEPTH = 384


@tileprof.jit
def few(
    A, B, S, C,
    rows: int = 32, columns: int = 128, threads: int = 128, dtype: str = "float8_e4m3",
    kind: str = "scaled",
):  # fmt: skip
    """Each product of 128 of K times a scale for each row, as TileLang's examples write it."""
    A: T.Tensor((rows, DEPTH), dtype)
    B: T.Tensor((columns, DEPTH), dtype)
    S: T.Tensor((rows, DEPTH // 128), T.float32)
    C: T.Tensor((rows, columns), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((rows, 128), dtype)
        b = T.alloc_shared((columns, 128), dtype)
        scales = T.alloc_shared((rows,), T.float32)
        part = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows, columns), T.float32)
        most = T.alloc_fragment((rows,), T.float32)
        T.clear(part)
        T.clear(total)
        for k in T.Pipelined(DEPTH // 128, num_stages=2):
            T.copy(A[0, k * 128], a)
            T.copy(B[0, k * 128], b)
            for i in T.Parallel(rows):
                scales[i] = S[i, k]
            T.gemm(a, b, part, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(rows, columns):
                if kind == "set":
                    part[i, j] = part[i, j] * scales[i]
                total[i, j] += part[i, j] * (1 if kind == "set" else scales[i])
            if kind == "reduced":
                T.reduce_max(part, most, dim=1)
            T.clear(part)
        if kind == "copied":
            T.copy(part, total)
        T.copy(total, C)


def lowered(controls: dict | None = None, target: str = "sm_90a", **options: object) -> CudaProgram:
    """The program for an H200."""
    kernel = few.compile(**options).program.kernel
    return compile_cuda(kernel, find_target(target), Controls(**(controls or {})))


def turned(program: CudaProgram) -> list[Turned]:
    """The products of transposed tiles."""
    return [r.decision for r in program.remarks if isinstance(r.decision, Turned)]


@pytest.mark.spread("48-128-256-set")
@pytest.mark.parametrize(
    ("rows", "columns", "threads", "kind"),
    [(32, 128, 128, "scaled"), (48, 128, 256, "set"), (8, 64, 128, "scaled")],
)
def test_sums(rows: int, columns: int, threads: int, kind: str) -> None:
    """By warp groups, also where sums are written between products."""
    program = lowered(rows=rows, columns=columns, threads=threads, kind=kind)
    ir.verify(program.kernel)
    assert turned(program) == [Turned("part", rows, columns)]
    (said,) = (r.decision for r in program.remarks if isinstance(r.decision, GemmInstruction))
    assert said.instruction == "wgmma"
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, (n, DEPTH)).astype(ml_dtypes.float8_e4m3fn) for n in (rows, columns)
    )
    s = rng.integers(-3, 4, (rows, DEPTH // 128)).astype(np.float32)
    scaled = a.astype(np.float32) * np.repeat(s, 128, 1)
    want = scaled @ b.astype(np.float32).T
    for seed in range(2):
        c = np.zeros_like(want)
        emulate(program.source, program.kernel, [a, b, s, c], seed=seed, watch=Watch())
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize(
    ("options", "controls", "target"),
    [
        ({"rows": 64}, {}, "sm_90a"),
        ({"columns": 96}, {}, "sm_90a"),
        ({"dtype": "bfloat16"}, {}, "sm_90a"),
        ({"kind": "reduced"}, {}, "sm_90a"),
        ({"kind": "copied"}, {}, "sm_90a"),
        ({"threads": 64}, {}, "sm_90a"),
        ({}, {"wgmma": False}, "sm_90a"),
        ({}, {}, "sm_80"),
    ],
    ids=[
        "rows enough",
        "96 columns",
        "bfloat16",
        "reduced",
        "copied",
        "64 threads",
        "off",
        "Ampere",
    ],
)
def test_others_stay(options: dict, controls: dict, target: str) -> None:
    """What warp groups multiply as it is or not at all, other types, and sums used as a whole."""
    assert turned(lowered(controls, target, **options)) == []


@pytest.mark.sweep
def test_code() -> None:
    """No operand is converted, and no product waits for another."""
    pytest.importorskip("cuda.bindings.nvrtc")
    program = lowered()
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    whole = function(program)
    loop = min((list(whole.inside(each)) for each in whole.loops), key=_without_products)
    names = Counter(each.name for each in loop)
    assert (names["QGMMA"], names["HMMA"], names["F2FP"]) == (8, 0, 0)
    assert names["FFMA"] == 32


def _without_products(loop: list) -> tuple[bool, int]:
    return not any(each.name == "QGMMA" for each in loop), len(loop)
