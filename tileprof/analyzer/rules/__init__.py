"""The rules, one file each: what it looks for, how it knows, what to change, what that brings.

In: a kernel, or a program, with everything that was recorded of it.  Out: drafts of findings. A
rule reads what it needs and says nothing where that was not recorded; it never guesses a number.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
