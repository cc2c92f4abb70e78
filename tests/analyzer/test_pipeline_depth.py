"""Pipelines that wait for tiles: how many stages more, and what that brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import pytest

from tests.analyzer.compiled import compiled, remarks_of, with_code
from tests.analyzer.defects import line_of, product
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, report_of, stored
from tests.lowering_kernels import left_early
from tileprof.analyzer.cases import Program
from tileprof.analyzer.fixes import LoweringControl
from tileprof.analyzer.kernel.pipelines import ring_in_code
from tileprof.analyzer.numbers.reports import REPORT_LIKELY_OF_ROOF
from tileprof.analyzer.tiles.rings import Ring, begun_again, rings_of
from tileprof.ir import print_kernel
from tileprof.profile import Attribute
from tileprof.profile.storage.ir_text import read
from tileprof.remarks.common import LeftEarly, Stages
from tileprof.remarks.copies import CpAsyncCandidate, LoadsAndStores, NothingOverlaps
from tileprof.remarks.loops import WaitedAtOnce

RULE = "pipeline-too-shallow"
HGMMA = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"
ONE = {"selected": 100}
Line: TypeAlias = tuple[str, Mapping[str, int], int, int]
STARVED: list[Line] = [
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", ONE, 1, 5),
    ("@!P0 BRA 0xb0", {**ONE, "long_scoreboard": 65000, "long_scoreboard_not_issued": 65000}, 1, 5),
    (HGMMA, ONE, 1, 5),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x1", {**ONE, "barrier": 54500}, 1, 5),
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
    assert rings_of(read(ir(stages))) == (Ring("k", stages, STAGE),)


def starved(fast: int, slow: int) -> Made:
    """A compiled product whose consumers wait: at the branch that first asks for the tile, and in
    the loop that this one leads to, which stands apart; `slow` samples are those of all of it."""
    made = with_code(compiled(product(stages=2)), lambda each, line: {"long_scoreboard": 1})
    code = [(text, {"selected": 10}, depth, line) for text, _, depth, line in made.code]
    first = next(at for at, each in enumerate(code) if each[0].startswith("HGMMA"))
    asks = max(at for at in range(first) if "BRA" in code[at][0])
    start = int(code[asks][0].rpartition(" ")[2], 16) // 16
    end = next(at for at in range(start, len(code)) if f"BRA 0x{16 * start:x}" in code[at][0])
    for each in (asks, *range(start, end + 1)):
        n = fast if each == asks else slow // (end + 1 - start)
        waits = {"long_scoreboard": n, "long_scoreboard_not_issued": n}
        code[each] = (
            code[each][0],
            {**waits, "selected": 10 if each == asks else 0},
            *code[each][2:],
        )
    return replace(made, code=code, ir=ir(2), attributes=ROOM)


@pytest.mark.spread("5000-5000")
@pytest.mark.parametrize(("fast", "slow"), [(10_000, 0), (5_000, 5_000)])
def test_waits_of_compiled_code(fast: int, slow: int) -> None:
    """The compiler's own loop for long waits is a part of the wait."""
    finding = only(program(starved(fast, slow)), RULE)
    assert finding.severity == "suggestion"
    assert finding.dynamic[0].text.partition(", ")[2].startswith("950 cycles per iteration")
    assert finding.place.location is not None
    assert finding.place.location.line in (line_of("T.gemm("), line_of("T.copy(A["))


def test_stages_that_hide_the_wait() -> None:
    """600 of 1,200 cycles a turn are waits beyond the 50 that one takes. A load is asked for one
    turn ahead; two turns ahead it is under way for as long as a turn of half the time gives it."""
    finding = only(program(Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=ROOM)), RULE)
    assert finding.severity == "suggestion"
    assert "num_stages=3" in finding.author
    assert finding.fixes == (LoweringControl("stages", 3),)
    assert "50.0 % of the time, 600 cycles per iteration" in finding.dynamic[0].text
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)
    assert finding.place.location is not None
    assert finding.place.location.line == 5


