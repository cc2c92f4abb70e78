"""Changes of layout within warps: some digits of the lane and of the register number change places.

    regs (0,1) (0,8) | lanes (0,2) (0,4) …   →   regs (0,1) (0,2) | lanes (0,4) (0,8) …

The digit (0,8) goes from registers to lanes and (0,2) the other way.  Each lane sorts its registers
by its own digit, so that what it gives in a round is one register; each round is a shuffle in which
every lane reads from the lane that has its element; then each lane sorts what it got.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache

from tileprof.compiler.cuda.target import WORD
from tileprof.compiler.cuda.tuning import SHUFFLE_BARRIERS

from .registers import Digit, RegisterLayout, weighted


@dataclass(frozen=True, slots=True)
class Swap:
    """A digit of the words that changes places with one of the lanes; both are bits."""

    word: int
    """The weight of the digit in the number of a word."""
    source: int
    """The bit of the lane number that it becomes a digit of words from."""
    target: int
    """The bit of the lane number that it goes to."""


@dataclass(frozen=True, slots=True)
class Shuffles:
    """A change of layout by shuffles of words."""

    pack: int
    """Elements of a word, neighbours in the source's registers."""
    parts: tuple[int, ...]
    """Places of the parts of a word, as distances in the target's registers; elements of a part
    are neighbours in both layouts."""
    swaps: tuple[Swap, ...]
    lanes: tuple[int, ...]
    """Bit of the reader's number for each bit of the lane that is read."""
    digits: tuple[tuple[int, int], ...]
    """Count of each digit of the words, and its weight in the target's registers."""

    @property
    def keeps_lanes(self) -> bool:
        """Whether a lane whose swapped digits agree with its registers reads from itself."""
        return self.lanes == tuple(range(5))


@cache
def plan_shuffles(source: RegisterLayout, target: RegisterLayout, size: int) -> Shuffles | None:
    """The shuffles that change the layout of elements of `size` bytes; None where elements leave
    their warp, where threads hold copies that others make, or where memory is faster."""
    source, target = _refined(source), _refined(target)
    before, after = _keys(source), _keys(target)
    if size > WORD or source.warps != target.warps or before is None or after is None:
        return None
    if set(before[0] + before[1]) != set(after[0] + after[1]):
        return None
    made = _matched(source, target, _packed(source, target, size))
    if made is None or _cost(source, made) > _memory_cost(source, target, size):
        return None
    return made


def _refined(layout: RegisterLayout) -> RegisterLayout:
    """The same layout with bits of their own for as much of each register digit as has them."""
    made: list[Digit] = []
    for digit in layout.registers:
        radix, step = digit
        while radix > 2 and radix % 2 == 0:
            made.append(Digit(2, step))
            radix, step = radix // 2, tuple(2 * s for s in step)
        made.append(Digit(radix, step))
    return replace(layout, registers=tuple(made))


def _keys(layout: RegisterLayout) -> tuple[list[Hashable], list[Hashable]] | None:
    """Return what digits of registers and of lanes are told apart by; None where it is not known
    how copies go together."""
    if any(d.is_copy for d in layout.registers) or len(layout.lanes) != 5:
        return None
    # Lanes that hold copies read from such.
    lanes: list[Hashable] = [(d, bit if d.is_copy else -1) for bit, d in enumerate(layout.lanes)]
    return [(d, -1) for d in layout.registers], lanes


def _packed(source: RegisterLayout, target: RegisterLayout, size: int) -> tuple[int, ...]:
    """The weights in the target of the source's first digits, bits which stay digits of registers
    and of which a word holds all elements."""
    weights = dict(weighted(target.registers))
    found: list[int] = []
    for digit in source.registers:
        if digit not in weights or digit.radix != 2 or size << len(found) == WORD:
            break
        found.append(weights[digit])
    return tuple(found)


def _matched(
    source: RegisterLayout, target: RegisterLayout, packed: tuple[int, ...]
) -> Shuffles | None:
    weights, same = dict(weighted(target.registers)), len(packed)
    whole = next((n for n, weight in enumerate(packed) if weight != 1 << n), same)
    parts = [0]
    for weight in packed[whole:]:
        parts += [part + weight for part in parts]
    reads: dict[int, int] = {}
    leaves: list[tuple[int, int, int]] = []  # number of the digit, its weight, where it goes
    for number, (digit, weight) in enumerate(weighted(source.registers[same:])):
        if digit in target.lanes:
            if digit.radix != 2:
                return None
            leaves.append((number, weight, target.lanes.index(digit)))
    enters: list[int] = []
    for bit, digit in enumerate(source.lanes):
        if digit.is_copy:
            reads[bit] = bit
        elif digit in target.lanes:
            reads[bit] = target.lanes.index(digit)
        else:
            enters.append(bit)
    # Bits that go where others come from leave the other lanes as they are.
    enters.sort(key=lambda bit: bit not in [to for _, _, to in leaves])
    leaves.sort(key=lambda leave: enters.index(leave[2]) if leave[2] in enters else len(enters))
    places = [weights.get(d, 0) for d in source.registers[same:]]
    swaps: list[Swap] = []
    for bit, (number, weight, to) in zip(enters, leaves, strict=True):
        reads[bit] = to
        places[number] = weights[source.lanes[bit]]
        swaps.append(Swap(weight, bit, to))
    counts = [d.radix for d in source.registers[same:]]
    lanes = tuple(reads[bit] for bit in range(5))
    digits = tuple(zip(counts, places, strict=True))
    return Shuffles(1 << same, tuple(parts), tuple(swaps), lanes, digits)


def _cost(source: RegisterLayout, made: Shuffles) -> float:
    """Words that a warp shuffles; four selects, or words put together anew, count as one."""
    words = source.registers_per_thread // made.pack
    staying = words >> len(made.swaps) if made.keeps_lanes else 0
    joined = words / 4 if len(made.parts) > 1 else 0
    return words - staying + len(made.swaps) * words / 2 + joined


def _memory_cost(source: RegisterLayout, target: RegisterLayout, size: int) -> float:
    moved = source.registers_per_thread + target.registers_per_thread
    return moved * size / WORD + SHUFFLE_BARRIERS
