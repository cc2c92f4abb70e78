"""The kinds of instructions, and the annotated code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.binary.kernels import INLINED, NEST
from tests.binary.support import STORED, kernel, need_disassembler, parse
from tileprof.binary import Line, group_of, listing, opcode_class, read


def text_of(source: str) -> Callable[[Line], str]:
    """The text of a line of one of the kernels."""
    return lambda line: source.splitlines()[line.line - 1].strip()


@pytest.mark.parametrize(
    ("text", "name", "group"),
    [
        ("LDG.E.128.CONSTANT R4, [R2.64]", "LDG.128", "global memory"),
        ("STG.E [R2.64], R4", "STG.32", "global memory"),
        ("LDS.U16 R4, [R2]", "LDS.16", "shared memory"),
        ("LDSM.16.M88.4 R4, [R2]", "LDSM", "shared memory"),
        ("LDGSTS.E.BYPASS.128 [R5], [R2.64]", "LDGSTS.128", "async copy"),
        ("RED.E.ADD.F64.RN.STRONG.GPU [R2.64], R4", "RED.64", "atomic"),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", "HGMMA", "matrix"),
        ("UTMALDG.2D [UR8], [UR6]", "UTMALDG", "tensor copy"),
        ("MUFU.EX2 R0, R1", "MUFU", "special function"),
        ("FLO.U32 R0, R1", "FLO", "integer"),
        ("FFMA R0, R1, R2, R3", "FFMA", "floating point"),
        ("UIADD3 UR4, UR5, UR6, URZ", "UIADD3", "uniform"),
        ("LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT", "LOP3", "integer"),
    ],
)
def test_classes_and_groups(text: str, name: str, group: str) -> None:
    """Memory accesses are told apart by their bits."""
    found = opcode_class(parse(text)[0])
    assert (found, group_of(found)) == (name, group)


def test_what_a_kernel_is_made_of(arch: str) -> None:
    """Counts of a kernel whose instructions are known; padding does not count."""
    function = kernel("async_copy", arch)
    wanted = ("LDGSTS.128", "LDGDEPBAR", "DEPBAR", "BAR", "LDSM", "HMMA", "SHFL", "STG.128")
    assert {name: function.count(name) for name in wanted} == {
        **dict.fromkeys(wanted, 1),
        "LDSM": 2,
    }
    assert function.count("RED") + function.count("REDG") == 1
    assert function.count("LDS") == 0
    assert function.count("NOP") == 0


def test_what_a_hopper_kernel_is_made_of() -> None:
    """Tensor copies, barriers in shared memory and group matrix instructions."""
    function = kernel("wgmma", "sm_90a")
    assert function.count("HGMMA") == 1
    assert function.count("UTMALDG") == 1
    assert function.count("STG.32") == 64
    assert function.count("SYNCS") >= 3
    loop = next(each for each in function.loops if each.kind == "loop")
    assert sum(each.name == "HGMMA" for each in function.inside(loop)) == 1


def test_an_inlined_call_in_the_listing(golden: Callable[..., None]) -> None:
    """Each run of instructions stands under its source line, with the chain of calls."""
    need_disassembler()
    golden(listing(read(STORED).functions["inlined"], text_of(INLINED)))


def test_loops_and_spills_in_the_listing() -> None:
    """Bars count loops; spills, jumps back and indirect jumps are noted."""
    need_disassembler()
    lines = listing(read(STORED).functions["spill"], lambda line: "").splitlines()
    assert "            | loop 1:" in lines
    stores = [line for line in lines if "; spills R" in line]
    reloads = [line for line in lines if "; reloads R" in line]
    assert (len(stores), len(reloads)) == (82, 82)
    assert any("  | STL" in line for line in stores)
    assert any("goes back" in line and "  | @" in line for line in lines)


def test_nested_loops_in_the_listing() -> None:
    """The inner loop's instructions have two bars."""
    shown = listing(kernel("nest", "sm_90a"), text_of(NEST))
    inner = shown.partition("| | loop 2:")[2]
    assert inner.splitlines()[1].lstrip().startswith("0x")
    assert "| | BAR.SYNC" in shown
    assert "__syncthreads();  // line 9" in shown