def in_two_loops(tiles: bool = False) -> Made:
    """The same, with a quarter of the turns in a second loop behind the first one, as masked turns
    are: 75 and 25 of 100. The first has a part of its long waits in a loop that stands apart. With
    a loop over `tiles` around both, if that is asked for, of 30 further instructions, the first of
    which waits for 2,000 cycles."""
    ask, depth = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", 1 + tiles

    def stalled(cycles: int) -> dict[str, int]:
        return {"long_scoreboard": cycles, "long_scoreboard_not_issued": cycles}

    nops: list[Line] = [("NOP", {"selected": 1, **stalled(at == 0 and 2000)}, 1, 3)
                        for at in range(30)]  # fmt: skip
    code = nops if tiles else list[Line]()

    def back(index: int) -> str:
        return f"BRA {hex(16 * index)}"

    def consumer(turns: int, apart: int, line: int) -> list[Line]:
        one, begin = {"selected": turns}, len(code)
        return [
            (ask, one, depth, line),
            (f"@!P0 {back(slow)}", {**one, **stalled((650 - apart) * turns)}, depth, line),
            (HGMMA, one, depth, line),
            ("WARPGROUP.DEPBAR.LE gsb0, 0x1", {**one, "barrier": 545 * turns}, depth, line),
            (f"@P1 {back(begin)}", one, depth, 4),
        ]  # fmt: skip

    first, producer = len(code), len(code) + 11 + tiles
    slow = producer + 5
    code += consumer(75, 150, 5)
    code += consumer(25, 0, 6)
    code += [(f"@P2 {back(0)}", {"selected": 1}, 1, 3)] * tiles + [STARVED[5]]
    code += [(ask, {}, 1, 3), (f"@!P0 {back(99)}", stalled(9000), 1, 3), STARVED[8]]
    code += [(f"@P0 {back(producer)}", {}, 1, 3), STARVED[5], (ask, {}, depth + 1, 5)]
    code += [(f"@!P0 {back(slow)}", stalled(150 * 75), depth + 1, 5), (back(first + 2), {}, 1, 5)]
    waits = [(at, "long_scoreboard", producer + 2) for at in (0, first + 1, first + 6, slow + 1)]
    return Made(code=code, blames=waits, ir=ir(2), attributes=ROOM)


def test_loops_in_turn_wait_together() -> None:
    """They take the tiles of one pipeline, so what they wait for goes together, and the loop that
    turns most often says what a turn is. Without the text nobody knows that it is one pipeline."""
    finding = only(program(in_two_loops()), RULE)
    assert "50.0 % of the time, 600 cycles per iteration" in finding.dynamic[0].text
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2, rel=1e-3)
    assert finding.place.location is not None
    assert finding.place.location.line == 5


def test_a_loop_around_loops_in_turn() -> None:
    """It waits for longer than they do, 67,000 cycles in all, and its turns are those of the tiles;
    how long loads are under way, those of the pipeline say: 100."""
    finding = only(program(in_two_loops(tiles=True)), RULE)
    said = finding.dynamic[0].text
    cycles = int(said.partition("time, ")[2].partition(" cycles per iteration")[0])
    assert 640 <= cycles <= 670
    assert finding.severity == "suggestion"


def test_loops_of_nobody_knows_which_pipelines() -> None:
    """Each is looked at for itself, and what waits most is told."""
    finding = only(program(replace(in_two_loops(), ir="")), RULE)
    assert "37.5 % of the time, 600 cycles per iteration" in finding.dynamic[0].text


def late(cycles: int) -> Made:
    """Turns of 1,200 cycles, of which so many go by waiting."""
    waits = 100 * (cycles + 50)
    code = [*STARVED]
    code[1] = (
        code[1][0], {**ONE, "long_scoreboard": waits, "long_scoreboard_not_issued": waits}, 1, 5
    )  # fmt: skip
    code[3] = (code[3][0], {**ONE, "barrier": 119_500 - waits}, 1, 5)
    return Made(code=code, blames=WAITS, ir=ir(2), attributes=ROOM)


def test_as_many_as_fit() -> None:
    """Of 900 cycles of 1,200 five stages would hide all; there is room for three, whose loads are
    under way for two turns instead of one."""
    finding = only(program(late(900)), RULE)
    assert "num_stages=5" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(4)
    full: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": (227 << 10) - 2 * STAGE + 1024}
    finding = only(program(replace(late(900), attributes=full)), RULE)
    assert "num_stages=3" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)


