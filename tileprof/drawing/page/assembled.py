"""The page: its parts and its data put together."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tileprof.drawing.machine import Machine
from tileprof.drawing.watch import Watch
from tileprof.viewer.html.assembly import asset, assets, embedded, filled

from .document import document

_PACKAGE = "tileprof.drawing.page"
_SHARED_STYLES = ("style.css",)
_STYLES = ("page.css", "maps.css")
_SHARED_SCRIPTS = ("core.js",)
_SCRIPTS = (
    "columns.js", "launch.js", "state.js", "code.js", "grid.js", "tensors.js", "blocks.js",
    "buffers.js", "rings.js", "barriers.js", "steps.js", "accesses.js", "layouts.js", "main.js",
)  # fmt: skip


def page_of(watch: Watch, machines: Sequence[Machine]) -> str:
    """Return the text of the page."""
    names = dict.fromkeys(kernel.name for kernel in watch.kernels)
    parts = {
        "title": html.escape(", ".join(names)),
        "style": assets("styles", _SHARED_STYLES) + assets("styles", _STYLES, _PACKAGE),
        "data": embedded(document(watch, machines)),
        "script": assets("scripts", _SHARED_SCRIPTS) + assets("scripts", _SCRIPTS, _PACKAGE),
    }
    return filled(asset("page.html", package=_PACKAGE), parts)
