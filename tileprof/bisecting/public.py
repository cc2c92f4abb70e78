"""Names of `tileprof.bisecting`, loaded when one is first used."""

from tileprof.bisecting.comparing import LEVELS, Difference, Level, compare
from tileprof.bisecting.culprits import Culprit
from tileprof.bisecting.forms import Forms
from tileprof.bisecting.reports import Change, CommitChange, Report
from tileprof.bisecting.running import Settings, bisect
from tileprof.bisecting.sides import Side, Sides
from tileprof.bisecting.suites import Suite, read_suite
from tileprof.bisecting.timing import Times, Timing, judged
from tileprof.bisecting.workers import SideError

__all__ = [
    "LEVELS", "Change", "CommitChange", "Culprit", "Difference", "Forms", "Level", "Report",
    "Settings", "Side", "SideError", "Sides", "Suite", "Times", "Timing", "bisect", "compare",
    "judged", "read_suite",
]  # fmt: skip
