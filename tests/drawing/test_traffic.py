"""All requests of a launch: each against a count of its own, and against the run's bytes."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tileprof
from benchmarks.show_counters.kernels import bank_conflicts, norm_in_parts
from benchmarks.studies import study
from case_studies.vector_add import vector_add
from tests.cuda import test_turned_stores as turned_stores
from tests.cuda.compiled_kernels import compile_together, function, need_machine_code
from tests.cuda.random_pipelines import Pipeline
from tests.cuda.test_cuda_random import both
from tests.drawing.kernels import (
    by_columns,
    by_rows,
    chosen,
    chosen_inside,
    chosen_narrow,
    clashing,
    doubled,
    from_registers,
    interleaved,
    kept,
    large,
    left_early,
    listed,
    neighbours,
    pairs,
    product,
    repeated,
    scaled,
    scaled_inside,
    scattered,
    turned,
    weighted,
    widened,
)
from tileprof import binary, ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts import cost
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing import engine, show, transactions
from tileprof.drawing.launch_facts import LaunchFacts
from tileprof.drawing.machine import machine_of
from tileprof.drawing.moved import Moved, Traffic
from tileprof.drawing.roles import scalar_loads
from tileprof.drawing.traffic import traffic_of
from tileprof.drawing.watch import LaunchRun

sparse: Any = importlib.import_module("case_studies.sparse_attention")
BF16 = ml_dtypes.bfloat16
SPARSE = sparse.inputs(1, 384, 4, 2, 64)
LISTS = sparse.lists(SPARSE[3])
Drawings = dict[str, tuple[LaunchRun, binary.Function]]
"""Launches by name, and the machine code of their kernels."""
WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def requests(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], int]:
    """Addresses of the lanes of a few requests, some of which take no part, and their width."""
    width = draw(WIDTHS)
    lanes = st.lists(st.integers(-1, 70), min_size=32, max_size=32)
    held = np.array(draw(st.lists(lanes, min_size=1, max_size=4)))
    return np.where(held < 0, -1, held * width), width


@settings(max_examples=60, deadline=None)
@given(requests())
def test_many_requests_count_as_each_alone(made: tuple[np.ndarray[Any, Any], int]) -> None:
    """Sectors and wavefronts, taken and needed, are those that the compiler counts one by one."""
    rows, width = made
    for many, one in (
        (transactions.sectors, cost.sectors),
        (transactions.wavefronts, cost.wavefronts),
    ):
        taken, needed = many(rows, width)
        assert list(zip(taken.tolist(), needed.tolist())) == [one(row, width) for row in rows]


def traffic(kernel: Callable[..., Any], *args: Any, **options: Any) -> Traffic:
    """Requests of the first launch."""
    found = show(kernel, *args, machine_code=False, **options).watch.launches[0].traffic
    assert found is not None
    return found


def named(found: Traffic) -> dict[tuple[str, str, str], Moved]:
    """Requests by access, buffer and way."""
    return {(p.access, p.buffer, p.way): moved for p, moved in found.places.items()}


def test_a_tail_asks_for_fewer_sectors() -> None:
    """10,000 elements in blocks of 128: of the last block one warp takes part, with 16 lanes."""
    ones = np.ones(10_000, np.float32)
    held = named(traffic(vector_add, ones, ones))
    assert held["read", "A", "threads"] == Moved(78 * 4 + 1, 78 * 16 + 2, 78 * 16 + 2, 40_000)
    assert held["read", "A", "threads"] == held["write", "C", "threads"]


def test_conflicts_are_added_up() -> None:
    """Every eighth word: 4 warps of 4 blocks take 8 wavefronts each. A swizzle has none."""
    held = named(traffic(bank_conflicts, np.ones(4096, np.float32)))
    assert held["read", "s", "threads"] == Moved(16, 16 * 8, 16, 16 * 128)
    free = traffic(turned, np.ones((64, 64), np.float32)).total("shared", "read")
    assert free == Moved(256, 256, 256, 2 * 64 * 64 * 4)


def test_controls_of_the_kernel_hold_for_its_page() -> None:
    """Without vectors each request has a word a lane."""
    ones = np.ones((64, 64), np.float32)
    assert traffic(turned, ones).total("global", "read") == Moved(32, 512, 512, 4 * 64 * 64)
    words = tileprof.jit(turned.function, controls={"vectorize": False})
    assert traffic(words, ones).total("global", "read") == Moved(128, 512, 512, 4 * 64 * 64)


def test_a_gather_takes_the_sectors_that_its_indices_name() -> None:
    """Rows 12 and 15, then 15 and 2, each a sector. Two lanes read each point, which is asked for
    once, and one writes it; odd columns only."""
    rows = np.arange(128, dtype=np.float32).reshape(16, 8), np.array([12, 15, 15, 2], np.int32)
    held = named(traffic(scattered, *rows))
    assert held["read", "A", "threads"] == Moved(2, 4, 2, 2 * 8 * 4)
    assert held["write", "A", "threads"] == Moved(2, 4, 2, 2 * 8 * 4)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_bytes_of_requests_are_those_that_the_blocks_access(target: str) -> None:
    """Each element of a product once a copy, by cp.async, by TMA or by threads. What shared memory
    takes of cp.async is not known: rows of 400 and 160 bytes begin in the middle of a line."""
    made = show(
        product, np.ones((70, 100), np.float32), np.ones((100, 40), np.float32), target=target
    )
    (launch,) = made.watch.launches
    assert launch.traffic is not None
    assert launch.traffic.total("global", "read").bytes == launch.read.sum()
    assert launch.traffic.total("global", "write").bytes == launch.written.sum()
    assert {kind for _, _, kind in launch.traffic.uncounted} == {"split copies"}
    # 4 warps of 6 blocks take 4 tiles along K in 4 steps: of A an ldmatrix, of B 4 words.
    reads = launch.traffic.total("shared", "read", "ldmatrix")
    assert (reads.requests, reads.taken, reads.needed) == (384, 4 * 384, 4 * 384)
    assert launch.traffic.total("shared", "read", "threads").taken == 2 * 1536
    ways = Counter(place.way for place in launch.traffic.places)
    assert ways["cp.async"] == 4
    assert bool(ways["TMA"]) == (target == "sm_90a")


def test_what_all_threads_see_is_changed_by_one(drawings: Drawings) -> None:
    """Scalars in shared memory and in results: one thread stores each, and loads what one store
    alone needs; what two need, all warps load."""
    launch, code = drawings["kept"]
    found = requests_of(launch)
    held = named(found)
    assert held["write", "first", "threads"] == Moved(8, 8, 8, 8 * 4)
    assert held["write", "Z", "threads"] == Moved(8, 8, 8, 8 * 4)
    assert held["write", "Both", "threads"].requests == held["write", "Y", "threads"].requests // 4
    assert found.total("global", "read").requests == 8 * (1 + 4 + 1 + 4)
    loads = [each for each in code.instructions if each.name == "LDG"]
    # For `first` and for `square`; for the points of Y and for `twice`.
    assert Counter(bool(each.predicate) for each in loads) == {True: 2, False: 2}


def test_what_threads_hold_is_loaded_once() -> None:
    """A row that is read twice in other vectors is loaded twice, a factor once for all rows of a
    block; words of shared memory that lie backwards are loaded one by one."""
    ones = np.ones((8, 512), np.float32)
    found = traffic(repeated, ones, ones[0])
    held = named(found)
    assert held["read", "W", "threads"] == Moved(2 * 8, 2 * 64, 2 * 64, 2 * 4 * 512)
    assert held["read", "s", "threads"] == Moved(16 * 8, 32 * 8, 16 * 8, 8 * 4 * 512)
    assert found.total("global", "read").bytes == 2 * ones.nbytes + 2 * 4 * 512


def test_points_that_share_an_element_load_it_once() -> None:
    """Each lane's vector of the result has half as many elements to load."""
    halves = np.ones((4, 2048), np.float16)
    held = named(traffic(pairs, halves))
    assert held["read", "X", "threads"].bytes == halves.nbytes


