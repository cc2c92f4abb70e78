"""Names of `tileprof.instrument`, loaded when one is first used."""

from .decode.decoding import decode_records
from .decode.times import PathTimes, SiteTimes
from .decode.warp_times import decode_slots
from .placement.insertion import Mode, insert, strip
from .placement.marks import note_scopes, strip_marks
from .placement.placing import place_marks

__all__ = [
    "Mode",
    "PathTimes",
    "SiteTimes",
    "decode_records",
    "decode_slots",
    "insert",
    "note_scopes",
    "place_marks",
    "strip",
    "strip_marks",
]
