"""Spills: costly in a loop, harmless elsewhere."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, report_of, stored
from tileprof.analyzer.cases import Program
from tileprof.analyzer.rules import spills

HOT = [
    ("LDL R0, [R1+0x50]", {"lg_throttle": 3000}, 1, 5),
    ("FFMA R2, R0, R3, R4", {"long_scoreboard": 1000, "selected": 4000}, 1, 6),
    ("EXIT", {"selected": 2000}, 0, 9),
]
WAITS = [(1, "long_scoreboard", 0)]


def test_a_loop_that_spills_on_a_gpu() -> None:
    """Of the sixteen stored kernels the one that was written so, at its line."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == "spill-hot"]
    assert [(each.place.kernel, each.severity) for each in findings] == [("spilled", "suggestion")]
    gain = findings[0].kernel_gain
    assert gain is not None
    assert gain.low > 1.2
    assert not found(stored("h200-gemm"), "spill-hot")


def test_what_is_at_them_and_what_waits_for_them() -> None:
    """4,000 of 10,000 samples, of which 95 % come back likely; at most, of 6,000 waits as many."""
    finding = only(program(Made(code=HOT, blames=WAITS)), "spill-hot")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * 0.4))
    assert 1 < finding.kernel_gain.low < finding.kernel_gain.mid < finding.kernel_gain.high
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    assert finding.confidence == "high"


def test_others_wait_in_the_queue_that_they_fill() -> None:
    """3 of 4 instructions of the queue are spills, so 1,500 of 2,000 waits there are theirs."""
    code = [
        ("LDL R0, [R1+0x50]", {"selected": 300}, 1, 5),
        ("LDG.E R2, desc[UR6][R2.64]", {"lg_throttle": 2000, "selected": 100}, 1, 6),
        ("EXIT", {"selected": 7600}, 0, 9),
    ]
    finding = only(program(Made(code=code)), "spill-hot")
    assert finding.dynamic[0].samples == 1800
    assert finding.place.location is not None
    assert finding.place.location.line == 5


def test_waits_of_others_at_a_spill_are_not_its_own() -> None:
    """Of 4,000 samples at a spill 1,000 are its issue, and of 2,000 in the queue of on-chip memory
    the quarter that spills have of what is issued to it; the rest is a barrier and shared memory's.
    """
    code = [
        ("LDS R5, [R6]", {"selected": 3000}, 1, 4),
        ("STL [R1+0x50], R0", {
            "selected": 1000, "mio_throttle": 2000, "barrier": 500, "short_scoreboard": 500,
        }, 1, 5),
        ("EXIT", {"selected": 3000}, 0, 9),
    ]  # fmt: skip
    assert only(program(Made(code=code)), "spill-hot").dynamic[0].samples == 1500


def test_barriers_that_spills_make_late() -> None:
    """4,000 of 10,000 samples are theirs, so of 2,000 that wait for warps 800 more."""
    code = [*HOT[:2], ("BAR.SYNC 0x0", {"barrier": 2000}, 1, 7)]
    finding = only(program(Made(code=code, blames=WAITS)), "spill-hot")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * 0.48))


def test_products_in_a_loop_with_spills_wait_for_one_another() -> None:
    """4,000 of 10,000 samples are spills; 2,000 that wait for products there go as well, outside
    of that loop in the same proportion."""
    code = [
        ("LDL R0, [R1+0x50]", {"selected": 4000}, 1, 5),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24", {}, 1, 6),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 2000}, 1, 6),
        ("@P0 BRA 0x0", {"selected": 1000}, 1, 6),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 1000}, 0, 7),
        ("EXIT", {"selected": 2000}, 0, 9),
    ]
    blames = [(2, "barrier", 1), (4, "barrier", 1)]
    finding = only(program(Made(code=code, blames=blames)), "spill-hot")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * (0.4 + 0.2 + 0.4 * 0.1)))


def test_waits_that_nobody_tells_of() -> None:
    """Of 1,000 each: for the load of R0, and to write what a store has still to read, as spills;
    for a load of other memory, and to read what a store reads as well, not."""
    long = {"long_scoreboard": 1000}
    code = [
        ("LDG.E R9, desc[UR6][R2.64]", {"selected": 100}, 1, 5),
        ("LDL.64 R4, [R1+0x50]", {"selected": 100}, 1, 5),
        ("FFMA R2, R5, R3, R2", long, 1, 6),
        ("STL [R1+0x50], R6", {"selected": 100}, 1, 6),
        ("FADD R7, R6, R3", long, 1, 6),
        ("MOV R6, R3", long, 1, 6),
        ("FADD R8, R9, R3", long, 1, 6),
        ("EXIT", {"selected": 5700}, 0, 9),
    ]
    finding = only(program(Made(code=code)), "spill-hot")
    assert finding.dynamic[0].samples == 2200
    told = Made(code=code, blames=[(2, "long_scoreboard", 0), (5, "long_scoreboard", 3)])
    assert only(program(told), "spill-hot").dynamic[0].samples == 1200


