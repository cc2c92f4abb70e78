"""Addresses of lanes, worked out from code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analyzer.made import Made, program, stored
from tileprof.analyzer.cases import Program
from tileprof.analyzer.machine.lanes import Lanes, addresses

BLOCK = (128, 1, 1)
POINTER = "LDC.64 R2, c[0x0][0x210]"
TID = "S2R R0, SR_TID.X"


def lanes_of(
    *texts: str, block: tuple[int, int, int] = BLOCK, threads: int = 32
) -> dict[int, list[Lanes]]:
    """By place, the addresses of these instructions' lanes; the ends of loops lead back."""
    code = [(text, {"selected": 1}, 1, 5) for text in texts]
    (case,) = Program(program(Made(code=code))).kernels
    assert case.code is not None
    return dict(addresses(case.code, block, threads))


def steps(*texts: str, block: tuple[int, int, int] = BLOCK) -> list[int] | None:
    """From lane to lane, in the last of them; None where it is not known."""
    found = lanes_of(*texts, block=block)
    last = found.get(len(texts) - 1)
    return None if last is None else sorted(set(np.diff(last[-1]).tolist()))


@pytest.mark.parametrize(
    ("made", "apart"),
    [
        (["IMAD.WIDE R4, R0, 0x4, R2"], [4]),
        (["SHF.L.U32 R0, R0, 0x2, RZ", "LEA R4, P1, R0, R2, 0x2"], [16]),
        (["LOP3.LUT R0, R0, 0x3f, RZ, 0xc0, !PT", "LDC R7, c[0x0][0x224]",
          "IMAD R7, R0, R7, R0", "IMAD.WIDE R4, R7, 0x4, R2"], [4 * (0x224 // 2 | 1) * 65536 + 4]),
        (["SHF.R.U32.HI R0, RZ, 0x5, R0", "IMAD.WIDE R4, R0, 0x4, R2"], [0]),
        (["LEA.HI R0, R0, RZ, RZ, 0x1f", "IMAD.WIDE R4, R0, 0x4, R2"], [0, 4]),
        (["SGXT.U32 R0, R0, 0x3", "IMAD.WIDE R4, R0, 0x4, R2"], [-28, 4]),
        (["HFMA2.MMA R7, -RZ, RZ, 0, 4.76837158203125e-07", "IMAD.WIDE R4, R0, R7, R2"], [8]),
        (["SHF.R.S32.HI R1, RZ, 0x5, R0", "SHFL.IDX PT, R1, R1, RZ, 0x1f",
          "IMAD R0, R1, 0x20, R0", "IMAD.WIDE R4, R0, 0x4, R2"], [4]),
        (["S2R R8, SR_CTAID.X", "I2F.RP R9, R8", "IADD3 R9, R9, R0, RZ",
          "IMAD.WIDE R4, R9, 0x2, R2"], [2]),
    ],
)  # fmt: skip
def test_arithmetic_on_thread_indices(made: list[str], apart: list[int]) -> None:
    """Products, shifts, masks, exchanges, and what all lanes have though it is not known."""
    assert steps(TID, POINTER, *made, "LDG.E R6, desc[UR4][R4.64+0x10]") == apart


def test_threads_along_more_than_one_axis() -> None:
    """Eight along x: the ninth is the first of the next row."""
    made = ("S2R R1, SR_TID.Y", "IMAD R0, R1, 0x100, R0", "IMAD.WIDE R4, R0, 0x4, R2")
    rows = steps(TID, POINTER, *made, "STG.E desc[UR4][R4.64], R6", block=(8, 16, 1))
    assert rows == [4, 1024 - 28]


def test_what_each_lane_loaded_is_not_known() -> None:
    """Unless all loaded the same."""
    table = ("IMAD.WIDE R4, R0, 0x4, R2", "LDG.E R6, desc[UR4][R4.64]")
    then = ("IMAD.WIDE R8, R6, 0x4, R2", "LDG.E R9, desc[UR4][R8.64]")
    assert steps(TID, POINTER, *table, *then) is None
    assert steps(TID, POINTER, "LDG.E R6, desc[UR4][R2.64]", *then) == [0]


def test_loops() -> None:
    """A step that all lanes take leaves them as far apart; a chain of loads does not."""
    begin = (TID, POINTER, "IMAD.WIDE R4, R0, 0x4, R2")
    load = "LDG.E R6, desc[UR4][R4.64]"
    marched = lanes_of(*begin, load, "IADD3 R4, R4, 0x800, RZ", "@P0 BRA 0x30")
    assert set(np.diff(marched[3][0]).tolist()) == {4}
    assert 3 not in lanes_of(*begin, load, "IMAD.WIDE R4, R6, 0x4, R2", "@P0 BRA 0x30")


def test_branches_and_predicates() -> None:
    """What some lanes may have done is not known, if it changes how far they are apart."""
    begin = (TID, POINTER, "ISETP.GE.AND P0, PT, R0, 0x7, PT")
    end = ("IMAD.WIDE R4, R0, 0x4, R2", "LDG.E R6, desc[UR4][R4.64]")
    assert steps(*begin, "@P0 BRA 0x50", "IADD3 R0, R0, 0x20, RZ", *end) == [4]
    assert steps(*begin, "@P0 BRA 0x50", "SHF.L.U32 R0, R0, 0x1, RZ", *end) is None
    assert steps(*begin, "@P0 SHF.L.U32 R0, R0, 0x1, RZ", *end) is None
    assert steps(*begin, "@!PT SHF.L.U32 R0, R0, 0x1, RZ", *end) == [4]


def test_a_copy_has_two_addresses() -> None:
    """Where to, then where from, whichever stands first; and a whole block has its threads."""
    made = (TID, POINTER, "IMAD.WIDE R4, R0, 0x10, R2", "IMAD.SHL.U32 R1, R0, 0x20, RZ")
    copy = "LDGSTS.E.128 desc[UR4][R4.64], P1, [R1+UR5+0x100]"
    found = lanes_of(*made, "S2UR UR5, SR_CgaCtaId", copy, threads=128)
    to, start = found[5]
    assert len(to) == 128
    assert (set(np.diff(to).tolist()), set(np.diff(start).tolist())) == ({32}, {16})


def test_kernels_of_a_gpu() -> None:
    """Lanes in lines of their own; a chain whose links are not known; lanes side by side."""
    apart = dict[str, set[int] | None]()
    for case in Program(stored("h200-stalls")).kernels:
        if case.name in ("uncoalesced", "chased", "exponentials") and case.code is not None:
            first = case.code.named("LDG")[0]
            found = addresses(case.code, (1024, 1, 1)).get(first)
            apart[case.name] = None if found is None else set(np.diff(found[-1]).tolist())
    assert apart == {"uncoalesced": {128}, "chased": None, "exponentials": {4}}
