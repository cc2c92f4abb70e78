"""Origins of an instruction's values: reaching definitions and backward slices.

In: a function's instructions and blocks.  Out: offsets of the instructions that may have written a
register, and the dependences from an instruction back to its sources.

Paths are those of the control-flow graph; through calls inside of the function too, without
matching a return to its own call.  A predicated write may leave the old value, so what was written
before it counts as well.  Values that go through memory are not followed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .control_flow import Block
from .instructions import BYTES, Instruction
from .register_effects import effects


@dataclass(frozen=True, slots=True)
class Dependence:
    """`consumer` reads `register`, which `producer` may have written (offsets)."""

    consumer: int
    register: str
    producer: int
    distance: int
    """Steps from the instruction that the slice starts at, from 1."""


class Flow:
    """Definitions and uses of a function's registers over its control-flow graph."""

    def __init__(self, code: Sequence[Instruction], blocks: Sequence[Block]) -> None:
        self._code = code
        self._blocks = blocks
        self._starts = [block.start for block in blocks]
        self._writes = [self._block_writes(block) for block in blocks]
        self._inside = [block.predecessors for block in blocks]
        self._through = self._with_calls()

    def definitions(
        self, offset: int, register: str, *, through_calls: bool = True
    ) -> tuple[int, ...]:
        """Return offsets of the instructions whose value of a register may reach an offset."""
        before = self._through if through_calls else self._inside
        found: set[int] = set()
        seen: set[int] = set()
        work = [(self._block_of(offset), offset)]
        while work:
            index, end = work.pop()
            sure = False
            for write in reversed(self._before(index, register, end)):
                found.add(write)
                if sure := not self._code[write // BYTES].predicate:
                    break
            for each in () if sure else before[index]:
                if each not in seen:
                    seen.add(each)
                    work.append((each, self._blocks[each].end))
        return tuple(sorted(found))

    def slice(
        self, offset: int, registers: Iterable[str] | None = None, limit: int | None = None
    ) -> Iterator[Dependence]:
        """Yield the dependences of an instruction, nearest first, up to `limit` steps away.

        `registers` restricts the first step; without it, all that the instruction reads.
        """
        first = effects(self._code[offset // BYTES]).reads if registers is None else registers
        work = deque([(offset, tuple(first), 1)])
        seen = {offset}
        while work:
            consumer, reads, distance = work.popleft()
            for register in reads:
                for producer in self.definitions(consumer, register):
                    yield Dependence(consumer, register, producer, distance)
                    if producer not in seen and distance != limit:
                        seen.add(producer)
                        reads_of = effects(self._code[producer // BYTES]).reads
                        work.append((producer, reads_of, distance + 1))

    def _block_of(self, offset: int) -> int:
        return bisect_left(self._starts, offset + 1) - 1

    def _before(self, index: int, register: str, end: int) -> list[int]:
        writes = self._writes[index].get(register, [])
        return writes[: bisect_left(writes, end)]

    def _block_writes(self, block: Block) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self._code[block.start // BYTES : block.end // BYTES]:
            for register in effects(each).writes:
                found.setdefault(register, []).append(each.offset)
        return found

    def _with_calls(self) -> list[tuple[int, ...]]:
        """Return predecessors along calls and returns: what the callee leaves follows a call."""
        found: list[list[int]] = [list(each) for each in self._inside]
        for block in self._blocks:
            if block.calls is None:
                continue
            found[block.calls].append(block.index)
            for after in block.successors:
                found[after].remove(block.index)
                found[after] += self._returns(block.calls)
        return [tuple(dict.fromkeys(each)) for each in found]

    def _returns(self, entry: int) -> list[int]:
        seen, stack = {entry}, [entry]
        while stack:
            for each in self._blocks[stack.pop()].successors:
                if each not in seen:
                    seen.add(each)
                    stack.append(each)
        lasts = {i: self._code[self._blocks[i].end // BYTES - 1].name for i in seen}
        return sorted(i for i, name in lasts.items() if name == "RET")
