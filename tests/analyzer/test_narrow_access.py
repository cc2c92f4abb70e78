"""Narrow accesses: where lanes are side by side, and a queue of which no more is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, report_of, stored
from tileprof.analyzer.estimates import Saving, drawn
from tileprof.remarks.copies import CpAsync, LoadsAndStores, RowStride, Tma
from tileprof.remarks.layouts import GlobalAccess

RULE = "narrow-access"
HOT = [
    ("LDG.E R4, desc[UR6][R4.64]", {"lg_throttle": 3000, "selected": 1000}, 1, 5),
    ("FADD R7, R4, R7", {"long_scoreboard": 2000, "selected": 2000}, 1, 6),
    ("EXIT", {"selected": 2000}, 0, 9),
]
SAID = remark("load A", 5, GlobalAccess(4, 4, 4))
COPY = remark("copy A → A_shared", 5, LoadsAndStores(), (Tma(), RowStride(2002, 16, "TMA")))
IN_ORDER = {"global_requests": [100, 0, 0], "global_sectors": [400, 0, 0]}
PEAKS = {"hbm_copy": 1e9}
ROOM = {"dram_bytes": 500_000}


def drawn_gain(share: float, used: float) -> float:
    """What a share of the samples comes to where so much of memory is used: 0.85 to 1.05 of what
    it gives, likely 0.97, is what kernels reach."""
    left = Saving(1 - used / 0.85, 1 - used / 0.97, 1 - used / 1.05)
    return 1 / (1 - drawn(Saving(0, share, max(share, left.high)), left).mid)


def test_stores_without_end_on_a_gpu_are_a_symptom() -> None:
    """4 bytes a thread fill the queue; whether the memory has room was not recorded."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert [(each.place.kernel, each.severity) for each in findings] == [("stored", "symptom")]
    assert findings[0].place.location is not None
    assert findings[0].place.location.line == 209
    assert findings[0].kernel_gain is None
    assert not found(stored("h200-gemm"), RULE)


@pytest.mark.parametrize(("opcode", "width"), [("U16", 2), ("64", 8), ("U8", 1)])
def test_as_many_go_as_fit_in_one(opcode: str, width: int) -> None:
    """Of 1,000 of 10,000 samples that issue and 3,000 in the queue w / 16 are left; what waits for
    the value waits as long."""
    code = [(f"LDG.E.{opcode} R4, desc[UR6][R4.64]", *HOT[0][1:]), *HOT[1:]]
    counts = {"global_requests": [100, 0, 0], "global_sectors": [100 * width, 0, 0]}
    finding = only(program(Made(code=code, counts=counts, metrics=ROOM), peaks=PEAKS), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(drawn_gain(0.4 * (1 - width / 16), 0.5))
    assert finding.title.startswith(f"accesses of {width} bytes")


def test_what_stands_behind_them_goes_with_them() -> None:
    """Two bytes a thread take 2 passes, eight of which make 5 of 16 bytes: of 2,000 samples
    elsewhere 1.375 in 3 go. Of 8 bytes that is worth a word in a queue that is full of them."""
    other = ("SHFL.IDX PT, R0, R2, RZ, 0x1f", {"mio_throttle": 2000, "selected": 1000}, 1, 7)
    code = [(HOT[0][0].replace("LDG.E", "LDG.E.U16"), *HOT[0][1:]), *HOT[1:], other]
    counts = {"global_requests": [100, 0, 0, 0], "global_sectors": [200, 0, 0, 0]}
    finding = only(program(Made(code=code, counts=counts, metrics=ROOM), peaks=PEAKS), RULE)
    assert finding.kernel_gain is not None
    share = (4000 * 7 / 8 + 2000 * 1.375 / 3) / 13000
    assert finding.kernel_gain.mid == pytest.approx(drawn_gain(share, 0.5))
    code = [(HOT[0][0].replace("LDG.E", "LDG.E.64"), {"lg_throttle": 900}, 1, 5), *HOT[1:], other]
    made = Made(code=code, counts=counts | {"global_sectors": [800, 0, 0, 0]}, metrics=ROOM)
    assert only(program(made, peaks=PEAKS), RULE).severity == "ignore"


@pytest.mark.parametrize(("queue", "severity"), [(1000, "ignore"), (1500, "suggestion")])
def test_words_pass_nearly_as_many_bytes_as_wider_accesses(queue: int, severity: str) -> None:
    """So of 10,000 samples 0.12 at 4-byte accesses are nothing to mend, where shared memory has as
    many more; 0.17 are."""
    code = [
        (HOT[0][0], {"lg_throttle": queue, "selected": 200}, 1, 5),
        ("STS [R0], R4", {"mio_throttle": 2000, "selected": 200}, 1, 6),
        ("FADD R7, R4, R7", {"selected": 7600 - queue}, 1, 7),
    ]
    made = Made(code=code, remarks=[SAID], metrics=ROOM)
    assert only(program(made, peaks=PEAKS), RULE).severity == severity


def test_no_more_goes_than_kernels_reach_of_memory() -> None:
    """Of its bandwidth 80 % are used, and kernels that only move reach 93 %: that is what is left,
    and not what stands in the queue."""
    made = Made(code=HOT, remarks=[SAID], metrics={"dram_bytes": 800_000})
    finding = only(program(made, peaks=PEAKS), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.93 / 0.8)
    assert 1 < finding.kernel_gain.low <= 0.92 * 0.93 / 0.8


GAPS = [
    ("S2R R0, SR_TID.X", {"selected": 100}, 0, 4),
    ("LDC.64 R2, c[0x0][0x210]", {"selected": 100}, 0, 4),
    ("IMAD.WIDE R4, R0, 0x10, R2", {"selected": 100}, 0, 4),
    ("LDG.E R6, desc[UR4][R4.64]", {"lg_throttle": 2000, "selected": 100}, 0, 5),
    ("LDG.E R7, desc[UR4][R4.64+0x4]", {"mio_throttle": 1000, "selected": 100}, 0, 5),
    ("FADD R7, R6, R7", {"long_scoreboard": 5000, "selected": 1500}, 0, 6),
]
LAUNCHED = {"block": "128×1×1", "grid": "1000×1×1"}


def test_gaps_that_the_next_access_of_a_thread_fills() -> None:
    """Lanes are 16 bytes apart, and take 4 each: a request takes five passes of which 5 / 4 would
    do, so of eleven in the queue, one of them of S2R, 7.5 go."""
    finding = only(program(Made(code=GAPS, attributes=LAUNCHED)), RULE)
    assert (finding.severity, finding.confidence) == ("suggestion", "low")
    assert finding.static[0].text.startswith("LDG.E: 16 sectors per request, 4 needed")
    assert finding.kernel_gain is not None
    # What issues, and waits for global memory's own queue, goes by three quarters anyway.
    taken = 3 / 4 * 2000 + 7.5 / 11 * 1000 + 3 / 4 * 200
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - taken / 10000))
    assert finding.place.location is not None
    assert finding.place.location.line == 5


