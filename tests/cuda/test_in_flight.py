# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.
"""Serial loops that read tiles from global memory into registers, and products of halves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import need_machine_code
from tileprof.compiler import compile_kernel
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


def row_products(columns: int = 128, dtype: str = "float16", through: str = "fragment") -> Any:
    """Sums of products along rows, 32 columns at a time; `through`: where the tiles are held.
    Tiles of shared memory are read by other threads than those that wrote them."""
    alloc = T.alloc_fragment if through == "fragment" else T.alloc_shared

    @T.prim_func
    def row_products(
        X: T.Tensor((64, columns), dtype),
        Y: T.Tensor((64, columns), dtype),
        Z: T.Tensor((64,), "float32"),
    ) -> None:
        with T.Kernel(2, threads=128) as bx:
            x = alloc((32, 32), dtype)
            y = alloc((32, 32), dtype)
            products = T.alloc_fragment((32, 32), "float32")
            sums = T.alloc_fragment((32,), "float32")
            T.clear(products)
            for k in range(columns // 32):
                T.copy(X[bx * 32, k * 32], x)
                T.copy(Y[bx * 32, k * 32], y)
                for i, j in T.Parallel(32, 32):
                    if through == "fragment":
                        products[i, j] += x[i, j] * y[i, j]
                    else:
                        products[i, j] += x[j, i] * y[j, i]
            T.reduce_sum(products, sums, dim=1)
            T.copy(sums, Z[bx * 32])

    return row_products


def shifted(columns: int = 128) -> Any:
    """Each iteration reads what the one before it wrote."""

    @T.prim_func
    def shifted(X: T.Tensor((32, columns), "float32")) -> None:
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((32, 32), "float32")
            for k in range(columns // 32 - 1):
                T.copy(X[0, k * 32], x)
                T.copy(x, X[0, k * 32 + 32])

    return shifted


def one_warp(columns: int = 640, threads: int = 32) -> Any:
    """Products of rows and a vector, through shared memory that other lanes read."""

    @T.prim_func
    def one_warp(
        X: T.Tensor((16, columns), "float16"),
        V: T.Tensor((columns,), "float16"),
        Z: T.Tensor((16,), "float32"),
    ) -> None:
        with T.Kernel(4, threads=threads) as bx:
            x = T.alloc_shared((4, 32), "float16")
            v = T.alloc_fragment((32,), "float16")
            part = T.alloc_fragment((4, 32), "float32")
            sums = T.alloc_fragment((4,), "float32")
            T.clear(sums)
            for k in range(columns // 32):
                T.copy(X[bx * 4, k * 32], x)
                T.copy(V[k * 32], v)
                for i, j in T.Parallel(4, 32):
                    part[i, j] = x[3 - i, j] * v[j]
                T.reduce_sum(part, sums, dim=1, clear=False)
            T.copy(sums, Z[bx * 4])

    return one_warp


def padded() -> Any:
    """Rows up to a number that the kernel reads, and zeros below them."""

    @T.prim_func
    def padded(
        X: T.Tensor((256, 192), "float16"),
        Y: T.Tensor((256, 192), "float16"),
        Rows: T.Tensor((1,), "int32"),
    ) -> None:
        with T.Kernel(2, threads=128) as bx:
            x = T.alloc_shared((128, 192), "float16")
            rows = Rows[0]
            for i, j in T.Parallel(128, 192):
                if bx * 128 + i < rows:
                    x[i, j] = X[bx * 128 + i, j]
                else:
                    x[i, j] = 0.0
            T.copy(x, Y[bx * 128, 0])

    return padded


def lowered(function: Any, **controls: Any) -> CudaProgram:
    """The kernel for a GPU."""
    kernel = compile_kernel(tileprof.compile(function).traced).kernel
    return compile_cuda(kernel, find_target("sm_90a"), Controls(**controls))


def pragma(program: CudaProgram) -> str:
    """Return the line of text before the serial loop, where its `#pragma` stands."""
    lines = program.source.text.splitlines()
    at = next(n for n, line in enumerate(lines) if re.search(r"for \(int k = 0", line))
    return lines[at - 1].strip()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(row_products(), "#pragma unroll", id="all iterations"),
        pytest.param(row_products(2048), "#pragma unroll 8", id="as many as fit"),
        pytest.param(row_products(through="shared"), "#pragma unroll 1", id="barriers between"),
        pytest.param(shifted(), "#pragma unroll 1", id="reads what it wrote"),
        pytest.param(one_warp(), "#pragma unroll 8", id="barriers of one warp"),
        pytest.param(one_warp(128), "#pragma unroll", id="all iterations of one warp"),
        pytest.param(one_warp(threads=64), "#pragma unroll 1", id="two warps"),
    ],
)
def test_iterations_that_are_written_out(function: Any, expected: str) -> None:
    """Those whose loads do not wait for the iteration before."""
    assert pragma(lowered(function)) == expected


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_results(dtype: str) -> None:
    """They are those of the loop."""
    program = lowered(row_products(dtype=dtype))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((64, 128)).astype(dtype) for _ in range(2))
    z = np.zeros(64, np.float32)
    emulate(program.source, program.kernel, [x, y, z])
    np.testing.assert_allclose(z, (x * y).astype(np.float32).sum(1), rtol=1e-5, atol=1e-5)


def test_results_of_one_warp() -> None:
    """Lanes find what others wrote in this iteration, not in the next one."""
    program = lowered(one_warp())
    rng = np.random.default_rng(0)
    x, v = (rng.integers(-3, 4, s).astype(np.float16) for s in ((16, 640), (640,)))
    for seed in range(3):
        z = np.zeros(16, np.float32)
        emulate(program.source, program.kernel, [x, v, z], seed=seed)
        want = (x.astype(np.float32) @ v.astype(np.float32)).reshape(4, 4)[:, ::-1]
        np.testing.assert_array_equal(z, want.ravel())


def test_loads_come_first_in_machine_code() -> None:
    """All eight, before the first product; and halves are multiplied in pairs, as halves."""
    need_machine_code()
    text = disassemble(lowered(row_products()).cubin)
    loads = [m.start() for m in re.finditer(r"LDG\.E\.128", text)]
    products = [m.start() for m in re.finditer(r"HMUL2|HFMA2\S* R\d+, R\d+", text)]
    assert len(loads) == 8
    assert len(products) == 16
    assert max(loads) < min(products)
    assert "F2FP" not in text


@pytest.mark.parametrize("rows", [256, 200, 7, 0])
def test_rows_beyond_a_number_are_zeros(rows: int) -> None:
    """Whole vectors are read, or none."""
    program = lowered(padded())
    assert "tp_get_global_where<8>" in program.source.text
    x = np.random.default_rng(0).standard_normal((256, 192)).astype(np.float16)
    y = np.ones_like(x)
    emulate(program.source, program.kernel, [x, y, np.array([rows], np.int32)])
    np.testing.assert_array_equal(y, np.where(np.arange(256)[:, None] < rows, x, 0))


def test_halves_that_are_read_under_a_condition_share_registers() -> None:
    """Two to a register: what is read ahead takes 64, and one for each half would take 128."""
    need_machine_code()
    (held,) = lowered(padded()).cubin.resources.values()
    assert held.registers < 128
    assert held.spill_stores == 0


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
def test_halves_are_rounded_once(kind: str) -> None:
    """A half of a float's result is the half of the exact one, denormals and infinity included:
    a double holds the exact one."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 16, (2, 1 << 18), dtype=np.uint16)
    a, b = bits.view(np.float16)
    operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[kind]
    with np.errstate(all="ignore"):
        twice = operation(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
        once = operation(a.astype(np.float64), b.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(twice, once)


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
def test_halves_are_computed_as_halves(kind: str) -> None:
    """Where both operands are as they lie in memory; other types keep to floats."""

    def text(dtype: str) -> str:
        @T.prim_func
        def both(
            X: T.Tensor((256,), dtype), Y: T.Tensor((256,), dtype), Z: T.Tensor((256,), "float32")
        ) -> None:
            with T.Kernel(1, threads=128):
                for i in T.Parallel(256):
                    x, y = X[i], Y[i]
                    Z[i] = x + y if kind == "add" else x - y if kind == "sub" else x * y

        return lowered(both).source.text

    assert f"tp_half_{kind}(" in text("float16")
    assert "tp_half" not in text("bfloat16")
