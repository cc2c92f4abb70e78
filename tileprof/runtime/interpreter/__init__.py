"""The interpreter: it defines what every op means, on NumPy arrays, and checks every access.

In: an `ir.Kernel`, before or after any pass, and the arguments of a call.  Out: results in the
arguments, a `RunResult` with what was guarded and the time of each site, or an error that names the
argument, the index, the shape, the block and the source line.

Many blocks run at once, in lock step with masks where they part (`control.py`).  What is checked:
bounds, reads of what nobody wrote, writes by two blocks or by two points of a `parallel`, integer
division by zero, assertions.  That one block reads what another one writes is found by
`tileprof.checker`.  Where several blocks go wrong in different ways, the error whose op runs first
is the one that is raised.

To add an op: its meaning as a function, and one line in `dispatch.HANDLERS`.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
