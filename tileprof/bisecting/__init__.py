"""Two compilers, environments or settings compared on a suite of kernels: which kernels changed,
at which level first, what it costs, and which commit, pass or control brought it.

In: two sides, a suite, settings.  Out: a `Report` with a `Change` for each kernel. A worker for
each side (`inside`) compiles and times there; everything is compared here.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
