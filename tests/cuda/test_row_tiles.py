# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Rows of tensors that the producer loads as tiles: which of them, and the same sums."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate
from tileprof.remarks.layouts import LoadedAsTile

ROUNDS, ROWS, COLUMNS = 5, 128, 64


@tileprof.jit
def scaled(A, B, S, C, rows: int = 120, kind: str = "ahead", stages: int = 3):
    """Each product times a scale for each of its rows, of another row of S in each round."""
    A: T.Tensor((rows, 64 * ROUNDS), T.bfloat16)
    B: T.Tensor((COLUMNS, 64 * ROUNDS), T.bfloat16)
    S: T.Tensor((ROUNDS + 1, rows), T.float32)
    C: T.Tensor((rows, COLUMNS), T.float32)
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((COLUMNS, 64), T.bfloat16)
        part = T.alloc_fragment((ROWS, COLUMNS), T.float32)
        total = T.alloc_fragment((ROWS, COLUMNS), T.float32)
        T.clear(total)
        for k in T.Pipelined(ROUNDS, num_stages=stages):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, COLUMNS):
                if kind == "same":
                    total[i, j] += part[i, j] * S[1, i]
                elif kind == "turned":
                    total[i, j] += part[i, j] * S[k, 127 - i]
                elif kind == "two":
                    total[i, j] += part[i, j] * S[k, i] + S[k + 1, j]
                else:
                    total[i, j] += part[i, j] * S[k, i]
        if kind == "written":
            for i in T.Parallel(64):
                S[0, i] = 1
        T.copy(total, C[0, 0])


def lowered(controls: Controls | None = None, **options: object) -> CudaProgram:
    """The program for an H200."""
    return compile_cuda(
        scaled.compile(**options).program.kernel, find_target("sm_90a"), controls or Controls()
    )


def tiles(program: CudaProgram) -> list[int]:
    """The elements of each row that is a tile."""
    return [r.decision.elements for r in program.remarks if isinstance(r.decision, LoadedAsTile)]


@pytest.mark.spread("two-120")
@pytest.mark.parametrize(("kind", "rows"), [("ahead", 128), ("two", 120)])
def test_sums(kind: str, rows: int) -> None:
    """Also where the last rows lie outside of the tensor, and with columns beside rows."""
    program = lowered(kind=kind, rows=rows)
    ir.verify(program.kernel)
    assert tiles(program) == [ROWS, COLUMNS][: 1 + (kind == "two")]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, (n, 64 * ROUNDS)).astype(ml_dtypes.bfloat16) for n in (rows, COLUMNS)
    )
    s = rng.integers(-3, 4, (ROUNDS + 1, rows)).astype(np.float32)
    want = np.zeros((rows, COLUMNS), np.float32)
    for k in range(ROUNDS):
        x, y = (m[:, k * 64 : k * 64 + 64].astype(np.float32) for m in (a, b))
        want += (x @ y.T) * s[k][:, None] + (s[k + 1][:COLUMNS] if kind == "two" else 0)
    for seed in range(3):
        c = np.zeros_like(want)
        emulate(program.source, program.kernel, [a, b, s, c], seed=seed, watch=Watch())
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize(
    ("options", "controls"),
    [
        ({"kind": "same"}, {}),
        ({"kind": "turned", "rows": 128}, {}),
        ({"kind": "written"}, {}),
        ({"rows": 122}, {}),
        ({"stages": 1}, {}),
        ({"stages": 9}, {}),
        ({}, {"synchronous": ("S",)}),
    ],
    ids=[
        "of all rounds",
        "downwards",
        "written",
        "unaligned rows",
        "one stage",
        "no memory",
        "synchronous",
    ],
)
def test_others_are_loaded_by_threads(options: dict, controls: dict) -> None:
    """Rows that are the same in all rounds, that TMA cannot load, and where nothing is ahead."""
    assert tiles(lowered(Controls(**controls), **options)) == []
