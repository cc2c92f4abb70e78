"""Launches of fewer blocks than multiprocessors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.defects import product
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, stored
from tileprof.ir import print_kernel
from tileprof.profile import PcText
from tileprof.remarks.launches import Occupancy, RegisterLimit

RULE = "small-grid"
PRODUCT = [
    ("S2UR UR4, SR_CTAID.X", {"wait": 10}, 0, 3),
    ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24", {"wait": 8000}, 1, 5),
]
IR = """kernel @gemm(%A: global<512, 512, bfloat16>) {
    %A_shared = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    gemm %A_shared, %B_shared, %C_local {transpose_b = true}
"""
EMPTY = 2e3 / 1e6


def test_half_of_the_multiprocessors_have_no_block() -> None:
    """Twice as fast, but for an empty launch's 2 µs: other work is cut as one likes."""
    finding = only(on_h200(Made(attributes=launch(66))), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(2))
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * (1 - EMPTY)))
    assert "66 of 132" in finding.static[0].text


@pytest.mark.parametrize(("blocks", "told"), [(66, True), (5_000, False)])
def test_the_grid_of_the_first_launch_is_not_that_of_all(blocks: int, told: bool) -> None:
    """A library's kernel whose first launch is small, and whose launches are large on average."""
    made = Made(attributes=launch(66), metrics={"blocks": float(blocks)})
    assert bool(found(on_h200(made), RULE)) is told


def test_tiles_of_a_product_load_by_their_edges() -> None:
    """32 blocks in four parts each: half of the time; as the root of it without known flops."""
    many = Made(attributes=launch(32), code=PRODUCT, ir=IR, metrics={"flops": 1e9})
    finding = only(on_h200(many, {"tensor_bfloat16": 1e15}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * (1 - EMPTY)))
    assert finding.kernel_gain.high == pytest.approx(highest(132 / 32))
    finding = only(on_h200(Made(attributes=launch(32), code=PRODUCT)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1 - 0.5**0.5) * (1 - EMPTY)))


def test_work_that_memory_bounds() -> None:
    """Bytes take 0.744 of the time at the best rate, of which a kernel likely reaches 0.9."""
    many = Made(attributes=launch(66), metrics={"bytes": 7.44e8})
    finding = only(on_h200(many, {"hbm_copy": 1e12}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.9 / 0.744)


TURNS = [
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", {"selected": 100}, 1, 5),
    ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 100}, 1, 5),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x1", {"selected": 100, "barrier": 99600}, 1, 5),
    ("@P1 BRA 0x0", {"selected": 100}, 1, 4),
    ("EXIT", {}, 0, 9),
]
"""A hundred turns of 1,000 cycles."""


@pytest.mark.parametrize(
    ("stages", "floor", "rest"),
    [
        (4, 0.2, 1450 / 3 / 1000),
        (7, 0.2, 1 / 4),
        (7, 0.4, 0.4 / 0.9 / (128 / 132)),
    ],
)
def test_tiles_are_under_way_as_long_in_shorter_turns(
    stages: int, floor: float, rest: float
) -> None:
    """32 blocks in four parts each, whose turns would take a quarter. A tile is under way for 1,450
    cycles, in three turns; in six it is early enough. Then 128 multiprocessors multiply, no faster
    than at their roof, which was measured at the highest clock."""
    text = print_kernel(product(stages=stages).compile().program.kernel)
    flops = {"flops": floor * 1e12}
    made = Made(attributes=launch(32), code=TURNS, ir=text, metrics=flops)
    finding = only(on_h200(made, {"tensor_bfloat16": 1e15}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1 - rest) * (1 - EMPTY)))


