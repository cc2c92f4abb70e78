"""Transactions of many requests at once: sectors of global memory, wavefronts of shared memory.

In: addresses of the lanes of each request.  Out: numbers for each request.  The rules are those of
`compiler.cuda.layouts.cost`, which counts one request; here a row is a request.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tileprof.compiler.cuda.target import BANKS, SECTOR, WORD

Ints = NDArray[np.int64]
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


def wavefronts(addresses: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the wavefronts of each request and the fewest that its bytes need; as `sectors`."""
    lanes = max(1, min(32, 32 * WORD // max(width, WORD)))
    parts = np.arange(0, max(width, WORD), WORD)
    count = len(addresses) * (32 // lanes)
    groups = addresses.reshape(count, lanes)
    bytes_ = groups[:, :, None] + parts
    words = np.where(groups[:, :, None] >= 0, bytes_ // WORD, _NONE).reshape(count, -1)
    words.sort(axis=1)
    row, column = np.nonzero(_different(words))
    places = row * BANKS + words[row, column] % BANKS
    banks = np.bincount(places, minlength=count * BANKS).reshape(count, BANKS)
    taken, needed = banks.max(axis=1), -(-banks.sum(axis=1) // BANKS)
    per_request = len(addresses), 32 // lanes
    return taken.reshape(per_request).sum(axis=1), needed.reshape(per_request).sum(axis=1)
