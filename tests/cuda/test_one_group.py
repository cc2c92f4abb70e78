"""Blocks of one consumer warp group: a warp that loads for them, loops of one stage, loads in
branches, several blocks a multiprocessor, and a second group where one cannot hold the sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.cuda import group_kernels as kernels
from tests.lang.examples import flash_attention
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.copies import DisableTma, TileAlsoWritten, TmaLoad
from tileprof.remarks.launches import DeepRing, SecondSlots, SecondStage, WarpGroups

Array = np.ndarray[Any, Any]


def lowered(kernel: ir.Kernel, **controls: Any) -> CudaProgram:
    """The program for a GPU with TMA."""
    program = compile_cuda(kernel, find_target("sm_90a"), Controls(**controls))
    ir.verify(program.kernel)
    return program


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers: sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def product(a: Array, b: Array) -> Array:
    """A · Bᵀ."""
    made: Array = a.astype(np.float32) @ b.astype(np.float32).T
    return made


def check(program: CudaProgram, arrays: Sequence[Array], want: Array) -> None:
    """Emulate with copies that complete late, in several orders."""
    for seed in range(3):
        got = np.full(want.shape, np.nan, np.float32)
        emulate(program.source, program.kernel, [*arrays, got], seed=seed)
        np.testing.assert_array_equal(got, want)


def rings(program: CudaProgram) -> list[int]:
    """Stages of the rings."""
    return [o.stages for o in program.kernel.ops() if isinstance(o, ir.Ring)]


def decides(program: CudaProgram, kind: type) -> bool:
    """Whether a remark has such a decision."""
    return any(isinstance(r.decision, kind) for r in program.remarks)


@pytest.mark.parametrize("stages", [1, 3])
def test_one_warp_loads_for_one_group(stages: int) -> None:
    """A producer from which no registers are taken is one warp, also where a loop has one stage."""
    program = lowered(kernels.product.compile(M=128, N=128, K=256, stages=stages).program.kernel)
    (launch,) = program.source.launches
    assert launch.threads == 128 + 32
    a, b = numbers(128, 256), numbers(128, 256, seed=1)
    check(program, [a, b], product(a, b))


def test_two_groups_keep_a_whole_group_that_loads() -> None:
    """`setmaxnreg` takes registers from a whole warp group."""
    made = kernels.product.compile(M=128, N=64, K=256, rows=128, threads=256, stages=2)
    program = lowered(made.program.kernel)
    (launch,) = program.source.launches
    (roles,) = (o for o in program.kernel.ops() if isinstance(o, ir.Roles))
    assert launch.threads == 256 + 128
    assert roles.producer_registers


def test_loop_of_one_stage_gets_another_where_memory_has_room() -> None:
    """It keeps one where that takes the place of a block; by a control, none is ahead."""
    kernel = kernels.product.compile(M=128, N=128, K=256).program.kernel
    assert rings(lowered(kernel)) == [2]
    assert decides(lowered(kernel), SecondStage)
    assert not rings(lowered(kernel, stages=1))
    wide = kernels.product.compile(M=64 * 1024, N=256, K=256, columns=256).program.kernel
    assert rings(lowered(wide)) == [1]
    assert not decides(lowered(wide), SecondStage)


def test_ring_is_as_deep_as_loads_last() -> None:
    """Products of several groups that are over before a load get more stages than asked for; long
    ones, a control and a block of one group keep what they have."""
    shape = {"M": 128, "N": 64, "K": 512, "rows": 128, "threads": 256, "stages": 2}
    kernel = kernels.product.compile(**shape).program.kernel
    program = lowered(kernel)
    assert rings(program) == [5]
    assert decides(program, DeepRing)
    a, b = numbers(128, 512), numbers(64, 512, seed=1)
    check(program, [a, b], product(a, b))
    assert rings(lowered(kernel, stages=2)) == [2]
    long = kernels.product.compile(**{**shape, "N": 256, "columns": 256}).program.kernel
    one = kernels.product.compile(M=64, N=64, K=512, stages=2).program.kernel
    for kept in map(lowered, (long, one)):
        assert rings(kept) == [2]
        assert not decides(kept, DeepRing)


@pytest.mark.parametrize("stages", [1, 2])
def test_threads_that_wait_for_own_loads_need_no_producer(stages: int) -> None:
    """With one stage other blocks work meanwhile; who asks for two gets loads ahead."""
    made = kernels.scaled_product.compile(M=64, N=64, K=256, P=4, stages=stages)
    program = lowered(made.program.kernel)
    reasons = [str(r) for r in program.remarks if "loads of their own" in str(r)]
    assert bool(reasons) == (stages == 1)
    assert any(isinstance(o, ir.Roles) for o in program.kernel.ops()) == (stages == 2)
    a, b = numbers(64, 256), numbers(64, 256, seed=1)
    scale = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    parts = (product(a[:, k : k + 64], b[:, k : k + 64]) for k in range(0, 256, 64))
    want = sum(part * each[:, None] for part, each in zip(parts, scale))
    check(program, [a, b, scale], np.asarray(want, np.float32))


def test_blocks_of_one_group_stay_in_the_number_that_fits() -> None:
    """More tiles than blocks that fit: each multiprocessor keeps several blocks."""
    program = lowered(kernels.product.compile(M=64 * 64, N=64 * 64, K=64).program.kernel)
    (launch,) = program.source.launches
    assert launch.persistent > 1
    # Each has a place in shared memory.
    assert launch.persistent * (launch.shared + 1024) <= 228 << 10
    many = lowered(kernels.product.compile(M=64 * 16, N=64 * 16, K=64).program.kernel)
    assert many.source.launches[0].persistent == 0, "256 blocks fit at once"


@pytest.mark.parametrize(("columns", "lags"), [(64, False), (256, True)])
def test_slots_are_freed_late_only_where_products_outlast_a_load(columns: int, lags: bool) -> None:
    """Of three slots, one that is freed late leaves one that is loaded beside the product."""
    made = kernels.product.compile(M=128, N=256, K=512, stages=3, columns=columns)
    program = lowered(made.program.kernel)
    releases = [o for o in program.kernel.ops() if isinstance(o, ir.RingRelease)]
    assert releases
    assert any(o.lag for o in releases) == lags


@pytest.mark.parametrize("stages", [1, 2])
def test_loads_in_a_branch_of_a_loop_run_ahead(stages: int) -> None:
    """Both roles take the branch, so that slots stay in step whatever the mask has."""
    made = kernels.sparse_product.compile(M=128, N=128, K=512, P=8, stages=stages)
    program = lowered(made.program.kernel)
    assert rings(program) == [2]
    a, b = numbers(128, 512), numbers(128, 512, seed=1)
    mask = np.array([[1, 0, 1, 1, 0, 0, 1, 0], [0] * 8], np.int32)
    wide = a.reshape(2, 64, 8, 64) * mask[:, None, :, None]
    check(program, [a, b, mask], product(wide.reshape(128, 512), b))


@pytest.mark.parametrize("changed", [False, True])
def test_elements_of_a_copied_tile_decide_over_loads(changed: bool) -> None:
    """A producer reads them from the tensor, unless the tile is something else by then."""
    made = kernels.masked_product.compile(M=128, N=128, K=512, P=8, changed=changed)
    program = lowered(made.program.kernel)
    assert rings(program) == ([] if changed else [2])
    a, b = numbers(128, 512), numbers(128, 512, seed=1)
    mask = np.array([[1, 0, 1, 1, 0, 0, 1, 0], [0, 1] * 4], np.int32)
    wide = a.reshape(2, 64, 8, 64) * (mask ^ changed)[:, None, :, None]
    check(program, [a, b, mask], product(wide.reshape(128, 512), b))


def test_sums_that_do_not_fit_get_a_second_group() -> None:
    """128 x 128 sums of two products need 256 registers of a thread in one warp group."""
    program = lowered(kernels.chained.compile(N=256).program.kernel)
    assert program.source.launches[0].threads == 256 + 128
    assert decides(program, WarpGroups)
    q, k, v = numbers(128, 64), numbers(256, 64, seed=1), numbers(256, 128, seed=2)
    scores = product(q, k).astype(np.float16).astype(np.float32)
    check(program, [q, k, v], scores @ v.astype(np.float32))


def test_attention_of_wide_tiles_gets_a_second_group() -> None:
    """The two groups then take turns, and blocks loop over tiles."""
    kernel = flash_attention(1, 1, 256, 128, True, 128, 128).program.kernel
    program = lowered(kernel, persistent=True)
    assert program.source.launches[0].threads == 256 + 128
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 256, 1, 128)).astype(np.float16) for _ in range(3))
    got = np.zeros_like(q)
    emulate(program.source, program.kernel, [q, k, v, got])
    scores = product(q[0, :, 0], k[0, :, 0]) / np.sqrt(128)
    scores[np.triu(np.full(scores.shape, True), 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    want = weights @ v[0, :, 0].astype(np.float32) / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(got[0, :, 0], want, rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("given", "controls"),
    [({"by_columns": True}, {}), ({}, {"registers": 255}), ({"threads": 256}, {})],
    ids=["columns are divided", "registers are limited", "two groups already"],
)
def test_author_s_threads_stay(given: dict[str, Any], controls: dict[str, Any]) -> None:
    """Nothing is changed that the author has decided, or that would not help."""
    program = lowered(kernels.chained.compile(N=256, **given).program.kernel, **controls)
    assert not decides(program, WarpGroups)


@pytest.mark.parametrize(("first", "count"), [(24, 16), (5, 1)])
def test_part_of_a_sum_leaves_it_in_registers(first: int, count: int) -> None:
    """Rows are stored from the registers that have them."""
    program = lowered(kernels.part_stored.compile(first=first, count=count).program.kernel)
    assert not any("in shared memory" in str(r) for r in program.remarks)
    a, b = numbers(64, 64), numbers(64, 64, seed=1)
    check(program, [a, b], product(a, b)[first : first + count])


def test_part_of_a_sum_is_loaded_into_registers() -> None:
    """Other rows keep what they had."""
    program = lowered(kernels.part_loaded.compile(first=8, count=8).program.kernel)
    assert not any("in shared memory" in str(r) for r in program.remarks)
    a, b, d = numbers(64, 64), numbers(64, 64, seed=1), numbers(8, 64, seed=2).astype(np.float32)
    want = product(a, b)
    want[8:16] += d
    check(program, [a, b, d], want)


def carried(a: Array, b: Array, d: Array, g: Array) -> tuple[Array, Array]:
    """What `group_kernels.carried` computes."""
    state = np.zeros((a.shape[1], 32), np.float32)
    made = []
    for at in range(0, len(a), 64):
        part = slice(at, at + 64)
        e = a[part].astype(np.float32) @ state.astype(np.float16) * g[part, 1:] + d[part]
        made.append(e.astype(np.float16))
        state = b[part].T.astype(np.float32) @ made[-1] - state
    return np.concatenate(made), state


@pytest.mark.spread("64-3")
@pytest.mark.parametrize(("wide", "stages"), [(64, 1), (64, 3), (512, 1)])
def test_a_tile_that_threads_write_again_is_loaded_ahead(wide: int, stages: int) -> None:
    """Its slot is theirs until they free it, when a store by TMA has read it as well.  What is not
    to be loaded by TMA is left to threads where a loop of one stage has more to load ahead."""
    kernel = kernels.carried.compile(S=256, state=wide, stages=stages).program.kernel
    program = lowered(kernel)
    asked = [
        r for r in program.remarks if any(isinstance(x.reason, DisableTma) for x in r.rejected)
    ]
    loads = [r.name.partition(" ")[0] for r in program.remarks if isinstance(r.decision, TmaLoad)]
    assert bool(asked)
    if stages > 1:
        assert not loads, "cp.async runs ahead for all the others"
    else:
        assert sorted(loads) == ["A", "B", "D"]
        assert sorted(rings(program)) == ([2, 2, 2] if wide == 64 else [1, 1, 2])
        assert decides(program, SecondStage if wide == 64 else SecondSlots)
        frees = [o for o in program.kernel.ops() if isinstance(o, ir.RingRelease)]
        assert sum(o.fence for o in frees) == 1, "products alone read the other tiles"
    told = [x.reason for r in program.remarks for x in r.rejected]
    assert any(isinstance(x, TileAlsoWritten) for x in told) == (stages > 1)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, (256, wide)).astype(np.float16) / 8 for _ in range(2))
    d, g = numbers(256, 32), rng.integers(-1, 2, (256, 2)).astype(np.float32)
    want = carried(a, b, d, g)
    for seed in range(3):
        got = [np.full(w.shape, np.nan, w.dtype) for w in want]
        emulate(program.source, program.kernel, [a, b, d, g, *got], seed=seed)
        for made, right in zip(got, want):
            np.testing.assert_allclose(made, right, rtol=1e-3, atol=1e-3)
