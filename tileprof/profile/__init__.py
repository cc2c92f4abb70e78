"""The profile: calling-context tree, metrics, tables, the file, merge and diff, conversions.

The one thing that the producing half (profiler) and the reading half (viewer) share.
In: nodes and numbers through `TreeBuilder` while a program runs, or a file through `load`.
Out: an immutable `Profile`, operations on it that return new profiles and conserve totals, and its
forms: the `.tprof` file, JSON, a data frame, hatchet's literal.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
