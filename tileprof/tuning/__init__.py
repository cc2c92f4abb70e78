"""The tuner: which tile sizes, stages, threads and lowering controls make a kernel fast.

In: a function of tiles, its arguments, a device; the author's configurations, or none.  Out: an
`Outcome`: every configuration that was looked at, with what the model and the measurement say of
it, and the winner.  A model of tiles ranks configurations from trial compiles; a few are timed in
interleaved pairs until the winner is sure.  Results are kept in the cache, by the kernel's source,
its shapes, the device and the compiler.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
