"""Patterns of one access by a warp, and the addresses of lanes that they are made of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LANES = 32
MEMORY = 1 << 20
"""Bytes of global memory that patterns may address."""
SHARED = 1 << 15
"""Bytes of shared memory that patterns may address."""
OFF = -1
"""Address of a lane that takes no part: a guard leaves it out."""

Group = Literal["copies", "shared", "matrices", "shared atomics", "global", "local", "boxes"]
Lanes = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A tile that the copy engine moves; extents run from the innermost dimension."""

    element: int
    """Bytes of an element."""
    shape: tuple[int, ...]
    """Elements of the tensor by dimension."""
    pitches: tuple[int, ...]
    """Bytes from one element to the next, of each dimension but the innermost one."""
    box: tuple[int, ...]
    """Elements of the tile by dimension."""
    start: tuple[int, ...]
    """First element of the tile by dimension, which may lie outside of the tensor."""
    swizzle: int = 0
    """Bytes of the swizzle: 0, 32, 64 or 128."""

    @property
    def bytes(self) -> int:
        """Return the bytes that a load brings to shared memory, zeros included."""
        count = self.element
        for extent in self.box:
            count *= extent
        return count


@dataclass(frozen=True)
class Pattern:
    """One launch of one warp."""

    name: str
    """Words that no other pattern has."""
    group: Group
    body: str
    """Name among `bodies.BODIES`."""
    first: Lanes = (0,) * LANES
    """Byte of each lane: in global memory of copies, else in the memory that is accessed."""
    second: Lanes = (0,) * LANES
    """Byte of each lane in shared memory, of copies; second byte of loads that are repeated."""
    count: Lanes = (1,) * LANES
    """Bytes of each lane of a copy before its zeros; 1 stands for all of them, 0 for none."""
    box: Box | None = None

    def __post_init__(self) -> None:
        for lanes in (self.first, self.second, self.count):
            assert len(lanes) == LANES, self.name


def rows(width: int, lanes: int, pitch: int, shift: int = 0) -> Lanes:
    """Return addresses of rows, `lanes` neighbours in each and `pitch` bytes apart."""
    return tuple(lane // lanes * pitch + lane % lanes * width + shift for lane in range(LANES))


def dense(width: int) -> Lanes:
    """Return addresses one behind the other."""
    return rows(width, LANES, 0)


def swizzled(width: int, bits: int) -> Lanes:
    """Return dense addresses of which the number of the chunk of 16 bytes is changed by that of the
    row of 128 bytes: 3 bits for the swizzle of 128 bytes, 2 for 64, 1 for 32."""
    mask = (1 << bits) - 1
    return tuple(each ^ (each >> 7 & mask) << 4 for each in dense(width))


def picked(lanes: Lanes, taken: Sequence[bool]) -> Lanes:
    """Return addresses of the lanes that take part, `OFF` for the others."""
    return tuple(each if part else OFF for each, part in zip(lanes, taken))


def masks() -> dict[str, tuple[bool, ...]]:
    """Return which lanes take part, by a name: all but the last ones, every other one, a few."""
    ends = (*range(1, 10), 12, 15, 16, 17, 20, 24, 25, 28, 30, 31)
    begins = (1, 2, 3, 4, 8, 16, 31)
    found = {f"{n} lanes": tuple(lane < n for lane in range(LANES)) for n in ends}
    found |= {f"from lane {n}": tuple(lane >= n for lane in range(LANES)) for n in begins}
    found["even lanes"] = tuple(lane % 2 == 0 for lane in range(LANES))
    found["odd lanes"] = tuple(lane % 2 == 1 for lane in range(LANES))
    for kept in (1, 2, 3):
        found[f"{kept} of 4 lanes"] = tuple(lane % 4 < kept for lane in range(LANES))
    for kept in (1, 3, 5, 6, 7):
        found[f"{kept} of 8 lanes"] = tuple(lane % 8 < kept for lane in range(LANES))
    drawn = random.Random(1)
    for number in range(4):
        found[f"drawn lanes {number}"] = tuple(drawn.random() < 0.6 for _ in range(LANES))
    return found


def permutations() -> dict[str, tuple[int, ...]]:
    """Return orders of the lanes: which chunk each one takes."""
    found = {f"lane ^ {n}": tuple(lane ^ n for lane in range(LANES)) for n in (1, 2, 4, 8, 16, 31)}
    found["pairs apart"] = tuple(lane // 2 + lane % 2 * 16 for lane in range(LANES))
    for number in range(5):
        order = list(range(LANES))
        random.Random(number + 10).shuffle(order)
        found[f"drawn order {number}"] = tuple(order)
    return found


def repeats() -> dict[str, tuple[int, ...]]:
    """Return which element each lane takes, where several lanes take one."""
    found = {"one for all": (0,) * LANES}
    for count in (2, 4, 8, 16):
        found[f"each for {count} neighbours"] = tuple(lane // count for lane in range(LANES))
        found[f"{count} in turns"] = tuple(lane % count for lane in range(LANES))
    found["lane and its double"] = tuple(max(lane - 16, lane % 16) for lane in range(LANES))
    for number in range(4):
        drawn = random.Random(number + 20)
        found[f"drawn among 8, {number}"] = tuple(drawn.randrange(8) for _ in range(LANES))
    return found


def drawn(width: int, reach: int, number: int) -> Lanes:
    """Return places drawn among the first `reach` bytes, each one that a lane may address."""
    source = random.Random(1000 * width + reach + number)
    return tuple(source.randrange(reach // width) * width for _ in range(LANES))
