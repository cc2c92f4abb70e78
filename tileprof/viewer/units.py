"""Numbers as people read them; `tileprof.profile.units` has them for every package.

In: a value in the unit its metric declares.  Out: short text, or the aligned cells of one column.
"""

from __future__ import annotations

from tileprof.profile.units import cells, format_percent, format_value

__all__ = ["cells", "format_percent", "format_value"]
