"""What kernels become for both targets: the instructions of their cubins, and the reasons that are
given where a fast path is not taken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.compiled_kernels import (
    compile_together,
    copies,
    function,
    kernel,
    lowered,
    need_machine_code,
    opcodes,
    product,
)
from tileprof import binary
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.remarks import Rejection
from tileprof.remarks.common import TargetHasNone
from tileprof.remarks.copies import (
    AsyncOff,
    CpAsync,
    CpAsyncCandidate,
    LoadsAndStores,
    NoProducerGroup,
    RowStride,
    Tma,
    TmaLoad,
)
from tileprof.remarks.layouts import SharedAccess
from tileprof.remarks.products import GemmInstruction, InstructionCandidate, TypeOnTarget

TARGETS = ("sm_90a", "sm_80")
TENSOR_CORES = {"HGMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "IMMA"}
SPILLS = {"LDL", "STL"}
ROWS = ("softmax", "rms_norm", "softmax bf16", "small softmax")
TURNED = ("small transpose", "transpose float32")
DTYPES = ("float16", "bfloat16", "float32", "int8", "float8_e4m3", "float8_e5m2")
LOADS = {"A": "copy A → A_shared", "B": "copy B → B_shared"}


@pytest.fixture(scope="module", autouse=True)
def _machine_code() -> None:
    """All programs of a target in one text, which takes a fifth of the time."""
    need_machine_code()
    every = [product(ta=ta, tb=tb) for ta in (False, True) for tb in (False, True)]
    every += [product(dtype, tb=True) for dtype in DTYPES]
    studies = {
        target: [kernel(name) for name, other in EXPECTED if other == target] for target in TARGETS
    }
    rows = [*map(kernel, (*ROWS, *TURNED))]
    without: Any = [{name: False} for name in ("async_copy", *FORBIDDEN)]
    compile_together([
        *(lowered(each, "sm_90a") for each in (*every, *studies["sm_90a"], *rows)),
        *(lowered(kernel(name), "sm_90a") for name in ("gemm", "gemm 128", "small matmul")),
        *(lowered(product(k=k), "sm_90a") for k in (1001, 1004)),
        *(lowered(product(), "sm_90a", Controls(**given)) for given in without),
        lowered(kernel("gemm"), "sm_90a", Controls(delayed_release=False)),
        lowered(kernel("softmax"), "sm_90a", Controls(vectorize=False)),
    ])  # fmt: skip
    compile_together([
        *(lowered(each, "sm_80") for each in (*every, *studies["sm_80"], *rows)),
        *(lowered(product(k=k), "sm_80") for k in (1001, 1002, 1004, 1008)),
        lowered(kernel("gemm 128"), "sm_80"),
        lowered(product(), "sm_80", Controls(async_copy=False)),
    ])  # fmt: skip


def main_loop(program: CudaProgram, name: str) -> list[binary.Instruction]:
    """The instructions of the innermost loop with an opcode of this name."""
    whole = function(program)
    held = [list(whole.inside(loop)) for loop in whole.loops]
    return min((each for each in held if any(i.name == name for i in each)), key=len)


# -- products


@pytest.mark.parametrize("name", ["gemm", "gemm 128"])
def test_a_product_on_sm_90a(name: str) -> None:
    """Loads and stores are TMA's, sums stay in registers, and nothing goes element by element."""
    found = opcodes(lowered(kernel(name), "sm_90a"))
    assert found >= {"HGMMA", "UTMALDG", "UTMASTG", "SYNCS", "USETMAXREG", "STSM"}
    assert not found & (SPILLS | {"LDG", "LDGSTS", "STG", "LDS", "LDSM", "HMMA"})


@pytest.mark.parametrize("name", ["gemm", "gemm 128"])
def test_one_product_stays_in_flight(name: str) -> None:
    """The main loop waits for all products but the one it has just begun, and never for data with
    a barrier of the block."""
    loop = main_loop(lowered(kernel(name), "sm_90a"), "HGMMA")
    waits = [i.operands for i in loop if i.opcode.startswith("WARPGROUP.DEPBAR")]
    assert waits == [("gsb0", "0x1")]
    assert not [i.opcode for i in loop if i.name == "BAR"]


