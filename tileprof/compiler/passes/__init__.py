"""Passes: each takes a kernel and gives one that means the same, with its rule in its docstring.

In: a valid kernel.  Out: a valid kernel that computes the same values and has the same effects.
`pipeline.py` says in which order they run, and why.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
