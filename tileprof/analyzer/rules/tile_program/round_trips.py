"""Tiles that are only another place for what is somewhere already: a part of `redundant-work`.

Static: two copies of which one undoes the other, and tiles that hold each of some values several
times (`tiles/round_trips`). Dynamic: samples at their lines, and of what waits for them.

Nothing else changes without two such copies, so the gain is their share, and not more of what is
left. A tile of values that are spread over it takes a statement of its own, and a barrier before
others read it. Where its elements say which rows of a tensor are loaded, a compiler cannot tell
that neighbours load from one row: it loads element by element, and what such loads cost goes too
(`scattered`). What a value waits for in a tensor's memory stays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel.global_memory import told, told_at
from tileprof.analyzer.kernel.scattered import Scattered, by_samples
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import REDUNDANT_SURE, ROUND_TRIPS
from tileprof.analyzer.tiles.round_trips import RoundTrip, Spread, round_trips, spreads

_AUTHOR = (
    "Leave out both copies: the fragment has these values already, and nothing else reads `{}`,"
    " whose shared memory is then free for another stage, or another block."
)
_COMPILER = "No pass removes a copy that another one undoes."
_IN_PLACE = (
    "Use the value itself in the loop that reads `{}`: its index leaves out the axis along which"
    " all elements are the same. A value that is computed is kept in a buffer without that axis."
)
_NOT_KEPT = "No pass replaces a tile of equal elements by the value."
_LOADS = ("LDS", "LDSM")
_ANSWER = ("long_scoreboard",)
_MEET = ("barrier",)


def there_and_back(case: KernelCase) -> Iterator[Draft]:
    """Copies that undo each other, and tiles of equal elements."""
    yield from (_draft(case, each) for each in round_trips(case.tiles))
    yield from (_spread(case, each) for each in spreads(case.tiles))


def _spread(case: KernelCase, each: Spread) -> Draft:
    name = each.buffer[1:]
    title = f"`{name}` holds each of its values {each.times:,} times"
    text = f"all elements of `{name}` along an axis are the same, and are read one by one"
    place = case.place(case.line(each.store.line), f"store {name}")
    static = Evidence("static", text)
    cause = Cause(title, place, (static,), _IN_PLACE.format(name), _NOT_KEPT)
    code = case.sampled
    own = case.at_lines(code, {each.store.line} - {0}) if code else []
    if code is None or not (own or each.places):
        return cause.warning()
    readers = case.at_lines(code, {op.line for op in each.loads} - {0, each.store.line})
    rows = code.rows(own) & ~code.rows(own, _ANSWER)
    taken = code.taken(rows | code.rows(readers, _MEET))
    if apart := list(_apart(case, code, each)):
        scattered = by_samples(case, code, apart, None).rows
        taken = taken if scattered is None else np.maximum(taken, scattered)
    seen = sampled(code, taken, "are at it, or wait for those who write it")
    if code.share(taken) < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    return cause.costs(eliminated(taken, code.whole, sure=REDUNDANT_SURE), seen)


def _apart(case: KernelCase, code: KernelCode, each: Spread) -> Iterator[Scattered]:
    """Yield the loads of rows that the tile's elements choose, where their lanes lie apart."""
    for said in told(case):
        if said.key in each.places and said.ways > 1:
            yield from (Scattered(index, said.ways) for index in told_at(case, code, said))


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
