"""Answers: where the time of a program goes, why, what to change, and what that would bring.

In: a profile, of whatever kinds of evidence it holds.  Out: `Report`: findings in order of use.
Each joins what the compiler decided, or what machine code shows, with measured time; its gain is
an interval, capped by what the device was measured to do at most. A rule is one file of `rules`.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
