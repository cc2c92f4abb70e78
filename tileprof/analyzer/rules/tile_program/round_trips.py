"""Fragments that are copied to shared memory, and from there to where they were.

Static: two copies of which one undoes the other (`needless_writes`). Dynamic: samples at
their lines, and of what waits for them. Nothing else changes without them, so the gain is their
share, and not more of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import ROUND_TRIPS
from tileprof.analyzer.tiles.round_trips import RoundTrip, round_trips

_AUTHOR = (
    "Leave out both copies: the fragment has these values already, and nothing else reads `{}`,"
    " whose shared memory is then free for another stage, or another block."
)
_COMPILER = "No pass removes a copy that another one undoes."
_LOADS = ("LDS", "LDSM")


def there_and_back(case: KernelCase) -> Iterator[Draft]:
    """Copies that undo each other."""
    return (_draft(case, each) for each in round_trips(case.tiles))


def _draft(case: KernelCase, trip: RoundTrip) -> Draft:
    fragment, buffer = trip.fragment[1:], trip.buffer[1:]
    title = f"`{fragment}` goes through shared memory and back to where it was"
    static = Evidence("static", f"`{buffer}` is written from it, and only read back into it")
    place = case.place(case.line(trip.there.line), f"copy {fragment} → {buffer}")
    cause = Cause(title, place, (static,), _AUTHOR.format(buffer), _COMPILER)
    code, lines = case.sampled, {trip.there.line, trip.back.line}
    where = case.at_lines(code, lines) if code else []
    if code is None or not where:
        return cause.warning()
    loads = [index for index in where if code.instructions[index].name in _LOADS]
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(loads))
    seen, share = sampled(code, taken, "are at them, or wait for them"), code.share(taken)
    if share < COLD:
        leave = "Leave it: it takes no time."
        return cause.ignored(", where it costs nothing", leave, seen)
    low, mid, high = (min(part * share, LONGEST_SAVING) for part in ROUND_TRIPS)
    return cause.costs(Saving(low, mid, high, samples=seen.samples), seen)
