"""Remarks of files that were written before remarks had codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tileprof.errors import Location
from tileprof.remarks import Rejection, Remark, Statement
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason, StepNotOne
from tileprof.remarks.copies import LoadsAndStores, Tma
from tileprof.remarks.layouts import SumsEachTime
from tileprof.remarks.loops import MaskPeeled, TakeTurns
from tileprof.remarks.older import remark_of, with_codes
from tileprof.remarks.ptxas import PtxasSaid, ThreadRegisters
from tileprof.runtime.typed_json import read_as

KEPT = json.loads(Path(__file__).with_name("older_remarks.json").read_text())
"""Remarks that a compiler without codes made of the kernels of tests and case studies: subject,
decision, and pairs of candidate and reason; one for each sentence but for its numbers and names."""
WITHOUT_CODE = {
    "32 blocks of 64 threads per SM, limited by threads and registers (32 a thread) and blocks",
}
"""Sentences of these that no code gives, and no rule asks for."""
_OTHER = (OtherDecision, OtherCandidate, OtherReason, PtxasSaid)
OLDER = {
    "op": "copy A → a",
    "location": {"file": "k.py", "line": 3},
    "chosen": "loads and stores",
    "rejected": [["tma", "its step is not 1"]],
    "severity": "missed",
}
READ = Remark(
    LoadsAndStores(), "copy", "A → a", Location("k.py", 3),
    (Rejection(Tma(), StepNotOne()),), "missed",
)  # fmt: skip


def test_saved_kernels_get_codes() -> None:
    """A remark as JSON with sentences is read as the same remark with codes."""
    assert read_as(Remark, with_codes(OLDER)) == READ


def test_profiles_get_codes() -> None:
    """The same from the columns of a profile."""
    found = remark_of(
        "copy A → a", Location("k.py", 3), "loads and stores", [("tma", "its step is not 1")],
        "missed",
    )  # fmt: skip
    assert found == READ


@pytest.mark.parametrize("held", [7, {}, {"chosen": 3}, OLDER | {"rejected": [["tma"]]}])
def test_what_is_no_remark_is_left_to_the_reader(held: object) -> None:
    """The reader refuses it."""
    with pytest.raises(ValueError, match="the file"):
        read_as(Remark, with_codes(held))


@pytest.mark.parametrize(
    "look_up",
    [
        "stored import *; print(restored(Decision, Stored('guarded', {}, '')))",
        "sentences import *; print(statement_of(Decision, 'guarded'))",
    ],
    ids=["code", "sentence"],
)
def test_every_code_is_known_from_the_first_look_up_on(look_up: str) -> None:
    """Whichever module a program has imported, and no other."""
    program = f"from tileprof.remarks.statement import Decision; from tileprof.remarks.{look_up}"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "guarded\n"


def test_unknown_sentences_stay_as_they_are() -> None:
    """Each is the only fact of a code of its kind; what ptxas said keeps ptxas's number."""
    found = remark_of("copy A", None, "by magic", [("a wand", "there is none")], "info")
    assert found.decision == OtherDecision("by magic")
    assert found.rejected == (Rejection(OtherCandidate("a wand"), OtherReason("there is none")),)
    (said,) = remark_of("ptxas", None, "slow", [("fast", "too hot [ptxas C1]")], "info").rejected
    assert said.reason == PtxasSaid("too hot", "C1")


def test_sentences_of_the_compiler_before_codes() -> None:
    """All but the listed ones have a code."""
    without = set[str]()
    for subject, chosen, rejected in KEPT:
        found = remark_of(subject, None, chosen, rejected, "info")
        statements: list[Statement] = [found.decision]
        statements += [s for each in found.rejected for s in (each.candidate, each.reason)]
        without |= {str(s) for s in statements if isinstance(s, _OTHER)}
    assert without == WITHOUT_CODE


REWORDED = {
    "consumer warp groups take turns: products of one run under the exponentials of the other": (
        TakeTurns(2)
    ),
    "the first and the last iterations have the mask of line 3, those between run without": (
        MaskPeeled("first and last", (3,), by_branch=False)
    ),
    "the last iterations have the masks of lines 3 and 5, those before run without": (
        MaskPeeled("last", (3, 5), by_branch=False)
    ),
    "the last iterations have the mask of line 3, those before run without, by a branch": (
        MaskPeeled("last", (3,), by_branch=True)
    ),
    "the parts of 4 threads are added up each turn": SumsEachTime(4),
}


@pytest.mark.parametrize("sentence", REWORDED)
def test_earlier_wordings_have_the_codes_of_today(sentence: str) -> None:
    """With all facts that the sentence shows."""
    assert remark_of("loop k", None, sentence, [], "info").decision == REWORDED[sentence]


def test_a_function_in_ptxas_words_is_no_fact() -> None:
    """An earlier sentence named it."""
    words = (
        "`f` needs more registers than a thread has; use a smaller tile, more threads, or allow"
        " more registers"
    )
    (found,) = remark_of("ptxas", None, "slow", [("fast", words)], "info").rejected
    assert found.reason == ThreadRegisters()
