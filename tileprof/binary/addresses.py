"""The constant part of an address in shared memory: it distinguishes the rings of mbarriers.

In: an instruction and which register or bracket holds the address.  Out: the sum of the constants
in it, as far as additions, shifts and copies lead back. What else is added (the slot of a ring, the
block's window of shared memory) varies, and counts for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .instructions import BYTES, Instruction, words
from .register_effects import effects

if TYPE_CHECKING:
    from .cubin import Function

COPIES = words("MOV UMOV R2UR")
SUMS = words("IADD3 UIADD3 VIADD IADD UIADD")
DEEPEST = 12
"""Steps back through definitions; beyond them nothing constant is expected."""
PART = re.compile(r"(-?0x[0-9a-f]+)|(UR|R)(\d+)\b")
PLAIN = re.compile(r"(UR|R)(\d+)(?:\.reuse)?")


class Constants:
    """The constant parts of what registers of one function hold; each is worked out once.

    Sums of sums lead to the same definitions again and again, in unrolled code without end.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._known: dict[tuple[int, int], int] = {}
        """Constant parts, keyed by the offset of the defining instruction and the steps left."""

    def of_bracket(self, each: Instruction) -> int:
        """Return the constant part of an instruction's first address in brackets."""
        bracket = next((operand for operand in each.operands if "[" in operand), "")
        return sum(self._parts(each.offset, bracket))

    def of_barrier(self, copy: Instruction) -> int:
        """Return the constant part of a bulk copy's mbarrier, which follows the target."""
        found = re.search(r"\[(UR|R)(\d+)", copy.operands[0] if copy.operands else "")
        if found is None:
            return 0
        return self._held(copy.offset, f"{found[1]}{int(found[2]) + 1}", DEEPEST)

    def _parts(self, offset: int, text: str) -> Iterator[int]:
        for number, kind, register in PART.findall(text):
            yield int(number, 16) if number else self._held(offset, kind + register, DEEPEST)

    def _held(self, offset: int, register: str, left: int) -> int:
        """Return the constant part that a register has on all paths to an instruction, else 0."""
        if not left:
            return 0
        found = {self._made(at, left - 1) for at in self._definitions(offset, register)}
        return found.pop() if len(found) == 1 else 0

    def _definitions(self, offset: int, register: str) -> tuple[int, ...]:
        """Return a register's possible definitions; under a predicate, the last under the same."""
        function = self._function
        guard = function.instruction(offset).predicate
        if guard:
            names = {register, guard.lstrip("@!")}
            for at in range(offset - BYTES, function.block(offset).start - BYTES, -BYTES):
                before = function.instruction(at)
                if written := names & set(effects(before).writes):
                    if written == {register} and before.predicate in ("", guard):
                        return (at,)
                    break
        return function.flow.definitions(offset, register)

    def _made(self, offset: int, left: int) -> int:
        """Return the constant part of an instruction's result."""
        if (offset, left) not in self._known:
            self._known[offset, left] = self._worked_out(offset, left)
        return self._known[offset, left]

    def _worked_out(self, offset: int, left: int) -> int:
        each = self._function.instructions[offset // BYTES]

        def value(operand: str) -> int:
            if re.fullmatch(r"-?0x[0-9a-f]+", operand):
                return int(operand, 16)
            plain = PLAIN.fullmatch(operand)
            return self._held(offset, plain[1] + plain[2], left) if plain else 0

        sources = [operand for operand in each.operands[1:] if not re.match(r"!?U?P[\dT]", operand)]
        if each.name in COPIES and sources:
            return value(sources[-1])
        if each.name in SUMS:
            return sum(map(value, sources))
        if each.name in ("LEA", "ULEA") and len(sources) == 3 and "HI" not in each.modifiers:
            return (value(sources[0]) << (value(sources[2]) & 31)) + value(sources[1])
        if each.name in ("IMAD", "UIMAD") and len(sources) == 3 and "HI" not in each.modifiers:
            return value(sources[0]) * value(sources[1]) + value(sources[2])
        return 0
