"""Remarks of files that were written before remarks had codes.

In: a decision, candidates and reasons as sentences.  Out: their codes and facts (`sentences`), also
where the sentence is one that the compiler used at that time.  What no code says keeps its sentence
as the only fact of `other-decision`, `other-candidate` or `other-reason`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tileprof.errors import Location

from .common import OtherCandidate, OtherDecision, OtherReason
from .copies import CpAsync
from .launches import EarlyStart, StartsEarly, TilesDealt, TilesInTurn
from .layouts import LoadedEarly, SharedLayoutOf, SumsEachTime
from .loops import (
    EveryHasMask,
    FirstHasMask,
    MaskFrom,
    MaskPeeled,
    RunsAhead,
    TakeTurns,
    WaitedAtOnce,
)
from .products import IssuedBehind
from .ptxas import PtxasSaid
from .remark import Rejection, Remark, Severity
from .sentences import Wording, statement_of
from .statement import Candidate, Decision, Reason, plain

_MASK = "iterations have the mask[[ of {lines:line &}]], those"
_BRANCH = "run without[[by_branch?, by a branch]]"
_MASKS = (
    Wording(MaskPeeled, f"the last {_MASK} before {_BRANCH}", {"where": "last"}),
    Wording(MaskPeeled, f"the first {_MASK} after {_BRANCH}", {"where": "first"}),
    Wording(
        MaskPeeled, f"the first and the last {_MASK} between {_BRANCH}", {"where": "first and last"}
    ),
    Wording(
        MaskFrom,
        "iterations from {first} on have the mask[[ of {lines:line &}]], those before " + _BRANCH,
    ),
)
_EARLIER = (
    Wording(
        TakeTurns,
        "consumer warp groups take turns: products of one run under the exponentials of the other",
        {"groups": 2},
    ),
    *_MASKS,
    Wording(FirstHasMask, "the first iteration has the masks of {lines:line &}"),
    Wording(EveryHasMask, "every iteration has the masks of {lines:line &}"),
    *(
        Wording(
            each.code,
            each.text.replace("mask[[ of {lines:line &}]]", "masks of {lines:line &}"),
            each.fixed,
        )
        for each in _MASKS
    ),
    Wording(SumsEachTime, "the parts of {threads} threads are added up each turn"),
    Wording(
        SharedLayoutOf, "layout {layout}[[, {ways:.3g} wavefronts for each that its bytes need]]"
    ),
    Wording(CpAsync, "cp.async, {width} bytes a thread"),
    Wording(TilesInTurn, "tiles in turn, to the block that is free: {why}"),
    Wording(TilesDealt, "tiles dealt to blocks in advance"),
    Wording(EarlyStart, "before the one before it ends"),
    Wording(StartsEarly, "starts while the one before it runs, and waits for its end"),
    Wording(LoadedEarly, "before the product that it stands behind"),
    Wording(
        RunsAhead, "cp.async, {stages} stages[[refilled?, each loaded anew as soon as it was used]]"
    ),
    Wording(WaitedAtOnce, "cp.async, waited for at once"),
    Wording(
        IssuedBehind,
        "issued behind the next iteration's product into `{buffer}`, to run while that one is"
        " computed with",
    ),
)
"""Sentences of earlier versions whose facts are those of today's codes."""

_FUNCTION = re.compile(r"^`\w+`(?= needs more registers)")
"""Name of the function where today's sentence has words for any."""


def remark_of(
    subject: str,
    location: Location | None,
    chosen: str,
    rejected: Iterable[tuple[str, str]],
    severity: Severity,
) -> Remark:
    """Return the remark that such sentences are; `subject` is the kind of the op with its name."""
    op, _, name = subject.partition(" ")
    pairs = tuple(Rejection(_candidate(each), _reason(why, op)) for each, why in rejected)
    return Remark(_decision(chosen), op, name, location, pairs, severity)


def with_codes(held: Any) -> Any:
    """Return a remark as JSON with codes, from JSON with sentences; what is none is returned as it
    is, for the reader to refuse."""
    if not isinstance(held, dict) or not isinstance(held.get("chosen"), str):
        return held
    if not isinstance(held.get("rejected", []), list):
        return held
    rest = {name: value for name, value in held.items() if name != "chosen"}
    if isinstance(op := held.get("op"), str) and "name" not in held:
        rest["op"], _, rest["name"] = op.partition(" ")
    rejected = [_rejection(each, rest.get("op")) for each in held.get("rejected", ())]
    return rest | {"decision": plain(_decision(held["chosen"])), "rejected": rejected}


def _rejection(held: Any, op: Any) -> Any:
    match held:
        case [str(candidate), str(reason)]:
            return {
                "candidate": plain(_candidate(candidate)),
                "reason": plain(_reason(reason, op)),
            }
        case _:
            return held


def _decision(sentence: str) -> Decision:
    return statement_of(Decision, sentence, _EARLIER) or OtherDecision(sentence)


def _candidate(sentence: str) -> Candidate:
    return statement_of(Candidate, sentence, _EARLIER) or OtherCandidate(sentence)


def _reason(sentence: str, op: Any) -> Reason:
    if op == "ptxas":
        sentence = _FUNCTION.sub("the kernel", sentence)
    if (found := statement_of(Reason, sentence, _EARLIER)) is not None:
        return found
    if op == "ptxas":
        words, _, number = sentence.removesuffix("]").partition(" [ptxas ")
        return PtxasSaid(words, number)
    return OtherReason(sentence)
