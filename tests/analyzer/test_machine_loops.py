"""Loops of machine code: where they begin and end, and what is in which."""

from __future__ import annotations

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import (
    is_innermost,
    loop_around,
    loops_of,
    loops_with,
    slow_paths,
    turns,
)

CODE = [
    ("MOV R0, RZ", 0), ("IADD3 R1, R1, 0x1, RZ", 1), ("HGMMA.64x64x16.F32.BF16 R24, R24", 2),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", 2), ("@!P0 BRA 0xd0", 2),
    ("@P1 BRA 0x20", 2), ("HGMMA.64x64x16.F32.BF16 R24, R24", 2), ("@P2 BRA 0x60", 2),
    ("@P3 BRA 0x60", 2), ("FADD R3, R3, R4", 1), ("@P4 BRA 0x10", 1), ("EXIT", 0), ("NOP", 0),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", 3), ("@!P0 BRA 0xd0", 3), ("BRA 0x50", 2),
    ("BRA 0x100", 0),
]  # fmt: skip
"""A loop of two in turn, the second with two ways back; a wait of the first that stands apart, and
leads back into it; at the end a jump to itself."""
FIRST, SECOND, OUTER, APART = range(2, 6), range(6, 9), range(1, 11), range(13, 15)


def code_of(issued: int = 0) -> KernelCode:
    """Each instruction with so many samples of a warp that issues it."""
    lines = [(text, {"selected": issued} if issued else {"wait": 1}, depth, 5)
             for text, depth in CODE]  # fmt: skip
    code = Program(program(Made(code=lines))).kernels[0].code
    assert code is not None
    return code


def test_loops_are_from_where_a_branch_leads_to_the_last_one_that_does() -> None:
    """The way back from what stands apart makes no loop, nor does a jump to itself."""
    assert loops_of(code_of()) == (APART, SECOND, FIRST, OUTER)


def test_what_is_in_which() -> None:
    """The innermost one; those with products, in their order."""
    code = code_of()
    assert [loop_around(code, each) for each in (0, 2, 6, 9, 13)] == [
        None, FIRST, SECOND, OUTER, APART,
    ]  # fmt: skip
    assert loops_with(code, ("HGMMA", "EXIT")) == (FIRST, SECOND)
    assert [is_innermost(code, each) for each in (FIRST, SECOND, OUTER)] == [True, True, False]


def test_waits_that_stand_apart() -> None:
    """They belong to the loop that they lead back into, and to those around it."""
    code = code_of()
    assert slow_paths(code, FIRST) == [*APART]
    assert slow_paths(code, SECOND) == []
    assert slow_paths(code, OUTER) == [*APART]


def test_turns() -> None:
    """As often as its instructions were issued."""
    assert turns(code_of(20), FIRST) == 20
    assert turns(code_of(), FIRST) == 0
