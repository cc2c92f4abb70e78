"""Bytes that moved beside those that had to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, remark, stored
from tileprof.analyzer.tiles.tile_schedule import schedule_of
from tileprof.profile import Profile
from tileprof.profile.storage.ir_text import read
from tileprof.remarks.common import AsAsked
from tileprof.remarks.launches import GroupedRows, SharedInL2

RULE = "excess-traffic"
IR = """kernel @kernel(%A: global<100, 500, float32> safe(-inf), %n: int32, %B: out global<500, \
uint8, strides = [2]>) {
}
"""
"""200,500 bytes of tensors."""
PEAKS = {"hbm_copy": 1e9, "hbm_read": 0.9e9}
GROUPED = remark("launch", 7, GroupedRows(8, SharedInL2()))


def test_the_formula() -> None:
    """Memory is used by 80 %, a quarter of it for what is needed: 0.8 · 0.75 of the time goes."""
    made = Made(ir=IR, metrics={"dram_bytes": 802_000, "l2_hit_sectors": 3, "l2_sectors": 4})
    finding = only(program(made, peaks=PEAKS), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.802 * 0.75))
    assert finding.kernel_gain.low == pytest.approx(1 / (1 - 0.802 * 0.75 / 2))
    assert finding.title.startswith("4.0 times")
    assert "L2 serves 75 %" in finding.dynamic[0].text
    assert "T.use_swizzle" in finding.author


def test_launches_need_their_bytes_each() -> None:
    """Four launches of as many bytes."""
    made = Made(ir=IR, launches=4, metrics={"dram_bytes": 802_000})
    assert not found(program(made, peaks=PEAKS), RULE)


def test_blocks_in_groups_are_not_to_be_grouped_again() -> None:
    """What the compiler did already is no advice."""
    made = Made(ir=IR, metrics={"dram_bytes": 802_000}, remarks=[GROUPED])
    finding = only(program(made, peaks=PEAKS), RULE)
    assert finding.author.startswith("Blocks are in groups already")
    assert finding.place.location is not None
    assert finding.place.location.line == 7
    single = remark("launch", 7, GroupedRows(1, AsAsked()))
    made = Made(ir=IR, metrics={"dram_bytes": 802_000}, remarks=[single])
    assert only(program(made, peaks=PEAKS), RULE).author.startswith("Let blocks")


def test_more_than_blocks_ask_for() -> None:
    """That is not the order of blocks."""
    made = Made(metrics={"dram_bytes": 800_000, "bytes": 200_000})
    finding = only(program(made, peaks=PEAKS), RULE)
    assert "spill-hot" in finding.author
    assert finding.compiler == ""
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 0.75))


def test_memory_with_room_is_to_be_left() -> None:
    """A fifth of its bandwidth; with two fifths nothing is sure."""
    made = Made(ir=IR, metrics={"dram_bytes": 802_000})
    finding = only(program(made, peaks={"hbm_copy": 4e9}), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)
    half = only(program(made, peaks={"hbm_copy": 2e9}), RULE)
    assert half.kernel_gain is not None
    assert half.kernel_gain.low == 1 < half.kernel_gain.mid


def test_without_a_measured_roof_there_is_no_number() -> None:
    """How busy memory was is not known."""
    made = Made(ir=IR, metrics={"dram_bytes": 802_000})
    finding = only(program(made), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)


TILES = """kernel @kernel(%A: global<4000, 25000, bfloat16>, %B: global<26400, 25000, bfloat16>, \
%C: out global<4000, 26400, bfloat16>) {
  %c40 = constant 40 : index
  %c132 = constant 132 : index
  launch [%c132, %c40] {threads = [128]} body(%bx: index, %by: index) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c500 = constant 500 : index
    %c100 = constant 100 : index
    %c200 = constant 200 : index
    for pipelined %c0, %c500, %c1 {num_stages = 2} body(%k: index) {
      %c50 = constant 50 : index
      %0 = mul %by, %c100 : index
      %1 = mul %k, %c50 : index
      %A_tile = view %A, [%0, %1] {sizes = [100, 50]} : global<100, 50, bfloat16>
      copy %A_tile, %A_shared
      %2 = mul %bx, %c200 : index
      %B_tile = view %B, [%2, %1] {sizes = [200, 50]} : global<200, 50, bfloat16>
      copy %B_tile, %B_shared
    }
  }
}
"""
"""40 rows of A with 5 MB each, 132 columns of B with 10 MB: rows of blocks read all of B again."""
PRODUCT = """  %A_shared = alloc shared {shape = [100, 50]} : shared<100, 50, bfloat16>
  gemm %A_shared, %B_shared, %sums {transpose_b = true}
