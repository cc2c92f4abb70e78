"""Findings of an analysis, as text for people.

What it is for: everything that shows a `Report` in a terminal. In: reports by the names of their
files, and the choices of the reader.  Out: text. Whoever wrote the program sees each profile for
itself; whoever develops the compiler sees one list of all.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
