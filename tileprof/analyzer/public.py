"""Names of `tileprof.analyzer`, loaded when one is first used."""

from tileprof.analyzer.account import Account
from tileprof.analyzer.findings import TIERS, Evidence, Finding, Gain, Place, Tier
from tileprof.analyzer.report import Answers, Fault, Report, analyze

__all__ = [
    "TIERS", "Account", "Answers", "Evidence", "Fault", "Finding", "Gain", "Place", "Report",
    "Tier", "analyze",
]  # fmt: skip
