"""Too few warps to hide latency."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, stored
from tileprof.analyzer.kernel.side_by_side import faster
from tileprof.profile import Attribute
from tileprof.remarks.copies import TmaLoad
from tileprof.remarks.launches import (
    BlocksCandidate,
    BlocksNeed,
    Occupancy,
    RegisterLimit,
    RegistersAtMost,
)

RULE = "occupancy-limited"
# 8 warps on a multiprocessor, 2 of a scheduler, which issues in a quarter of all cycles.
FEW = launch(1320, held=1, threads=256, registers=132, limited_by="registers")
# A tenth of what memory gives.
ROOF = {"hbm_copy": 1e12}
SOME = {"bytes": 1e8}
LATENCY = {"selected": 1250, "long_scoreboard": 8750, "long_scoreboard_not_issued": 7500}
WAITS = [("FADD R0, R0, R1", LATENCY, 1, 5)]
STATIONS = (0.1 / 0.93, 0.25)


def test_a_few_registers_from_the_next_block() -> None:
    """From one block to two; or, as one alone is far too large, to half of all warps, four of them:
    likely to three. Memory is at work for 0.1, schedulers for a quarter. At most what the work
    leaves."""
    finding = only(on_h200(Made(attributes=FEW, code=WAITS, metrics=SOME), ROOF), RULE)
    assert finding.kernel_gain is not None
    step, likely = (faster(STATIONS, 1, blocks) for blocks in (2, 3))
    assert finding.kernel_gain.mid == pytest.approx(likely)
    assert finding.kernel_gain.low == pytest.approx(1 / (1 - (1 - 1 / step) / 2))
    assert finding.kernel_gain.high == pytest.approx(highest(4))  # schedulers issue in a quarter
    assert (finding.severity, finding.confidence) == ("suggestion", "medium")
    assert "at most 128 registers per thread instead of 132" in finding.author


def test_a_step_is_to_the_next_block() -> None:
    """Three blocks of 4 warps become four, and not as many as the device holds."""
    three = launch(13200, held=3, threads=128, registers=168, limited_by="registers")
    finding = only(on_h200(Made(attributes=three, code=WAITS, metrics=SOME), ROOF), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(faster(STATIONS, 3, 4))
    assert finding.kernel_gain.high <= highest(4 / 3) + 1e-9


def test_blocks_side_by_side_hide_no_more_than_waits_for_memory() -> None:
    """Nobody issues in 0.2 of the cycles, in 0.08 of all while warps wait for memory."""
    four = launch(13200, held=4, threads=128, registers=104, limited_by="registers")
    reasons = {
        "selected": 8000, "long_scoreboard": 1000, "long_scoreboard_not_issued": 800,
        "wait": 1200, "wait_not_issued": 1200,
    }  # fmt: skip
    code = [("FADD R0, R0, R1", reasons, 1, 5)]
    finding = only(on_h200(Made(attributes=four, code=code, metrics=SOME), ROOF), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 800 / 10200))


def test_blocks_that_wait_longer_than_a_load_takes_are_a_symptom() -> None:
    """Memory has as many loads under way as it takes: more warps may wait the longer."""
    three = launch(13200, held=3, threads=128, registers=168, limited_by="registers")
    one = launch(1320, held=1, threads=256, registers=132, limited_by="registers")
    use = {"selected": 8, "long_scoreboard": 10_000, "long_scoreboard_not_issued": 8500}
    other = {"selected": 1250, "wait": 1250}
    code = [("FADD R0, R0, R1", use, 1, 5), ("IADD3 R2, R2, R3, RZ", other, 1, 6)]
    finding = only(on_h200(Made(attributes=three, code=code, metrics=SOME), ROOF), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert any("1,250 cycles for a load" in each.text for each in finding.evidence)
    # A block alone loads in bursts, between which nothing is under way.
    finding = only(on_h200(Made(attributes=one, code=code, metrics=SOME), ROOF), RULE)
    assert finding.severity == "suggestion"


def test_the_grid_has_blocks_for_it() -> None:
    """1.5 waves of blocks become 1.5 blocks a multiprocessor; less than one leaves room already."""
    some = FEW | launch(198, threads=256, registers=132)
    finding = only(on_h200(Made(attributes=some, code=WAITS, metrics=SOME), ROOF), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(faster(STATIONS, 1, 1.5))
    none = FEW | launch(100, threads=256, registers=132)
    assert not found(on_h200(Made(attributes=none, code=WAITS, metrics=SOME), ROOF), RULE)


def test_memory_and_small_blocks_limit_too() -> None:
    """A block of 120 KB; and 32 blocks of a warp, all that a multiprocessor takes."""
    memory = launch(1320, held=1, threads=256, limited_by="shared memory")
    memory["dynamic_shared_bytes"] = 120 * 1024
    finding = only(on_h200(Made(attributes=memory, code=WAITS, metrics=SOME), ROOF), RULE)
    assert "at most 113.0 KB of shared memory instead of 120.0" in finding.author
    small = launch(132 * 64, held=32, threads=32, limited_by="blocks")
    finding = only(on_h200(Made(attributes=small, code=WAITS, metrics=SOME), ROOF), RULE)
    assert "blocks of 64 threads" in finding.author


def test_the_compiler_said_what_is_needed() -> None:
    """In its own words, and where the launch is."""
    needs = BlocksNeed((RegistersAtMost(128),))
    decision = Occupancy(1, 256, (RegisterLimit(168),))
    said = remark("occupancy", 7, decision, (BlocksCandidate(2), needs))
    finding = only(on_h200(Made(attributes=FEW, code=WAITS, remarks=[said])), RULE)
    assert "which needs at most 128 registers a thread:" in finding.author
    assert finding.place.location is not None
    assert finding.place.location.line == 7


@pytest.mark.parametrize(
    "reasons",
    [
        {"selected": 4000, "not_selected": 4000, "wait": 2000, "wait_not_issued": 2000},
        {"selected": 1000, "lg_throttle": 9000, "lg_throttle_not_issued": 8900},
        {"selected": 1000, "sleeping": 9000, "sleeping_not_issued": 8900},
    ],
    ids=["busy", "a full queue", "naps"],
)
def test_what_more_warps_do_not_shorten(reasons: dict[str, int]) -> None:
    """Schedulers have enough to do, or wait for what is no latency."""
    code = [("STG.E [R2.64], R0", reasons, 1, 5)]
    assert not found(on_h200(Made(attributes=FEW, code=code, metrics=SOME), ROOF), RULE)


def test_engines_hide_latency_without_warps() -> None:
    """Products of warp groups, by the code or the compiler's word; copies of tiles."""
    code = [*WAITS, ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24", {"selected": 10}, 1, 6)]
    assert not found(on_h200(Made(attributes=FEW, code=code, metrics=SOME), ROOF), RULE)
    said = [remark("copy A → A_shared", 5, TmaLoad())]
    assert not found(on_h200(Made(attributes=FEW, remarks=said)), RULE)


def test_near_a_roof_and_with_many_warps() -> None:
    """0.95 of the memory's bandwidth; more than half of all warps, or all of them."""
    near = Made(attributes=FEW, code=WAITS, metrics={"bytes": 9.5e8})
    assert not found(on_h200(near, ROOF), RULE)
    most = launch(13200, held=5, threads=256, registers=48, limited_by="registers")
    assert not found(on_h200(Made(attributes=most, code=WAITS, metrics=SOME), ROOF), RULE)
    full = launch(1320, held=8, threads=256, limited_by="threads, registers", registers=32)
    assert not found(on_h200(Made(attributes=full, code=WAITS, metrics=SOME), ROOF), RULE)


def test_no_more_comes_back_than_work_leaves() -> None:
    """At 0.7 of the roof: 0.7 / 0.93 stays likely, and the roof itself at least."""
    near = Made(attributes=FEW, code=WAITS, metrics={"bytes": 7e8})
    finding = only(on_h200(near, ROOF), RULE)
    assert finding.kernel_gain is not None
    assert 1.2 < finding.kernel_gain.mid < 0.93 / 0.7
    assert finding.kernel_gain.high == pytest.approx(1 / 0.7)


def test_blocks_beside_each_other_near_a_roof() -> None:
    """Three of them, at 0.9: waits for memory are what it takes, however few warps there are."""
    three = launch(13200, held=3, threads=256, registers=72, limited_by="registers")
    made = Made(attributes=three, code=WAITS, metrics={"bytes": 9e8})
    assert not found(on_h200(made, ROOF), RULE)


def test_spills_are_a_cause_of_their_own() -> None:
    """Fewer registers make more of them; a few are no matter."""
    for waits, said in ((1500, 0), (700, 1)):
        code = [*WAITS, ("LDL R0, [R1]", {"long_scoreboard": waits}, 1, 6)]
        held = found(on_h200(Made(attributes=FEW, code=code, metrics=SOME), ROOF), RULE)
        assert len(held) == said


@pytest.mark.parametrize(("launched", "said"), [
    (FEW, 1), (launch(13200, held=3, threads=128, registers=168, limited_by="registers"), 0),
])  # fmt: skip
def test_a_queue_that_is_full(launched: dict[str, Attribute], said: int) -> None:
    """That of a block alone, which begins to load while nobody computes; that of several has a
    cause of its own."""
    code = [*WAITS, ("LDG.E R0, [R2.64]", {"lg_throttle": 1500}, 1, 6)]
    held = found(on_h200(Made(attributes=launched, code=code, metrics=SOME), ROOF), RULE)
    assert len(held) == said


def test_waits_for_memory_are_no_sign_without_a_roof() -> None:
    """A symptom where one block is alone; blocks that share a multiprocessor may fill memory."""
    finding = only(on_h200(Made(attributes=FEW, code=WAITS)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    three = launch(13200, held=3, threads=128, registers=168, limited_by="registers")
    assert not found(on_h200(Made(attributes=three, code=WAITS)), RULE)


def test_blocks_cover_each_others_arithmetic() -> None:
    """One alone has nothing beside it while it waits for its own results."""
    reasons = {"selected": 2500, "wait": 7500, "wait_not_issued": 7500}
    code = [("FADD R0, R0, R1", reasons, 1, 5)]
    assert found(on_h200(Made(attributes=FEW, code=code, metrics=SOME), ROOF), RULE)
    three = launch(13200, held=3, threads=128, registers=168, limited_by="registers")
    assert not found(on_h200(Made(attributes=three, code=code, metrics=SOME), ROOF), RULE)


def test_without_samples_only_a_small_step_is_told() -> None:
    """And without a number."""
    finding = only(on_h200(Made(attributes=FEW)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    far = FEW | {"registers": 255}
    assert not found(on_h200(Made(attributes=far)), RULE)
    assert not found(program(Made(attributes=FEW)), RULE)


def test_on_a_gpu() -> None:
    """Grids that leave room, kernels with all warps, products of warp groups."""
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


GATHER = """
kernel @bag(%Table: global<1000000, 128, float32>, %Items: global<64, int32>, \
%Out: out global<64, 128, float32>) {
  parallel [%c64, %c128] body(%i: index, %j: index) {
    %1 = load %Items, [%i] : int32
    %2 = cast %1 : index
    %3 = load %Table, [%2, %j] : float32
    store %3, %Out, [%i, %j]
  }
}
"""


@pytest.mark.parametrize(("held", "ir", "said"), [
    (3, GATHER, 0), (3, GATHER.replace("[%2, %j]", "[%i, %j]"), 1), (1, GATHER, 1),
])  # fmt: skip
def test_rows_by_their_numbers_come_more_or_less_than_once(held: int, ir: str, said: int) -> None:
    """Side by side, blocks that wait for them may have all that memory gives; one alone has not."""
    launched = launch(13200, held=held, threads=128, registers=168, limited_by="registers")
    made = Made(attributes=launched, ir=ir, code=WAITS, metrics=SOME)
    assert len(found(on_h200(made, ROOF), RULE)) == said


@pytest.mark.parametrize(("text", "said"), [("LDG.E R0, [R2.64]", 1), ("FADD R0, R0, R1", 0)])
def test_more_loads_than_are_told_apart(text: str, said: int) -> None:
    """A load that waits for earlier ones waits for memory; elsewhere `misc` says nothing."""
    code = [(text, {"selected": 1250, "misc": 8750, "misc_not_issued": 7500}, 1, 5)]
    assert len(found(on_h200(Made(attributes=FEW, code=code, metrics=SOME), ROOF), RULE)) == said


def test_many_blocks_that_registers_limit() -> None:
    """A fifth block is a small step: a smaller tile has room for eight, so likely six."""
    four = launch(13200, held=4, threads=128, registers=128, limited_by="registers")
    finding = only(on_h200(Made(attributes=four, code=WAITS, metrics=SOME), ROOF), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(faster(STATIONS, 4, 6.5))


@pytest.mark.parametrize(("blocks", "said"), [(132 * 5, False), (132 * 4, True), (132 * 13, True)])
def test_two_rounds_of_blocks_stay_two(blocks: int, said: bool) -> None:
    """Five blocks a multiprocessor take two rounds of three at a time, and two of four."""
    three = launch(blocks, held=3, threads=128, registers=168, limited_by="registers")
    made = Made(attributes=three, code=WAITS, metrics=SOME)
    assert bool(found(on_h200(made, ROOF), RULE)) == said
