"""Names of `tileprof.viewer.html`, loaded when one is first used."""

from __future__ import annotations

from tileprof.viewer.html.page import report_page, write_html

__all__ = ["report_page", "write_html"]
