"""When CTAs ran on the time of the profile's timeline: devices have clocks of their own.

In: a profile with timelines of CTAs.  Out: for each of their launches how far its device's clock is
ahead of the timeline's, and by how much that may be wrong.

What ties the two: a kernel is on the timeline, and its CTAs ran within it.  So the clock is ahead
by at least the end of its last CTA less the kernel's end, and by at most the begin of its first
less the kernel's begin.  Where several kernels of a device agree, what all of them allow is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprof.profile import CtaLaunch, Profile

_SOON_NS = 1_000_000
"""A launch that is counted as issued is called by then."""
_COARSE_NS = 2_000
"""Tolerance, in ns, by which a CTA may outlast its kernel, because the devices' clocks step."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Offset of the device's clock for a launch, in ns, and the offset's largest error."""

    ahead: int
    error: int


def places(profile: Profile) -> list[Placed | None]:
    """Return the clock offset of each launch; None where nothing ties it to the timeline."""
    launches = profile.tables.ctas.launches
    bounds = [_bounds(profile, at) for at in range(len(launches))]
    by_device: dict[str, tuple[int, int]] = {}
    for launch, bound in zip(launches, bounds):
        if bound is not None:
            low, high = by_device.get(launch.device, bound)
            by_device[launch.device] = (max(low, bound[0]), min(high, bound[1]))
    return [_placed(by_device.get(e.device), bound) for e, bound in zip(launches, bounds)]


def _placed(common: tuple[int, int] | None, own: tuple[int, int] | None) -> Placed | None:
    """Return the clock offset that all kernels of a device allow, else that of this launch."""
    for bound in (common, own):
        if bound is not None and bound[0] <= bound[1]:
            low, high = bound
            return Placed((low + high) // 2, (high - low + 1) // 2)
    if own is None:
        return None
    return Placed(sum(own) // 2, (own[0] - own[1] + 1) // 2)


def _bounds(profile: Profile, launch: int) -> tuple[int, int] | None:
    """Return the smallest and the largest possible lead of the device's clock, in ns."""
    held = profile.tables.ctas
    ctas = [cta for cta in held.ctas if cta.launch == launch]
    if not ctas:
        return None
    begin, end = min(cta.begin for cta in ctas), max(cta.end for cta in ctas)
    for kernel_begin, kernel_end in _kernel_spans(profile, held.launches[launch]):
        low, high = end - kernel_end, begin - kernel_begin
        if low <= high + _COARSE_NS:
            return low, high
    return None


def _kernel_spans(profile: Profile, launch: CtaLaunch) -> list[tuple[int, int]]:
    """Return begins and ends of the kernel's functions on the timeline: of those that were launched
    by the call during which the launch was issued, or by the next one."""
    timeline, tables = profile.tables.timeline, profile.tables
    if launch.issued < 0 or not timeline.tracks:
        return []
    events, number = timeline.events, launch.device.rpartition(":")[2]
    nodes = [node for node, kernel in tables.node_kernels.items() if kernel == launch.kernel]
    tracks = [
        at
        for at, track in enumerate(timeline.tracks)
        if track.kind == "stream" and str(track.device) == number
    ]
    mine = np.isin(events.node, nodes) & np.isin(events.track, tracks) & (events.launch >= 0)
    at = np.flatnonzero(mine)
    begin = events.start[events.launch[at]]
    end = begin + events.duration[events.launch[at]]
    then = (end >= launch.issued) & (begin <= launch.issued + _SOON_NS)
    if not then.any():
        return []
    first = at[then & (begin == begin[then].min())]
    return [(start, start + ns) for start, ns in zip(events.start[first].tolist(),
                                                     events.duration[first].tolist())]  # fmt: skip
