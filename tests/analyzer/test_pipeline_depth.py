"""Pipelines that wait for tiles: how many stages more, and what that brings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.compiled import compiled, remarks_of, with_code
from tests.analyzer.defects import line_of, product
from tests.analyzer.made import Made, found, only, program, remark, report_of, stored
from tests.lowering_kernels import left_early
from tileprof.analyzer.pipelines import Ring, rings_of
from tileprof.ir import print_kernel
from tileprof.profile import Attribute

RULE = "pipeline-too-shallow"
HGMMA = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"
ONE = {"selected": 100}
STARVED = [
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", ONE, 1, 5),
    ("@!P0 BRA 0xb0", {**ONE, "long_scoreboard": 25000, "long_scoreboard_not_issued": 25000}, 1, 5),
    (HGMMA, ONE, 1, 5),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x1", {**ONE, "barrier": 14500}, 1, 5),
    ("@P1 BRA 0x0", ONE, 1, 4),
    ("EXIT", {}, 0, 9),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R2", {}, 1, 3),
    ("@!P0 BRA 0xb0", {"long_scoreboard": 9000, "long_scoreboard_not_issued": 9000}, 1, 3),
    ("UTMALDG.2D [UR8], [UR6]", {}, 1, 3),
    ("@P0 BRA 0x60", {}, 1, 3),
    ("EXIT", {}, 0, 9),
]
WAITS = [(1, "long_scoreboard", 8), (7, "long_scoreboard", 3)]
"""A consumer for copies, and the producer for a free slot."""
LAUNCH: dict[str, Attribute] = {
    "block": "256×1×1",
    "blocks_per_sm": 1,
    "target": "sm_90a",
    "static_shared_bytes": 0,
}
STAGE = 16384
ROOM: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": 2 * STAGE}


def ir(stages: int) -> str:
    """The compiler's text for a product with so many stages of 16 KB."""
    return print_kernel(product(stages=stages).compile().program.kernel)


@pytest.mark.parametrize("stages", [2, 4])
def test_rings_are_read_from_the_text(stages: int) -> None:
    """Two tiles of 64×64 elements of 2 bytes."""
    assert rings_of(ir(stages)) == (Ring("k", stages, STAGE),)


def starved(fast: int, slow: int) -> Made:
    """A compiled product whose consumers wait: at the branch that first asks for the tile, and in
    the loop that this one leads to, which stands apart."""
    made = with_code(compiled(product(stages=2)), lambda each, line: {"long_scoreboard": 1})
    code = [(text, {"selected": 10}, depth, line) for text, _, depth, line in made.code]
    first = next(at for at, each in enumerate(code) if each[0].startswith("HGMMA"))
    asks = max(at for at in range(first) if "BRA" in code[at][0])
    start = int(code[asks][0].rpartition(" ")[2], 16) // 16
    end = next(at for at in range(start, len(code)) if f"BRA 0x{16 * start:x}" in code[at][0])
    for each in (asks, *range(start, end + 1)):
        n = fast if each == asks else slow
        waits = {"long_scoreboard": n, "long_scoreboard_not_issued": n}
        code[each] = (
            code[each][0],
            {**waits, "selected": 10 if each == asks else 0},
            *code[each][2:],
        )
    return replace(made, code=code, ir=ir(2), attributes=ROOM)


@pytest.mark.parametrize(("fast", "slow"), [(20_000, 0), (10_000, 2_500)])
def test_waits_of_compiled_code(fast: int, slow: int) -> None:
    """The compiler's own loop of four instructions for long waits is a part of the wait."""
    finding = only(program(starved(fast, slow)), RULE)
    assert finding.severity == "suggestion"
    assert finding.dynamic[0].text.partition(", ")[2].startswith("1,950 cycles a turn")
    assert finding.place.location is not None
    assert finding.place.location.line in (line_of("T.gemm("), line_of("T.copy(A["))


