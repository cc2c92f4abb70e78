"""Last waves that are not full."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, stored
from tileprof.profile import Cta, CtaLaunch, CtaTimelines
from tileprof.remarks.common import AsAsked
from tileprof.remarks.launches import Persistent, TilesInTurn

RULE = "tail-wave"


# A tenth of what memory gives.
ROOF = {"hbm_copy": 1e12}
SOME = {"bytes": 1e8}
TILES = """kernel @gemm(%A: global<2304, 8192, bfloat16>) {
  %c8 = constant 8 : index
  %c18 = constant 18 : index
  launch [%c8, %c18] {threads = [256]} body(%bx: index, %by: index) {
"""


def busy(share: float) -> list[tuple[str, dict[str, int], int, int]]:
    """Code whose schedulers issue in that share of all cycles."""
    idle = round(10_000 * (1 - share))
    reasons = {"wait": idle, "wait_not_issued": idle, "not_selected": 10_000 - idle}
    return [("FFMA R0, R0, R1, R2", reasons, 1, 5)]


def median_block(ns: int) -> CtaTimelines:
    """One recorded block of the first kernel."""
    blocks = [Cta(0, 0, 0, 0, ns, "median, first"), Cta(0, 1, 1, 0, 5 * ns, "longest")]
    return CtaTimelines([CtaLaunch(0, "kernel", "cuda:0", 0, 133)], blocks)


def test_a_block_too_many() -> None:
    """133 blocks take the time of 264: half of it comes back."""
    finding = only(on_h200(Made(attributes=launch(133))), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(264 / 133)
    assert finding.kernel_gain.high == pytest.approx(highest(264 / 133))
    assert (finding.severity, finding.confidence) == ("suggestion", "medium")
    assert "1.01 waves" in finding.static[0].text


LEAST, MOST = 1 - 5.5 / 6, 1 - 1.375 / 2
"""Of the time, what 726 blocks lose where 132 multiprocessors hold four each."""


@pytest.mark.parametrize(("share", "latency"), [(1.0, 0.0), (0.0, 1.0), (0.6, 0.4)])
def test_blocks_that_share_what_is_scarce(share: float, latency: float) -> None:
    """Half a block of 5.5 for each where schedulers are busy, which is too little to tell; 1.375
    rounds of 2 where all is latency."""
    made = Made(attributes=launch(726, held=4), code=busy(share), metrics=SOME)
    lost = LEAST + (MOST - LEAST) * latency
    gains = [each.kernel_gain.mid for each in found(on_h200(made, ROOF), RULE) if each.kernel_gain]
    assert gains == ([pytest.approx(1 / (1 - lost))] if latency else [])


def test_nothing_is_lost_for_sure() -> None:
    """Five blocks for each multiprocessor: how long they take alone decides, and is not known."""
    made = Made(attributes=launch(5 * 132, held=4), code=busy(0), metrics=SOME)
    finding = only(on_h200(made, ROOF), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert "--instrument sample" in finding.author


def test_memory_that_is_nearly_full_is_what_is_scarce() -> None:
    """At 0.92 of its roof little can come back; idle schedulers tell nothing without a roof."""
    attributes = launch(5 * 132, held=4)
    near = Made(attributes=attributes, code=busy(0), metrics={"bytes": 9.2e8})
    assert not found(on_h200(near, ROOF), RULE)
    assert not found(on_h200(Made(attributes=attributes, code=busy(0))), RULE)


def test_tiles_of_a_persistent_kernel() -> None:
    """144 tiles on 132 blocks: two rounds, of which 1.09 are work. At the line of the launch. No
    product is in them, so they may be of any size."""
    said = [remark("launch", 16, Persistent())]
    finding = only(on_h200(Made(attributes=launch(132), ir=TILES, remarks=said)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1 - 144 / 264)))
    assert finding.title == "the last of 2 rounds of tiles is nearly empty"
    assert finding.place.location is not None
    assert (finding.place.location.line, finding.place.op) == (16, "launch")
    assert not found(on_h200(Made(attributes=launch(132), ir=TILES)), RULE)


SUMS = (
    TILES
    + """    %C_local = alloc fragment {shape = [128, 192]} : fragment<128, 192, float32>
    gemm %A_shared, %B_shared, %C_local {transpose_b = true}
"""
)


@pytest.mark.parametrize(("rows", "columns", "rest"),
                         [(128, 192, 2 / 3), (128, 128, 0.75), (128, 256, 0.75)])  # fmt: skip
def test_tiles_of_products_have_some_sizes(rows: int, columns: int, rest: float) -> None:
    """144 tiles in two rounds: of 128 × 256 one round of 4/3. There is no such tile of 128 columns,
    but of 192 rows; nor is there room for more than 128 × 256: three rounds of halves, or two of
    three quarters."""
    said = [remark("launch", 16, Persistent())]
    text = SUMS.replace("128, 192", f"{rows}, {columns}")
    code = [("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24", {"wait": 8000}, 1, 5)]
    made = Made(attributes=launch(132), ir=text, remarks=said, code=code)
    finding = only(on_h200(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / rest)
    assert finding.kernel_gain.high == pytest.approx(highest(264 / 144))


def test_tiles_that_go_to_the_block_that_is_free() -> None:
    """They take different time, so there are no rounds of which the last could be empty."""
    said = [
        remark("launch", 16, Persistent()),
        remark("launch", 16, TilesInTurn(AsAsked())),
    ]
    assert not found(on_h200(Made(attributes=launch(132), ir=TILES, remarks=said)), RULE)


def test_an_authors_own_loop_over_tiles() -> None:
    """It says how many there are, or of what they are a product; not so where that is known at
    launch only."""
    own = (
        "  %c140 = constant 140 : index\n    for persistent %b, %c140, %c132 body(%tile: index) {\n"
    )
    finding = only(on_h200(Made(attributes=launch(132), ir=own)), RULE)
    assert "140 tiles" in finding.static[0].text
    rows = "  %c7 = constant 7 : index\n  %c20 = constant 20 : index\n"
    product = f"{rows}  %c140 = mul %c7, %c20 : index\n" + own.partition("\n")[2]
    finding = only(on_h200(Made(attributes=launch(132), ir=product)), RULE)
    assert "140 tiles" in finding.static[0].text
    unknown = own.replace("%c140,", "%0,")
    assert not found(on_h200(Made(attributes=launch(132), ir=unknown)), RULE)


def test_full_waves_and_many_waves() -> None:
    """Three full ones; sixty and a bit; a few per cent less than two, or than 32."""
    for blocks in (132, 264, 396, 132 * 60 + 66, 256, 4096):
        assert not found(on_h200(Made(attributes=launch(blocks))), RULE)
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


def test_recorded_blocks_say_how_much_is_idle() -> None:
    """1.25 waves of blocks of 0.6 ms, in a millisecond: a quarter of all places was empty."""
    several = Made(attributes=launch(5 * 132, held=4))
    finding = only(on_h200(several, ctas=median_block(600_000)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.25))
    assert any(each.tier == "scopes" for each in finding.evidence)


def test_counted_cycles_without_work_are_the_most() -> None:
    """The blocks of the last wave are short: multiprocessors had work all the time."""
    counters = {"sm_active_cycles": 99.5, "sm_cycles": 100.0}
    finding = only(on_h200(Made(attributes=launch(133), metrics=counters)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_samples_say_that_multiprocessors_had_warps() -> None:
    """In 1.5 of 1.98 million cycles, of all: of the half that rounds tell of a quarter stays."""
    samples = round(132 * 1.5e6 / 4096)
    code = [("FFMA R0, R0, R1, R2", {"wait": samples, "wait_not_issued": samples}, 1, 5)]
    finding = only(on_h200(Made(attributes=launch(133), code=code)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(1.98 / 1.5), rel=1e-3)
    assert "had warps in 76 % of all cycles at least" in finding.dynamic[1].text


def test_without_a_time_it_is_a_warning() -> None:
    """And without a device, nothing is known."""
    finding = only(on_h200(Made(attributes=launch(133), time=0)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert not found(program(Made(attributes=launch(133))), RULE)


def test_memory_bounds_what_comes_back() -> None:
    """133 blocks, whose bytes take 0.744 of the time: 0.9 of that rate is likely reached."""
    made = Made(attributes=launch(133), metrics={"bytes": 7.44e8})
    finding = only(on_h200(made, ROOF), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.9 / 0.744)
