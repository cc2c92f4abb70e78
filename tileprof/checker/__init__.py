"""Checks of a kernel: races between blocks, reads of what nobody wrote, accesses out of bounds.

In: a kernel and its arguments.  Out: a `Report`.  Each property of each launch is proved from the
kernel's program for all inputs, or explored by a run in the interpreter, whose stream of accesses
is watched.  A finding is a counterexample: the accesses that show it.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
