"""Names of `tileprof.viewer`, loaded when one is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tileprof.errors import UsageError, suggestion
from tileprof.profile import Profile
from tileprof.viewer.code.lines import render_lines
from tileprof.viewer.code.pc_data import lines_json, sass_json
from tileprof.viewer.code.pc_texts import render_texts, texts_json
from tileprof.viewer.code.sass import render_blame, render_sass
from tileprof.viewer.columns import available as available_metrics
from tileprof.viewer.ctas.text import render_cta
from tileprof.viewer.data import diff_json, view_csv, view_json
from tileprof.viewer.diff import render_changes, render_diff
from tileprof.viewer.exports import EXPORTS, FOLDER_EXPORTS, export, export_folder
from tileprof.viewer.options import DiffOptions, Mode, ViewOptions
from tileprof.viewer.series_text import counters_json, render_counters
from tileprof.viewer.tree import render

__all__ = [
    "EXPORTS", "FOLDER_EXPORTS", "VIEWS", "DiffOptions", "Mode", "View", "ViewOptions",
    "available_metrics", "diff_json", "export", "export_folder", "render", "render_changes",
    "render_cta", "render_diff", "render_lines", "render_texts", "render_view", "texts_json",
    "view_csv", "view_json",
]  # fmt: skip

View: TypeAlias = Callable[[Profile, ViewOptions, int, bool, bool], str]
"""`(profile, options, width, color, unicode)` to the whole text, which ends in a newline."""

VIEWS: dict[str, View] = {
    "tree": render,
    "lines": render_lines,
    "sass": render_sass,
    "blame": render_blame,
    "counters": render_counters,
    "lines-json": lambda profile, options, _width, _color, _unicode: lines_json(profile, options),
    "sass-json": lambda profile, options, _width, _color, _unicode: sass_json(profile, options),
    "counters-json": lambda profile, options, _width, _color, _unicode: counters_json(
        profile, options
    ),
    "json": lambda profile, options, _width, _color, _unicode: view_json(profile, options),
    "csv": lambda profile, options, _width, _color, _unicode: view_csv(profile, options),
}


def render_view(
    profile: Profile,
    options: ViewOptions,
    view: str = "tree",
    *,
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
) -> str:
    """Return the view called `view` as text that ends in a newline; UsageError lists all views.

    `width` counts terminal cells, 40 at least; without `unicode` the text is plain ASCII (CSV keeps
    names as they are). Data views have no use for width and colour.
    """
    if view not in VIEWS:
        known = f"The views are: {', '.join(VIEWS)}."
        raise UsageError(f"there is no view `{view}`", hint=suggestion(view, VIEWS) + known)
    return VIEWS[view](profile, options, width, color, unicode)
