"""Names of `tileprof.checker`, loaded when one is first used."""

from .checking import check, check_proofs
from .findings import PROPERTIES, Finding, FoundAccess, LaunchVerdict, Report, Unproved, Verdict

__all__ = [
    "PROPERTIES",
    "Finding",
    "FoundAccess",
    "LaunchVerdict",
    "Report",
    "Unproved",
    "Verdict",
    "check",
    "check_proofs",
]
