"""Addresses of machine code that other loads found."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.machine.by_number import begins_by_number, is_found_by_number


@pytest.mark.parametrize(
    ("address", "found", "begins"),
    [
        ("IMAD.WIDE R6, R3, 0x4, R8", True, True),
        ("IMAD.WIDE R6, R3, 0x80, R8", True, False),
        ("IMAD.WIDE R6, R3, R7, R8", True, False),
        ("LEA R6, P0, R3, R8, 0x2", True, True),
        ("LEA R6, P0, R3, R8, 0x7", True, False),
        ("IMAD.WIDE R6, R0, 0x4, R8", False, False),
    ],
)
def test_how_many_bytes_one_more_is(address: str, found: bool, begins: bool) -> None:
    """A loaded number of elements may begin anywhere; one of rows, whose length is 128 bytes or not
    known, begins at a whole access."""
    texts = (
        "S2R R0, SR_TID.X", "LDG.E R2, desc[UR4][R4.64]", "IADD3 R3, R2, R0, RZ", address,
        "LDG.E R10, desc[UR4][R6.64]",
    )  # fmt: skip
    made = Made(code=[(text, {"selected": 1}, 0, 1) for text in texts])
    (case,) = Program(program(made)).kernels
    assert case.code is not None
    assert is_found_by_number(case.code, 4) == found
    assert begins_by_number(case.code, 4) == begins
