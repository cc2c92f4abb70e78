"""The interactive view in a terminal: a profile, or two compared, or a program while it runs.

What it is for: what keys do and which part of a tree is on the screen; texts, columns and colours
are those of `viewer`, each line made when it comes into sight. In: a function that makes the lines
of a tree for the reader's choices, and profiles that follow while a program runs. Out: a screen.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
