"""The machine code of the kernels that measure roofs: their loops do what is counted, and little
else; nothing is left out, nothing is spilled."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tileprof import binary
from tileprof.compiler.cuda.build import Cubin, compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.target import find_target
from tileprof.runtime.roofs import texts

TARGETS = ("sm_90a", "sm_80")
LOOPING = {"ISETP", "UISETP", "IADD3", "UIADD3", "VIADD", "BRA", "CALL", "LDC", "ULDC", "PLOP3"}
"""What a loop with a counter takes."""


@cache
def compiled(target: str) -> Cubin:
    """All kernels."""
    held = find_target(target)
    return compile_cubin(texts.source(held), held, Controls())


def main_loop(target: str, name: str, opcode: str) -> list[binary.Instruction]:
    """The instructions of the one loop of a kernel with an opcode of this name."""
    function = binary.read(compiled(target).bytes).functions[f"roof_{name}"]
    loops = [list(function.inside(loop)) for loop in function.loops]
    (found,) = (each for each in loops if any(i.name == opcode for i in each))
    return found


@pytest.mark.spread("sm_80")
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_spilled_and_ptxas_has_no_complaint(target: str) -> None:
    """No local memory anywhere, no product that was serialised."""
    held = compiled(target)
    assert not held.notes
    assert "C75" not in held.log
    specs = texts.source(find_target(target)).launches
    assert set(held.resources) == {spec.function for spec in specs}
    assert {resources.stack for resources in held.resources.values()} == {0}


@pytest.mark.spread
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "opcode"),
    [("fma_float32", "FFMA"), ("fma_float64", "DFMA"), ("exp2_float32", "MUFU")],
)
def test_arithmetic_and_nothing_else(target: str, name: str, opcode: str) -> None:
    """As many as are counted; each chain has a register of its own, so none waits for another."""
    loop = main_loop(target, name, opcode)
    count = Counter(each.name for each in loop)
    assert count.pop(opcode) == texts.CHAINS * texts.LINKS
    assert set(count) <= LOOPING
    assert sum(count.values()) <= 6
    results = Counter(each.operands[0] for each in loop if each.name == opcode)
    assert set(results.values()) == {texts.LINKS}
    assert len(results) == texts.CHAINS
    if name == "exp2_float32":
        assert {each.opcode for each in loop if each.name == "MUFU"} == {"MUFU.EX2"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("vectors", texts.VECTORS)
def test_memory_is_read_and_written_in_vectors(target: str, vectors: int) -> None:
    """At least four loads are under way before the first is waited for."""
    for name, loads, stores in (("hbm_read", 1, 0), ("hbm_write", 0, 1), ("hbm_copy", 1, 1),
                                ("l2_read", 1, 0)):  # fmt: skip
        loop = main_loop(target, f"{name}_{vectors}", "LDG" if loads else "STG")
        count = Counter(each.name for each in loop)
        assert (count["LDG"], count["STG"]) == (loads * vectors, stores * vectors), name
        moves = [each for each in loop if each.name in ("LDG", "STG")]
        assert all(".128" in each.opcode for each in moves)
        if loads:
            at = next(place for place, each in enumerate(loop) if each.name == "LDG")
            until = next(
                place
                for place, each in enumerate(loop[at:])
                if {*each.operands[1:]} & {load.operands[0] for load in loop[at : at + place]}
            )
            assert sum(each.name == "LDG" for each in loop[at : at + until]) >= 4
        past_l1 = {each.opcode for each in moves if each.name == "LDG"}
        expected = "LDG.E.128.STRONG.GPU" if name == "l2_read" else "LDG.E.NA.128"
        assert past_l1 == ({expected} if loads else set())


@pytest.mark.parametrize("target", TARGETS)
def test_shared_memory_is_read_as_often_as_is_counted(target: str) -> None:
    """Reads of the same place are not made one; what folds them takes fewer cycles than they."""
    loop = main_loop(target, "shared_read", "LDS")
    count = Counter(each.opcode for each in loop)
    assert count["LDS.128"] == texts.SHARED_READS
    assert count["LOP3.LUT"] <= 2 * texts.SHARED_READS
    assert len(loop) <= 3 * texts.SHARED_READS + 4


@pytest.mark.parametrize(
    ("dtype", "opcode"),
    [
        ("bfloat16", "HGMMA.64x256x16.F32.BF16"),
        ("float16", "HGMMA.64x256x16.F32"),
        ("float8_e4m3", "QGMMA.64x256x32.F32.E4M3.E4M3"),
        ("tf32", "HGMMA.64x256x8.F32.TF32"),
        ("int8", "IGMMA.64x256x32.S8.S8"),
    ],
)
def test_products_on_sm_90a_are_back_to_back(dtype: str, opcode: str) -> None:
    """All of a turn behind one arrival, with one wait behind the last, into the same registers."""
    loop = main_loop("sm_90a", f"tensor_{dtype}", opcode.partition(".")[0])
    products = [each for each in loop if each.opcode == opcode]
    assert len(products) == texts.PRODUCTS
    assert len({each.operands[0] for each in products}) == 1
    assert [each.opcode for each in loop if each.name == "WARPGROUP"] == [
        "WARPGROUP.ARRIVE",
        "WARPGROUP.DEPBAR.LE",
    ]
    first = loop.index(products[1])
    assert loop[first : first + texts.PRODUCTS - 1] == products[1:]
    assert not [each for each in loop if each.name in ("LDS", "LDG", "STS", "BAR", "MOV", "SYNCS")]


@pytest.mark.parametrize(
    ("dtype", "opcode"),
    [
        ("bfloat16", "HMMA.16816.F32.BF16"),
        ("float16", "HMMA.16816.F32"),
        ("tf32", "HMMA.1688.F32.TF32"),
        ("int8", "IMMA.16832.S8.S8"),
    ],
)
def test_products_on_sm_80_wait_for_nothing(dtype: str, opcode: str) -> None:
    """Sums of eight chains; operands stay in registers."""
    loop = main_loop("sm_80", f"tensor_{dtype}", opcode.partition(".")[0])
    count = Counter(each.opcode for each in loop)
    assert count[opcode] == 8 * texts.PRODUCTS
    assert len(loop) <= count[opcode] + 6
    results = {each.operands[0] for each in loop if each.opcode == opcode}
    assert len(results) == 8
