"""Candidate rules for copies by cp.async: which chunks share a wavefront of shared memory.

In: a pattern.  Out: numbers by rule.  A rule joins chunks that come from one place, go to one
place, are of neighbouring lanes or are moved alike; the zeros of lanes that copy nothing add some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from benchmarks.access_patterns.copies import BODIES
from benchmarks.access_patterns.patterns import LANES, OFF, Pattern
from tileprof.drawing import transactions

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


def copy_parts(pattern: Pattern) -> dict[str, tuple[int, int]]:
    """Return by a rule of how chunks share a wavefront how many groups there are, and how many
    wavefronts where each group's chunks at one bank take turns."""
    copied, _ = copied_and_zeros(pattern)
    width = width_of(pattern)
    keys = {
        name: [rule(chunk) for chunk in copied]
        for rules in (_FROM, _TO, _BY, _MOVED)
        for name, rule in rules.items()
    }
    found = {}
    for names in ((a, b, c, d) for a in _FROM for b in _TO for c in _BY for d in _MOVED):
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for chunk, *key in zip(copied, *(keys[name] for name in names)):
            groups[tuple(key)].append(chunk[2])
        turns = sum(_turns(set(places), width) for places in groups.values())
        found[" + ".join(filter(None, names)) or "warp"] = len(groups), turns
    return found


def _turns(places: set[int], width: int) -> int:
    """Return the most places that share a bank, where each takes `width` bytes of a row of 128."""
    return max(Counter(place % 128 // width for place in places).values())


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
