"""Candidate rules for copies by cp.async: which chunks share a wavefront of shared memory.

In: a pattern.  Out: numbers by rule.  A rule joins chunks that come from one place, go to one
place, are of neighbouring lanes or are moved alike; the zeros of lanes that copy nothing add some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from benchmarks.access_patterns.copies import BODIES
from benchmarks.access_patterns.patterns import LANES, OFF, Pattern
from tileprof.drawing import transactions
from tileprof.drawing.transactions import Ints

Chunk = tuple[int, int, int]
"""A lane that copies, its byte of global memory and its byte of shared memory."""


def width_of(pattern: Pattern) -> int:
    """Return the bytes that a lane of a copy fills."""
    return BODIES[pattern.body.removesuffix(" by number")]


_FROM: Mapping[str, Callable[[Chunk], int]] = {
    "": lambda chunk: 0,
    "line": lambda chunk: chunk[1] // 128,
    "half line": lambda chunk: chunk[1] // 64,
    "sector": lambda chunk: chunk[1] // 32,
    "two lines": lambda chunk: chunk[1] // 256,
}
_TO: Mapping[str, Callable[[Chunk], int]] = {
    "": lambda chunk: 0,
    "row": lambda chunk: chunk[2] // 128,
    "half row": lambda chunk: chunk[2] // 64,
    "shared sector": lambda chunk: chunk[2] // 32,
}
_BY: Mapping[str, Callable[[Chunk], int]] = {
    "": lambda chunk: 0,
    "16 lanes": lambda chunk: chunk[0] // 16,
    "8 lanes": lambda chunk: chunk[0] // 8,
    "2 lanes": lambda chunk: chunk[0] // 2,
}
_MOVED: Mapping[str, Callable[[Chunk], int]] = {
    "": lambda chunk: 0,
    "xor of chunks": lambda chunk: (chunk[1] ^ chunk[2]) // 16 % 8,
    "xor within sectors": lambda chunk: (chunk[1] ^ chunk[2]) // 16 % 2,
    "xor of sectors": lambda chunk: (chunk[1] ^ chunk[2]) // 32 % 4,
    "xor within half lines": lambda chunk: (chunk[1] ^ chunk[2]) // 16 % 4,
    "rotation": lambda chunk: (chunk[1] - chunk[2]) // 16 % 8,
    "rotation of sectors": lambda chunk: (chunk[1] // 32 - chunk[2] // 32) % 4,
    "odd source": lambda chunk: chunk[1] // 16 % 2,
}
_ZEROS: Mapping[str, Callable[[Sequence[Chunk], int], int]] = {
    "zeros are free": lambda zeros, width: 0,
    "1 for zeros": lambda zeros, width: int(bool(zeros)),
    "4 for zeros": lambda zeros, width: 4 * bool(zeros),
    "zeros by 128 bytes": lambda zeros, width: -(-len(zeros) * width // 128),
    "zeros by row": lambda zeros, width: len({each[2] // 128 for each in zeros}),
    "zeros by shared sector": lambda zeros, width: len({each[2] // 32 for each in zeros}),
    "zeros by 8 lanes": lambda zeros, width: len({each[0] // 8 for each in zeros}),
    "zeros by 4 lanes": lambda zeros, width: len({each[0] // 4 for each in zeros}),
    "zeros by 16 lanes": lambda zeros, width: len({each[0] // 16 for each in zeros}),
}


def copied_and_zeros(pattern: Pattern) -> tuple[list[Chunk], list[Chunk]]:
    """Return the lanes that copy, and those that fill with zeros."""
    taken = [lane for lane in range(LANES) if pattern.first[lane] != OFF]
    chunks = [(lane, pattern.first[lane], pattern.second[lane]) for lane in taken]
    valid = [pattern.count[lane] > 0 for lane in taken]
    return (
        [chunk for chunk, copied in zip(chunks, valid) if copied],
        [chunk for chunk, copied in zip(chunks, valid) if not copied],
    )


RULES = tuple(product(_FROM, _TO, _BY, _MOVED))
"""Names of what chunks of a group have in common."""


def copy_parts(pattern: Pattern) -> dict[str, tuple[int, int]]:
    """Return by a rule of how chunks share a wavefront how many groups there are, and how many
    wavefronts where each group's chunks at one bank take turns."""
    copied, _ = copied_and_zeros(pattern)
    groups, turns = _counted(copied, width_of(pattern))
    names = (" + ".join(filter(None, rule)) or "warp" for rule in RULES)
    return dict(zip(names, zip(groups.tolist(), turns.tolist())))


def _counted(chunks: Sequence[Chunk], width: int) -> tuple[Ints, Ints]:
    """Return the groups of chunks by each rule, and their turns at banks: int64[rules] both.

    Groups of all rules are counted side by side: each row has the chunks in the order of their
    group, then bank, then place, so that neighbours tell where one begins.
    """
    groups, turns = np.zeros(len(RULES), np.int64), np.zeros(len(RULES), np.int64)
    if not chunks:
        return groups, turns
    parts = [
        _numbered([[rule(chunk) for chunk in chunks] for rule in rules.values()])
        for rules in (_FROM, _TO, _BY, _MOVED)
    ]
    chosen = np.array([*product(*(range(len(each)) for each in parts))])
    group = np.zeros((len(RULES), len(chunks)), np.int64)
    for kind, numbers in enumerate(parts):
        group = group * LANES + numbers[chosen[:, kind]]
    (place,) = _numbered([[chunk[2] for chunk in chunks]])
    bank = np.array([chunk[2] % 128 // width for chunk in chunks])
    order = np.sort((group * LANES + bank) * LANES + place, axis=1)
    waiting, most, before = turns.copy(), turns.copy(), np.full(len(RULES), -1)
    for each in order.T:
        is_group = each // LANES**2 != before // LANES**2
        is_bank = each // LANES != before // LANES
        turns += np.where(is_group, most, 0)
        groups += is_group
        waiting = np.where(is_bank, 1, waiting + (each != before))
        most = np.where(is_group, waiting, np.maximum(most, waiting))
        before = each
    return groups, turns + most


def _numbered(rows: Sequence[Sequence[int]]) -> Ints:
    """Return in place of each value its number among the different ones of its row."""
    return np.array([np.unique(row, return_inverse=True)[1] for row in rows], np.int64)


def copy_zeros(pattern: Pattern) -> dict[str, int]:
    """Return by a rule how many wavefronts the zeros of a pattern take."""
    _, zeros = copied_and_zeros(pattern)
    return {name: rule(zeros, width_of(pattern)) for name, rule in _ZEROS.items()}


def page_wavefronts(pattern: Pattern) -> float:
    """Return what the page would show where it knew the rule: turns at banks of shared memory."""
    taken = tuple(to if at != OFF else OFF for at, to in zip(pattern.first, pattern.second))
    return float(transactions.wavefronts(np.array([taken], np.int64), width_of(pattern))[0][0])


def page_sectors(pattern: Pattern) -> tuple[int, int]:
    """Return the sectors of a copy, and those that the L1 counts as one with another."""
    copied = tuple(at if count else OFF for at, count in zip(pattern.first, pattern.count))
    brought, joined = transactions.copied_sectors(np.array([copied], np.int64), width_of(pattern))
    return int(brought[0]), int(joined[0])
