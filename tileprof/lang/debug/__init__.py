"""Debug execution: a kernel's own function runs as plain Python, line by line, over NumPy.

In: the function of a kernel and the arguments of one call.  Out: the results of a compiled kernel,
with `print`, `breakpoint()` and `pdb` at work on every line of the function.

The function is rewritten as little as Python needs (`rewriting.py`) and keeps its lines.  The
context (`context.py`) is the tracing one with a difference: an op does not go into a program but to
the interpreter, at once and for one block (`machine.py`), so that types, rounding, guarded accesses
and errors are those of the other executions.  Names stand for objects that show their values
(`values.py`).  `signature.py` binds arguments and `run.py` is the way in.

Blocks and points run one after the other.  Two blocks that write one element are found; two points
of one `T.Parallel` are not: run the interpreter for that.  A line is judged when it runs: what a
compiler refuses in a branch that is not taken, or in the type that a name has after an `if` whose
branches differ in type, goes unnoticed here.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
