"""Warps that wait for each other at barriers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.compiled import Samples, compiled, with_code
from tests.analyzer.made import Made, found, highest, only, program, report_of, stored
from tests.analyzer.tables import table, uneven
from tileprof import binary
from tileprof.analyzer.tiles.tile_loops import narrow_loops
from tileprof.ir import print_kernel
from tileprof.profile import Attribute, Profile
from tileprof.profile.storage.ir_text import read

RULE = "barrier-imbalance"
SKEWED = [
    ("ISETP.GT.U32.AND P0, PT, R7, 0x1f, PT", {"selected": 500}, 1, 4),
    ("@P0 BRA 0x40", {"selected": 500}, 1, 5),
    ("FFMA R5, R5, R0, 0.5", {"selected": 900, "wait": 2000, "wait_not_issued": 1500}, 2, 6),
    ("FFMA R5, R5, R0, 0.5", {"selected": 100}, 1, 6),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 8),
    ("@!P1 BRA 0x0", {"barrier": 6000, "barrier_not_issued": 4500}, 1, 3),
    ("EXIT", {}, 0, 9),
]
WAITS = [(5, "barrier", 4)]


def test_the_first_warp_works_and_the_others_wait_on_a_gpu() -> None:
    """Of the sixteen stored kernels the one that was written so, and the line of the late warp.

    Waits for products of warp groups, which are charged as `barrier` too, are none of it.
    """
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert [(each.place.kernel, each.severity) for each in findings] == [
        ("barrier_skew", "suggestion")
    ]
    place = findings[0].place.location
    assert place is not None
    assert (place.line, findings[0].title[-8:]) == (104, "line 104")
    gain = findings[0].kernel_gain
    assert gain is not None
    assert gain.low > 1.1
    assert gain.high < highest(1 / 0.3)  # schedulers issue in 31 % of all cycles already
    assert not found(stored("h200-gemm"), RULE)


def test_how_much_is_done_by_those_who_are_late() -> None:
    """6,000 of 10,000 samples wait; 3,000 of the 4,000 others are behind the branch."""
    finding = only(program(Made(code=SKEWED, blames=WAITS)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.6 * 0.75))  # no roof is known
    # nobody issues in 60 % of the cycles
    assert finding.kernel_gain.high <= highest(1 / 0.4) + 1e-9
    assert finding.title == "warps wait at a barrier for those that run line 6"
    assert finding.place.location is not None
    assert finding.place.location.line == 6


def test_a_branch_that_all_warps_take_is_nobody_late() -> None:
    """By counts; then who is late is not known."""
    together = {"executions": [800, 800, 800, 800, 800, 800, 8]}
    finding = only(program(Made(code=SKEWED, blames=WAITS, counts=together)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    often = [*SKEWED[:3], ("FFMA R5, R5, R0, 0.5", {"selected": 450}, 1, 6), *SKEWED[4:]]
    finding = only(program(Made(code=often, blames=WAITS)), RULE)
    assert finding.severity == "symptom"  # they issue there as often as before the branch
    one_of_eight = {"executions": [800, 800, 100, 100, 800, 800, 8]}
    finding = only(program(Made(code=SKEWED, blames=WAITS, counts=one_of_eight)), RULE)
    assert finding.severity == "suggestion"


def test_work_behind_the_last_barrier_makes_nobody_late() -> None:
    """The branch is behind the loop."""
    code = [
        ("FFMA R5, R5, R0, 0.5", {"selected": 1000}, 1, 6),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 8),
        ("@!P1 BRA 0x0", {"barrier": 6000}, 1, 3),
        ("@P0 BRA 0x50", {"selected": 10}, 0, 9),
        ("STG.E [R2.64], R5", {"lg_throttle": 3000}, 0, 9),
        ("EXIT", {}, 0, 9),
    ]
    finding = only(program(Made(code=code, blames=[(2, "barrier", 1)])), RULE)
    assert finding.severity == "symptom"
    behind = [*SKEWED[:6], ("@P0 BRA 0x80", {"selected": 10}, 0, 9), code[4], ("EXIT", {}, 0, 9)]
    finding = only(program(Made(code=behind, blames=WAITS)), RULE)
    assert finding.title[-6:] == "line 6"  # though line 9 has more samples


@pytest.mark.parametrize(("memory", "symptoms"), [(2000, 1), (4000, 0)])
def test_waits_for_memory_make_warps_late_by_chance(memory: int, symptoms: int) -> None:
    """As long as those at the barrier: then it is no fault."""
    code = [
        ("FADD R5, R5, R0", {"long_scoreboard": memory, "selected": 6000 - memory}, 1, 6),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 8),
        ("@!P1 BRA 0x0", {"barrier": 4000}, 1, 3),
    ]
    findings = found(program(Made(code=code, blames=[(2, "barrier", 1)])), RULE)
    assert [each.severity for each in findings] == ["symptom"] * symptoms


def test_products_on_the_way_to_a_barrier() -> None:
    """Warps that multiply tiles wait for each other, and for their tiles."""
    code = [
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0", {"selected": 4000}, 1, 4),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 6),
        ("@!P1 BRA 0x0", {"barrier": 6000}, 1, 6),
    ]
    assert not found(program(Made(code=code, blames=[(2, "barrier", 1)])), RULE)


def computing(lanes: int, inside: int = 10) -> Profile:
    """A table by `lanes` of 128 threads; `inside` samples at each sum in the loop."""

    def samples(each: binary.Instruction, line: int) -> dict[str, int]:
        if each.text.startswith("FFMA"):
            return {"selected": inside}
        return {"long_scoreboard": 1000} if each.text.startswith("EXIT") else {}

    return of_kernel(table(lanes), samples)


def of_kernel(kernel: Any, samples: Samples) -> Profile:
    """A tile kernel as a profile has it."""
    made = compiled(kernel)
    ir = print_kernel(kernel.compile().program.kernel)
    held = program(with_code(made, samples, ir=ir))
    infos = tuple(replace(each, code=made.source.text) for each in held.tables.kernels)
    return replace(held, tables=replace(held.tables, kernels=infos))


@pytest.mark.sweep
def test_a_loop_with_work_for_some_threads() -> None:
    """A quarter of them: three quarters of its time go, and the samples tell its line."""
    finding = only(computing(32, inside=1000), RULE)
    assert finding.title == "a loop gives work to 32 of 128 threads"
    assert "16 iterations" in finding.static[0].text
    gain, share = finding.kernel_gain, finding.dynamic[0].samples
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - 0.75 * share / (share + 1000)))
    assert finding.place.location is not None
    assert 15 < finding.place.location.line < 27


def test_a_loop_for_some_threads_gains_no_more_than_what_still_issues_leaves() -> None:
    """Schedulers issue in all cycles, a quarter of which is the least that is left, although waits
    behind the loop go as well and another block works beside what is left of it."""

    def samples(each: binary.Instruction, line: int) -> dict[str, int]:
        if each.text.startswith("FFMA"):
            return {"selected": 4000}
        return {"not_selected": 6000} if each.text.startswith("EXIT") else {}

    held = of_kernel(table(32), samples)
    attributes: dict[str, Attribute] = {"blocks_per_sm": 2, "waves": 4.0}
    infos = tuple(
        replace(each, attributes={**each.attributes, **attributes}) for each in held.tables.kernels
    )
    gain = only(replace(held, tables=replace(held.tables, kernels=infos)), RULE).kernel_gain
    assert gain is not None
    assert gain.mid == pytest.approx(4)


@pytest.mark.parametrize(("blocks", "kept"), [(1, 0.25), (2, 0.125)])
def test_other_blocks_work_beside_what_is_left(blocks: int, kept: float) -> None:
    """A quarter of the loop is left; one of several blocks does it while others do the rest, in
    which they spend longer: likely half of it."""
    held = computing(32, inside=100)
    attributes: dict[str, Attribute] = {"blocks_per_sm": blocks, "waves": 4.0}
    infos = tuple(
        replace(each, attributes={**each.attributes, **attributes}) for each in held.tables.kernels
    )
    finding = only(replace(held, tables=replace(held.tables, kernels=infos)), RULE)
    gain, share = finding.kernel_gain, finding.dynamic[0].samples
    assert 0.25 * share < 1000
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - (1 - kept) * share / (share + 1000)))


def test_a_warp_that_jumps_back_is_seen_behind_the_jump() -> None:
    """What stands there is of the loop's turns: of one loop here, and of the one in it."""

    def in_loop(behind: int) -> int:
        last = list[str]()

        def samples(each: binary.Instruction, line: int) -> dict[str, int]:
            back, last[:] = bool(last) and _jumps_back(last[0]), [f"{each.offset} {each.text}"]
            if each.text.startswith("EXIT"):
                return {"long_scoreboard": 10000}
            return {"wait": behind} if back else {"selected": 1000 * ("FFMA" in each.text)}

        return only(of_kernel(table(32), samples), RULE).dynamic[0].samples

    assert in_loop(700) == in_loop(0) + 2 * 700