@pytest.mark.parametrize(("subject", "line", "count"), [("store C", 9, 1), ("load A", 5, 0)])
def test_accesses_of_which_the_compiler_says_nothing(subject: str, line: int, count: int) -> None:
    """Their addresses count, though a remark tells of another access; what a remark is about is
    told by it alone."""
    said = remark(subject, line, GlobalAccess(4, 16, 4))
    made = Made(code=GAPS, attributes=LAUNCHED, remarks=[said])
    assert len(found(program(made), RULE)) == count


@pytest.mark.parametrize(("offset", "severities"), [("-0x4", []), ("0xc", ["suggestion"])])
def test_loads_of_an_element_and_of_its_neighbours(offset: str, severities: list[str]) -> None:
    """A lane's fourth element is the one in front of the next lane's, so no load of them can be
    wider; with the fourth in its place all can."""
    end = ("LDG.E R8, desc[UR4][R4.64+0xc]", {"selected": 100}, 0, 5)
    other = (f"LDG.E R9, desc[UR4][R4.64+{offset}]", {"selected": 100}, 0, 5)
    made = Made(code=[*GAPS[:5], end, other, GAPS[5]], attributes=LAUNCHED)
    assert [each.severity for each in found(program(made), RULE)] == severities


def test_addresses_alone_are_a_warning() -> None:
    """Nobody waited."""
    code: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in GAPS]
    counts = {"executions": [9] * len(code)}
    finding = only(program(Made(code=code, counts=counts, attributes=LAUNCHED)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


@pytest.mark.parametrize("opcode", ["LDG.E.128", "LDG.E"])
def test_lanes_without_gaps(opcode: str) -> None:
    """16 bytes each; or 4 bytes side by side, where nothing tells whether memory has room: then it
    is a symptom in loops. With room it is a cause, at the roof it is none."""
    step = "0x4" if opcode == "LDG.E" else "0x10"
    texts = [text.replace("LDG.E ", f"{opcode} ").replace("R0, 0x10", f"R0, {step}")
             .replace("+0x4", "+0x200") for text, *_ in GAPS]  # fmt: skip
    looped = [(text, held[1], 1, held[3]) for text, held in zip(texts, GAPS, strict=True)]
    made = Made(code=looped, attributes=LAUNCHED)
    severities = [each.severity for each in found(program(made), RULE)]
    assert severities == (["symptom"] if opcode == "LDG.E" else [])
    once = Made(code=[(t, s, 0, n) for t, s, _, n in looped], attributes=LAUNCHED)
    severities = [
        each.severity
        for peak in (4e9, 1.15e9)
        for each in found(program(once, peaks={"hbm_copy": peak}), RULE)
    ]
    assert severities == (["suggestion", "ignore"] if opcode == "LDG.E" else [])


@pytest.mark.parametrize(("jump", "part"), [("@P3 BRA 0x40", 2500), ("NOP", 500)])
def test_an_access_checks_its_place(jump: str, part: int) -> None:
    """Seven of eight go, with what stands from one to the next if that branches over an error."""
    load = "LDG.E.U16 R4, desc[UR6][R4.64]"
    code = [
        (load, {"selected": 500}, 1, 5), (jump, {"wait": 1000}, 1, 5),
        ("MOV R6, 0x1", {}, 1, 5), ("STG.E [R8.64], R6", {}, 1, 5), (load, {"wait": 1000}, 1, 5),
        ("FADD R7, R4, R7", {"long_scoreboard": 7500}, 1, 6),
    ]  # fmt: skip
    said = remark("load A", 5, GlobalAccess(2, 2, 2))
    finding = only(program(Made(code=code, remarks=[said], metrics=ROOM), peaks=PEAKS), RULE)
    if jump == "NOP":
        assert finding.kernel_gain is None or finding.kernel_gain.mid < 1.2
        assert not any("check" in each.text for each in finding.dynamic)
        return
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 7 / 8 * part / 10000))
    assert any("check" in each.text for each in finding.dynamic)