"""
ROWS = 40 * (5e6 + 132 * 10e6)
"""A wave is a row of blocks, and reads 1.3 GB that the L2 does not keep."""
WRITTEN = 4000 * 26400 * 2


def order(group: int, waits: int = 7000, seconds: float = 1.25, flops: float = 0.0) -> Profile:
    """A product of blocks in such groups, whose traffic by rows takes a second at 53 GB/s."""
    made = Made(
        ir=TILES + PRODUCT * (flops > 0), attributes=launch(132), time=seconds * 1e9,
        metrics={"flops": flops} if flops else {},
        remarks=[remark("launch", 7, GroupedRows(group, AsAsked()))],
        code=[("HGMMA", {"long_scoreboard": waits, "selected": 10_000 - waits}, 1, 9)],
    )  # fmt: skip
    return on_h200(made, {"hbm_copy": ROWS + WRITTEN, "tensor_bfloat16": 1e15})


def test_the_order_of_blocks_tells_what_moves() -> None:
    """Without counters: rows of blocks take 80 % of the time at the roof, groups far less."""
    finding = only(order(1), RULE)
    assert finding.severity == "suggestion"
    assert f"{(ROWS + WRITTEN) / 1e9:.3g} GB" in finding.static[0].text
    assert "80 %" in finding.dynamic[0].text
    assert finding.place.location is not None
    assert finding.place.location.line == 7
    assert "T.use_swizzle(" in finding.author
    held = schedule_of(read(TILES))
    assert held is not None
    best = min(held.read(group, 132) for group in (1, 2, 4, 8, 16, 32)) + WRITTEN
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1.25 * 0.88 / (best / (ROWS + WRITTEN)))
    assert 1 < finding.kernel_gain.low < finding.kernel_gain.mid < finding.kernel_gain.high


@pytest.mark.parametrize("group", [8, 16])
def test_blocks_that_share_are_left(group: int) -> None:
    """The fixed twin, in the same time."""
    assert not found(order(group), RULE)


def test_traffic_that_is_not_the_limit() -> None:
    """It takes half of the time, a symptom without a number; little more than the best order; or
    nobody waits for it; or its roof is not known."""
    finding = only(order(1, seconds=2.0), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert not found(order(1, seconds=40.0), RULE)
    assert not found(order(1, waits=1000), RULE)
    bare = Made(ir=TILES, attributes=launch(132), time=1.25e9)
    assert not found(on_h200(bare), RULE)


HEADS = """kernel @k(%X: global<12, 200000, 128, bfloat16>, %T: global<200000, 128, float32>, \
%Y: out global<12, 200000, 128, bfloat16>) {
  %c6250 = constant 6250 : index
  %c12 = constant 12 : index
  launch [GRID] {threads = [256]} body(NAMES) {
    %c32 = constant 32 : index
    %c128 = constant 128 : index
    parallel [%c32, %c128] body(%i: index, %j: index) {
      %0 = mul %block, %c32 : index
      %token = add %0, %i : index
      %1 = load %X, [%head, %token, %j] {in_bounds = true} : bfloat16
      %2 = load %T, [%token, %j] {in_bounds = true} : float32
      store %1, %Y, [%head, %token, %j] {in_bounds = true}
    }
  }
}
"""
X, TABLE = 12 * 200000 * 128 * 2, 200000 * 128 * 4


def heads(grid: str, names: str, written: float = 1.0) -> Profile:
    """A kernel of points, whose blocks read what others read; 0.8 of its time are 12 tables.

    Memory is `written` times as fast to what is only written as to the rest.
    """
    made = Made(
        ir=HEADS.replace("GRID", grid).replace("NAMES", names), time=1.25e9,
        attributes=launch(75000, held=5, threads=256),
        code=[("LDG.E R2, [R4.64]", {"long_scoreboard": 9000, "selected": 1000}, 0, 9)],
    )  # fmt: skip
    whole = float(2 * X + 12 * TABLE)
    mixes = {"hbm_read": whole, "hbm_write": written * whole} if written < 1 else {}
    return on_h200(made, {"hbm_copy": (1 + written) / 2 * whole, **mixes})


BATCH = """kernel @kernel(%A: global<64, 2000, 1000, bfloat16>, \
%B: global<64, 2000, 1000, bfloat16>, %C: out global<64, 2000, 2000, bfloat16>) {
  %c20 = constant 20 : index
  %c64 = constant 64 : index
  launch [GRID] {threads = [128]} body(NAMES) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c100 = constant 100 : index
    for pipelined %c0, %c20, %c1 {num_stages = 2} body(%k: index) {
      %c50 = constant 50 : index
      %0 = mul %by, %c100 : index
      %1 = mul %bx, %c100 : index
      %2 = mul %k, %c50 : index
      %A_tile = view %A, [%bz, %0, %2] {sizes = [1, 100, 50]} : global<1, 100, 50, bfloat16>
      copy %A_tile, %A_shared
      %B_tile = view %B, [%bz, %1, %2] {sizes = [1, 100, 50]} : global<1, 100, 50, bfloat16>
      copy %B_tile, %B_shared
    }
  }
}
"""
"""64 products, each of 20 by 20 blocks that read a row of A and one of B, of 200 KB."""


def batch(grid: str, names: str, moved: float) -> Profile:
    """So many bytes take 0.8 of its time at the roof."""
    made = Made(
        ir=BATCH.replace("GRID", grid).replace("NAMES", names), attributes=launch(132), time=1e9,
        code=[("HGMMA", {"long_scoreboard": 7000, "selected": 3000}, 1, 9)],
    )  # fmt: skip
    return on_h200(made, {"hbm_copy": moved / 0.8})


def test_blocks_of_other_products_that_run_together() -> None:
    """They share nothing: a wave of two or three tiles of all products reads 50 MB, which the L2
    does not keep. Groups of rows do not help, product after product does."""
    names = "%bz: index, %bx: index, %by: index"
    held = schedule_of(read(BATCH.replace("GRID", "%c64, %c20, %c20").replace("NAMES", names)))
    assert held is not None
    moved = held.read(1, 132) + 64 * 2000 * 2000 * 2
    finding = only(batch("%c64, %c20, %c20", names, moved), RULE)
    assert "give `T.Kernel` the extents that are now its second" in finding.author
    assert "another order of the grid's axes" in finding.static[0].text
    assert finding.kernel_gain is not None
    best = held.read(1, 132, (1, 2, 0)) + 64 * 2000 * 2000 * 2
    assert finding.kernel_gain.mid == pytest.approx(1 / (0.8 * best / moved / 0.88), rel=0.02)
    turned = "%bx: index, %by: index, %bz: index"
    assert not found(batch("%c20, %c20, %c64", turned, moved), RULE)


def test_loads_of_points_in_an_order_that_shares_nothing() -> None:
    """One head after the other reads the table again; heads of the same tokens share it;
    kernels likely reach 0.9 of a roof."""
    finding = only(heads("%c6250, %c12", "%block: index, %head: index"), RULE)
    assert finding.kernel_gain is not None
    best = (2 * X + TABLE) / (2 * X + 12 * TABLE)
    assert finding.kernel_gain.mid == pytest.approx(1.25 * 0.9 / best)
    assert not found(heads("%c12, %c6250", "%head: index, %block: index"), RULE)


def test_a_mix_of_reads_and_writes_has_a_roof_of_its_own() -> None:
    """Writes at half of the rate: more of what is left in the best order are writes."""
    finding = only(heads("%c6250, %c12", "%block: index, %head: index", 0.5), RULE)
    rate = 1 - X / (2 * X + TABLE) / 2
    best = (2 * X + TABLE) / (2 * X + 12 * TABLE) / rate
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1.25 * 0.97 / best)


def test_products_take_what_they_reach_of_their_roof() -> None:
    """In the best order memory takes far less: of 1.25 s products have 0.9 at their roof, of which
    0.9 is reached."""
    finding = only(order(1, flops=9e14), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1.25)


def test_counted_traffic_beside_that_of_the_best_groups() -> None:
    """What no order of blocks can save is no excess."""
    many = {"dram_bytes": 5e9, "bytes": 1e12}
    made = Made(ir=TILES, attributes=launch(132), time=1e9, metrics=many)
    assert not found(on_h200(made, {"hbm_copy": 5e9}), RULE)
    more = Made(ir=TILES, attributes=launch(132), time=1e9, metrics={**many, "dram_bytes": 50e9})
    assert found(on_h200(more, {"hbm_copy": 50e9}), RULE)


def test_products_that_were_compiled_elsewhere() -> None:
    """Traffic near the roof that L2 serves badly is a symptom; served well, or slow, it is none."""
    rates = {"dram_bytes": 800_000, "l2_hit_sectors": 1, "l2_sectors": 2}
    made = Made(metrics=rates, code=[("HGMMA", {"selected": 1000}, 1, 9)])
    finding = only(program(made, peaks=PEAKS), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert not found(program(made, peaks={"hbm_copy": 4e9}), RULE)
    served = replace(made, metrics={**rates, "l2_hit_sectors": 1.8})
    assert not found(program(served, peaks=PEAKS), RULE)


@pytest.mark.parametrize(
    "made",
    [
        Made(ir=IR),
        Made(ir=IR, metrics={"dram_bytes": 210_000}),
        Made(metrics={"dram_bytes": 800_000}),
        Made(ir=IR.replace("100, 500", "m, 500"), metrics={"dram_bytes": 800_000}),
    ],
    ids=["not counted", "about what is needed", "nothing known", "known at launch only"],
)
def test_nothing_to_say(made: Made) -> None:
    """Where it is not known, or as it should be."""
    assert not found(program(made, peaks=PEAKS), RULE)


def test_a_kernel_on_a_gpu_without_counters() -> None:
    """Nothing is said."""
    assert not found(stored("h200-gemm"), RULE)
