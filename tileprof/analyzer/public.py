"""Names of `tileprof.analyzer`, loaded when one is first used."""

from tileprof.analyzer.findings import TIERS, Evidence, Finding, Gain, Place, Tier
from tileprof.analyzer.report import Answers, Report, analyze

__all__ = ["TIERS", "Answers", "Evidence", "Finding", "Gain", "Place", "Report", "Tier", "analyze"]
