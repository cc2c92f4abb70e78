"""Costs of kernels' lines by measured sites, for kernels without machine code.

In: a profile.  Out: by kernel's node, the samples of its own samplers at each line; where there
are none, the time of its blocks there, ns.
"""

from __future__ import annotations

from tileprof.profile import INSIDE, Profile
from tileprof.profile.shares import SAMPLES
from tileprof.viewer.code.pc_functions import Place

_MEASURES = {SAMPLES: "samples", "block_time": "ns"}


def site_measure(profile: Profile) -> str:
    """Return the weight of sites' lines: `samples`, `ns`, or '' where nothing was measured."""
    return _MEASURES[_metric(profile)] if _metric(profile) else ""


def site_lines(profile: Profile) -> dict[int, dict[Place, float]]:
    """Return for each kernel's node what its lines hold themselves; values below 0 are left out."""
    metric = _metric(profile)
    found: dict[int, dict[Place, float]] = {}
    if not metric:
        return found
    own = (profile.own[metric] + profile.absorbed[metric]).tolist()
    kernel = [-1] * len(profile)
    for node, (kind, parent) in enumerate(zip(profile.kinds, profile.parents.tolist())):
        if kind == "kernel":
            kernel[node] = node
        elif kind in INSIDE and parent >= 0:
            kernel[node] = kernel[parent]
            at = profile.locations[node]
            if kernel[node] >= 0 and at is not None and own[node] > 0:
                lines = found.setdefault(kernel[node], {})
                lines[at.file, at.line] = lines.get((at.file, at.line), 0.0) + own[node]
    return found


def _metric(profile: Profile) -> str:
    return next((m for m in _MEASURES if m in profile.metrics and profile.whole[m] > 0), "")