def _jumps_back(said: str) -> bool:
    offset, text = said.split(" ", 1)
    target = re.search(r"\bBRA (0x[0-9a-f]+)$", text)
    return bool(text.startswith("@") and target and int(target[1], 16) < int(offset))


@pytest.mark.spread("32-1")
@pytest.mark.parametrize(("lanes", "inside"), [(128, 1000), (32, 1)])
def test_work_for_all_threads_or_next_to_none(lanes: int, inside: int) -> None:
    """Nothing is said."""
    assert not found(computing(lanes, inside), RULE)


@pytest.mark.sweep
def test_a_loop_that_turns_as_often_as_its_element_says() -> None:
    """Those with long columns are late, and are named by the line of the sum."""
    sums = list[str]()

    def samples(each: binary.Instruction, line: int) -> dict[str, int]:
        if each.text.startswith("FADD"):
            sums.append(each.text)  # the assembler writes some iterations out
            return {"selected": 500, "long_scoreboard": 6000, "long_scoreboard_not_issued": 6000}
        return {"barrier": 6000 * len(sums)} if each.text.startswith("LDS") else {}

    finding = only(of_kernel(uneven, samples), RULE)
    assert finding.severity == "suggestion"
    assert "number of iterations depends on the data" in finding.static[0].text
    assert finding.place.location is not None
    assert line_of("total[i] += X") == finding.place.location.line


