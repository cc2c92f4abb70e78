"""Changes tried on a program: made in processes of its own, results compared, and timed in pairs.

In: a program, and changes with what they are expected to bring.  Out: a `Trial` for each: what was
measured, whether results were those of the program as it is, and whether the change is worth
keeping; and a ledger of trials. The program's files are not touched.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
