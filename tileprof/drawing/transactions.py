"""Transactions of many requests at once: sectors of global memory, wavefronts of shared memory.

In: addresses of the lanes of each request.  Out: numbers for each request.  The rules are those of
`compiler.cuda.layouts.cost`, which counts one request; here a row is a request.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tileprof.compiler.cuda.target import BANKS, SECTOR, WORD

Ints = NDArray[np.int64]
LINE, CHUNK = 128, 16
"""Bytes of a line of the L1, and of the widest copy of a lane."""
_NONE = np.iinfo(np.int64).max
"""Sorts behind every address."""


def _different(values: Ints) -> NDArray[np.bool_]:
    """Return where a sorted row has a value for the first time; `_NONE` is no value."""
    first: NDArray[np.bool_] = values != _NONE
    first[:, 1:] &= values[:, 1:] != values[:, :-1]
    return first


def different(addresses: Ints) -> Ints:
    """Return how many different addresses the lanes of each request ask for; as `sectors`."""
    held = np.sort(np.where(addresses >= 0, addresses, _NONE), axis=1)
    return np.asarray(_different(held).sum(axis=1))


def sectors(addresses: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the sectors that each request touches and the fewest that its bytes need.

    addresses: bytes, int64[requests, 32], -1 for a lane that takes no part; width: bytes of a lane,
    which its address is a multiple of.
    """
    held = np.sort(np.where(addresses >= 0, addresses, _NONE), axis=1)
    lanes = _different(held).sum(axis=1)
    touched = _different(np.where(held == _NONE, _NONE, held // SECTOR)).sum(axis=1)
    return touched * max(width // SECTOR, 1), -(-lanes * width // SECTOR)


def copied_sectors(addresses: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the sectors of each request of cp.async, and how many of them the L1 counts as one
    with another sector of their line; as `sectors`.

    Copies of 16 bytes pass the L1 by.  They bring a sector once for each sector of shared memory to
    which a part of it goes, and two lanes with an even and an odd number fill one of these.  The L1
    looks up lines of 128 bytes for each sector of shared memory.  Narrower copies are like loads.
    """
    if width < CHUNK:
        touched = sectors(addresses, width)[0]
        return touched, np.zeros_like(touched)
    pair = np.arange(addresses.shape[1]) // (SECTOR // CHUNK)

    def apart(unit: int) -> Ints:
        held = np.where(addresses >= 0, addresses // unit * len(pair) + pair, _NONE)
        return np.asarray(_different(np.sort(held, axis=1)).sum(axis=1))

    brought = apart(SECTOR)
    return brought, brought - apart(LINE)


def is_split(addresses: Ints, width: int) -> NDArray[np.bool_]:
    """Return whether the rows of 128 bytes that lanes of cp.async fill in shared memory come from
    several lines, or from one in another order than a swizzle's; as `sectors`.

    Copies of a word are whole where lanes that take part follow each other in global memory.
    """
    if width <= WORD:
        begin = np.where(addresses >= 0, addresses - np.arange(addresses.shape[1]) * width, _NONE)
        least = begin.min(axis=1, keepdims=True)
        return np.asarray(((begin != _NONE) & (begin != least)).any(axis=1))
    lanes = LINE // width
    rows = addresses.reshape(len(addresses), -1, lanes)
    line, part = rows // LINE, rows % LINE // width ^ np.arange(lanes)
    alike = (line == line[..., :1]) & (part == part[..., :1]) & (rows >= 0)
    return ~np.asarray(alike.all(axis=(1, 2)))


def lone_wavefronts(addresses: Ints) -> Ints:
    """Return the wavefronts of atomics on words of shared memory: lanes at one bank take turns,
    those at one word, too; as `sectors`."""
    banks = np.where(addresses >= 0, addresses // WORD % BANKS, BANKS)
    counts = (banks[:, :, None] == np.arange(BANKS)).sum(axis=1)
    return np.asarray(counts.max(axis=1))


def wavefronts(addresses: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the wavefronts of each request and the fewest that its bytes need; as `sectors`."""
    taken, apart, needed = parted_wavefronts(addresses, width)
    return taken, np.minimum(apart, needed)


def parted_wavefronts(addresses: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """Return the wavefronts of each request, those that it would take without bank conflicts, and
    the fewest for the bytes of its lanes; as `sectors`.

    Words of 8 and 16 bytes are served in parts of a warp, so that few lanes of several parts take
    more wavefronts than their bytes need.
    """
    lanes = max(1, min(32, 32 * WORD // max(width, WORD)))
    parts = np.arange(0, max(width, WORD), WORD)
    rows, unit = len(addresses), min(2 * lanes, 32)
    # Two groups are one where neighbours ask for the same: the second one's number is the first's.
    group = np.broadcast_to(np.arange(32) // lanes, (rows, 32))
    if lanes < 32:
        alike = _alike(addresses.reshape(-1, unit)).reshape(rows, -1)
        group = group - (np.repeat(alike, unit, axis=1) & (group % 2 == 1))
    words = np.where(addresses[:, :, None] >= 0, (addresses[:, :, None] + parts) // WORD, _NONE)
    row, lane, part = np.nonzero(words != _NONE)
    word = words[row, lane, part]
    held = np.stack([row, group[row, lane], word])
    held = np.unique(held, axis=1) if len(row) else held
    places = (held[0] * (32 // lanes) + held[1]) * BANKS + held[2] % BANKS
    banks = np.bincount(places, minlength=rows * (32 // lanes) * BANKS)
    taken = banks.reshape(rows, 32 // lanes, BANKS).max(axis=2).sum(axis=1)
    parts_of = banks.reshape(rows, 32 // lanes, BANKS).sum(axis=2)
    active = (addresses >= 0).sum(axis=1) * max(width, WORD)
    return taken, (-(-parts_of // BANKS)).sum(axis=1), -(-active // (BANKS * WORD))


def _alike(addresses: Ints) -> NDArray[np.bool_]:
    """Return whether one lane alone asks, or both ask for the same, in each pair of neighbours, or
    in each pair of lanes two apart; of some groups of lanes."""
    found = np.zeros(len(addresses), np.bool_)
    for apart in (1, 2):
        other = addresses[:, np.arange(addresses.shape[1]) ^ apart]
        same = (addresses < 0) | (other < 0) | (addresses == other)
        found |= same.all(axis=1)
    return found
