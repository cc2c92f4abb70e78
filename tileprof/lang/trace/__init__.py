"""The tracing context: running a kernel's function once, with proxies, writes its program.

In: operations of the language, called by the author's function.  Out: `Traced`, an `ir.Kernel` as
the author wrote it, with a source span on every op.

One class in layers: `core` (open blocks, emitting) < `scalars` < `buffers` < `tiles` <
`reducers` < `control` < `warps` < `signature` (`Tracer`).
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