@pytest.mark.parametrize(
    ("name", "controls"),
    [("gemm", Controls(delayed_release=False)), ("small matmul", Controls())],
    ids=["turned off", "products shorter than loads"],
)
def test_without_delay_each_turn_waits_for_its_own_product(name: str, controls: Controls) -> None:
    """The slot is free when the product is done, not when the next one has begun."""
    program = lowered(kernel(name), "sm_90a", controls)
    loop = main_loop(program, "HGMMA")
    waits = [i.operands for i in loop if i.opcode.startswith("WARPGROUP.DEPBAR")]
    assert waits == [("gsb0", "0x0")]


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_every_order_of_16_bit_operands_is_read_from_shared_memory(ta: bool, tb: bool) -> None:
    """wgmma and ldmatrix transpose as they read: the same number of instructions for all."""
    hopper = function(lowered(product(ta=ta, tb=tb), "sm_90a"))
    assert (hopper.count("HGMMA"), hopper.count("UTMALDG")) == (64 // 16, 2)
    ampere = function(lowered(product(ta=ta, tb=tb), "sm_80"))
    # A warp has 32 × 32: 2 × 4 products and 2 + 2 loads of four matrices for 16 of 64 columns.
    assert (ampere.count("HMMA"), ampere.count("LDSM")) == (4 * 2 * 4, 4 * (2 + 2))


@pytest.mark.parametrize(
    ("dtype", "hopper", "ampere"),
    [
        ("float16", "HGMMA.64x64x16.F32", "HMMA.16816.F32"),
        ("bfloat16", "HGMMA.64x64x16.F32.BF16", "HMMA.16816.F32.BF16"),
        ("float32", "HGMMA.64x64x8.F32.TF32", "HMMA.1688.F32.TF32"),
        ("int8", "IGMMA.64x64x32.S8.S8", "IMMA.16832.S8.S8"),
        ("float8_e4m3", "QGMMA.64x64x32.F32.E4M3.E4M3", ""),
        ("float8_e5m2", "QGMMA.64x64x32.F32.E5M2.E5M2", ""),
    ],
)
def test_the_instruction_of_each_type(dtype: str, hopper: str, ampere: str) -> None:
    """The text of the instruction says its shape and types; sm_80 has none for 8-bit floats."""
    for target, expected in zip(TARGETS, (hopper, ampere)):
        program = lowered(product(dtype, tb=True), target)
        every = [i for i in function(program).reachable() if i.name in TENSOR_CORES]
        assert {i.opcode for i in every} == ({expected} if expected else set())
        assert not opcodes(program) & SPILLS
        if not expected:
            (said,) = [r for r in program.remarks if r.op == "gemm"]
            reason = TypeOnTarget("sm_80", dtype)
            assert Rejection(InstructionCandidate("mma"), reason) in said.rejected


def test_a_product_on_sm_80() -> None:
    """cp.async of 16 bytes into the ring, ldmatrix out of it, no register in between."""
    for program in (lowered(kernel("gemm 128"), "sm_80"), lowered(product(), "sm_80")):
        found = opcodes(program)
        assert found >= {"HMMA", "LDGSTS.128", "LDSM"}
        assert not found & (SPILLS | {"LDG", "STS", "LDS", "LDGSTS.64", "LDGSTS.32"})
        # The loop waits for the oldest tile with the next one in flight.
        loop = main_loop(program, "LDGSTS")
        assert [i.operands for i in loop if i.name == "DEPBAR"] == [("SB0", "0x1")]


# -- fast paths that are not taken


@pytest.mark.parametrize("target", TARGETS)
def test_the_naive_twin(target: str) -> None:
    """Copies that may not be asynchronous go through registers, and remarks say so of each."""
    program = lowered(product(), target, Controls(async_copy=False))
    found = opcodes(program)
    assert found >= {"LDG.128", "STS.128"}
    assert not found & {"LDGSTS", "UTMALDG", "UTMASTG", "SYNCS"}
    for name in LOADS.values():
        said = copies(program)[name]
        assert said.decision == LoadsAndStores()
        reasons = {each.candidate: each.reason for each in said.rejected}
        assert reasons[CpAsyncCandidate()] == AsyncOff()
        assert reasons[Tma()] == (AsyncOff() if target == "sm_90a" else TargetHasNone("sm_80"))


def test_rows_of_1001_elements_on_sm_90a() -> None:
    """A bfloat16 row of 2002 bytes suits nothing; the other operand falls back to cp.async."""
    program = lowered(product(k=1001), "sm_90a")
    odd, even = (copies(program)[name] for name in LOADS.values())
    tma, cp_async = RowStride(2002, 16, "TMA"), RowStride(2002, 4, "cp.async")
    assert (odd.severity, odd.decision) == ("missed", LoadsAndStores())
    assert odd.rejected == (Rejection(Tma(), tma), Rejection(CpAsyncCandidate(), cp_async))
    assert (even.severity, even.decision) == ("info", CpAsync(16))
    assert even.rejected == (Rejection(Tma(), NoProducerGroup(tma)),)
    found = opcodes(program)
    assert found >= {"HGMMA", "LDG.16", "STS.16", "LDGSTS.128"}
    assert not found & (SPILLS | {"UTMALDG", "LDG.32", "LDG.64", "LDG.128", "LDGSTS.64"})


def test_rows_of_1004_elements_on_sm_90a() -> None:
    """2008 bytes are a multiple of 8: cp.async of 8 bytes."""
    program = lowered(product(k=1004), "sm_90a")
    said = copies(program)[LOADS["A"]]
    assert said.decision == CpAsync(8)
    assert said.rejected == (Rejection(Tma(), RowStride(2008, 16, "TMA")),)
    found = opcodes(program)
    assert found >= {"HGMMA", "LDGSTS.64", "LDGSTS.128"}
    assert not found & (SPILLS | {"UTMALDG", "LDG"})


@pytest.mark.parametrize(
    ("k", "chosen", "rejected", "instructions"),
    [
        (1001, "loads and stores", "row stride 2002 B is not a multiple of 4 B, cp.async needs it",
         {"LDG.16", "STS.16"}),
        (1002, "cp.async, 4 bytes per thread", "", {"LDGSTS.32"}),
        (1004, "cp.async, 8 bytes per thread", "", {"LDGSTS.64"}),
        (1008, "cp.async, 16 bytes per thread", "", {"LDGSTS.128"}),
    ],
)  # fmt: skip
def test_rows_on_sm_80(k: int, chosen: str, rejected: str, instructions: set[str]) -> None:
    """The widest copy whose size divides the distance of rows, or the reason why there is none."""
    program = lowered(product(k=k), "sm_80")
    said = copies(program)[LOADS["A"]]
    reasons = {str(each.candidate): str(each.reason) for each in said.rejected}
    assert (str(said.decision), reasons.get("cp.async", "")) == (chosen, rejected)
    # B has rows of 512 elements: what else there is comes from it.
    found = opcodes(program)
    assert found >= instructions
    wide = {i for i in found if i.startswith(("LDG.", "LDGSTS."))}
    assert wide - {"LDGSTS.128"} == {i for i in instructions if "LDG" in i} - {"LDGSTS.128"}


FORBIDDEN = {
    "tma": ("tma", "it is turned off", {"LDGSTS"}, {"UTMALDG", "UTMASTG"}),
    "warp_specialization": (
        "tma", "no producer warp group: warp specialisation is turned off", {"LDGSTS"},
        {"UTMALDG", "USETMAXREG"},
    ),
    "wgmma": ("wgmma", "it is turned off", {"HMMA", "LDSM"}, {"HGMMA"}),
    "tensor_cores": ("mma", "it is turned off", {"FFMA"}, {"HGMMA", "HMMA"}),
    "swizzle": (
        "wgmma", "it needs swizzled shared memory, which is turned off", {"HMMA"}, {"HGMMA"},
    ),
}  # fmt: skip
"""Control -> candidate and reason of the remark, instructions instead, and those that are gone."""


@pytest.mark.parametrize("control", FORBIDDEN)
def test_what_a_control_forbids(control: str) -> None:
    """The instruction is gone, another does it, and a remark says why."""
    candidate, reason, instead, gone = FORBIDDEN[control]
    given: dict[str, Any] = {control: False}
    program = lowered(product(), "sm_90a", Controls(**given))
    op = LOADS["A"] if candidate == "tma" else "gemm"
    (said,) = [r for r in program.remarks if r.subject == op]
    reasons = {str(each.candidate): str(each.reason) for each in said.rejected}
    assert reasons[candidate].startswith(reason)
    found = opcodes(program)
    assert found >= instead
    assert not found & (gone | SPILLS)


def test_one_element_at_a_time() -> None:
    """Without vectors no access of an element is wider than it; tiles are copied as before."""
    program = lowered(kernel("softmax"), "sm_90a", Controls(vectorize=False))
    assert {i for i in opcodes(program) if i.startswith(("LDG.", "STG."))} == {"LDG.32", "STG.32"}


GIVEN: tuple[dict[str, Any], ...] = (
    {}, {"ta": True}, {"dtype": "float32"}, {"dtype": "int8", "ta": True}, {"k": 1001},
    {"k": 1004, "tb": True}, {"stages": 1}, {"dtype": "float8_e4m3", "ta": True},
)  # fmt: skip
"""Products, some of which do not get what is fastest."""


@pytest.mark.parametrize("controls", [Controls(), Controls(async_copy=False)])
def test_every_fast_path_that_is_missed_has_a_reason(controls: Controls) -> None:
    """Loads that are not TMA's, products without wgmma, and everything that is called missed."""
    slow = 0
    every = [*(product(**given) for given in GIVEN), kernel("matmul"), kernel("flash_attention")]
    for program in (lowered(each, target, controls) for each in every for target in TARGETS):
        for remark in program.remarks:
            chosen, candidates = remark.decision, [each.candidate for each in remark.rejected]
            assert all(str(each.reason) for each in remark.rejected), str(remark)
            assert candidates or remark.severity == "info", str(remark)
            if remark.subject in LOADS.values() and not isinstance(chosen, TmaLoad):
                assert Tma() in candidates, str(remark)
                assert CpAsyncCandidate() in candidates or isinstance(chosen, CpAsync), str(remark)
                slow += 1
            if isinstance(chosen, GemmInstruction) and chosen.instruction != "wgmma":
                assert InstructionCandidate("wgmma") in candidates, str(remark)
                mma = InstructionCandidate("mma") in candidates
                assert mma or chosen.instruction == "mma", str(remark)
                slow += 1
    assert slow > 15


# -- kernels that memory limits


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ROWS)
def test_rows_move_in_accesses_of_16_bytes(name: str, target: str) -> None:
    """Each element once: as many accesses of 128 bits as the rows of a thread have bytes."""
    whole = function(lowered(kernel(name), target))
    classes = {i for i in whole.mix if i.startswith(("LDG.", "STG."))}
    assert classes == {"LDG.128", "STG.128"}
    # Elements of a block by its threads and by elements of 16 bytes; rms_norm reads a weight for
    # each column, too, of which a thread holds those of its row.
    rows = {
        "softmax": (16, 16), "rms_norm": (16 + 4, 16), "softmax bf16": (1, 1),
        "small softmax": (2, 2),
    }  # fmt: skip
    assert (whole.count("LDG.128"), whole.count("STG.128")) == rows[name]
    assert not SPILLS & set(whole.mix)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TURNED)