def test_stages_that_hide_the_wait() -> None:
    """200 of 400 cycles a turn are waits beyond the 50 that one takes: 4 stages instead of 2."""
    finding = only(program(Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=ROOM)), RULE)
    assert finding.severity == "suggestion"
    assert "num_stages=4" in finding.author
    assert "50.0 % of the time, 200 cycles a turn" in finding.dynamic[0].text
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)
    assert finding.place.location is not None
    assert finding.place.location.line == 5


def test_as_many_as_fit() -> None:
    """Room for one more: a turn takes 2 / 3 at best."""
    full: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": (227 << 10) - 2 * STAGE + 1024}
    finding = only(program(Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=full)), RULE)
    assert "num_stages=3" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1.5)


def test_no_room_is_no_suggestion_of_stages() -> None:
    """The wait is there, but what a change brings is not known."""
    full: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": 227 << 10}
    finding = only(program(Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=full)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert "does not fit" in finding.author


def test_busy_tensor_cores_leave_little_to_gain() -> None:
    """Three products of 128 cycles in a turn of 402: no more than the rest of it goes."""
    code = [*STARVED[:2], (HGMMA, ONE, 1, 5), (HGMMA, ONE, 1, 5), *STARVED[2:9]]
    code += [("@P0 BRA 0x80", {}, 1, 3)]
    made = Made(code=code, blames=[(1, "long_scoreboard", 10)], ir=ir(2), attributes=ROOM)
    finding = only(program(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(402 / (3 * 128))


def test_a_producer_that_waits_for_a_slot_is_none() -> None:
    """Tiles are there when they are asked for: 45 cycles."""
    ready = {**ONE, "long_scoreboard": 4500, "long_scoreboard_not_issued": 4500}
    code = [STARVED[0], ("@!P0 BRA 0xb0", ready, 1, 5), *STARVED[2:]]
    assert not found(program(Made(code=code, blames=WAITS, ir=ir(2), attributes=ROOM)), RULE)


def test_each_wait_of_a_turn_takes_its_time() -> None:
    """A second wait in the loop: of 25,000 + 4,500 samples 2 × 50 cycles of 100 turns are no loss.
    The producer's wait is none, even where it is taken for one for a copy."""
    ready = {**ONE, "long_scoreboard": 4500, "long_scoreboard_not_issued": 4500}
    code = [*STARVED[:2], ("@!P0 BRA 0xc0", ready, 1, 6), *STARVED[2:9]]
    code += [("@P0 BRA 0x70", {}, 1, 3)]
    waits = [(1, "long_scoreboard", 9), (2, "long_scoreboard", 9), (8, "long_scoreboard", 9)]
    finding = only(program(Made(code=code, blames=waits, ir=ir(2), attributes=ROOM)), RULE)
    assert "195 cycles a turn" in finding.dynamic[0].text


def test_copies_that_are_waited_for_at_once() -> None:
    """Without samples the compiler's word, with them what it costs, or that it is free."""
    told = remarks_of(compiled(left_early, "sm_80"))
    finding = only(program(Made(remarks=told)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert "the loop may be left early" in finding.author
    unknown = [("UNKNOWN", {"selected": 5000}, 0, 5)]
    assert only(program(Made(remarks=told, code=unknown)), RULE).severity == "warning"
    free = [("LDGSTS.E.128 [R7], desc[UR6][R2.64]", {"selected": 5000}, 0, 5)]
    finding = only(program(Made(remarks=told, code=free)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)
    slow = remark("copy A → A_shared", 5, "cp.async, waited for at once", ("2 stages", "why"))
    made = Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=ROOM, remarks=[slow])
    finding = only(program(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)
    assert "why" in finding.author


def test_recordings() -> None:
    """Two kernels have nothing to hide their copies behind; the product with four stages waits for
    its tensor cores, its producer for free slots, and one kernel for a warp, not for a copy."""
    there = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert {(each.place.kernel, each.severity) for each in there} == {
        ("bulk_copy_wait", "symptom"), ("copy_wait", "symptom"),
    }  # fmt: skip
    assert not found(stored("h200-gemm"), RULE)
