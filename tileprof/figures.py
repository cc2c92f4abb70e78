"""Figures of profiles for notebooks and reports: `tileprof.figures.cta_timeline(profile).show()`.

In: a profile.  Out: plotly figures.
"""

from __future__ import annotations

from tileprof.viewer.figures.counters_over_time import counters_over_time
from tileprof.viewer.figures.cta_timeline import cta_timeline
from tileprof.viewer.figures.page import cta_page

__all__ = ["counters_over_time", "cta_page", "cta_timeline"]