def test_neighbours_of_a_point_are_asked_for_together() -> None:
    """Pairs of 4 points are 16 bytes a lane: of 3 blocks, each loads a row of 2048 halves, and
    writes two, of which the last block has one."""
    halves = np.ones((5, 2048), np.float16)
    found = traffic(interleaved, halves)
    assert found.total("global", "read") == Moved(3 * 8, 3 * 128, 3 * 128, 3 * 4096)
    assert found.total("shared", "write") == Moved(3 * 8, 3 * 32, 3 * 32, 3 * 4096)
    assert found.total("global", "write") == Moved(5 * 8, 5 * 128, 5 * 128, 5 * 4096)


ROW, SHORT = np.ones(2048, np.float32), np.ones(512, np.float32)


@pytest.fixture(scope="module")
def held() -> list[tuple[LaunchRun, binary.Function, int]]:
    """Launches of kernels that ask again for what threads hold, their machine code, and how often
    its loop runs."""
    calls: list[tuple[Any, tuple[Any, ...], int]] = [
        (repeated, (np.ones((8, 512), np.float32), SHORT), 4),
        (pairs, (np.ones((4, 2048), np.float16),), 1),
        (interleaved, (np.ones((4, 2048), np.float16),), 1),
        (norm_in_parts, (np.ones((256, 2048), np.float32),), 1),
        (neighbours, (np.ones((4, 9 * 512), np.float32),), 1),
        (neighbours, (np.ones((4, 17 * 512), np.float32),), 2),
        (doubled, (np.ones((4, 7 * 512), np.float32),), 1),
        (doubled, (np.ones((4, 18 * 512), np.float32),), 2),
        (weighted, (np.ones((8, 2048), np.float32), ROW), 4),
    ]
    halves = np.ones((128, 320), np.float16), np.ones((256, 320), np.float16)
    # An iteration ahead; NVRTC takes that back for the rows, whose last load is then none.
    calls += [
        (by_rows, (*halves, np.ones((128, 5), np.float32)), 5),
        (by_columns, (*halves, np.ones((5, 256), np.float32)), 5),
    ]
    need_machine_code()
    made = [show(kernel, *given, machine_code=False).watch for kernel, given, _ in calls]
    programs = [compile_cuda(each.kernels[0], find_target("sm_90a")) for each in made]
    compile_together(programs)
    return [
        (watch.launches[0], function(program), trips)
        for watch, program, (_, _, trips) in zip(made, programs, calls)
    ]


