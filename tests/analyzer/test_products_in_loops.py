"""Products whose sums a loop adds up by itself, and results that lie the other way round."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.analyzer.made import Made, found, only, program

SERIAL, TURNED = "wgmma-serialized", "layout-convert"
_Code = list[tuple[str, Mapping[str, int], int, int]]


def of_sums(begins: str = "RZ, !UPT", sums: int = 8, last: str = "FADD R{0}, R{1}, R{0}") -> _Code:
    """A loop with a product of 64 × 16, whose threads have 8 sums, and what it does of them."""
    return [
        (f"HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], {begins}", {"selected": 500}, 1, 5),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 3000}, 1, 5),
        *((last.format(100 + at, 24 + at), {"selected": 100}, 1, 6) for at in range(sums)),
        ("ISETP.NE.AND P0, PT, R2, RZ, PT", {"selected": 5000}, 1, 7),
        ("@P0 BRA 0x0", {"selected": 100}, 1, 7),
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (of_sums(), True),
        (of_sums(begins="R24"), False),
        (of_sums(sums=4), False),
        (of_sums(last="FMUL R{0}, R{1}, R{0}"), False),
        (of_sums(last="FADD R{0}, R{1}, R3"), False),
        ([(text.replace("HG", "QG"), *rest) for text, *rest in of_sums()], False),
    ],
)
def test_sums_that_a_product_could_add_up(code: _Code, said: bool) -> None:
    """Only where each of its sums is added in place does a product that begins at zero wait for
    nothing: not where it accumulates, or its result is scaled, or used otherwise."""
    findings = found(program(Made(code=code, attributes={"block": "128×1×1"})), SERIAL)
    assert any("begin at zero" in each.evidence[0].text for each in findings) == said


def test_additions_and_half_of_the_waits_go() -> None:
    """Of 9,400 samples 3,000 wait for the products, and 800 add."""
    finding = only(program(Made(code=of_sums(), attributes={"block": "128×1×1"})), SERIAL)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - (1500 + 800) / 9400))
    assert "acc = tl.dot" in finding.author


def exchanging(lanes: int) -> _Code:
    """A loop that reduces results of a product by so many exchanges, and through shared memory."""
    return [
        ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT", {"selected": 500}, 1, 5),
        *(("SHFL.BFLY PT, R2, R3, 0x4, 0x1f", {"selected": 50}, 1, 6) for _ in range(lanes)),
        ("STS [R4], R2", {"mio_throttle": 400}, 1, 6),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"barrier": 400}, 1, 6),
        ("LDS R5, [R4]", {"long_scoreboard": 900, "mio_throttle": 200}, 1, 6),
        ("FADD R9, R5, R9", {"short_scoreboard": 1000, "selected": 4000}, 1, 7),
        ("@P0 BRA 0x0", {"selected": 100}, 1, 7),
    ]


@pytest.mark.parametrize(("lanes", "said"), [(40, True), (8, False)])
def test_results_that_are_reduced_along_columns(lanes: int, said: bool) -> None:
    """40 exchanges of 50 samples, 1,000 at shared memory, and 1,000 that wait for it."""
    code = exchanging(lanes)
    blames = [(lanes + 4, "short_scoreboard", lanes + 3)]
    findings = found(program(Made(code=code, blames=blames)), TURNED)
    assert bool(findings) == said
    if said:
        assert findings[0].dynamic[0].samples == 40 * 50 + 1000 + 1000
