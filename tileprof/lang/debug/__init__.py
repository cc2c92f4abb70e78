"""Debug execution: a kernel's own function runs as plain Python, line by line, over NumPy.

In: the function of a kernel and the arguments of one call.  Out: the results of a compiled kernel,
with `print`, `breakpoint()` and `pdb` at work on every line of the function.

The function is rewritten as little as Python needs (`rewriting.py`) and keeps its lines.  The
context (`context.py`) is the tracing one with a difference: an op does not go into a program but to
the interpreter, at once and for one block (`machine.py`), so that types, rounding, guarded accesses
and errors are those of the other executions.  Names stand for objects that show their values
(`values.py`).  `signature.py` binds arguments and `run.py` is the way in.

Not looked for here: races, for blocks and points run one after the other (the interpreter finds
them), and a `while` that never ends.  What the compiler would refuse is refused where the line runs
and the language can tell; branches that are not taken are not looked at.
"""

from .run import run_eager, run_prim_func

__all__ = ["run_eager", "run_prim_func"]
