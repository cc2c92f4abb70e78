"""The test split: other combinations of families and defects, at other shapes. Frozen.

Nothing is tuned on it: `frozen.json` holds the hash of each case, and a test compares.
"""

from __future__ import annotations

from .twins import Case

__all__ = ["CASES"]

CASES: tuple[Case, ...] = ()
