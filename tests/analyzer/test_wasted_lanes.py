"""Instructions that are executed for a few lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, highest, only, program, remark, stored
from tileprof.profile import PcText, Profile
from tileprof.remarks.copies import TmaLoad
from tileprof.remarks.host import Guarded, IndexSign, Unguarded
from tileprof.remarks.launches import BlockPerTile
from tileprof.remarks.layouts import GlobalAccess
from tileprof.remarks.products import GemmInstruction

RULE = "wasted-lanes"
# In half of all cycles nobody issues.
CODE = [
    ("FFMA R0, R0, R1, R2", {"not_selected": 3000}, 1, 5),
    ("FMUL R3, R0, R1", {"wait": 4000, "wait_not_issued": 3000}, 1, 6),
    ("FADD R4, R0, R1", {"wait": 3000, "wait_not_issued": 2000}, 1, 7),
]
# A tile of 128 × 256 of C, of which 96 columns are there.
PRODUCT = """kernel @gemm(%B: global<96, 64, bfloat16>, %C: out global<128, 96, bfloat16>) {
  %c1 = constant 1 : index
  launch [%c1] {threads = [128]} body(%bx: index) {
    %c256 = constant 256 : index
    %0 = mul %bx, %c256 : index
    %c0 = constant 0 : index
    %B_tile = view %B, [%0, %c0] {sizes = [256, 64]} : global<256, 64, bfloat16>
    copy %B_tile, %B_shared
    gemm %A_shared, %B_shared, %C_local {transpose_b = true}
    %C_tile = view %C, [%c0, %0] {sizes = [128, 256]} : global<128, 256, bfloat16>
    copy %C_local, %C_tile
  }
}
"""
SAID = [
    remark("copy B → B_shared", 24, TmaLoad()),
    remark("gemm", 26, GemmInstruction("wgmma", "m64n256k16 ss groups=2x1")),
]
LOOP = [
    ("MOV R0, R1", {"wait": 2000}, 0, 3),
    ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", {"wait": 8000}, 1, 26),
]


def padded(ir: str = PRODUCT, **more: float) -> Profile:
    """A product whose loop has four fifths of the samples."""
    made = Made(ir=ir, code=LOOP, remarks=SAID, metrics=more)
    return program(made, peaks={"hbm_copy": 1e12})


def lanes(*each: int) -> dict[str, list[int]]:
    """Counts of instructions that were executed 1,000 times with so many lanes."""
    return {"executions": [1000] * len(each), "thread_executions": [1000 * n for n in each]}


def test_a_quarter_of_the_lanes() -> None:
    """Three quarters of 4,000 of 10,000 samples go at most, likely in the half that is busy."""
    finding = only(program(Made(code=CODE, counts=lanes(32, 8, 32))), RULE)
    assert (finding.severity, finding.title) == ("suggestion", "8 of 32 lanes work")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.3 * 0.5))
    assert finding.kernel_gain.high >= highest(1 / (1 - 0.3))
    assert finding.place.location is not None
    assert finding.place.location.line == 6


def test_all_lanes_or_nearly_all() -> None:
    """Edges of a tile cost some."""
    assert not found(program(Made(code=CODE, counts=lanes(32, 31, 30))), RULE)
    assert not found(program(Made(code=CODE)), RULE)


def test_cold_code_is_to_be_ignored() -> None:
    """A branch that hardly runs."""
    cold = [*CODE, ("FADD R5, R0, R1", {"selected": 20}, 0, 8)]
    finding = only(program(Made(code=cold, counts=lanes(32, 32, 32, 4))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_one_lane_that_works_for_all() -> None:
    """It asks barriers in shared memory, and what it does around that."""
    asks = ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", {"wait": 2000}, 1, 8)
    assert not found(program(Made(code=[*CODE, asks], counts=lanes(32, 1, 32, 1))), RULE)
    assert found(program(Made(code=CODE, counts=lanes(32, 1, 32))), RULE)


def test_counts_alone_make_no_number() -> None:
    """A symptom, where it is a notable part of all executions."""
    bare: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in CODE]
    finding = only(program(Made(code=bare, counts=lanes(32, 8, 32))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert not found(program(Made(code=bare, counts=lanes(32, 24, 32))), RULE)


def test_a_guard_is_told_in_the_words_of_the_compiler() -> None:
    """And is by itself no fault."""
    guarded = remark("load A", 6, Guarded(), (Unguarded(), IndexSign()))
    finding = only(program(Made(code=CODE, counts=lanes(32, 8, 32), remarks=[guarded])), RULE)
    assert finding.static[0].text == f"load A keeps its guard: {IndexSign()}"
    assert not found(program(Made(code=CODE, remarks=[guarded])), RULE)


def test_on_a_gpu() -> None:
    """Nothing was counted there."""
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


def test_tiles_that_reach_beyond_their_tensors() -> None:
    """Five eighths of a product, in four fifths of the time; told at the product."""
    finding = only(padded(), RULE)
    assert (finding.severity, finding.title[:23]) == ("suggestion", "62 % of the work on til")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 5 / 8))
    assert finding.kernel_gain.high >= highest(2)
    assert finding.place.location is not None
    assert (finding.place.location.line, finding.place.op) == (26, "gemm")
    assert "dimension 0 of `B` has 96 elements, the tiles reach to 256" in finding.static[0].text


def test_tiles_that_fit_or_nearly() -> None:
    """A tensor of 256 columns, or of 250; bounds that the compiler proved."""
    for extent in (256, 250):
        assert not found(padded(PRODUCT.replace("96", str(extent))), RULE)
    assert not found(padded(PRODUCT.replace("]} :", "], in_bounds = true} :")), RULE)


def test_memory_takes_as_long_without_what_is_outside() -> None:
    """Bytes take 0.8 of the time, and kernels likely reach 0.9 of a roof; of all of it nothing."""
    long = PRODUCT.replace("out global<128,", "out global<10000000,")
    finding = only(padded(long, bytes=8e8), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.9 / 0.8)
    finding = only(padded(long, bytes=1e9), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_tiles_without_samples_are_a_warning() -> None:
    """At the launch, where no line is known of the op."""
    said = [remark("launch", 16, BlockPerTile())]
    finding = only(program(Made(ir=PRODUCT, remarks=said)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert finding.place.location is not None
    assert finding.place.location.line == 16


def test_guarded_accesses_of_a_kernel_without_products() -> None:
    """All of its time goes with its tiles; what is outside waits for no memory, so 0.95 of it."""
    ir = """kernel @scaled(%X: global<128, 96, float32>, %Y: out global<128, 96, float32>) {
  %c1 = constant 1 : index
  launch [%c1] {threads = [128]} body(%bx: index) {
    %c128 = constant 128 : index
    parallel [%c128, %c128] body(%i: index, %j: index) {
      %0 = load %X, [%i, %j] : float32
      store %0, %Y, [%i, %j]
    }
  }
}
"""
    made = Made(ir=ir, code=LOOP, remarks=[remark("load X", 9, GlobalAccess(16, 16, 16))])
    finding = only(program(made), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 / 4))
    assert finding.place.location is not None
    assert (finding.place.location.line, finding.place.op) == (9, "load X")


@pytest.mark.parametrize(("held", "outside"), [(1e8, 0.0), (2e7, 0.6)])
def test_lanes_that_a_guard_leaves_out(held: float, outside: float) -> None:
    """1,000 blocks of 4 warps store 16 bytes a lane, 2 MB of each of 25 stores' 512 bytes; tensors
    that hold less tell that a guard leaves the rest out."""
    stores = [(f"@!P0 STG.E.128 desc[UR4][R2.64+{hex(16 * at)}], R4", 1) for at in range(25)]
    code = [(text, {"selected": 100 * n}, 0, 5) for text, n in stores]
    facts = launch(1000, held=4, threads=128)
    said = found(on_h200(Made(attributes=facts, code=code, metrics={"bytes": held})), RULE)
    assert len(said) == bool(outside)
    for each in said:
        assert each.kernel_gain is not None
        assert each.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * (1 - 2e7 / 5.12e7)), rel=0.01)


def test_threads_that_hold_the_same_element_are_not_left_out() -> None:
    """A store of a tile of 64 elements by 128 threads, half of which hold what others store."""
    code = [("@!P0 STG.E desc[UR4][R2.64], R4", {"selected": 100}, 0, 5)]
    made = Made(attributes=launch(1000, held=4, threads=128), code=code, metrics={"bytes": 2.6e5})
    held = on_h200(made)
    assert found(held, RULE)
    pc = held.tables.pc
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    text = PcText.of("tt.store %p, %v, %m : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc)")
    kept = replace(pc, functions=functions, texts={("f" * 64, "ttgir"): text})
    assert not found(replace(held, tables=replace(held.tables, pc=kept)), RULE)
