"""Scattered accesses: by the layout, by counts, by counters, and waits without a cause."""

from __future__ import annotations

import pytest

from tests.analyzer.gathered import BAG
from tests.analyzer.made import Made, found, highest, only, program, remark, report_of, stored
from tileprof.analyzer import Finding, Gain
from tileprof.analyzer.estimates import Saving, drawn
from tileprof.remarks.layouts import FewerSectors, GlobalAccess, ScatteredLanes

RULE = "uncoalesced-global"
HOT = [
    ("LDG.E R4, desc[UR6][R4.64]", {"lg_throttle": 1000}, 1, 5),
    ("FADD R7, R4, R7", {"long_scoreboard": 6000, "selected": 1000}, 1, 6),
    ("EXIT", {"selected": 2000}, 0, 9),
]
WAITS = [(1, "long_scoreboard", 0)]
SCATTERED = {"global_requests": [100, 0, 0], "global_sectors": [1600, 0, 0]}
BESIDE = (FewerSectors(4), ScatteredLanes("A", 32))
SAID = remark("load A", 5, GlobalAccess(4, 16, 4), BESIDE, severity="missed")
IN_ORDER = remark("load A", 5, GlobalAccess(4, 4, 4))


def gain(finding: Finding) -> Gain:
    """That of the kernel."""
    assert finding.kernel_gain is not None
    return finding.kernel_gain


