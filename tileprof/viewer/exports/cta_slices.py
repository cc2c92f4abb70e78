"""CTAs' timelines as formats of traces want them: processes with rows of slices that nest.

In: a profile with timelines of CTAs.  Out: a process for each launch; in it, for each CTA, a row
for each warp, and rows for what it had under way asynchronously.  Times are ns on the axis of the
profile's timeline; where nothing ties a device's clock to that, an axis of the launch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tileprof.profile import Profile
from tileprof.viewer.ctas.axis import Placed, places
from tileprof.viewer.ctas.ctas import Ctas, FlightRow
from tileprof.viewer.exports.slices import has_slices


@dataclass(frozen=True, slots=True)
class CtaSlice:
    """A visit of a site, or asynchronous work from its start to the end of the wait for it."""

    begin: int
    end: int
    name: str
    kind: str
    notes: dict[str, str]
    """Further facts, in order: `line`, `path`, `waited for by`, …."""


@dataclass(frozen=True, slots=True)
class CtaRow:
    """Slices, each before those inside it."""

    name: str
    is_flight: bool
    slices: list[CtaSlice]


@dataclass(frozen=True, slots=True)
class CtaProcess:
    """Launch, shown as a process."""

    name: str
    rows: list[CtaRow] = field(default_factory=list)


def processes(profile: Profile) -> Iterator[CtaProcess]:
    """Yield all launches with their CTAs, one after the other."""
    ctas, placed = Ctas(profile), places(profile)
    for launch in range(len(ctas.held.launches)):
        mine = [at for at, cta in enumerate(ctas.held.ctas) if cta.launch == launch]
        made = CtaProcess(f"{ctas.launch_name(launch)}{_axis(placed[launch])}")
        off = _taken_off(profile, launch, placed[launch])
        for cta in mine:
            begin = ctas.held.ctas[cta].begin - off
            made.rows.extend(_rows(ctas, cta, begin))
        yield made


def _axis(placed: Placed | None) -> str:
    if placed is None:
        return " (time of its own)"
    return f" (placed within {placed.error / 1000:.1f} µs)"


def _taken_off(profile: Profile, launch: int, placed: Placed | None) -> int:
    """Return the ns to subtract from the device's time."""
    if placed is not None:
        return placed.ahead
    held = profile.tables.ctas
    first = min(cta.begin for cta in held.ctas if cta.launch == launch)
    issued = held.launches[launch].issued
    if not has_slices(profile):
        return first
    # Beside the events, where a reader finds it.
    return first - (issued if issued >= 0 else int(profile.tables.timeline.events.start[0]))


def _rows(ctas: Ctas, cta: int, begin: int) -> Iterator[CtaRow]:
    name = ctas.cta_name(cta)
    for row in ctas.flight_rows(cta):
        yield _flights(ctas, cta, row, begin)
    notes: dict[int, dict[str, str]] = {}
    visits = ctas.held.visits
    for warp in ctas.warps(cta):
        slices = []
        for at in ctas.visits(warp):
            number = int(visits.site[at])
            site = ctas.site(cta, number)
            if number not in notes:
                notes[number] = _known(line=ctas.line(cta, number), path=ctas.path(cta, number))
            times = (begin + int(visits.begin[at]), begin + int(visits.end[at]))
            slices.append(CtaSlice(*times, site.name, site.kind, notes[number]))
        yield CtaRow(f"{name} {ctas.warp_name(warp)}", False, slices)


def _flights(ctas: Ctas, cta: int, row: FlightRow, begin: int) -> CtaRow:
    held = ctas.held.flights
    slices = []
    for at in row.flights:
        number, waited_at = int(held.site[at]), int(held.waited_at[at])
        waited = int(held.retired[at]) - max(int(held.wait[at]), int(held.issued[at]))
        notes = _known(
            line=ctas.line(cta, number),
            queue=row.queue,
            ended=ctas.path(cta, waited_at),
            by=ctas.warp_name(int(held.waiter[at])),
            waited=f"{waited} ns",
        )
        times = (begin + int(held.issued[at]), begin + int(held.retired[at]))
        slices.append(CtaSlice(*times, ctas.site(cta, number).name, "async", notes))
    return CtaRow(f"{ctas.cta_name(cta)} {flight_name(ctas, row)}", True, slices)


def flight_name(ctas: Ctas, row: FlightRow) -> str:
    """Return the name of a row of asynchronous work: `ring of a, by warp 4`."""
    warp = f"by warp {ctas.held.warps[row.warp].warp}"
    return f"{row.queue}, {warp}" + (f" ({row.lane + 1})" if row.lane else "")


def _known(**notes: str) -> dict[str, str]:
    return {name: text for name, text in notes.items() if text}
