"""Persistent blocks that take the next tile when they are free: when they do, that every tile is
done once, and what it takes in machine code."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import checked, compile_together, function, need_machine_code
from tests.cuda.multicast_kernels import product
from tests.cuda.test_marks import recorded, shown
from tests.cuda.tile_order_kernels import tiles_of, triangle
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls, parse_controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import EmulationError, emulate
from tileprof.errors import UsageError
from tileprof.instrument import Mode
from tileprof.remarks.launches import TilesDealt, TilesInTurn, TwoSlots

Array = np.ndarray[Any, Any]


def is_dynamic(program: CudaProgram) -> bool:
    """Whether its blocks share a counter."""
    return any(a.kind == "counter" for s in program.source.launches for a in s.arguments)


def about_order(program: CudaProgram) -> list[str]:
    """What is said of the order of tiles."""
    said = [r for r in program.remarks if isinstance(r.decision, TilesInTurn | TilesDealt)]
    return [f"{r.decision}{''.join(f' ({each})' for each in r.rejected)}" for r in said]


# -- what a tile loads once


def once_loaded(columns: int, wide: int = 64) -> ir.Kernel:
    """A product of which A is loaded before the loop, 128 bytes for each of `columns` columns."""

    @T.prim_func
    def main(
        A: T.Tensor((300 * 64, columns), T.bfloat16),
        B: T.Tensor((columns * 4, wide), T.bfloat16),
        C: T.Tensor((300 * 64, wide), T.float32),
    ) -> None:
        with T.Kernel(300, threads=128) as bx:
            a = T.alloc_shared((64, columns), T.bfloat16)
            b = T.alloc_shared((columns, wide), T.bfloat16)
            c = T.alloc_fragment((64, wide), T.float32)
            T.copy(A[bx * 64, 0], a)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * columns, 0], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(64, wide):
                C[bx * 64 + i, j] = c[i, j]

    held: ir.Kernel = tileprof.compile(main).program.kernel
    return held


@pytest.mark.parametrize(
    ("columns", "wide", "stages", "slots"),
    [(64, 64, None, 2), (128, 64, None, 1), (64, 192, 8, 2), (64, 192, 9, 1)],
    ids=["small", "large", "with room", "without"],
)
def test_slots_of_what_is_loaded_once(
    columns: int, wide: int, stages: int | None, slots: int
) -> None:
    """Two for 8 KB, one for 16 KB and where a second does not fit; a remark tells of two."""
    program = checked(once_loaded(columns, wide), persistent=True, stages=stages)
    assert program.source.launches[0].persistent
    rings = [o.stages for o in program.kernel.ops() if isinstance(o, ir.Ring)]
    assert sorted(rings) == sorted([slots, stages or 2])
    told = [r for r in program.remarks if isinstance(r.decision, TwoSlots)]
    assert len(told) == slots - 1


# -- when


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ("as many", ""),
        ("from its own", ""),
        ("loaded for all", ""),
        ("to its own", "the loop over `k` depends on `bx`"),
        ("loaded", "the loop over `k` depends on `bx`"),
        ("none at all", "a branch depends on `bx`"),
    ],
)
def test_work_that_depends_on_the_tile(turns: str, reason: str) -> None:
    """Bounds of loops and conditions of branches, also where they are loaded."""
    program = checked(tiles_of(turns))
    assert program.source.launches[0].persistent
    told = [f"each block takes the next tile when it is free: {reason}"] if reason else []
    assert (is_dynamic(program), about_order(program)) == (bool(reason), told)


def test_wishes() -> None:
    """Either order can be had for either kind of tiles."""
    uneven, even = tiles_of("to its own"), tiles_of("as many")
    turned_off = checked(uneven, tile_order="static")
    assert not is_dynamic(turned_off)
    assert about_order(turned_off) == [
        "tiles assigned to blocks in advance (dynamic: it is turned off)"
    ]
    asked = checked(even, tile_order="dynamic")
    assert is_dynamic(asked)
    assert about_order(asked) == ["each block takes the next tile when it is free: as asked"]
    said = "// controls: tile_order=static\n"
    text = checked(even, tile_order="static").source.text
    assert text.replace(said, "") == checked(even).source.text
    assert not is_dynamic(checked(uneven, tile_order="dynamic", persistent=False))


def test_clusters() -> None:
    """Their blocks take tiles together, so they are dealt in advance."""
    program = checked(product((256, 256, 64)), cluster=2, persistent=True, tile_order="dynamic")
    assert not is_dynamic(program)
    assert about_order(program) == [
        "tiles assigned to blocks in advance"
        " (dynamic: the blocks of a cluster take their tiles together)"
    ]


@pytest.mark.parametrize("given", ["tile_order=longest", "tile_order=1", "tile_order=true"])
def test_orders_that_are_none(given: str) -> None:
    """The error says which there are."""
    with pytest.raises(UsageError) as raised:
        parse_controls([given])
    assert raised.value.hint == "It is `static`, `dynamic` or none."
    with pytest.raises(UsageError, match="the control `tile_order` cannot be"):
        Controls(tile_order=given)
    assert parse_controls(["tile_order=dynamic"]) == Controls(tile_order="dynamic")
    assert parse_controls(["tile_order=none"]) == Controls()
    assert str(Controls(tile_order="static")) == "tile_order=static"


# -- what becomes of it


def test_passes(golden: Callable[[str], None]) -> None:
    """The loop over tiles after `persist`, and both roles after all passes."""
    seen: dict[str, ir.Kernel] = {}
    compile_cuda(
        triangle(5, 3), find_target("sm_90a"), Controls(persistent=True),
        observe=lambda name, kernel: seen.update({name: kernel}),
    )  # fmt: skip
    golden("\n".join(ir.print_kernel(seen[name]) for name in ("persist", "sample_counts")))


@pytest.mark.sweep
def test_machine_code() -> None:
    """One atomic for a tile, which wraps to 0 by itself, in the producer alone; consumers take the
    number as one that all lanes have in common."""
    need_machine_code()
    program = checked(tiles_of("to its own"))
    fixed = checked(tiles_of("to its own"), tile_order="static")
    compile_together([program, fixed])
    text = program.source.text
    assert text.count("tp_next_tile(") == 1
    assert text.index("tp_next_tile(") < text.index("} else {")
    opcodes = [i.opcode for i in function(program).instructions]
    assert [o for o in opcodes if o.startswith(("ATOM", "RED"))] == ["ATOMG.E.INC.STRONG.GPU"]
    assert not [i for i in function(fixed).instructions if i.opcode.startswith(("ATOM", "RED"))]


# -- every tile once

SIZES = [(1, 1), (5, 3), (2, 7)]


def operands(blocks: int, columns: int) -> tuple[Array, Array, Array]:
    """Q and K, and the result; sums are exact."""
    rng = np.random.default_rng(0)
    q, k = (
        rng.integers(-1, 2, (blocks * 64, n * 64)).astype(ml_dtypes.bfloat16) for n in (1, columns)
    )
    want = np.zeros(k.shape, np.float32)
    for i in range(blocks):
        for h in range(columns):
            keys = k[: (i + 1) * 64, h * 64 : (h + 1) * 64].astype(np.float32)
            sums = q[i * 64 : (i + 1) * 64].astype(np.float32) @ keys.reshape(-1, 64, 64).sum(0).T
            want[i * 64 : (i + 1) * 64, h * 64 : (h + 1) * 64] = sums
    return q, k, want.astype(ml_dtypes.bfloat16)


def ran(
    source: CudaSource, kernel: ir.Kernel, blocks: int, columns: int, **given: Any
) -> tuple[Array, bool]:
    """How often each tile was done, and whether the result is right."""
    q, k, want = operands(blocks, columns)
    found = np.zeros(want.shape, ml_dtypes.bfloat16)
    times = np.zeros((blocks, columns), np.int32)
    emulate(source, kernel, [q, k, found, times], **given)
    return times, np.array_equal(found, want)


@pytest.mark.spread
@pytest.mark.parametrize("resident", [1, 3, 8])
@pytest.mark.parametrize(("blocks", "columns"), SIZES)
def test_every_tile_once(blocks: int, columns: int, resident: int) -> None:
    """With one block, several, and more than there are tiles; the counter is at 0 afterwards,
    which `emulate` looks at."""
    kernel = triangle(blocks, columns)
    program = checked(kernel, persistent=True)
    assert is_dynamic(program)
    for seed in range(2):
        times, right = ran(program.source, kernel, blocks, columns, seed=seed, resident=resident)
        assert (times == 1).all()
        assert right


@pytest.mark.parametrize("resident", [1, 3])
def test_a_second_launch(resident: int) -> None:
    """It finds the counter as the first one did."""
    kernel = triangle(3, 2, launches=2)
    program = checked(kernel, persistent=True)
    assert len(program.source.launches) == 2
    for seed in range(3):
        times, right = ran(program.source, kernel, 3, 2, seed=seed, resident=resident)
        assert (times == 2).all()
        assert right


def changed(source: CudaSource, text: str) -> CudaSource:
    """The source with another text."""
    assert text != source.text
    held = {f.name: getattr(source, f.name) for f in fields(source)}
    return CudaSource(**{**held, "text": text})


LENGTHS = np.array([0, 0, 2, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 1, 0], np.int32)
"""Turns of the tiles of a kernel: where there are none the producer has nothing to wait for."""


def loaded(source: CudaSource, kernel: ir.Kernel, **given: Any) -> bool:
    """Whether a kernel whose turns are `LENGTHS` gives the right result."""
    blocks, rng = len(LENGTHS), np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, s).astype(ml_dtypes.bfloat16) for s in SHAPES)
    found = np.full((blocks, 64, 64), np.nan, ml_dtypes.bfloat16)
    emulate(source, kernel, [a, b, LENGTHS, found], **given)
    want = [a[:, : n * 64].astype(np.float32) @ b[: n * 64].astype(np.float32) for n in LENGTHS]
    return np.array_equal(found, np.stack(want).astype(ml_dtypes.bfloat16))


SHAPES = ((64, len(LENGTHS) * 64), (len(LENGTHS) * 64, 64))


def test_tiles_without_work() -> None:
    """The producer is ahead by as many tiles as numbers have room."""
    kernel = tiles_of("loaded", len(LENGTHS))
    program = checked(kernel, persistent=True)
    for seed in range(4):
        for resident in (1, 3):
            assert loaded(program.source, kernel, seed=seed, resident=resident)


@pytest.mark.spread("a slot that is not free", "never freed")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"tp_mbarrier_wait\(tiles_empty.*\n", "\n"),
        (r"tp_mbarrier_wait\(tiles_full.*\n", "\n"),
        (r"tp_next_tile\(tiles_taken, (.*)\);", r"tp_next_tile(tiles_taken, \1 + 1);"),
        (r"tp_mbarrier_arrive\(tiles_empty.*", ";"),
    ],
    ids=[
        "a slot that is not free",
        "a slot that is not full",
        "a counter that goes on",
        "never freed",
    ],
)
def test_what_keeps_roles_together(before: str, after: str) -> None:
    """Each step of the hand-over is needed, and its lack shows."""
    kernel = tiles_of("loaded", len(LENGTHS))
    source = checked(kernel, persistent=True).source
    broken = changed(source, re.sub(before, after, source.text))
    for seed in range(12):
        try:
            if not loaded(broken, kernel, seed=seed, resident=2):
                return
        except EmulationError:
            return
    pytest.fail("no seed shows it")


@pytest.mark.spread("ops")
@pytest.mark.parametrize("mode", ["stages", "ops"])
def test_marks(mode: Mode) -> None:
    """Where a role waits for the number of its next tile is measured; a tile each is told."""
    kernel = triangle(5, 3)
    program = compile_cuda(
        kernel, find_target("sm_90a"), Controls(persistent=True), instrument=mode
    )
    q, k, want = operands(5, 3)
    given = [q, k, np.zeros(want.shape, ml_dtypes.bfloat16), np.zeros((5, 3), np.int32)]
    (*_, found, times), slots = recorded(program, given, seed=1)
    assert np.array_equal(found, want)
    assert (times == 1).all()
    sent = received = 0
    for _, warp, paths in shown(program, slots):
        steps = [p.rpartition(" / ")[2] for p in paths]
        if warp == program.source.launches[0].consumer_warps:
            sent += steps.count("hand over the next tile")
            taken = "take the next tile" if mode == "ops" else "load the next tile"
            assert steps.count("hand over the next tile") == steps.count(taken)
        elif warp == 0:
            received += steps.count("wait for the next tile")
    assert sent == received == 15


@pytest.mark.parametrize("grid", [(5, 2, 1), (3, 4, 2), (3, 8, 1), (2, 12, 2), (7, 6, 1)])
def test_groups_of_rows_visit_each_tile_once(grid: tuple[int, int, int]) -> None:
    """Fewer rows than a group has, as many, whole groups, and a last one that is not whole."""

    @T.prim_func
    def visited(Y: T.Tensor(grid, "int32")) -> None:
        with T.Kernel(*grid, threads=32) as (bx, by, bz):
            T.use_swizzle(4)
            Y[bx, by, bz] = bx + 100 * by + 10000 * bz

    program = compile_cuda(tileprof.compile(visited).program.kernel, find_target("sm_90a"))
    text = program.source.text
    assert ("tp_rows" in text) == (grid[1] > 4 and grid[1] % 4 > 0)
    found = np.full(grid, -1, np.int32)
    emulate(program.source, program.kernel, [found])
    x, y, z = np.indices(grid)
    np.testing.assert_array_equal(found, x + 100 * y + 10000 * z)
