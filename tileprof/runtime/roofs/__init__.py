"""Peak rates of a GPU, measured once for each machine and device, and kept.

In: a device.  Out: `Roofs`: bandwidths of its memories, rates of its tensor cores and of its
arithmetic, what a launch costs; each with its formula, its clock and how far repetitions differ.

`texts` has the kernels, `plans` says what each measures and how often it runs, `measuring` runs
them, `keeping` holds the numbers in the cache, `model` is what they are.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
