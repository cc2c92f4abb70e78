"""Instructions that are executed for a few lanes."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program, remark, stored

RULE = "wasted-lanes"
# In half of all cycles nobody issues.
CODE = [
    ("FFMA R0, R0, R1, R2", {"selected": 2000, "not_selected": 1000}, 1, 5),
    ("FMUL R3, R0, R1", {"wait": 4000, "wait_not_issued": 3000}, 1, 6),
    ("FADD R4, R0, R1", {"wait": 3000, "wait_not_issued": 2000}, 1, 7),
]


def lanes(*each: int) -> dict[str, list[int]]:
    """Counts of instructions that were executed 1,000 times with so many lanes."""
    return {"executions": [1000] * len(each), "thread_executions": [1000 * n for n in each]}


def test_a_quarter_of_the_lanes() -> None:
    """Three quarters of 4,000 of 10,000 samples go at most, likely in the half that is busy."""
    finding = only(program(Made(code=CODE, counts=lanes(32, 8, 32))), RULE)
    assert (finding.severity, finding.title) == ("suggestion", "8 of 32 lanes work")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.3 * 0.5))
    assert finding.kernel_gain.high >= 1 / (1 - 0.3)
    assert finding.place.location is not None
    assert finding.place.location.line == 6


def test_all_lanes_or_nearly_all() -> None:
    """Edges of a tile cost some."""
    assert not found(program(Made(code=CODE, counts=lanes(32, 31, 30))), RULE)
    assert not found(program(Made(code=CODE)), RULE)


def test_cold_code_is_to_be_ignored() -> None:
    """A branch that hardly runs."""
    cold = [*CODE, ("FADD R5, R0, R1", {"selected": 20}, 0, 8)]
    finding = only(program(Made(code=cold, counts=lanes(32, 32, 32, 4))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_one_lane_that_works_for_all() -> None:
    """It asks barriers in shared memory, and what it does around that."""
    asks = ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", {"wait": 2000}, 1, 8)
    assert not found(program(Made(code=[*CODE, asks], counts=lanes(32, 1, 32, 1))), RULE)
    assert found(program(Made(code=CODE, counts=lanes(32, 1, 32))), RULE)


def test_counts_alone_make_no_number() -> None:
    """A symptom, where it is a notable part of all executions."""
    bare: list[tuple[str, dict[str, int], int, int]] = [(t, {}, d, line) for t, _, d, line in CODE]
    finding = only(program(Made(code=bare, counts=lanes(32, 8, 32))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert not found(program(Made(code=bare, counts=lanes(32, 24, 32))), RULE)


def test_a_guard_is_told_in_the_words_of_the_compiler() -> None:
    """And is by itself no fault."""
    guarded = remark("load A", 6, "guarded", ("without a guard", "nothing bounds the index"))
    finding = only(program(Made(code=CODE, counts=lanes(32, 8, 32), remarks=[guarded])), RULE)
    assert finding.static[0].text == "load A keeps its guard: nothing bounds the index"
    assert not found(program(Made(code=CODE, remarks=[guarded])), RULE)


def test_on_a_gpu() -> None:
    """Nothing was counted there."""
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)
