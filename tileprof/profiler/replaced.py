"""A replacement of a function or class of somebody else's module, and the way back.

Somebody may wrap the replacement in the meantime: then it stays, and has to do nothing by itself.
"""

from __future__ import annotations

from typing import Any


class Replaced:
    """An attribute that was replaced."""

    def __init__(self, owner: Any, name: str, theirs: Any, ours: Any) -> None:
        self._owner, self._name, self._theirs, self._ours = owner, name, theirs, ours
        setattr(owner, name, ours)

    def put_back(self) -> None:
        """Put back what was there, unless somebody has put something else there since."""
        if vars(self._owner).get(self._name) is self._ours:
            setattr(self._owner, self._name, self._theirs)
