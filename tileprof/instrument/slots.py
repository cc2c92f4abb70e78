"""Records of the warps of a GPU: the arena in device memory that they are written to.

A warp that records claims a slot of the arena, writes a record at each mark, and says that the slot
is ready.  Emitted code does that through the text of `cuda_text()`; the fields are those of
`slot_layout.py`.  The host makes an arena with `new_head`, gives each launch a `recording`, and
reads.

    arena   head, 64 bytes
            `slots` slot heads of 64 bytes each
            from byte `records_at` on: `slots` times `capacity` records of 8 bytes each

The claim with ticket t has slot t % slots.  Its records lie at a multiple of their size, so that
the address of a record is a bitwise or; the arena itself must lie at such a multiple too.

How a host reads while kernels write
1. copy the first `heads_bytes(slots)` bytes: `read` gives the arena, `tickets()` what is ready;
2. then, in another copy, the bytes of `spans(tickets)`: a `ready` that was seen says that all of
   its slot had been written; `collect` joins both into `Slots`;
3. then write `tickets.stop` to `released` (byte `RELEASED_AT`), on the same stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tileprof.errors import InternalError, ProfileFileError

from .slot_layout import ARENA, RECORD, RECORDING, RELEASED_AT, SLOT, VERSION, cuda_text

__all__ = [
    "ARENA",
    "RECORD",
    "RECORDING",
    "RELEASED_AT",
    "ROUND",
    "SLOT",
    "VERSION",
    "Arena",
    "Slots",
    "arena_bytes",
    "cuda_text",
    "heads_bytes",
    "new_head",
    "read",
    "recording",
]

ROUND: Final = 0xFFFFFFFF
"""`limit` of a recording whose full slots wrap around and keep the newest records."""
ALL_WARPS: Final = 0xFFFFFFFF

SlotHeads = NDArray[Any]
"""A one-dimensional array of `SLOT`."""
Records = NDArray[Any]
"""A one-dimensional array of `RECORD`."""


def heads_bytes(slots: int) -> int:
    """Return the bytes of an arena before its records: its head and the slots' heads."""
    return ARENA.itemsize + slots * SLOT.itemsize


def arena_bytes(slots: int, capacity: int) -> int:
    """Return the bytes of an arena; it must lie at a multiple of `8 * capacity`."""
    return _records_at(slots, capacity) + slots * capacity * RECORD.itemsize


