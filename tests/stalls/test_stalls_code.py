"""The kernels with known stalls as machine code: what they are to wait for is there, once."""

from __future__ import annotations

import pytest

from tests.binary.support import need_disassembler
from tests.stalls.kernels import cubin, stalled
from tileprof.binary import Function, read

WAITS = {
    "spilled": ("LDL", "STL"),
    "bank_conflict": ("LDS",),
    "uncoalesced": ("LDG",),
    "chased": ("LDG",),
    "chained": ("FFMA",),
    "exponentials": ("MUFU",),
    "multiplied": ("FFMA",),
    "barrier_skew": ("BAR",),
    "mbarrier_wait": ("SYNCS",),
    "bulk_copy_wait": ("SYNCS",),
    "copy_wait": ("DEPBAR",),
    "fenced": ("MEMBAR",),
    "slept": ("NANOSLEEP",),
    "stored": ("STG",),
    "serialised_products": ("WARPGROUP",),
    "grouped_products": ("WARPGROUP",),
}
"""By kernel: instructions that there must be on its hot lines."""


def function(name: str) -> Function:
    """A kernel's code."""
    need_disassembler()
    return read(cubin()).functions[name]


def on_lines(of: Function, lines: frozenset[int]) -> list[str]:
    """Names of the instructions of these lines, those inlined there included."""
    return [
        each.name
        for each in of.reachable()
        if any(line.line in lines for line in of.chain(each.offset))
    ]


def test_every_kernel_says_where_it_stalls() -> None:
    """Once in the text, and each is known here."""
    assert stalled().keys() == WAITS.keys()
    for kernel in stalled().values():
        assert kernel.hot, kernel.name
        assert kernel.cause, kernel.name


@pytest.mark.parametrize("name", WAITS)
def test_the_hot_line_has_the_instruction(name: str) -> None:
    """In a loop."""
    of = function(name)
    there = on_lines(of, stalled()[name].hot)
    assert all(wanted in there for wanted in WAITS[name]), there
    wanted = [
        each.offset
        for each in of.reachable()
        if each.name in WAITS[name]
        and any(line.line in stalled()[name].hot for line in of.chain(each.offset))
    ]
    assert all(of.depth(offset) >= 1 for offset in wanted)


def test_only_one_kernel_spills() -> None:
    """In its loop."""
    spilling = {name for name in WAITS if function(name).spills()}
    assert spilling == {"spilled"}
    assert any(spill.depth == 1 for spill in function("spilled").spills())


@pytest.mark.parametrize(
    ("name", "products"), [("serialised_products", 1), ("grouped_products", 16)]
)
def test_products_of_a_wait(name: str, products: int) -> None:
    """One at a time, and sixteen."""
    of = function(name)
    (loop,) = [loop for loop in of.loops if any(i.name == "HGMMA" for i in of.inside(loop))]
    names = [each.name for each in of.inside(loop)]
    assert names.count("HGMMA") == products
    waits = [each for each in of.inside(loop) if each.opcode.startswith("WARPGROUP.DEPBAR")]
    assert len(waits) == 1
