"""Views of a profile: text for a terminal, data for scripts, files for other tools.

What it is for: everything that shows a profile; nothing here opens a file, looks at the terminal
or prints. In: a `Profile` (or a `Diff` of two) and the choices of the reader. Out: text. To add a
view: one file with a function of the shape `View`, and one line in `VIEWS`; to add an export: one
file in `exports` and one line in its table of formats.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
