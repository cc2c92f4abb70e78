"""Samples and counts by function, instruction and source line, as views need them.

In: the tables of a profile.  Out: functions with their instructions, the hottest first; lines with
their samples and counts; and words for both. Samples of reasons that end in `_not_issued` are part
of no sum. Samples decide what is hot, or executions where there are no samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tileprof.errors import Location, UsageError
from tileprof.once import cached_property
from tileprof.profile import PcBlame, PcFunction, PcInstruction, PcSamples, Profile
from tileprof.profile.instruction_counts import EXECUTIONS
from tileprof.profile.pc_samples import NOT_ISSUED
from tileprof.profile.transform.operations import regular
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.code.instruction_columns import Sums, summed

Stalls = dict[str, int]
"""Samples by stall reason, the most first."""
Place = tuple[str, int]
"""Source place: file and line."""
_LEAST_PART = 0.1
"""Smallest share of the samples at a place for which a stall reason is shown."""


@dataclass(slots=True)
class SeenInstruction:
    """An instruction with its samples."""

    instruction: PcInstruction
    samples: int = 0
    stalls: Stalls = field(default_factory=dict)
    not_issued: Stalls = field(default_factory=dict)
    """Samples at which no other warp issued either, keyed by stall reason."""
    blames: list[PcBlame] = field(default_factory=list)
    counts: Sums = field(default_factory=dict)
    """Number of executions, and the other counts."""
    weight: int = 0
    """Weight: samples, or executions where the profile has no samples."""


class SeenFunction:
    """Function with its samples and counts; instructions are computed on first use."""

    def __init__(self, held: PcSamples, place: int) -> None:
        self.function = held.functions[place]
        self.samples = int(held.by_function[place])
        self.counts = _sums(held, place)
        self.weight = self.samples if held.recordings else self.counts.get(EXECUTIONS, 0)
        self._held = held
        self._place = place

    @cached_property
    def instructions(self) -> list[SeenInstruction]:
        """Instructions by offset; without code only those seen, with an empty text."""
        samples, counts = _samples(self._held, self._place), _counts(self._held, self._place)
        seen = sorted(samples.keys() | counts.keys())
        code = self.function.code or tuple(PcInstruction(offset, "") for offset in seen)
        blames: dict[int, list[PcBlame]] = {}
        for blame in self.function.blames:
            blames.setdefault(blame.offset, []).append(blame)
        found = []
        for each in code:
            one = SeenInstruction(each, blames=blames.get(each.offset, []))
            one.counts = counts.get(each.offset, {})
            _fill(one, samples.get(each.offset, {}))
            by_samples = self._held.recordings
            one.weight = one.samples if by_samples else one.counts.get(EXECUTIONS, 0)
            found.append(one)
        return found

    @cached_property
    def by_offset(self) -> dict[int, PcInstruction]:
        """Instructions of the code, keyed by offset."""
        return {each.instruction.offset: each.instruction for each in self.instructions}

    @property
    def strays(self) -> int:
        """Samples at offsets that are no instruction of the code."""
        return self.samples - sum(each.samples for each in self.instructions)

    @property
    def not_issued(self) -> int:
        """Samples when no other warp issued either."""
        return sum(sum(each.not_issued.values()) for each in self.instructions)


def seen_functions(
    profile: Profile, include: str | None = None, exclude: str | None = None
) -> list[SeenFunction]:
    """Return functions whose name matches `include` and not `exclude`, the hottest first.

    Raises UsageError where the profile knows nothing of instructions, or has no such function.
    """
    held = profile.tables.pc
    if not held:
        raise UsageError(
            "the profile has no samples of program counters, and no counts of instructions",
            hint="Record some on a GPU: tileprof run --pc-sampling PROGRAM, or --metrics"
            " instructions.",
        )
    order = held.hottest
    chosen = [place for place in order if _is_chosen(held.functions[place], include, exclude)]
    if not chosen and (include is not None or exclude is not None):
        titles = ", ".join(held.functions[place].title for place in order[:5])
        but = f", and not `{exclude}`" if exclude is not None else ""
        raise UsageError(
            f"no function with samples matches `{include or ''}`{but}",
            hint=f"Those with the most are: {titles}." if titles else "There are none.",
        )
    return [SeenFunction(held, place) for place in chosen]


def _is_chosen(function: PcFunction, include: str | None, exclude: str | None) -> bool:
    names = (function.title, function.name)

    def matches(pattern: str) -> bool:
        found = regular(pattern)
        return any(found.search(name) for name in names)

    return (include is None or matches(include)) and (exclude is None or not matches(exclude))


def _sums(held: PcSamples, place: int) -> dict[str, int]:
    """Return the sum of each count of one function."""
    counts = held.counts
    sums = counts.values[counts.rows_of(place)].sum(axis=0).tolist()
    return dict(zip(counts.metrics, sums))


def _counts(held: PcSamples, place: int) -> dict[int, dict[str, int]]:
    """Return one function's counts, by offset and metric."""
    counts = held.counts
    rows = counts.rows_of(place)
    offsets, values = counts.offset[rows].tolist(), counts.values[rows].tolist()
    return {offset: dict(zip(counts.metrics, row)) for offset, row in zip(offsets, values)}