def test_kernels_of_a_gpu() -> None:
    """Lanes in lines of their own, by their addresses; those of a chain of loads are not known, so
    its waits have no cause. Samples cannot tell the two apart."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    seen = {each.place.kernel: each for each in findings}
    assert {name: each.severity for name, each in seen.items()} == {
        "uncoalesced": "suggestion", "chased": "symptom"
    }  # fmt: skip
    apart = seen["uncoalesced"]
    assert apart.static[0].text.startswith("LDG.E.STRONG.GPU: 32 sectors per request, 4 needed")
    assert gain(apart).mid > 3
    assert seen["chased"].kernel_gain is None
    assert apart.place.location is not None
    assert apart.place.location.line == 46
    assert not found(stored("h200-gemm"), RULE)


APART = [
    ("S2R R0, SR_TID.X", {"mio_throttle": 500, "selected": 100}, 0, 4),
    ("LDC.64 R2, c[0x0][0x210]", {"selected": 100}, 0, 4),
    ("IMAD.WIDE R4, R0, 0x20, R2", {"selected": 100}, 0, 4),
    ("LDG.E R6, desc[UR4][R4.64]", {"lg_throttle": 3000, "selected": 100}, 1, 5),
    ("FADD R7, R6, R7", {"long_scoreboard": 5000, "selected": 1100}, 1, 6),
]


def test_lanes_that_the_code_shows_to_be_apart() -> None:
    """32 sectors where 4 would do: 7 in 8 of the wait at the load and for it, and 7 in 10 passes of
    what stands behind it. At most all of it: sectors may come more than once."""
    made = Made(code=APART, blames=[(4, "long_scoreboard", 3)], attributes={"block": "128×1×1"})
    finding = only(program(made), RULE)
    assert finding.severity == "suggestion"
    assert gain(finding).mid == pytest.approx(1 / (1 - 7 / 8 * 0.8 - 7 / 10 * 0.05))
    assert gain(finding).high > highest(5)
    assert finding.place.location is not None
    assert finding.place.location.line == 5


@pytest.mark.parametrize("step", ["0x4", "0x10"])
def test_lanes_that_the_code_shows_to_be_together(step: str) -> None:
    """Side by side, or with gaps that the next bytes of each thread fill: no cause, no symptom."""
    code = [(text.replace("0x20", step), *rest) for text, *rest in APART]
    made = Made(
        code=[(text, *rest) for text, *rest in code],  # type: ignore[misc]
        blames=[(4, "long_scoreboard", 3)], attributes={"block": "128×1×1"},
    )  # fmt: skip
    assert not found(program(made), RULE)
    unknown = Made(code=made.code, blames=made.blames)
    assert only(program(unknown), RULE).severity == "symptom"


def test_addresses_alone_are_a_warning() -> None:
    """Counts of executions bring the code, and nobody waits in it."""
    code: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in APART]
    counts = {"executions": [9] * len(code)}
    finding = only(program(Made(code=code, counts=counts, attributes={"block": "32×1×1"})), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_sectors_by_instruction() -> None:
    """16 sectors where 4 would do: of 7,000 of 10,000 samples 3 in 4 go; only those in the queue
    are sure, as a long wait may be a long way."""
    finding = only(program(Made(code=HOT, blames=WAITS, counts=SCATTERED)), RULE)
    assert finding.severity == "suggestion"
    assert gain(finding).mid == pytest.approx(1 / (1 - 0.75 * 0.7))
    assert gain(finding).low < 1.1
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    assert "16.0 sectors per request of LDG.E, 4 needed" in finding.dynamic[0].text


def test_the_use_of_memory_is_the_part_of_waiting_that_is_traffic() -> None:
    """Memory is used by 60 %: 1,000 in the queue, and 0.6 of 6,000 that wait."""
    made = Made(code=HOT, blames=WAITS, counts=SCATTERED, metrics={"dram_bytes": 600_000})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    share = 0.75 * (0.1 + 0.6 * 0.6)
    left = Saving(1 - 0.6 / 0.85, 1 - 0.6 / 0.97, 1 - 0.6 / 1.05)
    assert gain(finding).mid == pytest.approx(1 / (1 - drawn(Saving(0, share, 0.7), left).mid))
    assert finding.confidence == "high"


def test_loads_in_order_wait_behind_scattered_ones() -> None:
    """What has to move is known, and takes nothing. 16 sectors where 4 would do, beside as many
    requests in order: of 20 sectors 12 are for nothing, and so is that part of 2,000 waits."""
    code = [
        ("LDG.E R4, desc[UR6][R4.64]", {"lg_throttle": 1000, "selected": 500}, 1, 5),
        ("LDG.E R8, desc[UR6][R8.64]", {"selected": 500}, 1, 6),
        ("FADD R7, R4, R7", {"long_scoreboard": 4000}, 1, 7),
        ("FADD R9, R8, R9", {"long_scoreboard": 2000}, 1, 8),
        ("EXIT", {"selected": 2000}, 0, 9),
    ]
    blames = [(2, "long_scoreboard", 0), (3, "long_scoreboard", 1)]
    made = Made(code=code, blames=blames, remarks=[SAID], metrics={"bytes": 1e3})
    finding = only(program(made, peaks={"hbm_copy": 1e12}), RULE)
    seen = next(each for each in finding.dynamic if each.tier == "samples")
    assert seen.samples == 5000 + 12 / 20 * 2000


def test_the_layout_with_samples() -> None:
    """The remark names the line; its instruction is found there."""
    finding = only(program(Made(code=HOT, blames=WAITS, remarks=[SAID])), RULE)
    assert finding.severity == "suggestion"
    assert finding.place.op == "load A"
    assert gain(finding).mid == pytest.approx(1 / (1 - 0.75 * 0.7))
    assert [each.text for each in finding.static] == [f"load A: {SAID.decision}, by the layout"]


def test_the_layout_alone_is_a_warning() -> None:
    """Nothing was measured; nor is there a number where the code has no such access."""
    finding = only(program(Made(remarks=[SAID])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    other = [("LDG.E.64 R4, desc[UR6][R4.64]", *HOT[0][1:]), *HOT[1:]]
    finding = only(program(Made(code=other, blames=WAITS, remarks=[SAID])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_instructions_in_the_line_of_a_neighbour() -> None:
    """Loads move to the begin of their loop: those of no other remark's line are meant."""
    moved = [(text, samples, depth, line + 1) for text, samples, depth, line in HOT]
    finding = only(program(Made(code=moved, blames=WAITS, remarks=[SAID])), RULE)
    assert gain(finding).mid == pytest.approx(1 / (1 - 0.75 * 0.7))
    other = remark("load B", 6, GlobalAccess(4, 4, 4))
    finding = only(program(Made(code=moved, blames=WAITS, remarks=[SAID, other])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_what_has_to_move_says_what_is_left() -> None:
    """All 7,000 of 10,000 samples go with the sectors, whatever part of these is needed: a kernel
    that uses a quarter of the bandwidth is drawn towards what kernels reach of it."""
    made = Made(code=HOT, blames=WAITS, remarks=[SAID], metrics={"bytes": 250_000})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    left = Saving(1 - 0.25 / 0.85, 1 - 0.25 / 0.97, 1 - 0.25 / 1.05)
    assert gain(finding).mid == pytest.approx(1 / (1 - drawn(Saving(0, 0.7, 0.7), left).mid))
    assert gain(finding).low > 1.8


def test_rows_by_their_numbers_come_as_often_as_they_are_asked_for() -> None:
    """Half as much again as a table of 64 MB, which no cache holds: that is what has to move."""
    ir = BAG.replace("<1000, 128", "<250000, 128").replace(
        "launch [%c8]", "%c3000 = constant 3000 : index\nlaunch [%c3000]"
    )
    made = Made(code=HOT, blames=WAITS, remarks=[SAID], ir=ir)
    finding = only(program(made, peaks={"hbm_copy": 1e12}), RULE)
    moved = 3000 * 16 * 8 * 128 * 2 + 64 * 16 * 4 + 64 * 128 * 4
    low, mid, high = (1 - moved / 1e9 / reached for reached in (0.85, 0.97, 1.05))
    likely = drawn(Saving(0, 0.7, 0.7), Saving(low, mid, high)).mid
    assert gain(finding).mid == pytest.approx(1 / (1 - likely))


def test_results_of_products_are_stored_as_lanes_hold_them() -> None:
    """Half a sector each, or a quarter of bytes, which `epilogue-drain` tells of; more than that is
    another matter."""
    product = ("HGMMA.64x128x16.F32 R24, gdesc[UR4]", {"selected": 1000}, 1, 4)
    store = ("STG.E desc[UR6][R4.64], R2", {"lg_throttle": 3000, "selected": 1000}, 0, 5)
    for width, sectors, severities in ((4, 8, []), (4, 16, ["suggestion"]), (2, 8, [])):
        store = (f"STG.E{'.U16' if width == 2 else ''} desc[UR6][R4.64], R2", *store[1:])
        said = remark("store C", 5, GlobalAccess(width, sectors, width))
        made = Made(code=[product, store], remarks=[said])
        assert [each.severity for each in found(program(made), RULE)] == severities


def test_at_the_roof_they_are_to_be_left() -> None:
    """What has to move takes nearly all of the time, so nothing else is in its way."""
    made = Made(code=HOT, blames=WAITS, remarks=[SAID], metrics={"bytes": 900_000})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_counts_overrule_the_layout() -> None:
    """A layout that was counted for full warps, and requests that were in order."""
    counts = {"global_requests": [100, 0, 0], "global_sectors": [400, 0, 0]}
    made = Made(code=HOT, blames=WAITS, remarks=[SAID], counts=counts)
    assert not found(program(made), RULE)


def test_what_is_in_order_is_no_symptom() -> None:
    """By remark, and by count with wide accesses."""
    assert not found(program(Made(code=HOT, blames=WAITS, remarks=[IN_ORDER])), RULE)
    wide = [("LDG.E.128 R4, desc[UR6][R4.64]", *HOT[0][1:]), *HOT[1:]]
    assert not found(program(Made(code=wide, blames=WAITS, counts=SCATTERED)), RULE)


def test_few_threads_of_a_warp_need_few_sectors() -> None:
    """8 threads of 4 bytes need one sector: 4 of them are scattered, though 32 threads need 4."""
    counts = {"global_requests": [100], "global_sectors": [400], "executions": [100]}
    assert not found(program(Made(code=HOT, blames=WAITS, counts=counts)), RULE)
    few = counts | {"thread_executions": [800]}
    finding = only(program(Made(code=HOT, blames=WAITS, counts=few)), RULE)
    assert "4.0 sectors per request of LDG.E, 1 needed" in finding.dynamic[0].text


def test_cold_ones_are_to_be_ignored() -> None:
    """Scattered, and nobody waits."""
    cold = [(HOT[0][0], {"selected": 5}, 0, 5), ("FADD R7, R4, R7", {"selected": 9995}, 1, 6)]
    finding = only(program(Made(code=cold, remarks=[SAID])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_counters_of_launches() -> None:
    """32 sectors a request where 16 are the most that any needs, half of them found in L1: as many
    reach the L2 as are needed. Without hits half of a memory's use goes."""
    counters = {"load_sectors": 3200, "load_requests": 100, "dram_bytes": 800_000}
    peaks = {"hbm_copy": 1e9}
    finding = only(program(Made(metrics=counters), peaks=peaks), RULE)
    assert finding.severity == "suggestion"
    assert gain(finding).mid == pytest.approx(1 / (1 - 0.5 * 0.8))
    cached = counters | {"l1_hit_sectors": 50, "l1_sectors": 100}
    assert only(program(Made(metrics=cached), peaks=peaks), RULE).severity == "ignore"
    unknown = only(program(Made(metrics=counters)), RULE)
    assert (unknown.severity, unknown.kernel_gain) == ("warning", None)


def test_at_the_roof_waiting_is_no_symptom() -> None:
    """Memory gives no more."""
    made = Made(code=HOT, blames=WAITS, metrics={"dram_bytes": 900_000})
    assert not found(program(made, peaks={"hbm_copy": 1e9}), RULE)
    assert only(program(made, peaks={"hbm_copy": 2e9}), RULE).severity == "symptom"
    asked = Made(code=HOT, blames=WAITS, metrics={"bytes": 900_000})
    assert not found(program(asked, peaks={"hbm_copy": 1e9}), RULE)
    cached = Made(code=HOT, blames=WAITS, metrics={"bytes": 9_000_000})
    assert only(program(cached, peaks={"hbm_copy": 1e9}), RULE).severity == "symptom"


@pytest.mark.parametrize(("other", "said"), [("+0x10", False), ("+0x40", True)])
def test_halves_of_a_sector_are_taken_by_loads_side_by_side(other: str, said: bool) -> None:
    """Twice the sectors of a request, of which a neighbour finds the other half in L1."""
    code = [
        ("LDG.E R4, desc[UR6][R2.64]", {"lg_throttle": 500}, 1, 5),
        (f"LDG.E R5, desc[UR6][R2.64{other}]", {"lg_throttle": 500}, 1, 5),
        *((text, samples, 1, 6) for text, samples, *_ in HOT[1:]),
    ]
    halves = remark("load A", 5, GlobalAccess(4, 8, 4))
    assert bool(found(program(Made(code=code, blames=WAITS, remarks=[halves])), RULE)) == said
