"""Fences, and the end of a kernel."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, remark, report_of, stored
from tileprof.remarks.common import TargetHasNone
from tileprof.remarks.copies import StoresFromRegisters, Tma
from tileprof.remarks.layouts import GlobalAccess

RULE = "epilogue-drain"
FENCED = [
    ("STG.E [R2.64], R5", {"lg_throttle": 200}, 1, 5),
    ("MEMBAR.SC.GPU", {"selected": 100}, 1, 6),
    ("ERRBAR", {"membar": 5000, "selected": 700}, 1, 6),
    ("EXIT", {"selected": 4000}, 0, 9),
]
BLAMED = [(2, "membar", 1)]
LOOP = [
    ("FFMA R0, R1, R2, R3", {"selected": 5000}, 1, 5),
    ("@P0 BRA 0x0", {"selected": 1000}, 1, 5),
]
STORED = [
    *LOOP,
    ("STG.E.64 [R2.64], R5", {"lg_throttle": 2500, "selected": 200}, 0, 7),
    ("EXIT", {"drain": 1000, "selected": 300}, 0, 9),
]


def ordered(operation: str) -> list[tuple[str, dict[str, int], int, int]]:
    """An atomic of Triton's default order, with 700 of 1,000 samples at its fences."""
    return [
        ("LDG.E R4, [R2.64]", {"selected": 300}, 0, 5),
        ("MEMBAR.ALL.GPU", {"selected": 0}, 0, 6),
        ("ERRBAR", {"membar": 300}, 0, 6),
        (f"ATOMG.E.{operation}.STRONG.GPU PT, RZ, desc[UR6][R2.64], R4", {"selected": 0}, 0, 6),
        ("CCTL.IVALL", {"long_scoreboard": 400}, 0, 6),
        ("EXIT", {"selected": 0}, 0, 9),
    ]


def test_an_exchange_that_stores() -> None:
    """Fences and the wait for what nobody takes go, with the exchange."""
    profile = program(Made(code=ordered("EXCH"), blames=[(4, "long_scoreboard", 3)]))
    finding = only(profile, RULE)
    assert finding.title == "results are stored by exchanges, each between two fences"
    assert "tl.store" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / 0.3)


@pytest.mark.parametrize("at_barrier", [200, 800])
def test_a_warp_that_orders_for_its_block(at_barrier: int) -> None:
    """Its fences in a loop take 100 of 1,000 samples, and three other warps wait for it at the
    barrier behind them no longer than 300: what is more they wait for something else."""
    code = [
        ("LDG.E R4, [R2.64]", {"selected": 900 - at_barrier}, 1, 5),
        ("@!P0 MEMBAR.ALL.GPU", {"selected": 0}, 1, 6),
        ("@!P0 ERRBAR", {"membar": 100}, 1, 6),
        ("@!P0 ATOMG.E.MAX.STRONG.GPU PT, RZ, desc[UR6][R2.64], R4", {"selected": 0}, 1, 6),
        ("@!P0 CCTL.IVALL", {"selected": 0}, 1, 6),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 0}, 1, 7),
        ("STG.E [R2.64], R5", {"barrier": at_barrier}, 1, 7),
        ("@P1 BRA 0x0", {"selected": 0}, 1, 7),
    ]
    made = Made(code=code, blames=[(6, "barrier", 5)], attributes=launch(1320))
    finding = only(on_h200(made), RULE)
    assert finding.kernel_gain is not None
    share = 0.1 + min(at_barrier, 300) / 1000
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - share))


def test_a_sum_that_orders_nothing() -> None:
    """It stays, and half of the waiting around it goes likely."""
    profile = program(Made(code=ordered("ADD.F32"), blames=[(4, "long_scoreboard", 3)]))
    finding = only(profile, RULE)
    assert finding.title == "each atomic is between two fences"
    assert "relaxed" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * 0.7))