def _samples(held: PcSamples, place: int) -> dict[int, dict[str, int]]:
    """Return one function's samples, by offset and stall."""
    rows = held.by_instruction
    begin, end = np.searchsorted(rows.function, [place, place + 1]).tolist()
    found: dict[int, dict[str, int]] = {}
    columns = (column[begin:end].tolist() for column in (rows.offset, rows.stall, rows.samples))
    for offset, stall, samples in zip(*columns):
        found.setdefault(offset, {})[held.stalls[stall]] = samples
    return found


def _fill(seen: SeenInstruction, stalls: Mapping[str, int]) -> None:
    for name, samples in sorted(stalls.items(), key=lambda item: -item[1]):
        if name.endswith(NOT_ISSUED):
            seen.not_issued[name.removesuffix(NOT_ISSUED)] = samples
        else:
            seen.stalls[name] = samples
            seen.samples += samples


# -- lines


def user_line(profile: Profile, place: Location | None) -> Place | None:
    """Return an instruction's line: the innermost one whose text the profile holds.

    So what a library's function does, inlined, is said of the line that calls it.
    """
    if place is None:
        return None
    known = (line for line in place.chain() if line.file in profile.tables.sources)
    line = next(known, place)
    return line.file, line.line


def line_samples(
    profile: Profile, include: str | None = None, exclude: str | None = None
) -> dict[Place, Stalls]:
    """Return samples by line and stall reason, the most first; what has no line is left out.

    Of those functions whose name matches `include` and not `exclude`.
    """
    found: dict[Place, Stalls] = {}
    held = profile.tables.pc
    places = _lines_of(profile, include, exclude)
    rows = held.by_instruction
    columns = (rows.function, rows.offset, rows.stall, rows.samples)
    for function, offset, stall, samples in zip(*(column.tolist() for column in columns)):
        place = places[function].get(offset)
        if place is not None and held.is_counted[stall]:
            stalls = found.setdefault(place, {})
            name = held.stalls[stall]
            stalls[name] = stalls.get(name, 0) + samples
    return {
        place: dict(sorted(stalls.items(), key=lambda item: -item[1]))
        for place, stalls in found.items()
    }


def line_counts(
    profile: Profile, include: str | None = None, exclude: str | None = None
) -> dict[Place, Sums]:
    """Return counts of instructions by line and metric; of the same functions."""
    counts = profile.tables.pc.counts
    places = _lines_of(profile, include, exclude) if len(counts) else []
    parts: dict[Place, list[Sums]] = {}
    columns = (counts.function.tolist(), counts.offset.tolist(), counts.values.tolist())
    for function, offset, values in zip(*columns):
        place = places[function].get(offset)
        if place is not None:
            parts.setdefault(place, []).append(dict(zip(counts.metrics, values)))
    return {place: summed(each) for place, each in parts.items()}


def _lines_of(
    profile: Profile, include: str | None, exclude: str | None
) -> list[dict[int, Place | None]]:
    """Return the line of each offset, by function; nothing for functions that do not match."""
    return [
        {each.offset: user_line(profile, each.place) for each in function.code}
        if _is_chosen(function, include, exclude)
        else {}
        for function in profile.tables.pc.functions
    ]


# -- words


def whole_weight(held: PcSamples) -> int:
    """Return all samples, or all executions where there are no samples."""
    whole = held.counted if held.recordings else held.counts.column(EXECUTIONS)
    return int(whole.sum())


def weight_text(held: PcSamples, weight: int, whole: int) -> str:
    """Return `1,234 samples (5.6 %)`, or the same of executed instructions."""
    if held.recordings:
        return share_text(weight, whole)
    share = format_percent(weight / whole) if whole else "0.0"
    return f"{format_value(weight, '1')} executions ({share} %)"


def stall_text(stalls: Mapping[str, int], most: int) -> str:
    """Return the main stall reasons, in % of all here: `long_scoreboard 62, wait 20`."""
    whole = sum(stalls.values())
    parts = [
        f"{name} {count / whole * 100:.0f}"
        for name, count in list(stalls.items())[:most]
        if count and count >= _LEAST_PART * whole
    ]
    return ", ".join(parts)


def sampling_text(held: PcSamples) -> str:
    """Describe how many samples there are, how they were taken, and how many are missing."""
    periods = sorted({each.period for each in held.recordings})
    each = " or ".join(f"{period:,}" for period in periods)
    said = [f"{_count(int(held.counted.sum()))} of program counters"]
    said.append(f"one each {each} cycles of a multiprocessor")
    if all(each.mode == "exact" for each in held.recordings):
        said.append("kernels ran one after the other")
    sums = {
        "dropped": sum(each.dropped for each in held.recordings),
        "without an instruction": sum(e.non_user for e in held.recordings),
    }
    said += [f"{format_value(count, '1')} {what}" for what, count in sums.items() if count]
    return "; ".join(said)


def _count(samples: int) -> str:
    return f"{format_value(samples, '1')} sample{'' if samples == 1 else 's'}"


def share_text(samples: int, whole: int) -> str:
    """Return samples with their share as text: `1,234 samples (5.6 %)`."""
    share = format_percent(samples / whole) if whole else "0.0"
    return f"{_count(samples)} ({share} %)"