def _records_at(slots: int, capacity: int) -> int:
    size = capacity * RECORD.itemsize
    return -(-heads_bytes(slots) // size) * size


def new_head(slots: int, capacity: int) -> bytes:
    """Return the first bytes of a new arena, of which all others are 0.  Both numbers are powers of
    two; InternalError where they are not or where the arena would reach 4 GiB."""
    powers = all(n > 0 and n & (n - 1) == 0 for n in (slots, capacity))
    if not powers or capacity < 8 or arena_bytes(slots, capacity) >= 1 << 32:
        raise InternalError(f"no arena has {slots:,} slots of {capacity:,} records")
    head = np.zeros(1, ARENA)
    head["slots"], head["capacity"], head["version"] = slots, capacity, VERSION
    head["records_at"] = _records_at(slots, capacity)
    return head.tobytes()


def recording(
    arena: int,
    capacity: int,
    *,
    tag: int = 0,
    every: int = 1,
    first: int = 0,
    warps: int = ALL_WARPS,
    limit: int | None = None,
    turns: int = 0,
) -> bytes:
    """Return the argument of a launch: 40 bytes; the fields are those of `RECORDING`.

    `limit` None is all of a slot, `ROUND` wraps around, 0 keeps only when warps began and ended.
    Of each `every` blocks, a power of two, the one with number `first` records.  InternalError
    where the arena does not lie at a multiple of its slots' records.
    """
    size = capacity * RECORD.itemsize
    if arena % size:
        raise InternalError(f"an arena for {capacity:,} records a slot lies at {arena:#x}")
    made = np.zeros(1, RECORDING)
    kept = capacity if limit is None else limit
    made[0] = (arena, tag, every - 1, first, warps, kept, size - 1, turns)
    return made.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Records that some warps wrote, in the order of their claims."""

    heads: SlotHeads
    records: Records
    """Records of all slots, one slot after the other, each from oldest to newest."""

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Indices at which the records of each slot begin, then the number of all records."""
        kept: NDArray[np.uint32] = self.heads["kept"]
        return np.append(0, np.cumsum(kept, dtype=np.int64))

    @property
    def length(self) -> NDArray[np.float64]:
        """Cycles from the begin of each warp to its end."""
        return cycles_of_heads(self.heads)

    @property
    def lacks(self) -> NDArray[np.bool_]:
        """Whether some records that the warp made are not there."""
        wanted: NDArray[np.uint32] = self.heads["wanted"]
        kept: NDArray[np.uint32] = self.heads["kept"]
        return wanted > kept

    @property
    def goes_round(self) -> NDArray[np.bool_]:
        """Whether the newest records are there where some are not, else the oldest."""
        flags: NDArray[np.uint16] = self.heads["flags"]
        return flags & 1 > 0

    @property
    def lost(self) -> int:
        """Records that the warps made and that are not there."""
        wanted: NDArray[np.uint32] = self.heads["wanted"]
        kept: NDArray[np.uint32] = self.heads["kept"]
        return int((wanted.astype(np.int64) - kept).sum())

    def take(self, chosen: NDArray[np.integer]) -> Slots:
        """Return some of the slots, by their numbers here."""
        heads = self.heads[chosen]
        return Slots(heads, self.records[_ranges(self.starts[chosen], heads["kept"])])

    def by_tag(self) -> dict[int, Slots]:
        """Return the slots of each launch."""
        tags = self.heads["tag"]
        if len(tags) and (tags == tags[0]).all():
            return {int(tags[0]): self}
        return {tag: self.take(np.flatnonzero(tags == tag)) for tag in np.unique(tags).tolist()}

    @classmethod
    def join(cls, parts: Sequence[Slots]) -> Slots:
        """Return the slots of several readings as one."""
        heads = [part.heads for part in parts] or [np.empty(0, SLOT)]
        records = [part.records for part in parts] or [np.empty(0, RECORD)]
        return cls(np.concatenate(heads), np.concatenate(records))


def _ranges(starts: NDArray[np.int64], counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers `starts[i]` to `starts[i] + counts[i] - 1`, for each i in turn."""
    ends = np.cumsum(counts, dtype=np.int64)
    shift = starts - (ends - counts)
    return np.repeat(shift, counts) + np.arange(ends[-1] if len(ends) else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """An arena as it was when its heads were copied."""

    raw: NDArray[np.uint8]
    """At least the heads."""
    heads: SlotHeads
    claimed: int
    released: int
    lost: int
    """Claims that were refused, since the arena was made."""
    capacity: int
    records_at: int

    def tickets(self) -> range:
        """Return the slots that can be read now: the ready ones before the first that is not."""
        waiting = np.arange(self.released, self.claimed, dtype=np.uint64)
        ready = self.heads["ready"][waiting % np.uint64(len(self.heads))]
        late = np.flatnonzero(ready != (waiting + np.uint64(1)).astype(np.uint32))
        return range(self.released, self.released + int(late[0]) if len(late) else self.claimed)

    def spans(self, tickets: range) -> list[tuple[int, int]]:
        """Return offset and size in bytes of the records of these slots: at most two parts."""
        if not tickets:
            return []
        size, slots = self.capacity * RECORD.itemsize, len(self.heads)
        first = tickets.start % slots
        before = min(len(tickets), slots - first)
        parts = [(first, before), (0, len(tickets) - before)]
        return [(self.records_at + at * size, n * size) for at, n in parts if n]

    def collect(self, tickets: range, parts: Sequence[bytes | NDArray[np.uint8]]) -> Slots:
        """Return the slots of these tickets, whose records' bytes are `parts`, those of `spans`.

        ProfileFileError where a head states more records than a slot has.
        """
        place = np.arange(tickets.start, tickets.stop, dtype=np.uint64) % np.uint64(len(self.heads))
        heads = self.heads[place]
        if (kept := heads["kept"].max(initial=0)) > self.capacity:
            raise _damaged(f"a slot for {self.capacity:,} records claims {kept:,}")
        # Each part by itself: to put them together takes longer than the few records of most slots.
        there = [np.frombuffer(part, RECORD) for part in parts]
        ends = np.cumsum([len(part) for part in there]) // self.capacity
        if (rows := sum(map(len, there))) != len(heads) * self.capacity:
            raise _damaged(f"{len(heads):,} slots of records were to come, not {rows:,}")
        kept = np.split(heads["kept"], ends[:-1])
        found = [
            part[_ranges(np.arange(len(counts)) * self.capacity, counts)]
            for part, counts in zip(there, kept)
        ]
        slots = Slots(heads, np.concatenate([np.empty(0, RECORD), *found]))
        _turn(slots, self.capacity)
        return slots

    def slots(self) -> Slots:
        """Return all slots that are ready, of an arena that was copied whole."""
        tickets = self.tickets()
        return self.collect(tickets, [self.raw[at : at + n] for at, n in self.spans(tickets)])


def cycles_of_heads(heads: SlotHeads) -> NDArray[np.float64]:
    """Return the cycles from the begin of each warp to its end."""
    begin: NDArray[np.uint64] = heads["begin_clock"]
    end: NDArray[np.uint64] = heads["end_clock"]
    return (end - begin).astype(np.float64)


def _turn(slots: Slots, capacity: int) -> None:
    """Put the oldest records first where a slot went round."""
    starts, goes_round = slots.starts, slots.goes_round
    wanted: NDArray[np.uint32] = slots.heads["wanted"]
    for i in np.flatnonzero(goes_round & (wanted > capacity)).tolist():
        mine = slots.records[starts[i] : starts[i + 1]]
        mine[:] = np.roll(mine, -(int(wanted[i]) % capacity))


def read(raw: bytes | NDArray[np.uint8]) -> Arena:
    """Return an arena from its bytes, whole or heads alone; ProfileFileError for other bytes."""
    held = np.frombuffer(raw, np.uint8)
    if len(held) < ARENA.itemsize:
        raise _damaged(f"its head has {ARENA.itemsize} bytes, {len(held)} are there")
    head = held[: ARENA.itemsize].view(ARENA)[0]
    if int(head["version"]) != VERSION:
        raise _damaged(f"it is of version {int(head['version'])}, not {VERSION}")
    slots, end = int(head["slots"]), heads_bytes(int(head["slots"]))
    if len(held) < end:
        raise _damaged(f"the heads of {slots:,} slots have {end:,} bytes, {len(held):,} are there")
    claimed, released = int(head["claimed"]), int(head["released"])
    if not 0 <= claimed - released <= slots:
        raise _damaged(f"{claimed:,} slots were claimed and {released:,} released, of {slots:,}")
    numbers = (int(head[name]) for name in ("lost", "capacity", "records_at"))
    heads = held[ARENA.itemsize : end].view(SLOT)
    return Arena(held, heads, claimed, released, *numbers)


def _damaged(what: str) -> ProfileFileError:
    return ProfileFileError(
        f"these bytes are no arena of records: {what}",
        hint="Copy the heads first, then the slots that are ready, from the arena of this process.",
    )
