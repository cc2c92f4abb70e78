"""Lines of a program's own files that import libraries, whose time is that of the libraries.

In: a profile, which holds the text of these files.  Out: whether a node is such a line.
"""

from __future__ import annotations

import functools

from tileprof.profile.tree.model import Profile


def imports(profile: Profile, node: int) -> bool:
    """Tell whether a line of a program's file is an import, whose time is that of libraries."""
    place = profile.locations[node]
    if place is None or profile.names[node] != "<module>":
        return False
    lines = _lines(profile.tables.sources.get(place.file, ""))
    text = lines[place.line - 1].lstrip() if 0 < place.line <= len(lines) else ""
    return text.startswith(("import ", "from "))


@functools.lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.splitlines()
