"""Figures for notebooks and reports: `tileprof.figures.cta_timeline(profile).show()`.

In: a profile, or a layout of a kernel's buffer.  Out: plotly figures of profiles, SVG of layouts.
"""

from __future__ import annotations

from tileprof.drawing.layout_figure import LayoutFigure, buffer_layout, layout
from tileprof.viewer.figures.counters_over_time import counters_over_time
from tileprof.viewer.figures.cta_timeline import cta_timeline
from tileprof.viewer.figures.page import cta_page

__all__ = [
    "LayoutFigure",
    "buffer_layout",
    "counters_over_time",
    "cta_page",
    "cta_timeline",
    "layout",
]
