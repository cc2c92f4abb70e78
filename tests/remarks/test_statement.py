"""Codes of remarks: their facts are checked, rendered once, and come back from JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tileprof.remarks import CODES, Decision, Reason, Rejection, Remark, from_plain, plain
from tileprof.remarks.common import TurnedOff
from tileprof.remarks.copies import CpAsyncCandidate, NoProducerGroup, RowStride, Tma, TmaLoad
from tileprof.remarks.launches import (
    BlocksNeed,
    Occupancy,
    RegisterLimit,
    RegistersAtMost,
    SharedAtMost,
    SharedLimit,
)
from tileprof.remarks.loops import KeepsOrder, MaskPeeled, MustStay
from tileprof.remarks.products import Several, SwizzleOff
from tileprof.remarks.ptxas import AccumulatorsTooLarge
from tileprof.remarks.statement import FIELD, Statement, hints_of

SHOWN = {
    RowStride(200, 16, "TMA"): "row stride 200 B is not a multiple of 16 B, TMA needs it",
    TmaLoad(): "tma, issued by the producer warp group",
    TmaLoad("evict_first"): "tma, issued by the producer warp group, `evict_first`, as asked",
    MaskPeeled("first", (3,), by_branch=False): (
        "the first iterations have the mask of line 3, the others run without it"
    ),
    MaskPeeled("last", (3, 5, 9), by_branch=True): (
        "the last iterations have the mask of lines 3, 5 and 9, the others run without it,"
        " by a branch"
    ),
    KeepsOrder("print", 7, MustStay()): "`print` of line 7: it must stay where it is",
    KeepsOrder("print", 0, MustStay()): "`print`: it must stay where it is",
    Several((TurnedOff(), SwizzleOff())): (
        "it is turned off; it needs swizzled shared memory, which is turned off"
    ),
    Occupancy(1, 384, (RegisterLimit(168), SharedLimit(229_457)), 1): (
        "1 block of 384 threads per SM, limited by registers (168 a thread) and shared memory"
        " (224.1 KB each); a persistent launch of 1 per SM"
    ),
    BlocksNeed((RegistersAtMost(80), SharedAtMost(115_712))): (
        "they need at most 80 registers a thread and at most 113 KB of shared memory each"
    ),
    AccumulatorsTooLarge("C7510"): (
        "the accumulators do not fit beside what else is alive; use a smaller tile, more threads,"
        " or keep fewer fragments across the product [ptxas C7510]"
    ),
}


@pytest.mark.parametrize(("statement", "text"), SHOWN.items(), ids=[s.code() for s in SHOWN])
def test_sentence_is_rendered_from_facts(statement: Statement, text: str) -> None:
    """Optional parts, counts, units and joined members, each as its text says."""
    assert str(statement) == text


@pytest.mark.parametrize("statement", SHOWN, ids=[s.code() for s in SHOWN])
def test_json_gives_the_statement_back(statement: Statement) -> None:
    """Also statements within others, and tuples."""
    held = json.loads(json.dumps(plain(statement)))
    assert from_plain(Statement, held["code"], held["facts"]) == statement


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"stride": 200, "multiple": 16},
        {"stride": 200, "multiple": 16, "instruction": "TMA", "more": 1},
        {"stride": "200", "multiple": 16, "instruction": "TMA"},
        {"stride": 1.5, "multiple": 16, "instruction": "TMA"},
        {"stride": True, "multiple": 16, "instruction": "TMA"},
        {"stride": 1 << 63, "multiple": 16, "instruction": "TMA"},
        {"stride": 200, "multiple": 16, "instruction": "mma"},
        {"stride": None, "multiple": 16, "instruction": "TMA"},
    ],
)
def test_wrong_facts_are_refused(facts: dict[str, Any]) -> None:
    """Missing, unknown and mistyped ones, in code and from files."""
    with pytest.raises(TypeError, match="row-stride"):
        RowStride(**facts)
    with pytest.raises(ValueError, match="row-stride"):
        from_plain(Reason, "row-stride", facts)


def test_codes_of_another_kind_are_refused() -> None:
    """A reason is no decision, what nobody declared is nothing."""
    with pytest.raises(ValueError, match="no decision has the code 'row-stride'"):
        from_plain(Decision, "row-stride", {"stride": 1, "multiple": 16, "instruction": "TMA"})
    with pytest.raises(ValueError, match="no reason has the code"):
        from_plain(Reason, "no-such-code", {})
    with pytest.raises(ValueError, match="no reason has the code"):
        from_plain(Reason, ["row-stride"], {})


def test_statements_nest_to_a_limit() -> None:
    """A file cannot ask for deep recursion."""
    held: dict[str, Any] = {"code": "turned-off", "facts": {}}
    for _ in range(20):
        held = {"code": "no-producer-group", "facts": {"why": held}}
    with pytest.raises(ValueError, match="no-producer-group"):
        from_plain(Reason, held["code"], held["facts"])


def test_every_text_names_its_own_facts() -> None:
    """Each field of a text is a fact or an attribute of its class."""
    for code, held in CODES.items():
        for name, _ in FIELD.findall(held.text):
            assert name in hints_of(held) or hasattr(held, name), (code, name)


def test_a_remark_finds_reasons_within_others() -> None:
    """By the kind of reason, and of the candidate that it speaks against."""
    against = Rejection(Tma(), NoProducerGroup(TurnedOff()))
    remark = Remark(TmaLoad(), "copy", "A → A_shared", None, (against,))
    assert list(remark.reasons(TurnedOff)) == [TurnedOff()]
    assert list(remark.reasons(TurnedOff, CpAsyncCandidate)) == []
    assert remark.subject == "copy A → A_shared"
    assert str(remark).splitlines()[1] == "  not tma: no producer warp group: it is turned off"
