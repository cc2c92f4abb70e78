"""All example cases, in the order in which they are timed."""

from __future__ import annotations

from .attention import ATTENTION
from .form import Example
from .others import OTHERS
from .products import PRODUCTS
from .recurrences import RECURRENCES

CASES: tuple[Example, ...] = (*PRODUCTS, *ATTENTION, *RECURRENCES, *OTHERS)
"""Every example that is timed."""
