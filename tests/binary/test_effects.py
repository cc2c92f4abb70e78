"""Registers that instructions read and write."""

from __future__ import annotations

import pytest

from tests.binary.support import kernel, parse
from tests.repeated import for_each
from tileprof.binary import effects

CASES = [
    # instruction, reads, writes
    ("FFMA R0, R1.reuse, -R2, |R3|", "R1 R2 R3", "R0"),
    ("@!P3 MOV R0, R1", "P3 R1", "R0"),
    ("MOV R1, c[0x0][0x28]", "", "R1"),
    ("LDG.E R0, desc[UR4][R2.64+0x10]", "UR4 UR5 R2 R3", "R0"),
    ("LDG.E.128.CONSTANT R4, [R2.64]", "R2 R3", "R4 R5 R6 R7"),
    ("LDG.E.64 R4, [R2.64+UR6]", "R2 R3 UR6 UR7", "R4 R5"),
    ("LDG.E.U8 R4, [R2.64]", "R2 R3", "R4"),
    ("STG.E.128 desc[UR4][R2.64], R8", "UR4 UR5 R2 R3 R8 R9 R10 R11", ""),
    ("STG.E.U16 [R2.64], R8", "R2 R3 R8", ""),
    ("LDS.128 R4, [R2+UR4+0x10]", "R2 UR4", "R4 R5 R6 R7"),
    ("STS.64 [R2], R6", "R2 R6 R7", ""),
    ("STL [R1+0x4], R6", "R1 R6", ""),
    ("LDL.LU R6, [R1+0x4]", "R1", "R6"),
    ("LDC.64 R6, c[0x0][R2+0x210]", "R2", "R6 R7"),
    ("ULDC.64 UR4, c[0x0][0x118]", "", "UR4 UR5"),
    ("LDSM.16.M88.4 R8, [R2]", "R2", "R8 R9 R10 R11"),
    ("LDSM.16.MT88.2 R8, [R2+UR4]", "R2 UR4", "R8 R9"),
    ("LDSM.16.M88 R8, [R2]", "R2", "R8"),
    ("STSM.16.M88.2 [R2], R8", "R2 R8 R9", ""),
    ("LDGSTS.E.BYPASS.128 [R5], desc[UR6][R8.64], P0", "R5 UR6 UR7 R8 R9 P0", ""),
    ("ISETP.GT.AND P0, PT, R4, 0x3, P2", "R4 P2", "P0"),
    ("ISETP.NE.AND.EX P0, P1, R4, RZ, PT, P3", "R4 P3", "P0 P1"),
    ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P1 P2", "P0"),
    ("UISETP.NE.AND UP0, UPT, UR4, URZ, UPT", "UR4", "UP0"),
    ("DSETP.GT.AND P0, PT, R4, R6, PT", "R4 R5 R6 R7", "P0"),
    ("FCHK P0, R4, R5", "R4 R5", "P0"),
    ("IADD3 R16, P0, R5, R6, RZ", "R5 R6", "R16 P0"),
    ("IADD3.X R9, RZ, UR7, RZ, P0, !P1", "UR7 P0 P1", "R9"),
    ("LOP3.LUT P6, R7, R10, 0x1f, RZ, 0xc0, !PT", "R10", "P6 R7"),
    ("LEA.HI.X R3, R4, c[0x0][0x164], R5, 0x2, P0", "R4 R5 P0", "R3"),
    ("SEL R1, R2, R3, !P0", "R2 R3 P0", "R1"),
    ("IMAD.WIDE R2, R5, 0x4, R6", "R5 R6 R7", "R2 R3"),
    ("IMAD.WIDE.U32 R2, P0, R5, R4, R6", "R5 R4 R6 R7", "R2 R3 P0"),
    ("IMAD.HI.U32 R5, R5, R7, R4", "R5 R7 R4", "R5"),
    ("IMAD.X R9, RZ, RZ, R7, P0", "R7 P0", "R9"),
    ("DFMA R10, R10, UR6, R4", "R10 R11 UR6 UR7 R4 R5", "R10 R11"),
    ("I2F.F64.S64 R4, R8", "R8 R9", "R4 R5"),
    ("I2F.S64 R4, R8", "R8 R9", "R4"),
    ("F2I.S64.F64.TRUNC R4, R8", "R8 R9", "R4 R5"),
    ("F2I.FTZ.U32.TRUNC.NTZ R4, R8", "R8", "R4"),
    ("F2F.F64.F32 R10, R14", "R14", "R10 R11"),
    ("F2F.F32.F64 R4, R6", "R6 R7", "R4"),
    ("MUFU.EX2 R17, R15", "R15", "R17"),
    ("MUFU.RCP64H R5, R7", "R7", "R5"),
    ("CS2R R2, SRZ", "", "R2 R3"),
    ("CS2R.32 R2, SR_CLOCKLO", "", "R2"),
    ("S2UR UR5, SR_CgaCtaId", "", "UR5"),
    ("R2UR UR8, R8", "R8", "UR8"),
    ("SHFL.BFLY PT, R9, R4, 0x1, 0x1f", "R4", "R9"),
    ("SHFL.IDX P0, R9, R4, R5, 0x1f", "R4 R5", "P0 R9"),
    ("VOTE.ANY R5, PT, P0", "P0", "R5"),
    ("VOTEU.ALL UP0, P1", "P1", "UP0"),
    ("REDUX.SUM UR10, R5", "R5", "UR10"),
    ("ATOMG.E.ADD.STRONG.GPU PT, R5, desc[UR4][R2.64], R7", "UR4 UR5 R2 R3 R7", "R5"),
    ("ATOMG.E.CAS.64.STRONG.GPU PT, R4, [R2.64], R6, R8", "R2 R3 R6 R7 R8 R9", "R4 R5"),
    ("ATOMS.ADD R5, [R2], R7", "R2 R7", "R5"),
    ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR6][R2.64], R17", "UR6 UR7 R2 R3 R17", ""),
    ("RED.E.ADD.F64.RN.STRONG.GPU [R2.64], R4", "R2 R3 R4 R5", ""),
    ("HMMA.16816.F32.BF16 R4, R8, R12, R4", "R8 R9 R10 R11 R12 R13 R4 R5 R6 R7", "R4 R5 R6 R7"),
    ("HMMA.16816.F16 R4, R8, R12, R4", "R8 R9 R10 R11 R12 R13 R4 R5", "R4 R5"),
    ("HMMA.1688.F32.TF32 R4, R8, R12, RZ", "R8 R9 R10 R11 R12 R13", "R4 R5 R6 R7"),
    ("IMMA.16816.S8.S8 R4, R8.ROW, R12.COL, R4", "R8 R9 R12 R4 R5 R6 R7", "R4 R5 R6 R7"),
    ("DMMA.884 R4, R8, R12, R4", "R8 R9 R12 R13 R4 R5 R6 R7", "R4 R5 R6 R7"),
    ("UTMALDG.2D [UR8], [UR6]", "UR8 UR9 UR10 UR11 UR6 UR7", ""),
    ("UBLKCP.S.G [UR4], [UR6], UR8", "UR4 UR5 UR6 UR7 UR8", ""),
    ("UTMALDG.3D.MULTICAST [UR16], [UR10], UR5", "UR16 UR17 UR18 UR19 UR20 UR10 UR11 UR5", ""),
    ("UTMASTG.2D [UR12], [UR4]", "UR12 UR13 UR14 UR4 UR5", ""),
    ("UBLKCP.G.S [UR6], [UR8], UR10", "UR6 UR7 UR8 UR10", ""),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x10], R4", "UR4 R4", "P0"),
    ("SYNCS.ARRIVE.TRANS64 RZ, [UR5], R2", "UR5 R2", ""),
    ("SYNCS.EXCH.64 URZ, [UR6], UR4", "UR6 UR4 UR5", ""),
    ("BSSY B0, 0x100", "", "B0"),
    ("BSYNC B0", "B0", ""),
    ("BMOV.32.CLEAR R22, B7", "B7", "R22"),
    ("P2R R0, PR, RZ, 0x5", "P0 P2", "R0"),
    ("R2P PR, R5, 0x3", "R5", "P0 P1"),
    ("BRX R6, -0x100", "R6 R7", ""),
    ("RET.REL.NODEC R20, 0x0", "R20 R21", ""),
    ("WARPSYNC R4", "R4", ""),
    ("@!PT LDS R4, [R5]", "", ""),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
]


