"""Remarks of files that were written before remarks had codes.

In: a remark as JSON whose decision, candidates and reasons are sentences.  Out: the same remark as
JSON of today's form, whose codes (`other-decision`, …) carry the old sentences as their only fact.
"""

from __future__ import annotations

from typing import Any

from .common import OtherCandidate, OtherDecision, OtherReason
from .statement import plain

__all__ = ["with_codes"]


def with_codes(held: Any) -> Any:
    """Return a remark of an older file with codes; what is none is returned as it is, for the
    reader to refuse."""
    if not isinstance(held, dict) or not isinstance(held.get("chosen"), str):
        return held
    if not isinstance(held.get("rejected", []), list):
        return held
    rest = {name: value for name, value in held.items() if name != "chosen"}
    rejected = [_rejection(each) for each in held.get("rejected", ())]
    return rest | {"decision": plain(OtherDecision(held["chosen"])), "rejected": rejected}


def _rejection(held: Any) -> Any:
    match held:
        case [str(candidate), str(reason)]:
            return {
                "candidate": plain(OtherCandidate(candidate)),
                "reason": plain(OtherReason(reason)),
            }
        case _:
            return held
