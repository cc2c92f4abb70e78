"""Measurement inside a kernel: sites, where their records go in, the record's layout, decoding.

In: a kernel after every other pass, and a mode.  Out: the kernel with `record` ops (for the cpu,
`insertion`) or `mark` ops (for a GPU, `placing`) and its table of sites; and, from the bytes that a
launch wrote (`records`, of a CPU; `slots`, of a GPU), `SiteTimes`: count and time of each nesting
path.  Facts from single visits: `queues`, `facts`.
"""

from .decode.decoding import decode, decode_records
from .decode.times import PathTimes, SiteTimes
from .decode.warp_times import decode_slots
from .placement.insertion import Mode, insert, strip
from .placement.marks import note_scopes, strip_marks
from .placement.placing import place_marks

__all__ = [
    "Mode",
    "PathTimes",
    "SiteTimes",
    "decode",
    "decode_records",
    "decode_slots",
    "insert",
    "note_scopes",
    "place_marks",
    "strip",
    "strip_marks",
]