@for_each(case=CASES)
def test_reads_and_writes(case: tuple[str, str, str]) -> None:
    """Each form of operand, in the order in which it stands."""
    text, *expected = case
    found = effects(parse(text)[0])
    assert [" ".join(found.reads), " ".join(found.writes)] == expected


def test_group_matrix_instructions() -> None:
    """HGMMA writes its accumulators; A comes from shared memory or from registers."""
    shared, zero, registers = (
        effects(each)
        for each in parse("""
            HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0
            HGMMA.64x64x16.F16 R24, gdesc[UR8], RZ, !UPT, gsb0
            HGMMA.64x16x16.F32 R24, R4, gdesc[UR8], R24, UP0
        """)
    )
    assert shared.writes == tuple(f"R{i}" for i in range(24, 88))
    assert shared.reads == ("UR8", "UR9", "UR10", "UR11", *shared.writes)
    assert zero.writes == tuple(f"R{i}" for i in range(24, 40))
    assert zero.reads == ("UR8", "UR9", "UR10", "UR11")
    assert registers.reads[:6] == ("R4", "R5", "R6", "R7", "UR8", "UR9")
    assert registers.reads[6:] == (*(f"R{i}" for i in range(24, 32)), "UP0")


@pytest.mark.spread
@pytest.mark.parametrize("name", ["async_copy", "divide", "spill", "calls", "inlined", "choose"])
def test_what_is_read_was_written(name: str, arch: str) -> None:
    """In code of the compiler every register that is read has a definition on some path.

    This fails where a width is taken too large, or a result for a source.
    """
    check_reads(name, arch)


def test_what_is_read_was_written_on_hopper() -> None:
    """The same for tensor copies, barriers and group matrix instructions."""
    check_reads("wgmma", "sm_90a")


def check_reads(name: str, arch: str) -> None:
    """Assert that all registers read are defined, but for those that a callee only keeps."""
    function = kernel(name, arch)
    saved = {each.offset for each in function.spills() if each.kind == "save"}
    for each in function.reachable():
        for register in effects(each).reads:
            if each.offset in saved or each.name in ("BMOV", "P2R"):
                continue
            assert function.flow.definitions(each.offset, register), (each.text, register)


@pytest.mark.parametrize("name", ["async_copy", "spill", "inlined", "nest", "choose"])
def test_what_is_written_is_read(name: str, arch: str) -> None:
    """Loads and arithmetic have a reader, but for the stack pointer's.

    This fails where a width is taken too small, or a source for a result.
    """
    function = kernel(name, arch)
    used = {
        d.producer for each in function.reachable() for d in function.slice(each.offset, limit=1)
    }
    names = ("LDG", "LDS", "LDSM", "FFMA", "FADD", "HMMA", "IMAD", "SHFL", "MUFU")
    makers = [each for each in function.reachable() if each.name in names]
    unused = [
        each.text
        for each in makers
        if each.offset not in used and not each.never_executes and each.operands[0] != "R1"
    ]
    assert len(makers) > 1
    assert unused == []
