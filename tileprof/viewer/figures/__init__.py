"""Interactive figures of profiles, by plotly, which is imported where a figure is made.

In: a profile and what to show of it.  Out: a plotly figure, or pages with several that need
nothing but a browser.
"""

from __future__ import annotations

from tileprof.viewer.figures.counters_over_time import counters_over_time
from tileprof.viewer.figures.cta_timeline import cta_timeline
from tileprof.viewer.figures.page import cta_page

__all__ = ["counters_over_time", "cta_page", "cta_timeline"]
