"""Honest timing: how long a call takes, how sure that is, and what makes the figure doubtful.

In: calls, and a timer of the host or of a GPU.  Out: a `Result`: medians with bootstrap intervals,
the ratio to a baseline by interleaved pairs, the state of the GPU meanwhile, and `Doubt`s.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
