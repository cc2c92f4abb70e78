"""Candidate rules for counters of single instructions, to be compared with what was counted.

In: a pattern.  Out: the number that a rule expects.  A rule that agrees with every pattern of a
body can become one of `tileprof.drawing.transactions`; those that are there now are called `page`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.access_patterns.accesses import (
    ATOMS,
    GLOBAL_ATOMICS,
    LOADS,
    LOCALS,
    SHARED_BODIES,
    STORES,
)
from benchmarks.access_patterns.copy_models import page_sectors
from benchmarks.access_patterns.patterns import LANES, OFF, Lanes, Pattern
from tileprof.drawing import engine, transactions

Model = Callable[[Pattern], float]
Models = dict[str, Model]
"""Models by what they say."""
WIDTHS = SHARED_BODIES | ATOMS | LOADS | STORES | GLOBAL_ATOMICS | LOCALS
"""Bytes of a lane, by body."""


def width_of(pattern: Pattern) -> int:
    """Return the bytes of a lane; 16 for matrices, whose lanes name rows."""
    return WIDTHS.get(pattern.body.removesuffix(" twice"), 16)


def _row(lanes: Lanes) -> transactions.Ints:
    return np.array([lanes], np.int64)


def _asked(pattern: Pattern) -> transactions.Ints:
    return _row(pattern.first)


def _wavefronts(pattern: Pattern) -> tuple[int, int]:
    taken, needed = transactions.wavefronts(_asked(pattern), width_of(pattern))
    return int(taken[0]), int(needed[0])


def _by_parts(pattern: Pattern, lanes: int) -> float:
    """Return the wavefronts where each `lanes` neighbours are served by themselves."""
    width, found = width_of(pattern), 0
    for start in range(0, LANES, lanes):
        part = [at for at in pattern.first[start : start + lanes] if at != OFF]
        words = {(at + byte) // 4 for at in part for byte in range(0, max(width, 4), 4)}
        found += max(Counter(word % 32 for word in words).values(), default=0)
    return found


def _matrices(pattern: Pattern, distinct: bool) -> float:
    """Return the wavefronts of matrices one by one; `distinct`: rows at one place count once."""
    number = int(pattern.body.split()[0][-1])
    found = 0
    for start in range(0, 8 * number, 8):
        rows: Sequence[int] = pattern.first[start : start + 8]
        found += max(Counter(at // 16 % 8 for at in (set(rows) if distinct else rows)).values())
    return found


def _most(pattern: Pattern, key: Callable[[int], int], distinct: bool = False) -> float:
    """Return the most lanes, or different words, that have one key."""
    lanes: Sequence[int] = [at for at in pattern.first if at != OFF]
    return max(Counter(key(at) for at in (set(lanes) if distinct else lanes)).values())


def _sectors(lanes: Lanes, width: int) -> float:
    return float(transactions.sectors(_row(lanes), width)[0][0])


def _both(pattern: Pattern) -> Iterator[Lanes]:
    """Yield the lanes of each of a pattern's loads or stores."""
    yield pattern.first
    if pattern.body.endswith("twice"):
        yield pattern.second


def _sectors_of_all(pattern: Pattern) -> float:
    return sum(_sectors(lanes, width_of(pattern)) for lanes in _both(pattern))