def test_constants_that_a_loop_with_spills_makes_anew() -> None:
    """No register is left to keep them in; outside of that loop one may be."""
    code = [
        ("MOV R3, 0x3c23d70a", {"selected": 500}, 0, 4),
        ("LDL R0, [R1+0x50]", {"selected": 2000}, 1, 5),
        ("HFMA2.MMA R2, -RZ, RZ, 1.03, -112.6", {"selected": 500}, 1, 5),
        ("MOV R4, R0", {"selected": 500}, 1, 5),
        ("@P0 BRA 0x10", {"selected": 500}, 1, 5),
        ("EXIT", {"selected": 6000}, 0, 9),
    ]
    assert only(program(Made(code=code)), "spill-hot").dynamic[0].samples == 2500


def test_the_line_whose_spills_cost_the_most() -> None:
    """Two of 600 samples each are more than one of 1,000."""
    code = [
        ("LDL R0, [R1+0x50]", {"selected": 1000}, 1, 5),
        ("LDL R2, [R1+0x60]", {"selected": 600}, 1, 6),
        ("LDL R3, [R1+0x70]", {"selected": 600}, 1, 6),
        ("EXIT", {"selected": 6000}, 0, 9),
    ]
    place = only(program(Made(code=code)), "spill-hot").place.location
    assert place is not None
    assert place.line == 6


def test_cold_spills_are_to_be_ignored() -> None:
    """A path that hardly runs."""
    cold = [("STL [R1], R0", {"selected": 5}, 0, 5), *HOT[1:]]
    finding = only(program(Made(code=cold)), "spill-hot")
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_without_samples_there_is_no_number() -> None:
    """Counts of instructions alone bring the code."""
    code: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in HOT]
    finding = only(program(Made(code=code, counts={"executions": [9, 9, 1]})), "spill-hot")
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_too_few_samples_make_no_number() -> None:
    """Fewer than a hundred."""
    few = [(t, {r: n // 100 for r, n in s.items()}, d, line) for t, s, d, line in HOT]
    finding = only(program(Made(code=few, blames=WAITS)), "spill-hot")
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_a_gain_ends_at_the_roof() -> None:
    """The work takes 0.8 of the millisecond at best."""
    made = Made(code=HOT, blames=WAITS, metrics={"bytes": 8e8})
    finding = only(program(made, peaks={"hbm_copy": 1e12}), "spill-hot")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(1.25)


@pytest.mark.parametrize(("registers", "going"), [(255, 6000), (64, 4000)])
def test_registers_that_leave_room_for_few_warps(registers: int, going: int) -> None:
    """One block of 256 threads with 255 registers each: of other waits for memory go as
    many as nobody issues at, here half of 4,000."""
    wait = {"long_scoreboard": 4000, "long_scoreboard_not_issued": 4000}
    code = [*HOT[:2], ("FADD R5, R5, R6", wait, 1, 7), ("EXIT", {"selected": 6000}, 0, 9)]
    facts = launch(132, threads=256, registers=registers)
    made = Made(code=code, blames=WAITS, attributes=facts, metrics={"bytes": 1e9})
    case = Program(on_h200(made, peaks={"hbm_copy": 4e12})).kernels[0]
    (draft,) = spills.RULE.find(case)
    assert draft.saving is not None
    assert draft.saving.rows is not None
    assert draft.saving.mid == pytest.approx(0.95 * going / 18000)


@pytest.mark.parametrize(("registers", "free"), [(24, True), (32, False)])
def test_spills_with_room_for_more_registers(registers: int, free: bool) -> None:
    """16 blocks of 128 threads have 32 registers each; what a lower bound costs comes before what
    other causes take."""
    made = Made(attributes=launch(4096, 16, registers=registers), code=HOT, blames=WAITS)
    finding = only(on_h200(made), "spill-hot")
    assert finding.author.startswith("Raise the bound on registers") == free
    (draft,) = spills.find(Program(on_h200(made)).kernels[0])
    assert draft.known == free
