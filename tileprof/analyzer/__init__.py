"""Answers: where the time of a program goes, why, what to change, and what that would bring.

In: a profile, of whatever kinds of evidence it holds.  Out: `Report`: findings in order of use.
Each joins what the compiler decided, or what machine code shows, with measured time; its gain is
an interval, capped by what the device was measured to do at most. A rule is one file of `rules`.
"""

from tileprof.analyzer.findings import TIERS, Evidence, Finding, Gain, Place, Tier
from tileprof.analyzer.report import Answers, Report, analyze

__all__ = ["TIERS", "Answers", "Evidence", "Finding", "Gain", "Place", "Report", "Tier", "analyze"]