def test_two_rounds_of_halves_bring_nothing() -> None:
    """Of 96 tiles of a product; other kernels are cut as one likes."""
    finding = only(on_h200(Made(attributes=launch(96), code=PRODUCT)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert only(on_h200(Made(attributes=launch(96))), RULE).severity == "suggestion"


def test_tiles_of_fewer_warp_groups() -> None:
    """Three groups a tile: two give 88 tiles a half more, for all multiprocessors; without known
    flops the time goes down little. 90 tiles become too many."""
    code = [PRODUCT[1], ("@P0 BRA 0x0", {"selected": 100}, 1, 5)]
    finding = only(on_h200(Made(attributes=launch(88, threads=384), code=code)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1 - 1.5**-0.25) * (1 - EMPTY)))
    assert finding.kernel_gain.high == pytest.approx(highest(1.5))
    more = only(on_h200(Made(attributes=launch(90, threads=384), code=code)), RULE)
    assert (more.severity, more.kernel_gain) == ("warning", None)


def test_arithmetic_goes_down_with_warp_groups() -> None:
    """Of the time on 88 multiprocessors, 0.5 / (88 / 132) / 0.9 is arithmetic at its usual pace;
    what is beyond it goes down with edges."""
    code = [PRODUCT[1], ("@P0 BRA 0x0", {"selected": 100}, 1, 5)]
    many = Made(attributes=launch(88, threads=384), code=code, ir=IR, metrics={"flops": 5e11})
    finding = only(on_h200(many, {"tensor_bfloat16": 1e15}), RULE)
    bound = 0.5 / (88 / 132) / 0.9
    kept = bound / 1.5 + (1 - bound) * 1.5**-0.5
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1 - kept) * (1 - EMPTY)))


def test_it_is_told_where_the_grid_is_chosen() -> None:
    """By the compiler's word, else where the code asks for its block's number."""
    finding = only(on_h200(Made(attributes=launch(32), code=PRODUCT)), RULE)
    assert finding.place.location is not None
    assert finding.place.location.line == 3
    said = [remark("occupancy", 7, Occupancy(1, 128, (RegisterLimit(64),)))]
    finding = only(on_h200(Made(attributes=launch(32), code=PRODUCT, remarks=said)), RULE)
    assert finding.place.location is not None
    assert (finding.place.location.line, finding.place.op) == (7, "launch")


def test_a_multiprocessor_each_is_enough() -> None:
    """Nor do launches of many blocks, of which each could hold more."""
    assert not found(on_h200(Made(attributes=launch(132, held=8))), RULE)
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


def test_cycles_without_work_are_the_most() -> None:
    """Another kernel's blocks may have been there: a fifth of all cycles was without work."""
    counters = {"sm_active_cycles": 80.0, "sm_cycles": 100.0}
    finding = only(on_h200(Made(attributes=launch(66), metrics=counters)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(1.25))
    assert finding.confidence == "medium"


def test_no_launch_is_shorter_than_an_empty_one() -> None:
    """Of 5 µs only 3 can go, or 4 by what was measured, but for what no rule was made on; 3 µs are
    left as they are."""
    few = launch(8)
    finding = only(on_h200(Made(attributes=few, time=5e3)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(2.5))
    assert only(on_h200(Made(attributes=few, time=3e3)), RULE).severity == "ignore"
    finding = only(on_h200(Made(attributes=few, time=5e3), peaks={"launch_gap": 1e3}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(5))


def test_without_a_time_it_is_a_warning() -> None:
    """And without a device, nothing is known."""
    finding = only(on_h200(Made(attributes=launch(8), time=0)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert not found(program(Made(attributes=launch(8))), RULE)


IN_TURN = "%0 = tt.get_program_id x : i32 loc(#loc2)\n    scf.for %each = {} to %blocks step %1"


@pytest.mark.parametrize(("begin", "likely"), [("%0", 4.0), ("%c0_i32", 2.0)])
def test_blocks_that_take_tiles_in_turn(begin: str, likely: float) -> None:
    """A quarter of the multiprocessors have a block: more of them take fewer tiles each, so that
    it becomes four times as fast; parts of tiles twice, as they load by their edges."""
    held = on_h200(Made(attributes=launch(33), code=PRODUCT))
    pc = held.tables.pc
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    texts = {("f" * 64, "ttgir"): PcText.of(IN_TURN.format(begin))}
    kept = replace(pc, functions=functions, texts=texts)
    finding = only(replace(held, tables=replace(held.tables, pc=kept)), RULE)
    assert finding.kernel_gain is not None
    least = 1 / (1 - (1 - 1 / likely) * (1 - EMPTY))
    if likely == 4:
        assert finding.kernel_gain.mid == pytest.approx(least, rel=0.01)
        assert "processes several tiles" in finding.static[-1].text
        assert "Launch more blocks" in finding.author
    else:
        assert finding.kernel_gain.mid < least
        assert "Split the work" in finding.author
