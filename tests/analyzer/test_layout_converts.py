"""Fragments that are exchanged through shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.analyzer.compiled import compiled, remarks_of, with_code
from tests.analyzer.defects import counted, line_of, product, turned
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import EXCHANGED, FILE, Made, found, only, program, remark, stored
from tileprof import binary
from tileprof.analyzer.cases import Program
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.rules import layout_converts
from tileprof.errors import Location
from tileprof.remarks.launches import BlockPerTile, MemoryForStaged, PersistentCandidate

RULE = "layout-convert"
LINE = line_of("for i, j in T.Parallel(32, 32)")
"""Of the loop in `defects.turned` that reads a fragment both ways."""


STORED = line_of("T.copy(g, ")


def costly(each: binary.Instruction, line: int) -> Mapping[str, int]:
    """Each load of the exchange waits; its first store waits for what it stores."""
    if line == LINE and each.name == "LDS":
        return {"mio_throttle": 500}
    if line == LINE and each.name == "STS":
        return {"long_scoreboard": 3000}
    return {"selected": 3000} if each.name == "STG" else {}


def test_what_the_compiler_says_is_a_warning() -> None:
    """The line, the buffer, and both ways out; no number."""
    finding = only(program(Made(remarks=remarks_of(compiled(turned)))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert (finding.place.op, finding.title) == (
        "buffer f", "`f` is exchanged between threads through shared memory"
    )  # fmt: skip
    assert f"the layout of line {line_of('f = T.alloc_fragment')}" in finding.static[0].text
    assert finding.compiler


def test_its_loads_and_stores_cost() -> None:
    """8 loads of 500 samples, of 16,000 in all: 85 % of a quarter; waits for memory stay."""
    finding = only(program(with_code(compiled(turned), costly)), RULE)
    assert finding.severity == "suggestion"
    assert finding.dynamic[0].samples == 4000
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.85 * 4000 / 16000))
    assert finding.place.location is not None
    assert finding.place.location.line == LINE


def test_an_exchange_that_costs_nothing() -> None:
    """All time goes elsewhere."""
    made = with_code(compiled(turned), lambda each, line: {"selected": 10 if line == STORED else 0})
    finding = only(program(made), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_exchanges_of_one_line_are_one_finding() -> None:
    """Two buffers of a line share its instructions; of lines that cost nothing one is named."""
    (told,) = [each for each in remarks_of(compiled(turned)) if each.subject == "buffer f"]
    both = [told, replace(told, name="g")]
    finding = only(program(replace(with_code(compiled(turned), costly), remarks=both)), RULE)
    assert finding.title.startswith("`f` and `g` are")
    assert finding.dynamic[0].samples == 4000
    away = replace(told, name="h", location=Location(FILE, STORED))
    code = [
        ("LDS R4, [R0]", {"selected": 1}, 1, LINE),
        ("LDS R4, [R0]", {"selected": 2}, 1, STORED),
    ]
    code += [("FFMA R4, R4, R4, R4", {"selected": 5000}, 1, 50)]
    assert only(program(Made(remarks=[told, away], code=code)), RULE).place.op == "buffer h"


GMMA = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"
ONE = {"selected": 100}
IN_STEP = [
    (GMMA, ONE, 1, 3),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 3000, "barrier_not_issued": 2000}, 1, 3),
    ("STS [R1], R4", {"mio_throttle": 500}, 1, 4),
    ("BAR.SYNC.DEFER_BLOCKING 0x1, 0x100", ONE, 1, 4),
    ("LDS R4, [R1]", {"barrier": 1500}, 1, 4),
    ("STS [R2], R5", {"mio_throttle": 400}, 1, 5),
    ("LDS R5, [R2]", {"barrier": 600}, 1, 6),
    ("FADD R4, R4, R5", {"selected": 1500, "wait": 1800}, 1, 7),
    ("@P0 BRA 0x0", ONE, 1, 2),
]
"""A turn of 9,600 samples: 2,100 at two exchanges, 500 at a sum over warps, 400 for products that
nobody else uses."""


def together(threads: int) -> Made:
    """Two exchanges and a reduction in a loop of products."""
    told = [
        remark(f"buffer {name}", line, *EXCHANGED) for name, line in (("total", 5), ("weights", 4))
    ]
    return Made(remarks=told, code=IN_STEP, attributes={"block": f"{threads}×1×1"})


WEIGHTS = """kernel @attend(%Out: out global<64, 64, float32>) {{
    %weights = alloc fragment {{shape = [{rows}, 64]}} : fragment<{rows}, 64, bfloat16>
    %value = alloc shared {{shape = [64, 64]}} : shared<64, 64, bfloat16>
    %out = alloc fragment {{shape = [{rows}, 64]}} : fragment<{rows}, 64, float32>
    gemm %weights, %value, %out
}}
"""


@pytest.mark.parametrize(
    ("rows", "threads", "severity"),
    [(16, 128, "symptom"), (64, 128, "suggestion"), (16, 32, "suggestion")],
)
def test_rows_that_several_warps_share(rows: int, threads: int, severity: str) -> None:
    """Four warps have 16 rows together, so each needs what the others computed of them."""
    made = replace(
        together(threads), ir=WEIGHTS.format(rows=rows), attributes=launch(132, threads=threads)
    )
    finding = only(on_h200(made), RULE)
    assert (finding.severity, finding.kernel_gain is None) == (severity, severity == "symptom")


def test_exchanges_of_one_loop_are_one_finding() -> None:
    """The longest first, with the reduction between warps, which no remark names."""
    finding = only(program(together(128)), RULE)
    assert finding.title.startswith("`weights` and `total` are")
    assert finding.place.op == "buffer weights"
    assert finding.place.location is not None
    assert finding.place.location.line == 4
    assert share(together(128)) == pytest.approx(0.85 * (2000 + 100 + 400 + 600) / 9600)


def test_barriers_keep_warp_groups_in_step() -> None:
    """Two groups: 2,000 of their waits for products, at which nobody issues, are hidden by the
    1,800 that the loop issues."""
    at = 2000 + 100 + 400 + 600
    assert share(together(256)) == pytest.approx(0.85 * (at + 1800) / 9600)
    assert "in step" in only(program(together(256)), RULE).dynamic[1].text


def test_a_short_exchange_keeps_nobody_in_step() -> None:
    """It takes 3 % of a longer turn, so that groups have room to run apart."""
    longer = [*IN_STEP[:-2], ("FADD R4, R4, R5", {"selected": 90_000}, 1, 7), IN_STEP[-1]]
    draft = drafted(replace(together(256), code=longer))
    assert [each.tier for each in draft.evidence] == ["static", "samples"]


@pytest.mark.parametrize(("held", "goes"), [(16_000, True), (15_000, False), (21_000, False)])
def test_an_exchange_that_keeps_blocks_from_several_tiles(held: int, goes: bool) -> None:
    """A fragment of 32 x 32 floats is 4,096 of 20,000 bytes that two tiles need: with them freed
    they fit, or do not, or did so before. Then 1,000 waits where a tile begins and 500 where it
    ends go as well."""
    ir = "    %f = alloc fragment {shape = [32, 32]} : fragment<32, 32, float32>\n"
    told = [
        remark("buffer f", 8, *EXCHANGED),
        remark("launch", 1, BlockPerTile(),
               (PersistentCandidate(), MemoryForStaged("chunks", 20_000, held))),
    ]  # fmt: skip
    code = [
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 100, "barrier": 1000}, 0, 1),
        (GMMA, {"selected": 5000}, 1, 3),
        ("@P0 BRA 0x10", ONE, 1, 3),
        ("STS [R1], R4", {"mio_throttle": 600}, 0, 8),
        ("FADD R4, R4, R5", {"selected": 2700}, 0, 7),
        ("EXIT", {"long_scoreboard": 500}, 0, 1),
    ]
    draft = drafted(Made(remarks=told, code=code, ir=ir))
    assert draft.saving is not None
    assert draft.saving.mid == pytest.approx(0.85 * (600 + 1500 * goes) / 10_000)
    assert any("several" in each.text for each in draft.evidence) == goes


def test_tiles_come_no_sooner() -> None:
    """200 turns, by what nine instructions issue, of 48 cycles: a tile takes longer to come. Of
    1,048 it takes 530 and its transfer. Without a ring there is no such bound."""

    def ring(stages: int) -> Made:
        ir = f"""    %A_shared = alloc shared {{}} : shared<128, 64, bfloat16>
    for pipelined %c0, %c9, %c1 {{num_stages = {stages}}} body(%k: index) {{
      copy %A_tile, %A_shared
    }}
