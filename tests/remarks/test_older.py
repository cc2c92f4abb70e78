"""Remarks of files that were written before remarks had codes."""

from __future__ import annotations

import pytest

from tileprof.errors import Location
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason
from tileprof.remarks.older import with_codes
from tileprof.runtime.typed_json import read_as

OLDER = {
    "op": "copy A → a",
    "location": {"file": "k.py", "line": 3},
    "chosen": "loads and stores",
    "rejected": [["tma", "its step is not 1"]],
    "severity": "missed",
}


def test_sentences_become_codes_that_carry_them() -> None:
    """It reads as it did."""
    rejected = Rejection(OtherCandidate("tma"), OtherReason("its step is not 1"))
    place = Location("k.py", 3)
    expected = Remark(
        OtherDecision("loads and stores"), "copy A → a", "", place, (rejected,), "missed"
    )
    assert read_as(Remark, with_codes(OLDER)) == expected
    assert str(expected) == ("k.py:3: copy A → a: loads and stores\n  not tma: its step is not 1")


@pytest.mark.parametrize("held", [7, {}, {"chosen": 3}, OLDER | {"rejected": [["tma"]]}])
def test_what_is_no_remark_is_left_to_the_reader(held: object) -> None:
    """Who refuses it."""
    with pytest.raises(ValueError, match="the file"):
        read_as(Remark, with_codes(held))
