"""Remarks of the compiler and the profiler about single ops: codes with typed facts.

In: facts, from passes and measurements; or their JSON, from files.  Out: `Remark`s, which compiler,
runtime, profile and analyzer hand on as they are.  `statement` is what a code is; each of the other
modules has those of one subject, so that all are known where one is read.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