@pytest.fixture(scope="module")
def drawings() -> Drawings:
    """Launches of other kernels, and their machine code."""
    need_machine_code()
    tile = np.ones((128, 64), np.float16)
    int4 = np.ones((128, 512), BF16), np.ones((192, 256), np.uint8), np.ones((192, 16), np.float32)
    a, b = np.zeros((7, 64, 32), BF16), np.zeros((7 * 32, 128), BF16)
    calls: dict[str, tuple[Any, ...]] = {
        "kept": (kept, np.ones((8, 512), np.float32)),
        "widened": (widened, np.ones((8, 512), BF16)),
        "from registers": (from_registers, tile, tile[:64]),
        "int4": (study("int4_matmul").int4_matmul, *int4),
        "sparse": (sparse.sparse_attention, *SPARSE[:3], *LISTS),
        "listed": (listed, a, b, np.array([0, 3, 3, 7], np.int32)),
    }
    made = {name: show(*call, machine_code=False).watch for name, call in calls.items()}
    programs = [compile_cuda(each.kernels[0], find_target("sm_90a")) for each in made.values()]
    compile_together(programs)
    return {
        name: (each.launches[0], function(program))
        for (name, each), program in zip(made.items(), programs)
    }


def requests_of(launch: LaunchRun) -> Traffic:
    """The requests of a launch, which are known."""
    assert launch.traffic is not None
    return launch.traffic


