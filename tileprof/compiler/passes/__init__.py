"""Passes: each takes a kernel and gives one that means the same, with its rule in its docstring.

In: a valid kernel.  Out: a valid kernel that computes the same values and has the same effects.
`pipeline.py` says in which order they run, and why.
"""

from .bounds import prove_bounds
from .simplify import simplify

__all__ = ["prove_bounds", "simplify"]
