"""Matrix products by slower instructions than there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.analyzer.compiled import compiled, remarks_of
from tests.analyzer.defects import line_of, product
from tests.analyzer.made import Made, found, highest, only, program, remark, stored
from tileprof.analyzer import Finding
from tileprof.ir import print_kernel
from tileprof.profile import PcText, Profile
from tileprof.remarks.copies import TmaStore
from tileprof.remarks.products import GemmInstruction, InstructionCandidate, NoFloat64

RULE = "tensor-core-missed"
LINE = line_of("T.gemm(")
"""Of `T.gemm` in `defects.py`."""
HOT = [
    ("LDSM.16.M88.4 R4, [R8]", {"short_scoreboard": 1000, "long_scoreboard": 2000}, 1, LINE),
    ("HMMA.16816.F32.BF16 R8, R4, R2, R8", {"math_pipe_throttle": 4000, "selected": 1000}, 1, LINE),
    ("STG.E.128 desc[UR4][R2.64], R8", {"lg_throttle": 2000}, 0, LINE + 1),
]
BF16 = print_kernel(product().compile().program.kernel)


@pytest.mark.parametrize(
    ("kernel", "controls", "chosen", "way"),
    [
        (product(rows=32), {}, "mma", "M=32 is not a multiple of 64"),
        (product(threads=96), {}, "mma", "as many threads as it needs"),
        (product("float32", given="float32"), {"tf32": False}, "fma", "Allow tf32"),
        (product(), {"tensor_cores": False}, "fma", "Remove the control"),
    ],
)
def test_what_the_compiler_says_is_a_warning(
    kernel: object, controls: dict[str, bool], chosen: str, way: str
) -> None:
    """With the reason, at the line of the product."""
    finding = only(program(Made(remarks=remarks_of(compiled(kernel, controls=controls)))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert finding.title == f"a matrix product uses {chosen}, not wgmma"
    assert way in finding.author
    assert finding.place.location is not None
    assert finding.place.location.line == LINE


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_the_best_that_there_is(target: str) -> None:
    """wgmma, and mma where there is no wgmma."""
    told = remarks_of(compiled(product(), target))
    assert not found(program(Made(remarks=told, code=HOT)), RULE)


def test_mma_beside_wgmma() -> None:
    """6,000 of 10,000 samples multiply: 38 % of them go; waits for data stay."""
    told = remarks_of(compiled(product(rows=32)))
    finding = only(program(Made(remarks=told, code=HOT, ir=BF16)), RULE)
    assert finding.severity == "suggestion"
    assert finding.dynamic[0].samples == 6000
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.38 * 0.6))
    assert finding.kernel_gain.high <= highest(1 / 0.62) + 1e-9


def test_measured_peaks_tell_how_much_faster() -> None:
    """Four times: three quarters of the product's time."""
    told = remarks_of(compiled(product(), controls={"tensor_cores": False}))
    peaks = {"tensor_bfloat16": 8e14, "fma_float32": 2e14}
    finding = only(program(Made(remarks=told, code=HOT, ir=BF16), peaks=peaks), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.75 * 0.6))


BY_FMA = [
    ("LDG.E.128 R0, desc[UR6][R2.64]", {"long_scoreboard": 900, "selected": 100}, 1, LINE - 1),
    ("FFMA R0, R0, R1, R2", {"selected": 7000}, 2, LINE),
    ("IADD3 R5, R5, 0x1, RZ", {"selected": 1000}, 2, 7),
    ("@P0 BRA 0x10", {"selected": 400}, 2, LINE),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", {"barrier": 200}, 1, LINE - 1),
    ("@P1 BRA 0x0", {"selected": 200}, 1, LINE - 1),
    ("EXIT", {"selected": 200}, 0, 9),
]


