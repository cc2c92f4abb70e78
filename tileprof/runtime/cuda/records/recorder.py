"""Records that kernels on GPUs write about their inside: who may write, who reads, who is notified.

In: at a launch of a kernel with marks, who listens, and under which token.  Out: the launch's
argument of 40 bytes; later, from a thread of its own or when a profile is made, times of sites for
the late listener of that token.

Nothing waits on the way of a launch.  A launch writes only while the arena has room, so that what
is written is whole: launches beyond that are reported as skipped.  While a program runs records are
only copied to the host; they are decoded when somebody asks, because that would hold up Python.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from tileprof.errors import TileprofError
from tileprof.instrument.slots import ROUND, Slots
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.waiting import PATIENCE_S, wait_for
from tileprof.runtime.record_options import RecordOptions

from .budget import one_in
from .calibration import Calibration, RecordCost, measure
from .capacity import Room
from .launch_ids import NOTHING, Source, Tag, is_kept
from .undecoded import Undecoded, parts_of

BLOCKS = 8
"""Blocks of a launch that record."""
BLOCKS_OF_REPLAYS = 2
"""Blocks of a launch in a graph that record, at least."""
COMPARING_S = 3.0
"""Seconds that finding out the marks' cost may take."""
_DECODED_AT_ONCE = 1 << 14
"""Records that are decoded together where there are more, in 1.3 to 1.6 MB.  Twice as many take
twice the memory and no less time a record, half as many half and 1.3 to 1.5 times the time
(`benchmarks/decoding.py`'s warps, on a CPU core)."""