def test_loads_of_machine_code_are_those_of_the_page(
    held: list[tuple[LaunchRun, binary.Function, int]],
) -> None:
    """Each instruction outside of loops is run once by each warp, inside once an iteration."""
    opcodes: dict[ir.Space, str] = {"global": "LDG", "shared": "LDS"}
    for launch, code, trips in held:
        assert launch.traffic is not None
        for space, opcode in opcodes.items():
            # NVRTC 13.5 makes one access of two words of shared memory.
            runs = sum(
                trips ** code.depth(i.offset) * (2 if i.opcode == "LDS.64" else 1)
                for i in code.instructions
                if i.name == opcode
            )
            requests = launch.traffic.total(space, "read").requests
            if space == "global" or not launch.traffic.uncounted:
                assert requests == runs * launch.blocks * 4, (code.name, space)


def test_copies_of_fragments_are_those_of_machine_code(drawings: Drawings) -> None:
    """Element by element where types differ, in vectors of the fragment's order; as matrices where
    a product reads the fragment, and where it gives it. No loop and no guard is around."""
    for name, others in (("widened", set()), ("from registers", {"matrix operands"})):
        launch, code = drawings[name]
        assert {kind for _, _, kind in requests_of(launch).uncounted} == others
        there = Counter(each.name for each in code.instructions)
        places = requests_of(launch).places.items()
        for opcode, access, way in (
            ("LDS", "read", "threads"), ("STS", "write", "threads"),
            ("LDSM", "read", "ldmatrix"), ("STSM", "write", "stmatrix"),
        ):  # fmt: skip
            requests = sum(
                moved.requests for place, moved in places
                if (place.space, place.access, place.way) == ("shared", access, way)
            )  # fmt: skip
            assert requests == there[opcode] * launch.blocks * 4, (name, opcode)


def test_points_of_a_vector_load_a_byte_of_shared_memory_once(drawings: Drawings) -> None:
    """Two weights a byte: 64 × 64 of them for 128 threads in each of 8 iterations."""
    launch, code = drawings["int4"]
    loads = sum(each.name == "LDS" and code.depth(each.offset) == 1 for each in code.instructions)
    assert loads == 16
    requests = requests_of(launch).total("shared", "read", "threads").requests
    assert requests == loads * 8 * 4 * launch.blocks


def test_rows_read_twice_are_what_an_h200_counted() -> None:
    """All loads are those of the first loop."""
    launch = show(
        norm_in_parts, np.ones((256, 2048), np.float32), machine_code=False
    ).watch.launches[0]
    assert launch.traffic is not None
    # Sectors, requests and bytes of loads of TileLang's `rms_norm_splitk`, which has the same
    # accesses, on an H200, 2026-11-28: l1tex__t_sectors_pipe_lsu_mem_global_op_ld and others.
    counted = Moved(4096, 65_536, 65_536, 2_097_152)
    assert launch.traffic.total("global", "read") == counted
    assert launch.traffic.total("global", "write") == counted
    first, second = sorted({p.line for p in launch.traffic.places if p.space == "global"})
    by_line = {p.line: moved for p, moved in launch.traffic.places.items() if p.access == "read"}
    assert by_line[first] == counted
    assert by_line[second] == Moved()


def test_what_a_loop_asks_for_that_ends_early_is_asked_for_again() -> None:
    """Block b of 4 runs 3 - b of 4 iterations, each of a request a warp; behind it all run 4."""
    found = traffic(left_early, np.ones((4, 2048), np.float32))
    assert found.total("global", "read").requests == 4 * (3 + 2 + 1 + 0) + 4 * 4 * 4


def test_attention_loads_tiles_by_the_copy_engine() -> None:
    """Of 70 rows of Q, K and V of a head, 64 wide, it fills in those outside: tiles have 128."""
    made = show(partial(study("attention").main, length=70, heads=1, groups=1), machine_code=False)
    for launch in made.watch.launches:
        assert launch.traffic is not None
        fetched = launch.traffic.total("global", "read", "TMA").bytes
        assert fetched * 70 == launch.read.sum() * 128


