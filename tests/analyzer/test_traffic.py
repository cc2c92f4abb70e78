"""Bytes that moved beside those that had to."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program, remark, stored

RULE = "excess-traffic"
IR = """kernel @kernel(%A: global<100, 500, float32> safe(-inf), %n: int32, %B: out global<500, \
uint8, strides = [2]>) {
}
"""
"""200,500 bytes of tensors."""
PEAKS = {"hbm_copy": 1e9, "hbm_read": 0.9e9}
GROUPED = remark("launch", 7, "blocks in groups of 8 rows: operands are shared in L2")


def test_the_formula() -> None:
    """Memory is used by 80 %, a quarter of it for what is needed: 0.8 · 0.75 of the time goes."""
    made = Made(ir=IR, metrics={"dram_bytes": 802_000, "l2_hit_sectors": 3, "l2_sectors": 4})
    finding = only(program(made, peaks=PEAKS), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.802 * 0.75))
    assert finding.kernel_gain.low == pytest.approx(1 / (1 - 0.802 * 0.75 / 2))
    assert finding.title.startswith("4.0 times")
    assert "L2 has 75 %" in finding.dynamic[0].text
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
    single = remark("launch", 7, "blocks in groups of 1 rows: as asked")
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
