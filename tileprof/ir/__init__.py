"""The program: typed SSA values, declared ops, a text form that parses back, and a verifier.

In: ops from the frontend (`lang`) or text.  Out: kernels that passes rewrite, that the interpreter
runs and that backends print.  A kernel is never changed in place; each pass gives a new one.

To add an op: declare it in `scalar.py`, `memory.py`, `tile.py` or `control.py`; the text form,
the parser, the rewriter and the verifier follow from the declaration.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