"""
        return replace(together(256), ir=ir)

    assert drafted(ring(2)).most == pytest.approx(1)
    assert drafted(together(256)).most == math.inf
    slow = replace(ring(2), code=[(GMMA, {**ONE, "wait": 200_000}, 1, 3), *IN_STEP[1:]])
    cycles = (9600 + 200_000) / 200
    assert drafted(slow).most == pytest.approx(cycles / (530 + 128 * 64 * 2 / 64))


def drafted(made: Made) -> Draft:
    """What the rule itself says."""
    (draft,) = layout_converts.RULE.find(Program(program(made)).kernels[0])
    return draft


def share(made: Made) -> float:
    """Of the time, what the rule itself says that goes."""
    saving = drafted(made).saving
    assert saving is not None
    return saving.mid


def test_points_that_run_once() -> None:
    """What one thread found, the others read from shared memory."""
    finding = only(program(Made(remarks=remarks_of(compiled(counted)))), RULE)
    assert finding.severity == "warning"
    assert "one runs the point" in finding.static[0].text
    assert "one thread" in finding.author


@pytest.mark.sweep
def test_kernels_without_an_exchange() -> None:
    """The accesses to shared memory of a product are none."""
    assert not found(program(with_code(compiled(product()), costly)), RULE)
    assert not found(stored("h200-gemm"), RULE)
