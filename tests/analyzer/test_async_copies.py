"""Tiles that go through registers: what the compiler says of them, and what waits for them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.analyzer.compiled import compiled, remarks_of, with_code
from tests.analyzer.defects import line_of, product
from tests.analyzer.made import Made, found, only, program, remark, report_of, stored
from tileprof import binary
from tileprof.analyzer.cases import Program
from tileprof.analyzer.rules import async_copies
from tileprof.profile import Attribute, Profile
from tileprof.remarks.copies import (
    CpAsync,
    CpAsyncCandidate,
    LoadsAndStores,
    NothingOverlaps,
    RowStride,
    Tma,
)

RULE = "missed-async-copy"
AGAINST = (CpAsyncCandidate(), NothingOverlaps())
ONE = {"selected": 100}
BY_HAND = [
    ("LDG.E.128 R4, desc[UR4][R2.64]", ONE, 1, 5),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", ONE, 1, 6),
    (
        "STS.128 [R0], R4",
        {**ONE, "long_scoreboard": 6000, "long_scoreboard_not_issued": 6000},
        1,
        5,
    ),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", ONE, 1, 6),
    ("FFMA R8, R9, R10, R8", {**ONE, "wait": 3400}, 1, 7),
    ("@P0 BRA 0x0", ONE, 1, 4),
]
WAITS = [(2, "long_scoreboard", 0)]


def slow(each: binary.Instruction, line: int) -> Mapping[str, int]:
    """Samples of a kernel that waits where it first converts, or stores, what it loaded."""
    if each.name in ("F2FP", "STS"):
        return {"selected": 10, "long_scoreboard": 1000, "long_scoreboard_not_issued": 900}
    return {"selected": 10}


def quick(each: binary.Instruction, line: int) -> Mapping[str, int]:
    """Samples of one that waits for nothing."""
    return {"selected": 10_000 if each.name == "HGMMA" else 1}


def saving(profile: Profile) -> tuple[float, float, float]:
    """What the rule itself says of the time that goes."""
    (draft,) = async_copies.RULE.find(Program(profile).kernels[0])
    assert draft.saving is not None
    return draft.saving.low, draft.saving.mid, draft.saving.high


@pytest.mark.spread("main--num_stages=2")
@pytest.mark.parametrize(
    ("kernel", "severity", "way"),
    [
        (product(given="float32"), "warning", "in the tensor's own type"),
        (product(stages=0), "", "num_stages=2"),
    ],
)
def test_what_the_compiler_says(kernel: object, severity: str, way: str) -> None:
    """A conversion keeps a pipelined copy from running ahead: a warning for each of the two. That
    a loop has no stage is no decision against anything, until it is seen to wait."""
    made = compiled(kernel)
    told = found(program(Made(remarks=remarks_of(made))), RULE)
    assert [each.severity for each in told] == ([severity] * 2 if severity else [])
    assert all(way in each.author and each.kernel_gain is None for each in told)
    finding = only(program(with_code(made, slow)), RULE)
    assert finding.severity == "suggestion"
    assert way in finding.author
    assert finding.kernel_gain is not None
    assert finding.place.location is not None
    assert finding.place.location.line in (line_of("T.copy(A["), line_of("T.copy(B["))
    assert "A → A_shared" in finding.title


def test_code_that_is_not_known_is_no_excuse() -> None:
    """Samples whose instructions are not known: what the compiler says is all there is."""
    told = remarks_of(compiled(product(given="float32")))
    made = Made(remarks=told, code=[("UNKNOWN", {"long_scoreboard": 5000}, 0, 5)])
    assert {each.severity for each in found(program(made), RULE)} == {"warning"}


def test_a_copy_that_nobody_waits_for() -> None:
    """It stays left to loads and stores, and that is harmless."""
    finding = only(program(with_code(compiled(product(given="float32")), quick)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


@pytest.mark.sweep
def test_tiles_that_come_by_tma_are_right() -> None:
    """The fixed twin."""
    assert not found(program(with_code(compiled(product()), slow)), RULE)


def test_cp_async_that_could_be_tma() -> None:
    """Its own instructions and waits are what it costs."""
    against = (Tma(), RowStride(2002, 16, "TMA"))
    told = remark("copy A → A_s", 5, CpAsync(16), against, severity="missed")
    code = [
        ("LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64]", {**ONE, "lg_throttle": 900}, 1, 5),
        ("LDS R4, [R7]", {**ONE, "wait": 8800}, 1, 6),
        ("@P0 BRA 0x0", ONE, 1, 4),
    ]
    finding = only(program(Made(remarks=[told], code=code)), RULE)
    assert "Pad the tensor's rows" in finding.author
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.1))


def test_other_code_is_told_by_its_looks() -> None:
    """6,000 of 10,000 samples wait: hidden behind 600 that issue at least, 4,000 at most."""
    made = program(Made(code=BY_HAND, blames=WAITS))
    assert saving(made) == pytest.approx((0.03, 0.23, 0.4))
    finding = only(made, RULE)
    assert finding.severity == "suggestion"
    assert finding.place.location is not None
    assert finding.place.location.line == 5


@pytest.mark.parametrize(
    "instead",
    [
        {0: "LDG.E.128 R20, desc[UR4][R2.64]"},
        {1: "NOP", 3: "NOP"},
        {4: "LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64]"},
    ],
)
def test_other_code_that_is_no_such_loop(instead: dict[int, str]) -> None:
    """Another register is stored; no barrier; copies of which some run ahead."""
    code = [(instead.get(at, text), *rest) for at, (text, *rest) in enumerate(BY_HAND)]
    made = Made(code=[(t, s, d, line) for t, s, d, line in code], blames=WAITS)  # type: ignore[misc]
    assert not found(program(made), RULE)


def test_what_an_outer_loop_loads_runs_ahead_of_nothing() -> None:
    """A tile that a persistent block loads once for its own loop."""
    told = remark("copy Q → Q_s", 5, LoadsAndStores(), AGAINST)
    inner = [("FFMA R8, R9, R10, R8", ONE, 2, 7), ("@P1 BRA 0x30", ONE, 2, 6)]
    code = [*BY_HAND[:3], *inner, *BY_HAND[3:]]
    assert not found(program(Made(remarks=[told], code=code, blames=WAITS)), RULE)
    assert only(program(Made(remarks=[told], code=BY_HAND, blames=WAITS)), RULE).kernel_gain


BEFORE_PRODUCTS = [
    ("LDG.E.128 R4, desc[UR4][R2.64]", {**ONE, "lg_throttle": 400}, 1, 5),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {**ONE, "barrier": 12_900}, 1, 6),
    ("STS.128 [R0], R4", {**ONE, "long_scoreboard": 20_000}, 1, 5),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", ONE, 1, 6),
    ("WARPGROUP.ARRIVE", ONE, 1, 6),
    ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", {**ONE, "barrier": 5000}, 1, 6),
    ("FFMA R8, R9, R10, R8", {**ONE, "long_scoreboard": 1000}, 1, 7),
    ("@P0 BRA 0x0", ONE, 1, 4),
]
"""A turn of 401 cycles, 129 of which wait for the product of the turn before."""


def test_copies_before_products_take_all_but_the_products() -> None:
    """Loads, stores, the meeting of warps, and waits for memory wherever they show: 26,600 of
    40,100 samples, with the turns of the copy and what stands at its line; the wait for products
    stays, wherever its line is. Likely 0.8 of them go."""
    told = remark("copy A → A_s", 5, LoadsAndStores(), AGAINST)
    made = program(Made(remarks=[told], code=BEFORE_PRODUCTS, blames=WAITS))
    assert saving(made)[1:] == pytest.approx((0.8 * 26_600 / 40_100, 1 - 128 / 401))
    assert only(made, RULE).place.location is not None


def test_rows_that_a_loop_of_their_own_copies_for_products() -> None:
    """The loop around multiplies, so all of the copy goes, not what its own loop could hide."""
    told = remark("copy A → A_s", 5, LoadsAndStores(), AGAINST)
    code = [
        ("FFMA R8, R9, R10, R8", ONE, 1, 7),
        ("LDG.E.128 R4, desc[UR4][R2.64]", {**ONE, "lg_throttle": 400}, 2, 5),
        ("STS.128 [R0], R4", {**ONE, "long_scoreboard": 30_000}, 2, 5),
        ("@P1 BRA 0x10", ONE, 2, 5),
        ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", {**ONE, "gmma": 20_000}, 1, 6),
        ("@P0 BRA 0x0", ONE, 1, 4),
    ]
    waits = [(2, "long_scoreboard", 1)]
    made = program(Made(remarks=[told], code=code, blames=waits))
    assert saving(made)[1] == pytest.approx(30_700 / 51_000, abs=0.001)


def test_copies_keep_warp_groups_in_step() -> None:
    """Two groups: of the 12,900 samples that wait for the product before, 6,000 of them while
    nobody issues, the loop's other work covers 600 at most, likely half."""
    told = remark("copy A → A_s", 5, LoadsAndStores(), AGAINST)
    code = list(BEFORE_PRODUCTS)
    code[1] = (code[1][0], {**code[1][1], "barrier_not_issued": 6000}, 1, 6)
    code[6] = (code[6][0], {**code[6][1], "wait": 40_000}, 1, 7)
    attributes: dict[str, Attribute] = {"block": "256×1×1", "blocks_per_sm": 1, "waves": 1.0}
    made = program(Made(remarks=[told], code=code, blames=WAITS, attributes=attributes))
    # The 5,000 that stand at a product wait at the barrier before it, and go anyway.
    step = 600 / 6000 * (6000 / 17_900) / 2
    low, mid, high = saving(made)
    assert mid == pytest.approx(0.8 * (26_600 + step * 12_900) / 80_100)
    assert high == pytest.approx(1 - 256 / 801)
    assert low == pytest.approx(26_600 / 80_100 / 2)


def test_products_of_other_code_are_a_matter_of_pipelines() -> None:
    """Without remarks there is no choice of instructions to speak of."""
    assert not found(program(Made(code=BEFORE_PRODUCTS, blames=WAITS)), RULE)


def test_recordings() -> None:
    """None has this defect."""
    assert not [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert not found(stored("h200-gemm"), RULE)