def test_copies_that_transpose() -> None:
    """4 bytes a lane, side by side in global memory and apart in shared memory: as narrow as they
    have to be. Side by side in both they could be wider."""
    begin = [*GAPS[:2], ("IMAD.WIDE R4, R0, 0x4, R2", {"selected": 100}, 0, 4)]
    copy = ("LDGSTS.E desc[UR4][R4.64], P1, [R1]", {"lg_throttle": 3000, "selected": 700}, 1, 5)
    for step, severities in (("0x80", []), ("0x4", ["symptom"])):
        turned = (f"IMAD R1, R0, {step}, RZ", {"selected": 100}, 0, 4)
        made = Made(code=[*begin, turned, copy], attributes=LAUNCHED)
        assert [each.severity for each in found(program(made), RULE)] == severities


def test_no_more_than_memory_has_room_for() -> None:
    """Of its bandwidth 80 % are used: no more than 1.25 times as fast, by all that rules know."""
    code = [(HOT[0][0], {"selected": 4000}, 1, 5), *HOT[1:]]
    made = Made(code=code, remarks=[SAID], metrics={"dram_bytes": 800_000})
    finding = only(program(made, peaks=PEAKS), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(1.25))


@pytest.mark.parametrize(
    "metrics", [{"dram_bytes": 900_000}, {"l2_sectors": 900_000 / 32}, {"bytes": 900_000}]
)
def test_at_the_roof_of_a_memory_it_is_to_be_left(metrics: dict[str, float]) -> None:
    """By counters of DRAM or of L2, or by what the program asks for."""
    made = Made(code=HOT, remarks=[SAID], metrics=metrics)
    finding = only(program(made, peaks=PEAKS | {"l2_read": 1e9}), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_the_layout_with_samples() -> None:
    """Nothing tells whether memory has room: the gain may be none."""
    finding = only(program(Made(code=HOT, remarks=[SAID, COPY])), RULE)
    assert (finding.severity, finding.confidence) == ("suggestion", "low")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.low == 1
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.4 * 0.75))
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    assert [each.text for each in finding.static] == [
        "load A: 4-byte accesses, 4 sectors a request, 4 needed",
        f"not {COPY.rejected[0]}",
    ]


def test_loads_of_one_line_have_ops_of_their_own() -> None:
    """An index that all lanes share, and the row that it names."""
    index = remark("load Index", 5, GlobalAccess(4, 1, 1))
    row = remark("load Row", 5, GlobalAccess(2, 2, 2))
    code = [("LDG.E R2, desc[UR6][R2.64]", {"selected": 100}, 1, 5),
            ("LDG.E.U16 R4, desc[UR6][R4.64]", *HOT[0][1:]), *HOT[1:]]  # fmt: skip
    finding = only(program(Made(code=code, remarks=[index, row])), RULE)
    assert finding.place.op == "load Row"