@pytest.mark.parametrize("stages", [3, 4])
def test_tiles_that_stand_in_a_queue(stages: int) -> None:
    """Asked for two turns of 1,200 cycles ahead, and still late: 800 and a transfer of 256 would
    do, so it is not latency that they wait for."""
    assert not found(program(replace(late(900), ir=ir(stages))), RULE)


def test_bandwidth_that_is_used_up() -> None:
    """The L2 gives all that the kernel asks for in 98 % of its time: nothing is left to hide. Of
    products half of it is no limit, as requests for one tile meet."""
    made = replace(late(900), metrics={"bytes": 0.98e9 / 1000})
    assert not found(program(made, peaks={"l2_read": 1e9}), RULE)
    (half,) = found(
        program(replace(made, metrics={"bytes": 0.5e9 / 1000}), peaks={"l2_read": 1e9}), RULE
    )
    assert half.kernel_gain is not None
    assert half.kernel_gain.mid == pytest.approx(2 * REPORT_LIKELY_OF_ROOF)
    assert half.kernel_gain.high == pytest.approx(2)


def test_no_room_is_no_suggestion_of_stages() -> None:
    """The wait is there, but what a change brings is not known."""
    full: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": 227 << 10}
    finding = only(program(Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=full)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert "does not fit" in finding.author


def test_busy_tensor_cores_leave_little_to_gain() -> None:
    """Seven products of 128 cycles in a turn of 1,206: no more than the rest of it goes, and a
    twentieth of these, as turns are counted by samples. Likely products are busy for 0.87."""
    code = [*STARVED[:2], *[(HGMMA, ONE, 1, 5)] * 7, *STARVED[3:9]]
    code += [("@P0 BRA 0xc0", {}, 1, 3)]
    made = Made(code=code, blames=[(1, "long_scoreboard", 14)], ir=ir(2), attributes=ROOM)
    finding = only(program(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1206 / (7 * 128) * 0.87)
    assert finding.kernel_gain.high == pytest.approx(highest(1206 / (7 * 128) / 0.95))


def test_the_clock_goes_down_with_busy_tensor_cores() -> None:
    """Half of the time could go by cycles. Products take 0.72 of it at their roof, of which 0.9 is
    reached, so 0.8 is left."""
    facts = {name: each for name, each in launch(132).items() if name in ("grid", "waves")}
    made = Made(
        code=STARVED,
        blames=WAITS,
        ir=ir(2),
        attributes={**ROOM, **facts},
        metrics={"flops": 7.2e11},
    )
    finding = only(on_h200(made, {"tensor_bfloat16": 1e15}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / 0.8)
    assert finding.kernel_gain.high == pytest.approx(1 / 0.72)


def test_a_producer_that_waits_for_a_slot_is_none() -> None:
    """Tiles are there when they are asked for: 45 cycles."""
    ready = {**ONE, "long_scoreboard": 4500, "long_scoreboard_not_issued": 4500}
    code = [STARVED[0], ("@!P0 BRA 0xb0", ready, 1, 5), *STARVED[2:]]
    assert not found(program(Made(code=code, blames=WAITS, ir=ir(2), attributes=ROOM)), RULE)


def test_each_wait_of_a_turn_takes_its_time() -> None:
    """A second wait in the loop: of 65,000 + 4,500 samples 2 × 50 cycles of 100 turns are no loss.
    The producer's wait is none, even where it is taken for one for a copy."""
    ready = {**ONE, "long_scoreboard": 4500, "long_scoreboard_not_issued": 4500}
    code = [*STARVED[:2], ("@!P0 BRA 0xc0", ready, 1, 6), *STARVED[2:9]]
    code += [("@P0 BRA 0x70", {}, 1, 3)]
    waits = [(1, "long_scoreboard", 9), (2, "long_scoreboard", 9), (8, "long_scoreboard", 9)]
    finding = only(program(Made(code=code, blames=waits, ir=ir(2), attributes=ROOM)), RULE)
    assert "595 cycles per iteration" in finding.dynamic[0].text


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
    slow = remark("copy A → A_shared", 5, WaitedAtOnce(), (Stages(2), LeftEarly()))
    made = Made(code=STARVED, blames=WAITS, ir=ir(2), attributes=ROOM, remarks=[slow])
    finding = only(program(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)
    assert str(LeftEarly()) in finding.author


BY_HAND = [
    ("LDG.E.128 R4, desc[UR4][R2.64]", ONE, 1, 5),
    ("STS.128 [R0], R4", {**ONE, "long_scoreboard": 60_000}, 1, 5),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", ONE, 1, 6),
    (HGMMA, {**ONE, "barrier": 9_700}, 1, 6),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {**ONE, "barrier": 29_700}, 1, 6),
    ("@P0 BRA 0x0", ONE, 1, 4),
]
"""A turn of 1,000 cycles: 600 wait for a load, 97 for warps that do, 297 for products."""


def test_products_whose_warps_load_their_tiles() -> None:
    """A Triton loop of one stage: all may go but the products, 0.8 of it likely. Two more warp
    groups, and tensor cores multiply for 384 cycles of 1,000, which takes 0.87 of them at best."""
    finding = only(program(Made(code=BY_HAND)), RULE)
    assert finding.severity == "suggestion"
    assert "num_stages" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 0.7), rel=0.01)
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    three: dict[str, Attribute] = {**LAUNCH, "block": "384×1×1"}
    finding = only(program(Made(code=BY_HAND, attributes=three)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * (1 - 384 / 870)), rel=0.01)


def test_a_loop_of_one_stage() -> None:
    """The author pipelined it, by one stage: the depth is wrong, not the choice of the copy. In a
    loop that is not pipelined it is the copy's."""
    told = remark("copy A → A_shared", 5, LoadsAndStores(), (CpAsyncCandidate(), NothingOverlaps()))
    made = Made(code=BY_HAND, blames=[(1, "long_scoreboard", 0)], remarks=[told], ir=ir(1))
    assert found(program(made), RULE)
    assert not found(program(made), "missed-async-copy")
    assert not found(program(replace(made, ir="")), RULE)
    assert found(program(replace(made, ir="")), "missed-async-copy")


@pytest.mark.parametrize(
    "instead",
    [
        {3: "FFMA R8, R9, R10, R8"},
        {2: "NOP"},
        {0: "LDG.E.128 R8, desc[UR4][R2.64]"},
        {5: "@P0 BRA 0x60"},
    ],
)
def test_loops_that_are_no_such_product(instead: dict[int, str]) -> None:
    """No product; nobody else reads the tile; another register is stored; no loop."""
    code = [
        (instead.get(at, text), samples, 0 if 5 in instead else depth, line)
        for at, (text, samples, depth, line) in enumerate(BY_HAND)
    ]
    assert not found(program(Made(code=code)), RULE)


def test_loads_that_are_under_way_during_a_product() -> None:
    """Registers that are loaded before it and stored after it run ahead, by hand."""
    load, store, meet, *products, back = BY_HAND
    assert not found(program(Made(code=[load, *products, store, meet, back])), RULE)
    assert not found(program(Made(code=[store, meet, load, *products, back])), RULE)
    assert found(program(Made(code=[store, meet, *products, load, back])), RULE)


def test_one_stage_without_products() -> None:
    """Sums of tiles: the same depth, and the tiles' bytes, which take 61 % of the time, stay."""
    told = remark("copy A → A_shared", 5, LoadsAndStores(), (CpAsyncCandidate(), NothingOverlaps()))
    code = [*BY_HAND[:3], ("FADD R4, R4, R5", {**ONE, "wait": 39_400}, 1, 6), BY_HAND[-1]]
    made = Made(
        code=code, blames=[(1, "long_scoreboard", 0)], remarks=[told], ir=ir(1),
        metrics={"bytes": 0.582e6},
    )  # fmt: skip
    finding = only(program(made, peaks={"l2_read": 1e9}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * (1 - 0.582 / 0.95)), rel=0.01)
    assert not found(program(replace(made, ir="", remarks=())), RULE)


def grouped(pending: int) -> Made:
    """A loop that waits until so many groups of cp.async are left, then begins two of a turn; a
    thread copies 16 bytes for each."""
    waits = {**ONE, "long_scoreboard": 50_000, "long_scoreboard_not_issued": 50_000}
    code = [
        (f"DEPBAR.LE SB0, {pending:#x}", ONE, 1, 5),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", waits, 1, 5),
        (HGMMA, {**ONE, "barrier": 39_300}, 1, 6),
        *[
            ("LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64]", ONE, 1, 5),
            ("LDGDEPBAR", ONE, 1, 5),
        ] * 2,
        ("@P0 BRA 0x0", ONE, 1, 4),
    ]  # fmt: skip
    room: dict[str, Attribute] = {**LAUNCH, "dynamic_shared_bytes": 16384}
    return Made(code=code, blames=[(1, "long_scoreboard", 5)], attributes=room)


def test_rings_of_other_code() -> None:
    """Two groups that may be left are those of one turn: tiles are asked for two turns ahead, by
    three stages. With none left it is one turn, by two stages of 8 KB, and three would hide it."""
    finding = only(program(grouped(0)), RULE)
    assert finding.severity == "suggestion"
    assert "2 stages of 8 KB" in finding.static[0].text
    assert finding.author.startswith("Let copies run ahead in 3 stages")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(900 / (900 - 450), rel=0.01)
    case = Program(program(grouped(2))).kernels[0]
    assert case.code is not None
    assert ring_in_code(case, case.code, range(8)) == Ring("", 3, 8192)
    assert not found(program(grouped(2)), RULE)


def test_a_group_that_is_begun_before_the_wait() -> None:
    """It is this turn's, so nothing runs ahead."""
    code = [*grouped(0).code]
    made = replace(
        grouped(0), code=[*code[3:5], *code[:3], *code[5:]], blames=[(3, "long_scoreboard", 0)]
    )
    assert "1 stage of" in only(program(made), RULE).static[0].text


def test_recordings() -> None:
    """Two kernels wait for each copy at once, by cp.async groups in one of them, by an mbarrier in
    the other, whose stages its code does not tell; the product with four stages waits for its
    tensor cores, its producer for free slots, and one kernel for a warp, not for a copy."""
    there = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert {(each.place.kernel, each.severity) for each in there} == {
        ("bulk_copy_wait", "symptom"), ("copy_wait", "suggestion"),
    }  # fmt: skip
    assert not found(stored("h200-gemm"), RULE)


CHOPPED = """\
kernel @chopped(%X: global<64, 4096, float32>, %Y: out global<64, 64, float32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c4 = constant 4 : index
  %c16 = constant 16 : index
  %c64 = constant 64 : index
  launch [%c64] {threads = [128]} body(%b: index) {
    %held = alloc shared {shape = [1, 64]} : shared<1, 64, float32>
    for serial %c0, %c16, %c1 body(%part: index) {
      %first = mul %part, %c4 : index
      MORE
      for pipelined %c0, %c4, %c1 {num_stages = 2} body(%step: index) {
        %k = add %first, %step : index
        %at = mul %k, %c64 : index
        %tile = view %X, [%b, %at] {sizes = [1, 64], in_bounds = true} : global<1, 64, float32>
        copy %tile, %held
      }
    }
  }
}
"""


@pytest.mark.parametrize(
    ("more", "times"), [("", [16.0]), ("fill %held, %c0", []), ("copy %X, %Y", [])]
)
def test_loops_that_are_begun_again(more: str, times: list[float]) -> None:
    """Two loops are one where the outer one does nothing else."""
    assert [each[1] for each in begun_again(read(CHOPPED.replace("MORE", more)))] == times


@pytest.mark.parametrize(("time", "severity"), [(40e3, ["suggestion"]), (4e6, [])])
def test_a_pipeline_that_is_filled_again(time: float, severity: list[str]) -> None:
    """Sixteen loads that nothing runs ahead of take 7 µs, which is much of 40 µs."""
    made = Made(
        ir=CHOPPED.replace("MORE", ""), time=time,
        attributes={"grid": "64×1×1", "block": "128×1×1", "blocks_per_sm": 8},
    )  # fmt: skip
    assert [each.severity for each in found(on_h200(made), "pipeline-too-shallow")] == severity