def line_of(text: str) -> int:
    """The first line of `tables.py` that begins so."""
    lines = (Path(__file__).parent / "tables.py").read_text().splitlines()
    return 1 + next(at for at, line in enumerate(lines) if line.strip().startswith(text))


def test_waits_for_products_are_no_barrier() -> None:
    """They have the same reason."""
    code = [
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0", {"selected": 100}, 1, 4),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 9000}, 1, 5),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 10}, 1, 6),
        ("@!P1 BRA 0x0", {"barrier": 20}, 1, 6),
    ]
    blames = [(1, "barrier", 0), (3, "barrier", 2)]
    assert not found(program(Made(code=code, blames=blames)), RULE)


def test_barriers_at_which_nobody_waits_are_not_told() -> None:
    """A loop with barriers, as most have, of warps that come together."""
    even = [*SKEWED[:5], ("@!P1 BRA 0x0", {"barrier": 20}, 1, 3)]
    assert not found(program(Made(code=even, blames=WAITS)), RULE)


@pytest.mark.parametrize(
    ("waits", "severity"), [(0, "warning"), (3, "ignore"), (2000, "suggestion")]
)
def test_two_barriers_in_a_row(waits: int, severity: str) -> None:
    """With no access to memory between them."""
    work = {"selected": 8000} if waits else {}
    stall = {"barrier": waits} if waits else {}
    code = [
        ("STS [R2], R5", work, 1, 5),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 6),
        ("IADD3 R2, R2, 0x1, RZ", {}, 1, 7),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 7),
        ("LDS R6, [R3]", stall, 1, 8),
    ]
    counts = {} if waits else {"executions": [9] * 5}
    made = Made(code=code, blames=[(4, "barrier", 3)], counts=counts)
    finding = only(program(made), RULE)
    assert finding.severity == severity
    assert (finding.kernel_gain is not None) == (severity == "suggestion")
    between = [*code[:2], ("LDS R2, [R3]", {}, 1, 7), *code[3:]]
    made = Made(code=between, blames=[(4, "barrier", 3)], counts=counts)
    assert not [each for each in found(program(made), RULE) if "orders nothing" in each.title]