def test_a_transpose_is_wide_on_both_sides(name: str, target: str) -> None:
    """Rows are read and columns are written in vectors; shared memory turns them without
    conflicts."""
    program = lowered(kernel(name), target)
    found = opcodes(program)
    assert {i for i in found if i.startswith("LDG.")} == {"LDG.128"}
    assert {i for i in found if i.startswith("STG.")} <= {"STG.64", "STG.128"}
    tile = [r.decision for r in program.remarks if r.name == "tile" and r.op in ("store", "load")]
    costs = [each for each in tile if isinstance(each, SharedAccess)]
    assert [(each.wavefronts, each.needed) for each in costs] == [(1, 1)] * 2


# -- case studies

EXPECTED = {
    ("matmul", "sm_80"): {"HMMA", "LDGSTS.128", "LDSM"},
    ("flash_attention", "sm_90a"): {"HGMMA", "UTMALDG", "MUFU"},
    ("flash_attention", "sm_80"): {"HMMA", "LDGSTS.128", "MUFU"},
    ("int4_matmul", "sm_90a"): {"HGMMA", "UTMALDG"},
    ("vector_add", "sm_90a"): {"LDG", "STG", "FADD"},
}
"""Rows have tests of their own above."""


@pytest.mark.parametrize(("name", "target"), EXPECTED)
def test_case_studies(name: str, target: str) -> None:
    """They compile to the instructions that they are about, without spills."""
    found = opcodes(lowered(kernel(name), target))
    assert found >= EXPECTED[name, target]
    assert not found & SPILLS


