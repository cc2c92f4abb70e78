"""Answers for agents: profiles in pages of bounded size, and the server that gives them out.

In: a profile's file, or a program to record.  Out: text of at most `MOST_TOKENS` tokens a page,
rendered by the functions of the command line.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
