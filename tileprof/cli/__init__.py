"""The command line: the only place that prints results and errors and picks exit codes.

In: arguments.  Out: text on standard output, one message on standard error when something is wrong,
and an exit code: that of the user's program for `run`, 2 for wrong use, 1 for a failed gate and for
a kernel that is wrong itself.

To add a command: one file with a `COMMAND`, in `kernel` if it is about a kernel in a file, and one
line that names it in `public.py`.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
