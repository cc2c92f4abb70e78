"""Measurement inside a kernel: sites, where their records go in, the record's layout, decoding.

In: a kernel after every other pass, and a mode.  Out: the kernel with `record` ops (for the cpu,
`insertion`) or `mark` ops (for a GPU, `placing`) and its table of sites; and, from the bytes that a
launch wrote (`records`, of a CPU; `slots`, of a GPU), `SiteTimes`: count and time of each nesting
path.  Facts from single visits: `queues`, `facts`.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
