"""Sentences are read back to the code and the facts that they were rendered from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyzer.compiled import compiled
from tests.analyzer.defects import product
from tests.remarks.test_statement import SHOWN
from tests.spread import examples
from tileprof.remarks import CODES, Candidate, Decision, Reason, Statement
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason, TurnedOff
from tileprof.remarks.launches import OtherLimit
from tileprof.remarks.layouts import OtherSharedLayout, SharedLayoutOf
from tileprof.remarks.products import Several, SwizzleOff, TypesUnsupported
from tileprof.remarks.ptxas import PtxasSaid
from tileprof.remarks.sentences import LONGEST, statement_of
from tileprof.remarks.statement import hints_of

KINDS = (Decision, Candidate, Reason)
ANY_WORDS = {OtherDecision, OtherCandidate, OtherReason, PtxasSaid}
"""Codes whose sentence may be any."""
NAMES = st.sampled_from(["A", "k", "w_2", "total"])
LAYOUTS = st.sampled_from(["rows", "pad=8", "swizzle=128"])
LIMITS = st.sampled_from(["threads", "blocks", "warps", "named barriers"])


def kind_of(code: type[Statement]) -> type[Statement] | None:
    """Decision, candidate or reason; None for what stands within others alone."""
    return next((kind for kind in KINDS if issubclass(code, kind)), None)


@cache
def facts_of(code: Any, depth: int = 2) -> st.SearchStrategy[Statement]:
    """Statements of a code, with names and numbers as the compiler has them."""
    hints = hints_of(code)
    made = {name: _fact(code, name, hint, depth) for name, hint in hints.items()}
    return st.builds(code, **made)


def _fact(code: type[Statement], name: str, hint: Any, depth: int) -> st.SearchStrategy[Any]:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if code in (SharedLayoutOf, OtherSharedLayout) and name == "layout":
        return LAYOUTS
    if code is OtherLimit:
        return LIMITS
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(_fact(code, name, get_args(hint)[0], depth), min_size=1, max_size=3).map(
            tuple
        )
    if isinstance(hint, type) and issubclass(hint, Statement):
        below: list[Any] = [each for each in CODES.values() if issubclass(each, hint)]
        leaves = [c for c in below if c not in ANY_WORDS and (depth > 0 or not _nests(c))]
        return st.one_of([facts_of(each, depth - 1) for each in leaves or below])
    plain = {
        int: st.integers(0, 1 << 40), float: st.floats(1, 1e6), bool: st.booleans(), str: NAMES,
    }  # fmt: skip
    return plain[hint]


def _nests(code: type[Statement]) -> bool:
    def named(hint: Any) -> Iterator[Any]:
        yield hint
        for each in get_args(hint):
            yield from named(each)

    held = [each for hint in hints_of(code).values() for each in named(hint)]
    return any(isinstance(each, type) and issubclass(each, Statement) for each in held)


@settings(max_examples=examples(4))
@given(st.data())
@pytest.mark.parametrize(
    "code", [c for c in CODES.values() if kind_of(c) and c not in ANY_WORDS], ids=lambda c: c.code()
)
def test_every_code_is_found_by_its_sentence(code: Any, data: st.DataObject) -> None:
    """What is found renders to the same sentence, and is no mere copy of the words."""
    kind = kind_of(code)
    assert kind is not None
    sentence = str(data.draw(facts_of(code)))
    found = statement_of(kind, sentence)
    assert found is not None
    assert str(found) == sentence
    assert type(found) not in ANY_WORDS


@pytest.mark.parametrize("statement", SHOWN, ids=[s.code() for s in SHOWN])
def test_facts_that_are_shown_come_back(statement: Statement) -> None:
    """Numbers, words, lists and statements within others; sizes as far as they were not rounded."""
    kind = kind_of(type(statement))
    assert kind is not None
    found = statement_of(kind, str(statement))
    assert found is not None
    if found != statement:
        assert str(found) == str(statement)
        assert found.code() == statement.code() in ("occupancy", "accumulators-too-large")


def test_reasons_side_by_side_are_several() -> None:
    """A text among the facts of one does not take in the others."""
    several = Several(
        (TurnedOff(), SwizzleOff(), TypesUnsupported("float16", "float16", "float64"))
    )
    assert statement_of(Reason, str(several)) == several


def test_remarks_of_the_compiler_come_back() -> None:
    """All that it says of a product: the same codes, and the same facts but for rounded sizes."""
    program = compiled(product(stages=2))
    for remark in program.remarks:
        assert statement_of(Decision, str(remark.decision)) == remark.decision
        for each in remark.rejected:
            assert statement_of(Candidate, str(each.candidate)) == each.candidate
            assert statement_of(Reason, str(each.reason)) == each.reason


@pytest.mark.parametrize(
    "sentence",
    ["", "by magic", "tma,", "cp.async, x bytes a thread", "tma" * LONGEST, "; " * 40],
)
def test_other_sentences_are_nothing(sentence: str) -> None:
    """No code is guessed, and long texts are not searched."""
    assert all(statement_of(kind, sentence) is None for kind in KINDS)
