"""Products that wait for one another: what ptxas says, what the code shows, what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import FILE, Made, found, highest, only, program, report_of, stored
from tests.cuda.ptxas_kernels import KERNELS
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.ptxas import notes_to_remarks
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import Location
from tileprof.profile import Attribute
from tileprof.remarks import Remark

RULE = "wgmma-serialized"
GROUP: dict[str, Attribute] = {"block": "128×1×1", "blocks_per_sm": 1, "waves": 1.0}
HGMMA, WAIT = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
SERIAL = [
    ("WARPGROUP.ARRIVE", {"selected": 100}, 1, 5),
    (f"{HGMMA}, gsb0", {"selected": 100}, 1, 5),
    (WAIT, {"selected": 100, "barrier": 25300, "barrier_not_issued": 25300}, 1, 5),
    (f"{HGMMA}, gsb0", {"selected": 100}, 1, 5),
    (WAIT, {"selected": 100, "barrier": 25300, "barrier_not_issued": 25300}, 1, 5),
    ("@P0 BRA 0x0", {"selected": 100}, 1, 4),
    ("EXIT", {"wait": 51200}, 0, 9),
]


def remarks(name: str) -> list[Remark]:
    """What the installed ptxas says of a text; a skip without it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    made = compile_cubin(KERNELS[name], find_target("sm_90a"), Controls())
    told = notes_to_remarks(made.notes, made.locate)
    places = [Location(FILE, each.location.line) if each.location else None for each in told]
    return [replace(each, location=place) for each, place in zip(told, places)]


@pytest.mark.spread("defines-before")
@pytest.mark.parametrize(("name", "way"), [("registers", "smaller tile"), ("defines", "before")])
def test_what_ptxas_says_is_a_warning(name: str, way: str) -> None:
    """Its reason, the line, and a way out; no number without samples."""
    finding = only(program(Made(remarks=remarks(name))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert finding.place.location == Location(FILE, 14)
    assert way in finding.author
    unknown = [("UNKNOWN", {"selected": 500}, 0, 14)]
    assert only(program(Made(remarks=remarks(name), code=unknown)), RULE).severity == "warning"


def test_a_gain_is_what_tensor_cores_are_idle() -> None:
    """Half of the time the loop runs; in it 100 turns of two products of 128 cycles take half."""
    finding = only(program(Made(code=SERIAL, attributes=GROUP)), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.25))
    assert finding.kernel_gain.high == pytest.approx(highest(1 / (1 - 0.25)))
    assert finding.place.location == Location(FILE, 5)


def test_what_products_take_themselves_goes_by_half() -> None:
    """A turn of 1,200 cycles: of 500 that wait for products 256 are these, beside which another
    group computes, if there is one; the rest goes. Warps that load for them are not counted."""
    waited = {"selected": 100, "barrier": 25_000, "barrier_not_issued": 25_000}
    turn = [
        *SERIAL[:2], (WAIT, waited, 1, 5), SERIAL[3], (WAIT, waited, 1, 5),
        ("@P0 BRA 0x0", {"selected": 100, "wait": 69_400}, 1, 4),
    ]  # fmt: skip
    loading = [
        ("UTMALDG.2D [UR8], [UR4]", {"long_scoreboard": 40_000}, 1, 3),
        ("@P1 BRA 0x60", {}, 1, 3),
    ]
    for code in (turn, [*turn, *loading]):
        attributes = GROUP | {"block": "256×1×1"} if code != turn else GROUP
        finding = only(program(Made(code=code, attributes=attributes)), RULE)
        assert finding.kernel_gain is not None
        went = (500 - 256 + 256 / 2) / 1200
        assert finding.kernel_gain.mid == pytest.approx(1 / (1 - went))
        assert finding.kernel_gain.high <= 1200 / 256 + 1e-9


def test_other_warp_groups_fill_the_gaps() -> None:
    """Two blocks on a multiprocessor keep its tensor cores busy."""
    finding = only(program(Made(code=SERIAL, attributes=GROUP | {"blocks_per_sm": 2})), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_a_wait_for_several_products_is_none() -> None:
    """The fixed twin: the first product is followed by the second."""
    grouped = [SERIAL[0], (HGMMA, {"selected": 100}, 1, 5), *SERIAL[3:]]
    assert not found(program(Made(code=grouped, attributes=GROUP)), RULE)
    one_behind = (
        WAIT.replace("0x0", "0x1"),
        {"selected": 100, "barrier": 25300, "barrier_not_issued": 25300},
        1,
        5,
    )
    delayed = [one_behind if each[0] == WAIT else each for each in SERIAL]
    assert not found(program(Made(code=delayed, attributes=GROUP)), RULE)


def test_recordings() -> None:
    """Eight blocks with one product at a time are as good as ones with sixteen: 256 cycles of work
    wait in line, and a product takes 32."""
    found_there = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert [(each.place.kernel, each.severity) for each in found_there] == [
        ("serialised_products", "ignore")
    ]
    assert not found(stored("h200-gemm"), RULE)


def test_spills_beside_serial_products_are_the_same_fault() -> None:
    """What they take goes too, and tensor cores of the loops alone are no bound."""
    spill = ("LDL R0, [R1+0x50]", {"lg_throttle": 51200}, 0, 6)
    alone = only(program(Made(code=SERIAL, attributes=GROUP)), RULE)
    both = only(program(Made(code=[*SERIAL, spill], attributes=GROUP)), RULE)
    assert alone.kernel_gain is not None
    assert both.kernel_gain is not None
    taken = 2 * 25300 + 51200
    whole = 6 * 100 + 2 * 25300 + 2 * 51200
    assert both.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * taken / whole))
    assert both.kernel_gain.high > both.kernel_gain.mid > alone.kernel_gain.mid
    assert "registers are spilled as well" in both.dynamic[-1].text