@pytest.mark.parametrize(("told", "goes"), [(False, 8400), (True, 9500)])
def test_waits_for_operands_go_where_roofs_tell_what_comes(told: bool, goes: int) -> None:
    """8,400 of 10,000 samples are the product's own loop, addresses and all; 1,100 wait for its
    operands. A loop that has products on tensor cores already keeps its waits."""
    said = remarks_of(compiled(product(), controls={"tensor_cores": False}))
    flops = {"flops": 1e10} if told else {}
    peaks = {"tensor_bfloat16": 1e15, "fma_float32": 1e13}
    made = Made(remarks=said, code=BY_FMA, ir=BF16, metrics=flops)
    finding = only(program(made, peaks=peaks), RULE)
    assert finding.dynamic[0].samples == goes
    others = [*BY_FMA[:4], ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24", {}, 1, 6), *BY_FMA[4:]]
    finding = only(program(replace(made, code=others), peaks=peaks), RULE)
    assert finding.dynamic[0].samples == 8400


def test_a_product_that_takes_no_time() -> None:
    """Its loads do."""
    told = remarks_of(compiled(product(rows=32)))
    cold = [("HMMA.16816.F32.BF16 R8, R4, R2, R8", {"selected": 50}, 1, LINE), HOT[2]]
    cold += [("LDSM.16.M88.4 R4, [R8]", {"long_scoreboard": 8000}, 1, LINE)]
    finding = only(program(Made(remarks=told, code=cold)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_what_nobody_can_change() -> None:
    """wgmma multiplies no float64, and mma does it here; the recorded product has the fastest."""
    against = (InstructionCandidate("wgmma"), NoFloat64())
    told = remark("gemm", 5, GemmInstruction("mma", "m8n8k4 warps=2x2"), against)
    assert not found(program(Made(remarks=[told], code=HOT)), RULE)
    assert not found(stored("h200-gemm"), RULE)


TTGIR = (
    "  %s = tt.dot %x, %y, %z : tensor<128x32x{type}, #ttg.dot_op<{{opIdx = 0, parent = #p}}>> *"
    " tensor<32x128x{type}, #ttg.dot_op<{{opIdx = 1, parent = #p}}>> -> tensor<128x128xf32,"
    " #{layout}> loc(#loc9)\n"
)
SUMS = [
    (f"FFMA R{20 + 8 * i + k}, R{i}, R{8 + k}, R{20 + 8 * i + k}", {"selected": 100}, 1, 5)
    for i in range(8)
    for k in range(8)
]
LOOP = [("LDS.128 R0, [R90]", {"short_scoreboard": 600}, 1, 5), *SUMS]
LOOP += [("@P0 BRA 0x0", {"selected": 1000}, 1, 4), ("EXIT", {"selected": 2000}, 0, 9)]


def of_triton(
    type_: str,
    layout: str,
    code: Sequence[tuple[str, dict[str, int], int, int]] = LOOP,
    metrics: Mapping[str, float] = MappingProxyType({}),
) -> Profile:
    """A product whose text Triton left."""
    held = program(Made(code=code, metrics=metrics))
    pc = held.tables.pc
    text = PcText.of(TTGIR.format(type=type_, layout=layout))
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    kept = replace(pc, functions=functions, texts={("f" * 64, "ttgir"): text})
    return replace(held, tables=replace(held.tables, pc=kept))


def test_a_product_of_triton() -> None:
    """7,000 of 10,000 samples are at its line, and 1,000 besides in a loop that is all its own;
    mma of tf32 is 0.62 x 494 / 67 times as fast."""
    finding = only(of_triton("f32", "blocked"), RULE)
    assert finding.severity == "suggestion"
    assert "input_precision" in finding.author
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * (1 - 67 / (0.62 * 494))))
    assert "at least 16" in only(of_triton("bf16", "blocked1"), RULE).author


WIDE = """
  %a = ttg.local_load %m : !ttg.memdesc<128x32xbf16, #s, #smem> -> tensor<128x32xbf16, #p> loc(#l)
  %w = arith.extf %a : tensor<128x32xbf16, #p> to tensor<128x32xf32, #p> loc(#l)
  %x = ttg.local_alloc %w : (tensor<128x32xf32, #p>) -> !ttg.memdesc<128x32xf32, #s, #smem> loc(#l)
  %y = arith.extf %b : tensor<32x128xbf16, #p> to tensor<32x128xf32, #p> loc(#l)
"""


@pytest.mark.parametrize("by", ["blocked", "mma"])
def test_operands_that_were_16_bits_wide(by: str) -> None:
    """Both are converted for the product, which is exact without: by ordinary instructions, or by
    tensor cores at half the rate. One that is converted alone has to be."""
    finding = only(widened(by, WIDE), RULE)
    assert "bfloat16 operands as they are" in finding.author
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    alone = found(widened(by, WIDE.replace("%y", "%other")), RULE)
    assert not any("as they are" in each.author for each in alone)


def widened(by: str, before: str) -> Profile:
    """A product whose operands these lines make, by FFMA or by tensor cores."""
    sums = [("HMMA.1688.F32.TF32 R20, R0, R8, R20", {"selected": 700}, 1, 5)] * 8
    code = LOOP if by == "blocked" else [LOOP[0], *sums, *LOOP[-2:]]
    held = of_triton("f32", by, code, {"flops": 1e9})
    ((key, text),) = held.tables.pc.texts.items()
    texts = {key: PcText.of(before + (text.text or ""))}
    pc = replace(held.tables.pc, texts=texts)
    return replace(held, tables=replace(held.tables, pc=pc))


def test_a_loop_that_loads_is_not_all_the_products() -> None:
    """Its copies come as before, so only what is at the product's line goes."""
    copies = ("LDGSTS.E.128 [R7], desc[UR6][R2.64]", {"lg_throttle": 1000}, 1, 4)
    finding = only(of_triton("f32", "blocked", [copies, *LOOP]), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 7 / 11 * (1 - 67 / (0.62 * 494))))


def test_a_product_of_triton_by_tensor_cores() -> None:
    """Its result is in a layout of theirs; float64 has no faster product."""
    assert not [each for each in found(of_triton("f32", "mma"), RULE) if "tt.dot" in said(each)]
    assert not [each for each in found(of_triton("f64", "blocked"), RULE) if "tt.dot" in said(each)]


def said(finding: Finding) -> str:
    """Its static evidence."""
    return finding.static[0].text


def test_a_product_by_hand() -> None:
    """64 sums of 8 x 8 registers; not where each operand is used once, or a compiler has told."""
    finding = only(program(Made(code=LOOP)), RULE)
    assert (finding.severity, finding.confidence) == ("suggestion", "low")
    once = [
        (f"FFMA R{i}, R{100 + i}, R{200 + i}, R{i}", samples, 1, 5)
        for i, (_, samples, _, _) in enumerate(SUMS)
    ]
    assert not found(program(Made(code=[LOOP[0], *once, *LOOP[-2:]])), RULE)
    told = [remark("copy", 5, TmaStore())]
    assert not found(program(Made(code=LOOP, remarks=told)), RULE)


def test_the_roof_tells_what_comes_instead() -> None:
    """All samples of the product go, where its operations are known."""
    told = remarks_of(compiled(product(), controls={"tensor_cores": False}))
    made = Made(remarks=told, code=HOT, ir=BF16, metrics={"flops": 2e10})
    peaks = {"tensor_bfloat16": 2e14, "fma_float32": 1e14}
    finding = only(program(made, peaks=peaks), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid > 1 / (1 - 0.5 * 0.6)  # more than half of the product
    assert finding.kernel_gain.high <= 1 / 0.1 + 1e-9
