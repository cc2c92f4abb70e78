"""Timelines of a profile as JSON values: of single CTAs, of hardware counters, of the program.

In: a profile.  Out: the parts that it holds, and nothing of others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import ProfileFileError
from tileprof.profile import Profile, Timeline
from tileprof.viewer.ctas.ctas import has_ctas
from tileprof.viewer.exports.counter_points import has_counters
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.html.counter_data import counters_of
from tileprof.viewer.html.cta_data import ctas_of
from tileprof.viewer.html.event_data import events_of
from tileprof.viewer.text import encodable


def timelines_of(
    profile: Profile, code: CodeData, moved: npt.NDArray[np.int64]
) -> dict[str, dict[str, Any]]:
    """Return the parts by name; a part that is damaged in its file says what is wrong."""
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    if has_ctas(profile):
        parts["cta"] = lambda: ctas_of(profile, code)
    readable = _readable(profile)
    origin = _origin(readable)
    if has_counters(profile):
        parts["counters"] = lambda: counters_of(readable, origin)
    if profile.tables.timeline.tracks:
        parts["program"] = lambda: events_of(profile, origin, moved)
    made = {name: _told(make) for name, make in parts.items()}
    return {name: part for name, part in made.items() if part}


def _told(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make()
    except ProfileFileError as error:
        return {"damaged": encodable(str(error))}


def _readable(profile: Profile) -> Profile:
    """Return the profile, without damaged events: counters do not need them."""
    try:
        len(profile.tables.timeline.events)
    except ProfileFileError:
        return replace(profile, tables=replace(profile.tables, timeline=Timeline()))
    return profile


def _origin(profile: Profile) -> int:
    """Return the first time on the axis that events and counters share."""
    series = [int(each.start[0]) for each in profile.tables.series if len(each)]
    return min([*series, *profile.tables.timeline.events.start[:1].tolist()], default=0)
