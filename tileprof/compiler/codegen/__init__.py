"""`ir.Kernel` to C++ for the `cpu` device.

In: a kernel after all passes.  Out: `CppSource`, readable C++ with `#line`s of the author's Python,
and the table of places that can fail or print.  Templates that do not depend on the kernel are
headers in `prelude/`.  `source.py` makes the whole unit, `statements.py` dispatches over ops,
`parallel.py` and `access.py` decide about guards, `tiles.py` and `matmul.py` call the templates.

Checks: tile ops compare their corner once; element accesses that are not proved inside are checked,
once in front of the loop where their indices are sums of loop variables.  Elements that are guarded
away are not counted, unlike in the interpreter; reads of memory nobody wrote and races go unseen.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
