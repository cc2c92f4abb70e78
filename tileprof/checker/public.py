"""Names of `tileprof.checker`, loaded when one is first used."""

from .checking import check, check_call, check_proofs
from .findings import (
    PROPERTIES,
    BlockVerdict,
    Finding,
    FoundAccess,
    LaunchVerdict,
    Report,
    Schedule,
    Unproved,
    Verdict,
)
from .in_block import Plan

__all__ = [
    "PROPERTIES",
    "BlockVerdict",
    "Finding",
    "FoundAccess",
    "LaunchVerdict",
    "Plan",
    "Report",
    "Schedule",
    "Unproved",
    "Verdict",
    "check",
    "check_call",
    "check_proofs",
]