# -- what stands before the first load


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "most"), [("small softmax", 14), ("rms_norm", 18), ("transpose float32", 24)]
)
def test_few_instructions_stand_before_the_first_load(name: str, most: int, target: str) -> None:
    """No shuffle, no quotient of signed numbers, and one address of 64 bits for a sum of terms."""
    names = [i.name for i in function(lowered(kernel(name), target)).instructions]
    first = names[: names.index("LDG")]
    assert "SHFL" not in first
    assert len(first) <= most


@pytest.mark.parametrize("name", ["gemm", "gemm 128"])
def test_tensor_maps_are_fetched_before_the_first_copy(name: str) -> None:
    """Each map once, those that results are stored through as well."""
    program = lowered(kernel(name), "sm_90a")
    found = [i.name for i in function(program).instructions if i.name in ("UTMACCTL", "UTMALDG")]
    maps = len(program.source.launches[0].maps)
    assert found[:maps] == ["UTMACCTL"] * maps
    assert "UTMACCTL" not in found[maps:]


@pytest.mark.parametrize("name", ["gemm", "gemm 128", "small matmul"])
def test_barriers_of_rings_are_made_in_a_row(name: str) -> None:
    """No loop over lanes stands before the first load, and few instructions for each barrier."""
    program = lowered(kernel(name), "sm_90a")
    whole = list(function(program).instructions)
    made = [at for at, i in enumerate(whole) if i.opcode.startswith("SYNCS.EXCH")]
    assert made
    between = whole[made[0] : made[-1]]
    assert "BRA" not in [i.name for i in between]
    assert len(between) <= 8 * len(made)
