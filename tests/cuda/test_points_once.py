# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Points that must run once, although several threads hold their fragment or their place."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.gpu.tiles import chained
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.emulator import emulate
from tileprof.runtime.interpreter import InterpreterExecutable


@T.prim_func
def counters(X: T.Tensor((8,), T.int32), Y: T.Tensor((8,), T.int32)):
    """Fewer points than threads."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(8):
            Y[i] = T.atomic_add(X[i], 3, return_prev=True) * 2


@T.prim_func
def guarded(X: T.Tensor((8,), T.int32), Y: T.Tensor((8,), T.int32)):
    """What the other threads do not know decides."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(8):
            old = T.atomic_max(X[i], 2, return_prev=True)
            if old < 2:
                Y[i] = old


@T.prim_func
def slots(X: T.Tensor((8,), T.int32), Y: T.Tensor((8, 64), T.int32)):
    """A fragment that all threads of a row hold."""
    with T.Kernel(1, threads=128):
        found = T.alloc_fragment((8,), T.int32)
        tile = T.alloc_fragment((8, 64), T.int32)
        for i in T.Parallel(8):
            found[i] = T.atomic_add(X[i], 1, return_prev=True)
        for i, j in T.Parallel(8, 64):
            tile[i, j] = found[i] * 64 + j
        for i, j in T.Parallel(8, 64):
            Y[i, j] = tile[i, j]


@T.prim_func
def some(X: T.Tensor((8,), T.int32), Y: T.Tensor((8, 64), T.int32)):
    """A fragment of which some elements keep what they had."""
    with T.Kernel(1, threads=128):
        found = T.alloc_fragment((8,), T.int32)
        T.fill(found, 7)
        for i in T.Parallel(8):
            if X[i] > 0:
                found[i] = found[i] + T.atomic_add(X[i], 1, return_prev=True)
        for i, j in T.Parallel(8, 64):
            Y[i, j] = found[i] + j


@T.prim_func
def taken(X: T.Tensor((8,), T.int32), Y: T.Tensor((8, 512), T.int32)):
    """Read and then overwritten by a loop that several threads run."""
    with T.Kernel(1, threads=128):
        held = T.alloc_fragment((8,), T.int32)
        for i in T.Parallel(8):
            held[i] = X[i]
            X[i] = 0
        for i, j in T.Parallel(8, 512):
            Y[i, j] = held[i] + j


KERNELS = {
    "counters": (counters, (8,)),
    "guarded": (guarded, (8,)),
    "slots": (slots, (8, 64)),
    "some": (some, (8, 64)),
    "taken": (taken, (8, 512)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_point_happens_once(name):
    """Equal to the interpreter, whichever warp comes first."""
    function, shape = KERNELS[name]
    kernel = prove_bounds(simplify(tileprof.compile(function).program.kernel))
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    arrays = [np.arange(-2, 6, dtype=np.int32), np.zeros(shape, np.int32)]
    expected = [a.copy() for a in arrays]
    InterpreterExecutable(kernel).run(expected, ())
    for seed in range(4):
        found = [a.copy() for a in arrays]
        emulate(program.source, program.kernel, found, {}, seed=seed)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_fragment_that_is_filled_through_shared_memory_is_told():
    """The remark names the buffer and the reason."""
    kernel = prove_bounds(simplify(tileprof.compile(slots).program.kernel))
    remarks = compile_cuda(kernel, find_target("sm_90a")).remarks
    (told,) = [r for r in remarks if "filled through shared memory" in str(r)]
    assert "found" in str(told)


def test_a_fragment_that_is_filled_is_converted_after_the_loop_alone():
    """What it had before is nobody's."""
    tile = np.zeros((64, 64), ml_dtypes.float8_e4m3fn)
    kernel = prove_bounds(simplify(chained.compile(tile, tile, tile).traced))
    ops = list(compile_cuda(kernel, find_target("sm_90a")).kernel.ops())
    (convert,) = [op for op in ops if isinstance(op, ir.ConvertLayout)]
    assert convert.scratch is None