def test_fences_in_a_loop_on_a_gpu() -> None:
    """Of the sixteen stored kernels the one that was written so; stores in a loop are no end."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert [(each.place.kernel, each.severity) for each in findings] == [("fenced", "suggestion")]
    assert findings[0].place.location is not None
    assert findings[0].place.location.line == 192
    assert findings[0].kernel_gain is not None
    assert findings[0].kernel_gain.low > 1.2
    assert not found(stored("h200-gemm"), RULE)


def test_all_of_a_fence_in_a_loop_goes() -> None:
    """5,000 of 10,000 samples."""
    finding = only(program(Made(code=FENCED, blames=BLAMED)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(2)
    assert finding.place.sass == (16, 16)


def test_half_of_a_fence_that_runs_once_goes() -> None:
    """What has to be seen has to get there."""
    once = [(text, samples, 0, line) for text, samples, _, line in FENCED]
    finding = only(program(Made(code=once, blames=BLAMED)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.25))


def test_fences_that_cost_nothing() -> None:
    """In a loop it is worth a word; those of a block wait for nothing."""
    cold = [*FENCED[:2], ("ERRBAR", {"membar": 20, "selected": 5680}, 1, 6), FENCED[3]]
    finding = only(program(Made(code=cold, blames=BLAMED)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)
    block = [FENCED[0], ("MEMBAR.ALL.CTA", {"selected": 100}, 1, 6), *cold[2:]]
    assert not found(program(Made(code=block)), RULE)


def test_without_samples_there_is_no_number() -> None:
    """Counts of instructions alone bring the code."""
    code: list[tuple[str, dict[str, int], int, int]] = [
        (text, {}, depth, line) for text, _, depth, line in FENCED
    ]
    finding = only(program(Made(code=code, counts={"executions": [9, 9, 9, 1]})), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_the_end() -> None:
    """3,500 of 10,000 samples, of which likely half goes, and perhaps nothing."""
    said = remark("copy C_local → C", 7, StoresFromRegisters(), (Tma(), TargetHasNone("sm_80")))
    failed: list[tuple[str, dict[str, int], int, int]] = [
        ("STG.E [R4.64], R5", {}, 0, 8),
        ("ATOMG.E.CAS R0, [R4.64], R5", {}, 0, 8),
    ]
    finding = only(program(Made(code=[*STORED, *failed], remarks=[said])), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * 0.35))
    assert finding.kernel_gain.low == 1
    assert finding.place.location is not None
    assert finding.place.location.line == 7
    assert [each.text for each in finding.static] == [
        "1 stores and 0 atomics at the end, of 8 bytes per thread on",
        "copy C_local → C: stores from registers: not tma: sm_80 has none",
    ]


def test_atomics_at_the_end() -> None:
    """Another cause, another advice."""
    code = [*LOOP, ("RED.E.ADD [R2.64], R5", *STORED[2][1:]), STORED[-1]]
    finding = only(program(Made(code=code)), RULE)
    assert finding.title == "the end of the kernel waits for its atomics"
    assert finding.author.startswith("Add up in two steps")


def test_the_end_of_each_tile() -> None:
    """Stores of a loop over tiles stand behind the loop of products in it; what only waits, as a
    producer that stands behind all that, is no loop of work."""
    tiles = [
        ("CS2R R24, SRZ", {}, 1, 4),
        ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 5000}, 2, 5),
        ("@P0 BRA 0x10", {"selected": 1000}, 2, 5),
        ("STG.E [R2.64], R5", {"lg_throttle": 2500, "selected": 200}, 1, 7),
        ("@P1 BRA 0x0", {"selected": 1300}, 1, 5),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R6", {}, 1, 8),
        ("@P1 BRA 0x50", {}, 1, 8),
    ]
    finding = only(program(Made(code=tiles)), RULE)
    assert finding.title == "the end of the kernel waits for its stores"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.85 * 0.25))
    before = [tiles[0], (tiles[3][0], tiles[3][1], 1, 7), *tiles[1:3], *tiles[4:]]
    before[3] = ("@P0 BRA 0x20", {"selected": 1000}, 2, 5)
    assert not found(program(Made(code=before)), RULE)


def test_what_waits_behind_atomics() -> None:
    """Nine passes of an atomic, one of what reads an index: 9 in 10 of what waits there goes,
    and all that is outstanding at the exit; half of it for sure."""
    said = remark("atomic S", 7, GlobalAccess(4, 8, 4))
    code = [
        ("S2R R5, SR_TID.X", {"mio_throttle": 3000, "selected": 100}, 0, 5),
        ("REDG.E.ADD.F32 [R2.64], R5", {"lg_throttle": 900, "selected": 100}, 0, 7),
        ("EXIT", {"drain": 1000, "selected": 4900}, 0, 9),
    ]
    finding = only(program(Made(code=code, remarks=[said])), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (0.1 + 0.09 + 9 / 10 * 0.3)))
    assert finding.kernel_gain.low > 1.15
    assert finding.place.op == "atomic S"


def test_atomics_that_are_seen_by_what_waits_behind_them() -> None:
    """Their own full queue and the exit are 700 of 10,000 samples, what stands behind them nine
    tenths of 2,000. Loads take 4 sectors, atomics 8, each twice: four fifths of what waits for
    loads. Stores that end a loop are told by their own waits alone."""
    said = remark("atomic S", 7, GlobalAccess(4, 8, 4))
    code = [
        ("S2R R5, SR_TID.X", {"mio_throttle": 2000, "selected": 90}, 0, 5),
        ("LDG.E R6, [R2.64]", {"selected": 10}, 0, 6),
        ("FADD R6, R6, R6", {"long_scoreboard": 1000, "selected": 6190}, 0, 6),
        ("REDG.E.ADD.F32 [R2.64], R6", {"lg_throttle": 400, "selected": 10}, 0, 7),
        ("EXIT", {"drain": 300}, 0, 9),
    ]
    blames = [(2, "long_scoreboard", 1)]
    finding = only(program(Made(code=code, remarks=[said], blames=blames)), RULE)
    # Of 10 atomics nine passes each, of 10 loads two, of 90 reads of an index one.
    queued, late = 2000 * 90 / (90 + 20 + 90), 1000 * 160 / (160 + 40)
    assert finding.dynamic[0].samples == int(700 + queued + late)
    assert "behind them" in finding.dynamic[0].text
    stores = [*code[:3], ("STG.E [R2.64], R6", *code[3][1:]), code[4], *LOOP]
    assert not found(program(Made(code=stores, blames=blames)), RULE)


def test_an_end_that_waits_for_registers() -> None:
    """Stores that take few registers in turn are waited for by what computes their next values, and
    their queue is never full. Of atomics the queue has to tell."""
    code = [
        *LOOP,
        ("STG.E [R2.64], R5", {"lg_throttle": 100, "selected": 200}, 0, 7),
        ("FMUL R5, R6, R7", {"long_scoreboard": 3000, "selected": 300}, 0, 7),
        ("EXIT", {"drain": 100, "selected": 300}, 0, 9),
    ]
    blames = [(3, "long_scoreboard", 2)]
    finding = only(program(Made(code=code, blames=blames)), RULE)
    whole = sum(sum(each[1].values()) for each in code)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * 3200 / whole))
    assert "until stores have left the registers" in finding.dynamic[0].text
    atomics = [*code[:2], ("RED.E.ADD [R2.64], R5", *code[2][1:]), *code[3:]]
    assert not found(program(Made(code=atomics, blames=blames)), RULE)


def test_what_waits_behind_stores() -> None:
    """For room in the queue, two passes of each beside one; for registers that a store reads."""
    behind = ("S2R R5, SR_TID.X", {"mio_throttle": 600, "selected": 200}, 0, 8)
    after = ("MOV R5, R6", {"long_scoreboard": 400, "selected": 300}, 0, 8)
    end = ("EXIT", {"drain": 600, "selected": 200}, 0, 9)
    stores = ("STG.E [R2.64], R5", {"lg_throttle": 1500, "selected": 200}, 0, 7)
    code = [*LOOP, stores, behind, after, end]
    finding = only(program(Made(code=code, blames=[(4, "long_scoreboard", 2)])), RULE)
    assert finding.kernel_gain is not None
    taken = 1500 + 600 + 400 + 2 / 3 * 600
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * taken / 10000))


def test_ends_and_fences_that_are_as_long_as_they_are() -> None:
    """Stores take a while to get there; so does a result that others are to see, once."""
    for drained, severities in ((300, []), (800, ["suggestion"])):
        short = [
            *LOOP,
            (STORED[2][0], {"lg_throttle": 600}, 0, 7),
            ("EXIT", {"drain": drained, "selected": 3400 - drained}, 0, 9),
        ]
        assert [each.severity for each in found(program(Made(code=short)), RULE)] == severities
    fence = ("ERRBAR", {"membar": 295, "selected": 9605}, 0, 6)
    code = [("MEMBAR.SC.GPU", {"selected": 100}, 0, 6), fence]
    assert not found(program(Made(code=code)), RULE)
    looped = [(text, samples, 1, line) for text, samples, _, line in code]
    made = Made(code=looped, blames=[(1, "membar", 0)])
    assert only(program(made), RULE).severity == "suggestion"


def test_a_kernel_without_loops_is_all_end() -> None:
    """Its stores are its work; atomics that many blocks end with are not."""
    once = [(STORED[0][0], STORED[0][1], 0, 5), *STORED[2:]]
    assert not found(program(Made(code=once)), RULE)
    once[1] = ("RED.E.ADD [R2.64], R5", *STORED[2][1:])
    assert only(program(Made(code=once)), RULE).severity == "suggestion"


def test_stores_in_a_loop_are_not_the_end() -> None:
    """Nor is a short end one, nor one at the roof of memory."""
    looped = [LOOP[0], (*STORED[2][:2], 1, 7), LOOP[1], ("EXIT", {"selected": 1300}, 0, 9)]
    assert not found(program(Made(code=looped)), RULE)
    short = [*LOOP, (STORED[2][0], {"lg_throttle": 20}, 0, 7), STORED[0]]
    assert not found(program(Made(code=short)), RULE)
    made = Made(code=STORED, metrics={"dram_bytes": 900_000})
    assert not found(program(made, peaks={"hbm_copy": 1e9}), RULE)