def test_the_layout_alone_is_a_warning() -> None:
    """Nothing was measured."""
    finding = only(program(Made(remarks=[SAID])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert finding.place.op == "load A"


def test_counts_alone_are_a_warning() -> None:
    """They tell how many, not how long."""
    code: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in HOT]
    finding = only(program(Made(code=code, counts=IN_ORDER)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_cold_ones_are_to_be_ignored() -> None:
    """Next to no samples."""
    cold = [(HOT[0][0], {"selected": 50}, 1, 5), ("FADD R7, R4, R7", {"selected": 9950}, 1, 6)]
    finding = only(program(Made(code=cold, remarks=[SAID])), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_what_cannot_be_wider() -> None:
    """Accesses of 16 bytes, scattered lanes, lanes that share an address."""
    wide = [("LDG.E.128 R4, desc[UR6][R4.64]", *HOT[0][1:]), *HOT[1:]]
    said = remark("load A", 5, GlobalAccess(16, 16, 16))
    assert not found(program(Made(code=wide, remarks=[said])), RULE)
    for sectors in (1600, 100):
        counts = {"global_requests": [100, 0, 0], "global_sectors": [sectors, 0, 0]}
        assert not found(program(Made(code=HOT, counts=counts)), RULE)
    shared = remark("load scale", 5, GlobalAccess(2, 1, 1))
    assert not found(program(Made(remarks=[shared])), RULE)


def test_a_queue_that_is_full_before_the_loop() -> None:
    """A burst of loads at a kernel's begin is no symptom."""
    once = [(text, samples, 0, line) for text, samples, _, line in HOT]
    assert not found(program(Made(code=once)), RULE)
    assert only(program(Made(code=HOT)), RULE).severity == "symptom"


def _turns(opcode: str, held: int) -> Made:
    """A loop that waits for one load in each turn, of blocks of 8 warps."""
    code = [
        ("S2R R0, SR_TID.X", {"selected": 10}, 0, 4),
        ("LDC.64 R2, c[0x0][0x210]", {"selected": 10}, 0, 4),
        ("IMAD.WIDE R4, R0, 0x4, R2", {"selected": 10}, 0, 4),
        (f"{opcode} R6, desc[UR4][R4.64]", {"selected": 200}, 1, 5),
        ("IADD3 R4, P0, R4, 0x1000, RZ", {"selected": 200}, 1, 5),
        ("FADD R8, R6, R8", {"long_scoreboard": 9000, "long_scoreboard_not_issued": 9000}, 1, 6),
        ("ISETP.GE.AND P1, PT, R4, 0x20, PT", {"selected": 200}, 1, 5),
        ("@!P1 BRA 0x30", {"selected": 200}, 1, 5),
    ]
    facts = launch(13200, held=held, threads=256)
    return Made(
        code=code, attributes=facts, metrics={"bytes": 1e9}, blames=[(5, "long_scoreboard", 3)]
    )


@pytest.mark.parametrize(("held", "severity"), [(2, "suggestion"), (32, "ignore")])
def test_too_few_bytes_under_way(held: int, severity: str) -> None:
    """Two blocks of 8 warps have 2 KB under way where memory gives some 26 KB in its latency; 32
    have enough, and only wait their turn."""
    peaks = {"hbm_read": 4.6e12, "hbm_copy": 4.1e12, "hbm_write": 4.6e12}
    finding = only(on_h200(_turns("LDG.E", held), peaks), RULE)
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("IADD3 R9, R9, 0x1, RZ", []),
        ("IADD3 R9, R9, 0x4, RZ", ["suggestion"]),
        ("LEA R9, UR4, R9, 0xa", ["suggestion"]),  # by what is in UR4, times 1024
    ],
)
def test_taps_that_a_loop_moves_on_by_single_elements(step: str, said: list[str]) -> None:
    """Three of four iterations begin at no multiple of 16 bytes; with steps of four elements each
    one does."""
    made = _turns("LDG.E", 2)
    code = [
        *made.code[:2],
        ("IMAD.MOV.U32 R9, RZ, RZ, RZ", {"selected": 10}, 0, 4),
        ("IMAD.IADD R1, R0, 0x1, R9", {"selected": 200}, 1, 5),
        ("IMAD.WIDE R4, R1, 0x4, R2", {"selected": 200}, 1, 5),
        made.code[3],
        (step, {"selected": 200}, 1, 5),
        *made.code[5:7],
        ("@!P1 BRA 0x30", {"selected": 200}, 1, 5),
    ]
    made = replace(made, code=code, blames=[(7, "long_scoreboard", 5)])
    peaks = {"hbm_read": 4.6e12, "hbm_copy": 4.1e12, "hbm_write": 4.6e12}
    assert [each.severity for each in found(on_h200(made, peaks), RULE)] == said


def test_threads_that_move_one_narrow_access_each() -> None:
    """All waves take as long as the blocks' lives; wider accesses need a quarter of them."""
    code = [
        ("S2R R0, SR_TID.X", {"selected": 100}, 0, 4),
        ("LDC.64 R2, c[0x0][0x210]", {"selected": 100}, 0, 4),
        ("IMAD.WIDE R4, R0, 0x4, R2", {"selected": 100}, 0, 4),
        ("LDG.E R6, desc[UR4][R4.64]", {"selected": 100}, 0, 5),
        ("FADD R7, R6, R7", {"long_scoreboard": 9000, "selected": 100}, 0, 6),
        ("EXIT", {"selected": 100}, 0, 9),
    ]
    blocks = 132 * 16 * 100
    facts = {**launch(blocks, 16, 128), "limited_by": "threads"}
    moved = blocks * 128 * 4

    def gain(time: float, **others: str) -> float:
        made = Made("k", time, code=code, attributes={**facts, **others}, metrics={"bytes": moved})
        profile = on_h200(made, peaks={"hbm_copy": 4e12, "hbm_read": 4e12})
        said = [each for each in found(profile, RULE) if each.kernel_gain]
        return said[0].kernel_gain.mid if said and said[0].kernel_gain else 1.0

    lives = 100 * 1280.0
    at_roof = moved / 4e12 * 1e9
    assert gain(lives) == pytest.approx(1 / max(0.25, at_roof / lives / 0.9), rel=0.1)
    assert gain(20 * lives) < 1.1  # something else takes the time
    assert gain(lives, limited_by="registers") < 1.1


@pytest.mark.parametrize(
    ("width", "busy", "said"), [(4, 1500, True), (4, 20, False), (16, 1500, False)]
)
def test_copies_that_transpose_are_worked_out_one_by_one(width: int, busy: int, said: bool) -> None:
    """Three quarters of what is done at their line goes, but for waits."""
    code = [
        ("IMAD R2, R3, R4, R5", {"selected": busy, "long_scoreboard": 2000}, 1, 5),
        (f"LDGSTS.E{'.128' * (width == 16)} [R69], desc[UR4][R50.64]", {"selected": busy}, 1, 5),
        ("FADD R7, R4, R7", {"selected": 5000}, 1, 6),
    ]
    copied = remark("copy A → A_shared", 5, CpAsync(width))
    held = found(program(Made(code=code, remarks=[copied])), RULE)
    assert bool(held) == said
    if said:
        assert held[0].kernel_gain is not None
        assert held[0].kernel_gain.mid == pytest.approx(1 / (1 - 0.75 * 3000 / 10000))


def test_arithmetic_on_the_line_of_an_access_is_not_its_address() -> None:
    """Schedulers issue all of the time: of two instructions that work out an address a wide access
    saves three quarters, whether the line computes something else as well or not."""
    gains = []
    for line in (5, 6):
        code = [
            ("IMAD R3, R0, 0x4, R8", {"selected": 1000}, 1, 5),
            ("IMAD.WIDE R4, R3, 0x4, R8", {"selected": 1000}, 1, 5),
            ("LDG.E R6, desc[UR4][R4.64]", {"selected": 1000}, 1, 5),
            ("LOP3.LUT R7, R6, R9, RZ, 0x3c, !PT", {"selected": 4000}, 1, line),
            ("FADD R2, R7, R2", {"selected": 4000, "wait": 2000, "wait_not_issued": 100}, 1, 7),
            ("@P0 BRA 0x0", {"selected": 1000}, 1, 7),
        ]
        made = Made(code=code, remarks=[SAID], metrics=ROOM)
        finding = only(program(made, peaks=PEAKS), RULE)
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
    assert gains[0] == gains[1] > 1.1


def test_a_queue_that_gathers_fill_stays_full() -> None:
    """Four of five loads are gathers, and what waits for room in their queue mostly waits for
    these."""
    place = ("IMAD.WIDE R8, R6, 0x4, R2", {"selected": 800}, 0, 7)
    gather, other = "LDG.E R9, desc[UR4][R8.64]", "FADD R9, R8, R8"
    gains = []
    for text in (gather, other):
        code = [*GAPS, place, (text, {"selected": 800}, 0, 7)]
        finding = only(program(Made(code=code, attributes=LAUNCHED)), RULE)
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid - 1)
    assert 0 < gains[0] < 0.5 * gains[1]
