"""The tracing context: running a kernel's function once, with proxies, writes its program.

In: operations of the language, called by the author's function.  Out: `Traced`, an `ir.Kernel` as
the author wrote it, with a source span on every op.

One class in layers: `core` (open blocks, emitting) < `scalars` < `buffers` < `tiles` < `control` <
`signature` (`Tracer`).
"""

from .core import Retrace
from .evaluate import Evaluator
from .signature import Given, Knowledge, Traced, Tracer

__all__ = ["Evaluator", "Given", "Knowledge", "Retrace", "Traced", "Tracer"]
