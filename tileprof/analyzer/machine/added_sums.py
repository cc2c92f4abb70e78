"""Loops whose matrix products begin at zero each time, and which add the sums up by themselves.

In: a kernel's machine code.  Out: by loop, the places of the additions. A product of a warp group
adds to its accumulator as it multiplies; one that begins at zero (`RZ, !UPT`, or registers that get
one value before it) has to be waited for in its own iteration, so that floating-point additions can
read it:

    HGMMA.64x128x16.F32.BF16 R24, …, RZ, !UPT
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    FADD R109, R24, R109                                  for each of 64 registers

Only additions in place of all its registers count: a result that is scaled, or used for anything
else, is needed as it is. Products of 8-bit floats are left out, whose accumulator has fewer digits
than a float, so that compilers add up by themselves on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.machine.repeats import parsed
from tileprof.analyzer.numbers.machine import ADDED_SUMS_MOST
from tileprof.binary.instructions import Instruction
from tileprof.binary.register_effects import effects

__all__ = ["added_sums"]

_PRODUCT = "HGMMA"
_ACCUMULATES = re.compile(r"HGMMA\.64x(\d+)x16\.F32\S* R(\d+), .*")
_BEGINS = "RZ, !UPT"
_FILLS = re.compile(r"(MOV|IMAD\.MOV\.U32|CS2R) R(\d+), (?:RZ, RZ, )?S?(\w+)")
_WAIT = "WARPGROUP.DEPBAR"


@lru_cache(maxsize=4)
def added_sums(code: KernelCode) -> Mapping[range, tuple[int, ...]]:
    """Return the additions by loop, of innermost loops whose products are only added up."""
    found = ((loop, _additions(code, loop)) for loop in loops_with(code, (_PRODUCT,)))
    return {loop: sums for loop, sums in found if sums}


def _additions(code: KernelCode, loop: range) -> tuple[int, ...]:
    """Places of the additions of products that are only added up."""
    found = set[int]()
    for index in loop:
        if product := _ACCUMULATES.search(code.instructions[index].text):
            first, count = int(product[2]), int(product[1]) // 2  # 64 × N sums of 128 threads
            sums = {*range(first, first + count)}
            if _BEGINS in product[0] or _is_filled(code, range(loop.start, index), sums):
                found.update(_of_product(code, loop, index, sums))
    return tuple(sorted(found))


def _is_filled(code: KernelCode, before: range, sums: set[int]) -> bool:
    """Whether all of these registers get one value in instructions before a product."""
    filled, values = set[int](), set[str]()
    for index in before:
        if fill := _FILLS.match(code.instructions[index].text):
            first = int(fill[2])
            own = {first, first + (fill[1] == "CS2R")} & sums
            filled |= own
            values |= {fill[3]} if own else set()
    return filled == sums and len(values - {f"R{each}" for each in sums}) == 1


def _of_product(code: KernelCode, loop: range, product: int, sums: set[int]) -> list[int]:
    """Places where its sums are added in place; nothing where they are used for anything else."""
    lines, left, found, other = parsed(code), {*sums}, dict[int, int](), set[int]()
    rest = range(product + 1, loop.stop)
    waits = (i for i in rest if code.instructions[i].opcode.startswith(_WAIT))
    for index in range(next(waits, loop.stop), loop.stop):
        does = effects(lines[index])
        read = {int(name[1:]) for name in does.reads if name[:1] == "R"} & left
        if _adds_in_place(lines[index]):
            found |= dict.fromkeys(read, index)
            left -= read  # what reads it later may be a permutation that takes none of its bytes
        else:
            other |= read
        left -= {int(name[1:]) for name in does.writes if name[:1] == "R"}
    added = sorted(index for register, index in found.items() if register not in other)
    return added if len(added) >= ADDED_SUMS_MOST * len(sums) else []


def _adds_in_place(each: Instruction) -> bool:
    """Whether it adds to a register what another one has."""
    does = effects(each)
    return each.name == "FADD" and {*does.writes} < {*does.reads} and "-" not in "".join(
        each.operands
    )  # fmt: skip
