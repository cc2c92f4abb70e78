"""Figures of profiles for notebooks and reports: `tileprof.figures.cta_timeline(profile).show()`.

In: a profile.  Out: plotly figures.
"""

from __future__ import annotations

import tileprof as _whole  # noqa: F401  # another thread may be importing it
from tileprof.viewer.figures import counters_over_time, cta_page, cta_timeline

__all__ = ["counters_over_time", "cta_page", "cta_timeline"]