def test_waits_beside_schedulers_that_always_issue_cost_nothing() -> None:
    """Of 16,000 samples 9,800 are of schedulers that issue for others: idle are too few."""

    def code(idle: int) -> list[tuple[str, dict[str, int], int, int]]:
        waits = {"barrier": 4000, "barrier_not_issued": idle}
        return [
            ("FADD R5, R5, R0", {"selected": 2000, "not_selected": 10000}, 1, 6),
            ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 8),
            ("@!P1 BRA 0x0", waits, 1, 3),
        ]

    assert not found(program(Made(code=code(100), blames=[(2, "barrier", 1)])), RULE)
    finding = only(program(Made(code=code(4000), blames=[(2, "barrier", 1)])), RULE)
    assert finding.severity == "symptom"


TWO_LOOPS = """
kernel @k() {
  launch [%c9] {threads = [256]} body(%block: index) {
    %c32 = constant 32 : index
    %c0 = constant 0 : index
    %c64 = constant 64 : index
    %c1 = constant 1 : index
    for serial %c0, %c64, %c1 body(%j: index) {
      parallel [%c32] body(%i: index) {
        %1 = load %tile, [%i, %j] : float32
      }
    }
    for serial %c0, %c64, %c1 body(%j_1: index) {
      parallel [%c32] body(%i_1: index) {
        %2 = load %tile, [%i_1, %j_1] : float32
      }
    }
  }
}
"""
TWO_LOOPS_IN_CUDA = """#line 4
  for (int j = 0; j < 64; ++j) {
#line 5
  a();
  }
#line 7
  for (int j = 0; j < 64; ++j) {
#line 8
  b();
  }
"""


def test_loops_whose_indices_share_a_name() -> None:
    """CUDA has a name again where the one before is out of scope."""
    found = list(narrow_loops(read(TWO_LOOPS), TWO_LOOPS_IN_CUDA))
    assert [sorted(each.lines) for each in found] == [[4, 5], [7, 8]]
    assert [(each.elements, each.threads, each.turns) for each in found] == [(32, 256, 64)] * 2


@pytest.mark.parametrize(
    ("between", "is_needless"),
    [("FADD R6, R6, R4", True), ("STS [R8], R4", False), ("LDS R6, [R8]", False)],
)
def test_a_barrier_among_loads_of_global_memory(between: str, is_needless: bool) -> None:
    """Such a barrier orders nothing, where neither its loop nor what is before shares anything."""
    waits = {"selected": 1000, "barrier": 2000}
    code = [
        ("IADD3 R2, P0, R2, 0x100, RZ", {"selected": 1000}, 1, 4),
        ("LDG.E R4, desc[UR8][R2.64]", {"selected": 1000}, 1, 4),
        (between, {"selected": 1000}, 1, 5),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 1000}, 1, 6),
        ("ISETP.GE.AND P1, PT, R2, R9, PT", waits, 1, 4),
        ("@!P1 BRA 0x0", {"selected": 1000}, 1, 4),
    ]
    made = Made(code=code, blames=[(4, "barrier", 3)])
    titles = [each.title for each in found(program(made), RULE)]
    assert ("barriers that order nothing" in titles) == is_needless
