"""Puzzles: graded exercises that are checked by hidden tests, with hints from what tileprof finds.

In: a learner's file or function.  Out: a `Result`: passed, or the first failure with a hint.  Each
exercise is a module of `exercises`, with its task, its specification as NumPy, a starter and a
ladder of hints.  `judges` run a kernel in the interpreter, watch what it accesses, and compile it
for a GPU where a condition is about the compiler's decisions.  Progress is kept beside the files.
Solutions are in the tests only.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
