"""Cost of an access, counted by evaluating layouts: bank conflicts and memory sectors.

Shared memory has 32 banks of 4 bytes.  A request of a warp is served in wavefronts: accesses of 8
bytes a lane by half a warp, of 16 bytes by a quarter; lanes that read one word share it.  Two such
parts, of one half where they are quarters, are served together where of each two lanes that are
neighbours, or of each two that are two apart, one takes no part or both ask for the same.  On an
H200 (2026-11-29) 16 bytes that all lanes share take 2 wavefronts, as do those of 4 lanes in 4 rows.
Global memory moves in sectors of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.compiler.cuda.target import BANKS, SECTOR, WORD
from tileprof.compiler.cuda.tuning import REQUEST_CYCLES


def wavefronts(addresses: npt.NDArray[np.int64], width: int) -> tuple[int, int]:
    """Wavefronts of one warp's request and the fewest that its bytes need.

    addresses: bytes, int64[32], -1 for a lane that takes no part; width: bytes a lane.
    """
    per_group = max(1, min(32, 32 * WORD // max(width, WORD)))
    together = min(2 * per_group, 32)
    offsets = np.arange(0, max(width, WORD), WORD)
    count = ideal = 0
    for start in range(0, 32, together):
        lanes = addresses[start : start + together]
        groups = [lanes] if _served_at_once(lanes) else np.split(lanes, together // per_group)
        for group in groups:
            words = np.unique((group[group >= 0][:, None] + offsets[None, :]) // WORD)
            count += int(np.bincount(words % BANKS, minlength=BANKS).max())
            ideal += -(-words.size // BANKS)
    # Lanes that are left out leave room, which their group alone does not show.
    asked = int((addresses >= 0).sum()) * max(width, WORD)
    return count, min(ideal, -(-asked // (BANKS * WORD)))


def _served_at_once(lanes: npt.NDArray[np.int64]) -> bool:
    """Whether two parts of a warp are served together."""
    others = [lanes[np.arange(lanes.size) ^ apart] for apart in (1, 2)]
    return any(bool(((lanes < 0) | (each < 0) | (lanes == each)).all()) for each in others)


def sectors(addresses: npt.NDArray[np.int64], width: int) -> tuple[int, int]:
    """Sectors that one warp's request of global memory touches, and the fewest possible."""
    active = addresses[addresses >= 0]
    if not active.size:
        return 0, 0
    touched = np.unique(
        np.concatenate([(active + o) // SECTOR for o in range(0, width, min(width, SECTOR))])
    )
    unique = np.unique(active).size * width
    return int(touched.size), -(-unique // SECTOR)


@dataclass(frozen=True, slots=True)
class Accesses:
    """Requests of a warp, summed."""

    requests: int
    transactions: int
    ideal: int

    @property
    def ways(self) -> float:
        """Transactions for each that is needed; 1 is free of conflicts, or coalesced."""
        return self.transactions / max(self.ideal, 1)

    @property
    def cost(self) -> float:
        """Cycles in shared memory: each request takes a place in the queue, a wavefront a cycle."""
        return self.transactions + REQUEST_CYCLES * self.requests