def test_the_copy_engine_fetches_sectors_of_whole_boxes() -> None:
    """An H200 gave 399,360 bytes for 150 × 160 elements in tiles of 64 × 32, and 160 × 136 in tiles
    of 32 × 64, three times each: 4 and 5 sectors of a row of 128 bytes in turns, always 5 where the
    tile is cut; tiles that are inside take their own bytes."""
    starts = np.array([[y, k] for y in range(0, 150, 64) for k in range(0, 160, 32)])
    a = engine.moved_bytes(starts, (64, 32), (150, 160), (320, 2), 64)
    starts = np.array([[k, x] for x in range(0, 136, 64) for k in range(0, 160, 32)])
    b = engine.moved_bytes(starts, (32, 64), (160, 136), (272, 2), 128)
    assert a == 192 * 160 * 2
    assert b == 160 * (4.5 + 4.5 + 5) * 32
    assert 3 * (a + b) == 399_360
    inside = np.array([[0, 32], [64, 96]])
    assert engine.moved_bytes(inside, (64, 32), (256, 128), (128, 1), 32) == 4096
    assert engine.moved_bytes(np.array([[250, 0]]), (64, 32), (256, 128), (128, 1), 32) == 2048


def test_the_copy_engine_stores_sectors_of_rows_inside_only() -> None:
    """An H200 gave 91,200 bytes for 150 × 100 floats in tiles of 64 × 40 and boxes of 32 bytes: in
    turns 1 and 2 sectors of each; a row of the last tile has 80 bytes, 3 and 5 sectors."""
    starts = np.array([[y, x] for y in range(0, 150, 64) for x in range(0, 100, 40)])
    tiles = (64, 40), (150, 100), (400, 4), 32
    assert engine.moved_bytes(starts, *tiles, stored=True) == 91_200 == 75 * 32 * (30 + 8)
    outside = np.array([[250, 0]])
    assert engine.moved_bytes(outside, (64, 32), (256, 128), (128, 1), 32, stored=True) == 6 * 32


