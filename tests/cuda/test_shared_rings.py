"""Tiles that several loops load in turn go through one ring, and a producer loads only what it can
find by itself, wherever the load stands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.ring_kernels import (
    ROWS,
    WIDTH,
    found_rows,
    of_groups,
    tile_of_the_loop,
    two_loops,
    walking,
)
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.copies import LoadsAndStores, TmaLoad
from tileprof.remarks.launches import MulticastLoad

Array = np.ndarray[Any, Any]


def lowered(kernel: ir.Kernel) -> CudaProgram:
    """The program for a GPU with TMA."""
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    return program


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers: sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


@pytest.mark.spread("other stages")
@pytest.mark.parametrize(("second", "rings"), [(2, 2), (3, 4)], ids=["same", "other stages"])
def test_loops_in_turn(second: int, rings: int) -> None:
    """One ring a tile where both loops have as many stages; slots stay in step over tiles."""
    m, k = 4 * ROWS, 5 * 64
    kernel = two_loops.compile(M=m, K=k, second=second).program.kernel
    program = lowered(kernel)
    assert sum(isinstance(o, ir.Ring) for o in program.kernel.ops()) == rings
    a, b = numbers(m, k), numbers(WIDTH, k, seed=1)
    wide = a.astype(np.float32)
    for row in range(4):
        wide[row * ROWS : (row + 1) * ROWS, (5 - row) * 64 :] *= 2
    want = wide @ b.astype(np.float32).T
    for seed in range(3):
        c = np.zeros((m, WIDTH), np.float32)
        emulate(program.source, program.kernel, [a, b, c], seed=seed)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("first", [False, True], ids=["address", "branch"])
def test_loads_that_follow_from_the_block(first: bool) -> None:
    """The producer cannot find them, though they stand beside a loop that it loads for."""
    kernel = found_rows.compile(M=256, K=128, first=first).program.kernel
    program = lowered(kernel)
    (about,) = (r for r in program.remarks if r.subject == "copy A → d")
    assert about.decision == LoadsAndStores()
    assert "depends on what the block computes" in about.against
    assert TmaLoad() in [r.decision for r in program.remarks if r.subject == "copy A → a"]
    a, b, rows = numbers(256, 128), numbers(WIDTH, 128, seed=1), np.array([2], np.int32)
    c, d = np.zeros((ROWS, WIDTH), np.float32), np.zeros((ROWS, 64), ml_dtypes.bfloat16)
    emulate(program.source, program.kernel, [a, b, rows, c, d])
    np.testing.assert_array_equal(d, a[16 : 16 + ROWS, :64])
    np.testing.assert_array_equal(c, a[:ROWS].astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_tile_allocated_in_the_loop_is_loaded_ahead(target: str) -> None:
    """The loads in front of a loop find the ring of a tile that the loop allocates."""
    kernel = tile_of_the_loop.compile(M=64, N=64).program.kernel
    program = compile_cuda(kernel, find_target(target))
    x = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float32)
    for seed in range(3):
        y = np.zeros(64, np.float32)
        emulate(program.source, program.kernel, [x, y], seed=seed)
        np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize(("target", "ahead"), [("sm_90a", "Acquire"), ("sm_80", "Commit")])
def test_tiles_of_a_group_that_the_block_finds_are_loaded_ahead(target: str, ahead: str) -> None:
    """The producer looks for the group by itself; without one, the prologue knows it."""
    kernel = of_groups.compile(M=4 * ROWS, K=256, G=3).program.kernel
    program = compile_cuda(kernel, find_target(target))
    assert not [str(r) for r in program.remarks if "waited for immediately" in str(r)]
    assert [o for o in program.kernel.ops() if type(o).__name__.endswith(ahead)]
    a, b = numbers(4 * ROWS, 256), numbers(3, WIDTH, 256, seed=1)
    ends = np.array([ROWS, 3 * ROWS, 4 * ROWS], np.int32)
    parts = a.astype(np.float32).reshape(4, ROWS, 256)
    want = np.concatenate([x @ b[g].astype(np.float32).T for x, g in zip(parts, (0, 1, 1, 2))])
    for seed in range(3):
        c = np.zeros((4 * ROWS, WIDTH), np.float32)
        emulate(program.source, program.kernel, [a, b, ends, c], seed=seed)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_a_variable_that_the_loop_moves_is_followed(target: str) -> None:
    """A producer has one of its own; loads by all threads cannot run ahead of it."""
    kernel = walking.compile(M=2 * ROWS, K=384).program.kernel
    program = compile_cuda(kernel, find_target(target))
    late = [r for r in program.remarks if "waited for immediately" in str(r)]
    assert bool(late) == (target == "sm_80")
    a, b = numbers(2 * ROWS, 384), numbers(WIDTH, 384, seed=1)
    steps = np.array([1, 0, 2, -1, 3, 1], np.int32)
    wide, other = a.astype(np.float32), b.astype(np.float32)
    want = np.zeros((2 * ROWS, WIDTH), np.float32)
    for block in range(2):
        rows, at = slice(block * ROWS, (block + 1) * ROWS), block
        for step in steps:
            part = slice(at * 64, (at + 1) * 64)
            want[rows] += wide[rows, part] @ other[:, part].T
            at = (at + max(step, 0)) % 6
    for seed in range(3):
        c = np.zeros((2 * ROWS, WIDTH), np.float32)
        emulate(program.source, program.kernel, [a, b, steps, c], seed=seed)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("forward", [True, False])
def test_blocks_share_tiles_where_variables_are_equal(forward: bool) -> None:
    """What is stored to a variable decides whether the blocks of a cluster find the same tile."""
    kernel = walking.compile(M=4 * ROWS, K=384, forward=forward).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), Controls(cluster=2))
    shared = [r.subject for r in program.remarks if isinstance(r.decision, MulticastLoad)]
    assert shared == ([] if forward else ["copy B → b"])
