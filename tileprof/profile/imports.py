"""Lines of a program's own files that import libraries, whose time is that of the libraries.

In: a profile, which holds the text of these files.  Out: whether a node is such a line.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol


def imports(profile: Profile, node: int) -> bool:
    """Tell whether a node is a line of a program's file that is an import."""
    return is_import(profile, profile.symbols[int(profile.symbol[node])])


def is_import(profile: Profile, symbol: Symbol) -> bool:
    """Tell the same of a symbol of the profile's."""
    place = symbol.location
    if place is None or symbol.name != "<module>":
        return False
    lines = _lines(profile.tables.sources.get(place.file, ""))
    text = lines[place.line - 1].lstrip() if 0 < place.line <= len(lines) else ""
    return text.startswith(("import ", "from "))


def below_imports(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return the nodes below lines that import, whatever is imported there, per node."""
    lines = np.array([is_import(profile, symbol) for symbol in profile.symbols], bool)
    found = np.zeros(len(profile), bool)
    imported = lines[profile.symbol]
    # Parents come before their children.
    for node, above in enumerate(profile.parents.tolist()):
        found[node] = above >= 0 and (found[above] or imported[above])
    return found


@functools.lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.splitlines()