def test_cp_async_copies_a_sector_once_for_each_place() -> None:
    """8 rows of 64 bytes take 16 sectors, also if they are one row; 32 words that follow each other
    take 4; a lane that takes no part asks for nothing."""
    lanes = np.arange(32)
    rows = np.stack([lanes // 4 * 192 + lanes % 4 * 16, lanes % 4 * 16, np.where(lanes < 4, 0, -1)])
    assert [each.tolist() for each in transactions.copied_sectors(rows, 16)] == [
        [16, 16, 2],
        [0] * 3,
    ]
    assert transactions.copied_sectors(lanes[None] * 4, 4)[0].tolist() == [4]


def test_cp_async_brings_a_sector_for_each_sector_that_it_fills() -> None:
    """Rows of 400 and of 560 bytes in tiles of 256, two a warp: an H200 gave 7,040 sectors for a
    product of doubles, of which the L1 counted 5,360; rows of 80 bytes in tiles of 64 gave 2,304
    and 1,872. Odd rows begin in the middle of a sector."""

    def found(pitch: int, rows: int, tile: int, per_warp: int) -> tuple[int, int]:
        begins = range(0, pitch, tile)
        lane = np.arange(tile // 16)
        asked = [
            np.where(begin + lane * 16 < pitch, row * pitch + begin + lane * 16, -1)
            for begin in begins
            for row in range(rows)
        ]
        warps = np.array(asked).reshape(-1, per_warp * len(lane))
        brought, joined = transactions.copied_sectors(warps, 16)
        return int(brought.sum()), int((brought - joined).sum())

    a, b = found(400, 64, 256, 2), found(560, 64, 256, 2)
    assert (3 * a[0] + 2 * b[0], 3 * a[1] + 2 * b[1]) == (7_040, 5_360)
    assert tuple(4 * each for each in found(80, 144, 64, 8)) == (2_304, 1_872)


@pytest.mark.parametrize(
    ("addresses", "split"),
    [
        (np.arange(32) * 16, False),
        (np.arange(32) * 16 ^ np.arange(32) // 8 * 16, False),
        (np.arange(32) * 16 + 16, True),
        (np.arange(32) // 4 * 192 + np.arange(32) % 4 * 16, True),
        (np.where(np.arange(32) < 31, np.arange(32) * 16, -1), True),
    ],
    ids=["lines", "swizzled", "one chunk later", "half lines", "zeros at the end"],
)
def test_copies_that_fill_a_row_from_one_line_are_whole(addresses: Any, split: bool) -> None:
    """Rows of shared memory from parts of lines, or with zeros, take more wavefronts."""
    assert transactions.is_split(addresses[None], 16).tolist() == [split]


def test_copies_of_words_are_whole_where_lanes_follow_each_other() -> None:
    """Lanes that take no part leave them whole; rows of 64 bytes that are 100 apart are split."""
    lane = np.arange(32)
    asked = np.stack(
        [lane * 4 + 8, np.where(lane < 19, lane * 4, -1), lane // 16 * 100 + lane % 16 * 4]
    )
    assert transactions.is_split(asked, 4).tolist() == [False, False, True]


def test_atomics_at_one_word_of_shared_memory_take_turns() -> None:
    """Three lanes at a word, and one at another word of its bank; lanes of other banks do not
    wait."""
    words = np.full((2, 32), -1)
    words[0, :5] = 8, 8, 8, 8 + 32, 9
    words[1] = np.arange(32)
    assert transactions.lone_wavefronts(np.where(words < 0, -1, words * 4)).tolist() == [4, 1]


def test_parts_of_a_warp_with_few_lanes_are_no_conflicts() -> None:
    """Five lanes of 8 bytes, one of them in the other half of a warp, take two wavefronts; four of
    one half that meet at a bank take four, three of them for conflicts."""
    lanes = np.full((2, 32), -1)
    lanes[0, [0, 1, 2, 3, 16]] = 0, 8, 16, 24, 256
    lanes[1, :4] = 0, 256, 512, 768
    taken, apart, least = transactions.parted_wavefronts(lanes, 8)
    assert (taken.tolist(), apart.tolist(), least.tolist()) == ([2, 4], [2, 1], [1, 1])
    assert transactions.wavefronts(lanes, 8)[1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("kernel", "dtype", "shape", "stores"),
    [
        (chosen, np.int16, (4, 256), 8),
        (chosen_narrow, BF16, (4, 256), 16),
        (chosen_inside, np.int16, (3, 248), 16),
    ],
    ids=["whole numbers", "narrow floats", "in a branch"],
)
def test_stores_of_both_branches_are_one_where_machine_code_has_one(
    kernel: Any, dtype: Any, shape: tuple[int, int], stores: int
) -> None:
    """A warp has a row, each thread 8 of its points: one store behind the branches, or one in each
    of them for the lanes that are there."""
    need_machine_code()
    keep = (np.arange(shape[0] * shape[1]) % 3).reshape(shape).astype(np.uint8)
    made = show(kernel, np.ones(shape, dtype), keep, machine_code=False)
    (launch,) = made.watch.launches
    assert launch.traffic is not None
    assert launch.traffic.total("global", "write").requests == shape[0] * stores
    program = compile_cuda(made.watch.kernels[0], find_target(made.target))
    names = [each.opcode.partition(".")[0] for each in function(program).instructions]
    assert names.count("STG") == stores


def test_a_scale_of_rows_is_loaded_once_for_all_vectors_of_a_thread() -> None:
    """A thread has 12 points of a row in 3 vectors; 4 warps load one scale a lane."""
    made = show(
        scaled_inside, np.ones((13, 96), np.float32), np.ones(13, np.float32), machine_code=False
    )
    (launch,) = made.watch.launches
    assert launch.traffic is not None
    loads = [m for p, m in launch.traffic.places.items() if p.buffer == "Scale"]
    assert [each.requests for each in loads] == [4]


def test_the_thread_that_loads_ahead_reads_lists_of_tiles_for_itself(drawings: Drawings) -> None:
    """Of 12 blocks 8 warps and that thread read how many tiles there are; that thread alone reads
    which, for K and for V."""
    launch, code = drawings["sparse"]
    found = named(requests_of(launch))
    assert found["read", "Counts", "threads"].requests == 12 * (8 + 1)
    loads = 2 * int(LISTS[0].sum())
    assert found["read", "Tiles", "threads"] == Moved(loads, loads, loads, 4 * loads)
    # Counts by both; Tiles before, twice in and once behind the loop over K and V at once.
    assert sum(each.name == "LDG" for each in code.instructions) == 2 + 4


def test_a_role_holds_the_scalars_that_it_loaded_before_a_loop(drawings: Drawings) -> None:
    """Of 6 blocks 4 warps and the thread that loads ahead read the two ends of their part of the
    list, however many tiles it has; each of these loads stands once in the code of both."""
    launch, code = drawings["listed"]
    assert named(requests_of(launch))["read", "First", "threads"].requests == 6 * (4 + 1) * 2
    assert sum(each.name == "LDG" for each in code.instructions) == 2 * 2


def test_scalars_of_roles_are_asked_for_where_there_are_roles() -> None:
    """A kernel of one role has its loads where its program has them."""
    ones = np.ones(128, np.float32)
    (machine,) = show(vector_add, ones, ones).machines
    assert machine.lowered is not None
    assert scalar_loads(machine.lowered, [ones, ones, ones], [128]) is None


def test_numbers_are_arguments_as_arrays_are() -> None:
    """Of 4 rows the first 300 elements are read and written."""
    found = traffic(scaled, np.ones((4, 512), np.float32), 300, 2.0)
    assert found.total("global", "read").bytes == 4 * 4 * 300
    assert found.total("global", "write").bytes == 4 * 4 * 300


CUT = Pipeline(
    m=1, n=1, k=7, tile=(64, 64, 32), dtype="bfloat16", ta=True, tb=False, stages=1, threads=128,
    words=frozenset({"two"}), symbols=True, turns=None,
)  # fmt: skip
"""Tiles of one column, of which rows are no multiples of a vector."""


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(target=st.sampled_from(["sm_90a", "sm_80"]), drawn=both())
@example(target="sm_90a", drawn=(CUT, Controls()))
def test_random_pipelines_have_requests(target: str, drawn: tuple[Pipeline, Controls]) -> None:
    """Whatever loops and roles the compiler makes of them, all sums are those of requests."""
    pipeline, controls = drawn
    kernel, extents, arguments = pipeline.kernel(), pipeline.extents(), pipeline.arguments()
    symbols = [extents[each] for each in kernel.symbols]
    facts = LaunchFacts.of(kernel, arguments, symbols)
    machine = machine_of(kernel, target, controls, facts)
    if machine.laid_out is None:
        assert "of shared memory" in machine.problem
        return
    (found,) = traffic_of(machine, arguments, symbols, controls)
    written = found.total("global", "write").bytes + found.total("global", "atomic").bytes
    assert written > 0
    for place, moved in found.places.items():
        assert moved.taken >= moved.needed or place.way == "TMA"
        assert (moved.requests == 0) == (moved.taken == 0)


def test_lanes_that_begin_with_another_register() -> None:
    """Sums are stored in twos, each request in all banks, as half of the lanes take turns."""
    kernel = tileprof.compile(turned_stores.product(False)).program.kernel
    a, b = (np.ones((64, 64), BF16) for _ in range(2))
    (found,) = traffic_of(
        machine_of(kernel, "sm_90a", Controls()), [a, b, np.zeros((64, 64), np.float32)], []
    )
    assert named(found)["write", "Out_staged", "threads"] == Moved(64, 128, 128, 4 * 64 * 64)


def test_counting_leaves_arguments_alone() -> None:
    """A kernel that adds 1 in place adds it once."""
    rows, at = np.zeros((16, 8), np.float32), np.array([12, 13, 14, 15], np.int32)
    show(scattered, rows, at, machine_code=False)
    assert rows.max() == 1


def test_an_error_of_the_kernel_is_that_of_its_own_program() -> None:
    """All blocks write one element: the message names the author's line."""
    with pytest.raises(tileprof.TileprofError) as caught:
        show(clashing, np.zeros(4, np.float32))
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("kernels.py")


def test_a_kernel_that_does_not_fit_has_no_requests() -> None:
    """The page says why it does not."""
    ones = np.ones(64, np.float32)
    made = show(large, ones, np.zeros(1, np.float32), machine_code=False)
    assert made.machines[0].problem
    assert made.watch.launches[0].traffic is None