class Records:
    """All records of one device; `notice` is called when a launch will write some, with whether
    there is not much room left."""

    def __init__(
        self,
        device: CudaDevice,
        notice: Callable[[bool], None],
        cost: Callable[[], RecordCost] | None = None,
    ) -> None:
        self.device = device
        self._notice = notice
        self._cost = cost or Calibration(device, measure).cost
        """Function that gives the cost of a record; called only when some are decoded."""
        self.rooms: dict[tuple[int, int | None], Room] = {}
        """Rooms, keyed by (records of a warp, memory for all): the options of a recording."""
        self._options: RecordOptions | None = None
        self._room: Room | None = None
        """Room for the current options."""
        self._tags: dict[int, Tag] = {}
        self._numbered = 0
        self._changed: set[Tag] = set()
        self._undecoded = Undecoded()
        self._late: hooks.LateListener | None = None
        """The last that was heard of."""
        self._comparisons: set[Callable[[], None]] = set()
        """Comparisons of kernels to be made before a recording ends."""
        self._failure = ""
        self._lock = threading.RLock()
        """Lock of what launches read, held only for the read. A signal may end the recording while
        a launch has it."""
        self._reading = threading.RLock()

    # -- at a launch

    def argument(
        self,
        source: Source,
        late: hooks.LateListener,
        token: int,
        blocks: int,
        *,
        captured: bool = False,
    ) -> bytes:
        """Return the argument of a launch of so many blocks; `captured`: it goes into a graph."""
        options = hooks.record_options
        room = self._room
        if room is None or options is not self._options:
            room = self._choose(options, late)
        with self._lock:
            begins = late is not self._late
            if begins:
                self._late = late
                self._forget()
            tag = source.tags.get((late, token, captured)) or self._tag(
                source, late, token, captured
            )
            self._changed.add(tag)
            number = -1 if captured else source.number(late)
            every = _every(options, blocks, captured)
            first = tag.first(every)
            warps, mask = source.warps(options)
            slots = -(-(blocks - first) // every) * warps
            if not slots:
                return NOTHING
            granted = captured or room.budget.grants(tag.share, slots)
            if room.arena is None or self._failure or not granted:
                tag.skipped += 1
                return NOTHING
            shown = captured or is_kept(number)
            rounds = options.goes_round(tag.count, shown=shown)
            limit = ROUND if rounds else options.records
            tag.count += 1
            if not captured:
                if shown:
                    tag = self._alone(tag, number)
                tag.issued += 1
                tag.slots, tag.awaited = slots, tag.awaited + slots
            arena = room.arena
            thinning = arena.thinning(tag.number) if captured else 0
            made = tag.argument(arena.address, arena.capacity, every, first, mask, limit, thinning)
        # What was written since the recording before is in the way.
        self._notice(begins or room.budget.is_short)
        return made

    def _choose(self, options: RecordOptions, late: hooks.LateListener) -> Room:
        """The room that options ask for; made where there is none of that size."""
        with self._reading:
            size = options.records, options.memory
            room = self.rooms.get(size)
            if room is None:
                room = Room(self.device, *size)
                self.rooms = {**self.rooms, size: room}
                if room.failure:
                    late.lost(f"{self._name} has no memory for records: {room.failure}")
            self._options, self._room = options, room
            return room

    def _forget(self) -> None:
        """Drop what nobody will ask for."""
        for old in [t for t in self._tags.values() if t.late.closed]:
            del self._tags[old.number]
            old.source.tags.pop((old.late, old.token, old.captured), None)
            self._changed.discard(old)
            if not old.source.tags:
                old.source.observed.clear()

    def _tag(self, source: Source, late: hooks.LateListener, token: int, captured: bool) -> Tag:
        self._numbered = self._numbered % 0xFFFFFFFF + 1
        tag = Tag(self._numbered, source, late, token, captured)
        if source.compare is not None:
            self._comparisons.add(source.compare)
            source.compare = None
        self._tags[tag.number] = source.tags[late, token, captured] = tag
        return tag

    def _alone(self, tag: Tag, launch: int) -> Tag:
        """A number for one launch alone: its slots are to be distinguished from those of others."""
        self._numbered = self._numbered % 0xFFFFFFFF + 1
        made = Tag(self._numbered, tag.source, tag.late, tag.token, captured=False)
        made.launch, made.issued_ns = launch, time.perf_counter_ns()
        self._tags[made.number] = made
        self._changed.add(made)
        return made

    # -- reading

    @property
    def is_busy(self) -> bool:
        """Whether there may be something to read soon."""
        if self._failure:
            return False
        rooms = [room for room in self.rooms.values() if room.arena is not None]
        with self._lock:
            replays = any(t.captured and not t.late.closed for t in self._tags.values())
        return bool(rooms) and (replays or any(room.budget.outstanding for room in rooms))

    def read(self) -> None:
        """Copy what is ready to the host, so that its room is free again."""
        with self._reading:
            if self._failure:
                return
            for room in self.rooms.values():
                try:
                    taken, refused = room.take()
                except TileprofError as error:
                    self._fail(error)
                    return
                for each in taken:
                    self._keep(each)
                if refused:
                    where = f"the {room.bytes >> 20} MB of {self._name}"
                    self._say(f"warps found no room for records in {where}", refused)

    def _keep(self, slots: Slots) -> None:
        """Let slots wait until somebody asks, if there is room for them."""
        if not self._undecoded.fits(slots):
            self.report()
        # After that: what is shown of a launch is made once none of its slots is awaited.
        self._give_back(slots)
        if self._undecoded.fits(slots):
            self._undecoded.add(slots)
        else:
            changed = self._decode_all(parts_of(slots, _DECODED_AT_ONCE))
            with self._lock:
                self._changed |= changed

    def _give_back(self, slots: Slots) -> None:
        tags: npt.NDArray[np.uint32] = slots.heads["tag"]
        numbers, counts = np.unique(tags, return_counts=True)
        with self._lock:
            for number, count in zip(numbers.tolist(), counts.tolist()):
                if (tag := self._tags.get(number)) is not None:
                    tag.awaited = max(tag.awaited - count, 0)

    def report(self, *, over: bool = False) -> None:
        """Decode what was read, and hand it to those who listened; `over`: what was not read by
        now will not be."""
        with self._reading:
            with self._lock:
                changed, self._changed = self._changed, set()
            changed |= self._decode_all(self._undecoded.take(_DECODED_AT_ONCE))
            for tag in changed:
                self._report_counts(tag, over=over or bool(self._failure))

    def _decode_all(self, parts: Iterator[Slots]) -> set[Tag]:
        """Decode slots and hand over what they say; return whose they are."""
        with self._lock:
            tags = dict(self._tags)
        found: set[Tag] = set()
        strangers = 0
        for part in parts:
            for number, slots in part.by_tag().items():
                tag = tags.get(number)
                if tag is not None and not tag.late.closed:
                    found.add(tag)
                    self._decode(tag, slots)
                else:
                    strangers += len(slots)
        if strangers:
            # As those of a graph do that was captured then and is replayed now.
            self._say("warps wrote records that belong to an earlier recording", strangers)
        return found

    def _decode(self, tag: Tag, slots: Slots) -> None:
        try:
            sites = tag.source.decode(slots, self._cost())
            excerpt = tag.excerpt(slots, self._name)
        except TileprofError as error:
            tag.late.lost(f"warps whose records made no sense ({error.message})", len(slots))
            return
        measured = hooks.Measured(sites, warps=len(slots), excerpt=excerpt)
        tag.late.measured(tag.token, measured, replayed=tag.captured)

    def _report_counts(self, tag: Tag, *, over: bool) -> None:
        with self._lock:
            issued, tag.issued = tag.issued, 0
            skipped, tag.skipped = tag.skipped, 0
            unread = min(-(-tag.awaited // max(tag.slots, 1)), issued) if over else 0
        if (issued or skipped) and not tag.late.closed:
            measured = hooks.Measured(None, issued - unread, 0, skipped, unread)
            tag.late.measured(tag.token, measured, replayed=False)

    def collect(self, final: bool) -> None:
        """Read and report; `final`: what is under way too."""
        ended = not (final and self.is_busy) or self._waited()
        if not self._reading.acquire(timeout=PATIENCE_S):
            self._say(f"records of {self._name} could not be read: its driver does not answer")
            return
        try:
            self.read()
            self.report(over=not ended)
            if final:
                self._report_rest()
        finally:
            self._reading.release()
        if final:
            self._compare()

    def _report_rest(self) -> None:
        """Excerpts of launches some of whose warps found no room."""
        with self._lock:
            tags = [tag for tag in self._tags.values() if not tag.late.closed]
        for tag in tags:
            with suppress(TileprofError):
                if (excerpt := tag.excerpt(None, self._name)) is not None:
                    measured = hooks.Measured(excerpt=excerpt)
                    tag.late.measured(tag.token, measured, replayed=False)

    def _compare(self) -> None:
        """Find out what marks cost, for as many kernels as there is time for; others are left for
        the next recording."""
        until = time.monotonic() + COMPARING_S
        while self._comparisons and time.monotonic() < until:
            compare = self._comparisons.pop()
            try:
                compare()
            except TileprofError:
                continue
            except Exception as error:
                # A fault in here must not cost what was recorded.
                self._say(f"what marks cost is unknown ({type(error).__name__}: {error})")

    def _waited(self) -> bool:
        """Whether the device has nothing to do now; says so where it has."""
        ended = wait_for(self.device, PATIENCE_S)
        if not ended:
            self._say(f"{self._name} was still at work at the end")
        return ended

    def _fail(self, error: TileprofError) -> None:
        """Keep what was read, and expect nothing more."""
        self._failure = error.message
        self._say(f"records of {self._name} could not be read: {error.message}")

    def _say(self, what: str, count: int = 0) -> None:
        if self._late is not None:
            self._late.lost(what, count)

    @property
    def _name(self) -> str:
        return f"cuda:{self.device.number}"


def _every(options: RecordOptions, blocks: int, captured: bool) -> int:
    """Blocks of which one records."""
    if options.blocks == "all":
        return 1
    return one_in(blocks, options.blocks or (BLOCKS_OF_REPLAYS if captured else BLOCKS))