def _hits(pattern: Pattern) -> float:
    """Return the sectors that an earlier load of the pattern brought."""
    seen, found = set[int](), 0
    for lanes in _both(pattern):
        asked = {at // 32 for at in lanes if at != OFF}
        found, seen = found + len(asked & seen), seen | asked
    return found


def _local_lanes(pattern: Pattern) -> Lanes:
    """Return the bytes of local memory, in which a word of all lanes lies together."""
    return tuple(
        OFF if at == OFF else at // 4 * 4 * LANES + lane * 4
        for lane, at in enumerate(pattern.first)
    )


def _local_sectors(pattern: Pattern) -> float:
    words = {
        (at + word * 4 * LANES) // 32
        for at in _local_lanes(pattern) if at != OFF
        for word in range(width_of(pattern) // 4)
    }  # fmt: skip
    return len(words)


def _moved(pattern: Pattern) -> float:
    """Return the bytes that the page expects the copy engine to move; of plain bytes, all."""
    box = pattern.box
    if box is None:
        return pattern.count[0]
    # The page counts dimensions from the outermost one.
    start = np.array([box.start[::-1]], np.int64)
    strides = [*box.pitches[::-1], box.element]
    return float(
        engine.moved_bytes(
            start, box.box[::-1], box.shape[::-1], strides,
            box.swizzle or box.box[0] * box.element, stored=not pattern.body.startswith("tma load"),
        )
    )  # fmt: skip


def _inside(pattern: Pattern) -> float:
    """Return the bytes of a box inside of its tensor."""
    if pattern.box is None:
        return pattern.count[0]
    box, found = pattern.box, pattern.box.element
    for start, extent, whole in zip(box.start, box.box, box.shape):
        found *= max(min(start + extent, whole) - max(start, 0), 0)
    return found


_ATOMIC: Models = {
    "page: lanes at a bank": lambda p: float(transactions.lone_wavefronts(_asked(p))[0]),
    "page: words at a bank": lambda p: _wavefronts(p)[0],
    "lanes at a word": lambda p: _most(p, lambda at: at),
    "words of 8 bytes at a bank": lambda p: _most(p, lambda at: at // 8 % 16, True),
    "lanes at a bank of 8 bytes": lambda p: _most(p, lambda at: at // 8 % 16),
    "2 x lanes at a bank": lambda p: 2 * _most(p, lambda at: at // 4 % 32),
    "2 x words at a bank": lambda p: 2 * _wavefronts(p)[0],
    "1": lambda p: 1,
    "none": lambda p: 0,
}
_SHARED: Models = {
    "page": lambda p: _wavefronts(p)[0],
    "16 lanes by themselves": lambda p: _by_parts(p, 16),
    "8 lanes by themselves": lambda p: _by_parts(p, 8),
    "all lanes": lambda p: _by_parts(p, 32),
    "none": lambda p: 0,
}
_SHARED_CONFLICTS: Models = {
    "page": lambda p: _wavefronts(p)[0] - _wavefronts(p)[1],
    "wavefronts without the first": lambda p: _wavefronts(p)[0] - 1,
    "wavefronts beyond a lane's bytes":
        lambda p: _wavefronts(p)[0] - min(_wavefronts(p)[0], max(width_of(p) // 4, 1)),
    "none": lambda p: 0,
}  # fmt: skip
_MATRIX: Models = {
    "page: rows at a bank": lambda p: _matrices(p, True),
    "rows at a bank, also the same": lambda p: _matrices(p, False),
    "none": lambda p: 0,
}
_SECTORS: Models = {
    "page": _sectors_of_all,
    "lanes": lambda p: sum(at != OFF for at in p.first),
    "different addresses": lambda p: len({*p.first} - {OFF}),
    "one for each lane and sector":
        lambda p: sum(max(width_of(p) // 32, 1) for at in p.first if at != OFF),
    "lines": lambda p: sum(len({at // 128 for at in each} - {OFF // 128}) for each in _both(p)),
    "none": lambda p: 0,
}  # fmt: skip
_BYTES: Models = {
    "page": lambda p: float(transactions.different(_asked(p))[0]) * width_of(p),
    "lanes": lambda p: sum(at != OFF for at in p.first) * width_of(p),
    "none": lambda p: 0,
}
_BOXES: Models = {
    "page": _moved,
    "bytes inside": _inside,
    "whole box": lambda p: p.box.bytes if p.box else p.count[0],
    "none": lambda p: 0,
}


def _per_32(models: Models) -> Models:
    """Return the same in sectors."""

    def made(model: Model) -> Model:
        return lambda pattern: model(pattern) / 32

    return {name: made(model) for name, model in models.items()}


def models_of(group: str, counter: str) -> Models:
    """Return the candidates for a counter of a group of patterns, without those of the wavefronts
    of copies, which `copy_models` makes; none for a counter that only informs."""
    found: Models = {}
    match group, counter.partition(",")[0].split()[0]:
        case "copies", "sectors" if counter == "sectors of loads":
            found = {"page": lambda p: page_sectors(p)[0] - page_sectors(p)[1]}
        case "copies", "sectors" if counter in ("sectors", "sectors brought"):
            found = {"page": lambda p: page_sectors(p)[0]}
        case "shared atomics", "wavefronts" | "tries" | "instructions":
            found = _ATOMIC
        case "shared atomics", "conflicts":
            found = _ATOMIC | {
                "lanes at a bank, without the first":
                    lambda p: _most(p, lambda at: at // 4 % 32) - 1,
                "words at a bank, without the first": lambda p: _wavefronts(p)[0] - 1,
            }  # fmt: skip
        case "matrices", "wavefronts":
            found = _MATRIX
        case "matrices", "conflicts":
            found = _MATRIX | {
                "page: rows at a bank, without the first of each":
                    lambda p: _matrices(p, True) - int(p.body.split()[0][-1]),
            }  # fmt: skip
        case "shared", "wavefronts":
            found = _SHARED
        case "shared", "conflicts":
            found = _SHARED_CONFLICTS
        case "global", "sectors":
            new = {"not seen before": lambda p: _sectors_of_all(p) - _hits(p)}
            found = _SECTORS | {"seen before": _hits} | new
        case "global", "bytes":
            found = _BYTES
        case "local", "sectors":
            found = {"a word of all lanes together": _local_sectors, "none": lambda p: 0}
        case "boxes", "bytes":
            found = _BOXES
        case "boxes", "sectors":
            found = _per_32(_BOXES)
        case _, "requests":
            found = {"1": lambda p: 1, "2": lambda p: 2, "none": lambda p: 0}
    return found
