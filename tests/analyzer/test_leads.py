"""The strongest lead of a sampled kernel: what its warps do most, where, and what to try."""

from __future__ import annotations

from tests.analyzer.made import Made, only, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.leads import Lead, strongest

IDLE = "long_scoreboard_not_issued"
ADDRESSES = (
    ("IMAD R4, R0, R2, R3", {"selected": 700, "not_selected": 900}, 1, 12),
    ("LDG.E R6, desc[UR4][R4.64]", {"selected": 100}, 1, 13),
    ("FADD R8, R8, R6", {"selected": 200, "long_scoreboard": 400, IDLE: 200}, 1, 14),
)
WAITING = (
    ("IMAD R4, R0, R2, R3", {"selected": 100, "not_selected": 200}, 1, 12),
    ("LDG.E R6, desc[UR4][R4.64]", {"selected": 100}, 1, 13),
    ("FADD R8, R8, R6", {"selected": 100, "long_scoreboard": 500, IDLE: 500}, 1, 14),
)
"""Fewer samples wait for memory than take turns to issue in the first, in half of the cycles of the
second nobody issues."""


def lead_of(code: tuple[tuple[str, dict[str, int], int, int], ...], line: int = 1) -> Lead:
    """The lead of a kernel of which its sum waits for its load."""
    made = Made(code=code, blames=[(2, "long_scoreboard", line)])
    found = strongest(Program(program(made)).kernels[0])
    assert found is not None
    return found


def test_busy_schedulers_have_too_many_instructions() -> None:
    """Most of them integers, in line 12."""
    lead = lead_of(ADDRESSES)
    assert lead.place.location is not None
    assert lead.place.location.line == 12
    assert [each.text for each in lead.evidence] == [
        "in 83 % of the samples warps issue, or wait for an issue slot (selected, not_selected), in"
        " 70 % because of line 12 alone",
        "schedulers issue in 91 % of the cycles; of what is issued 70 % integers, addresses and"
        " moves, 20 % floating-point arithmetic, 10 % accesses of global memory",
    ]
    assert "needs one address" in lead.advice
    assert "--metrics instructions" in lead.advice


def test_a_wait_is_that_of_who_is_waited_for() -> None:
    """The sum of line 14 waits for the load of line 13; schedulers are idle in half of the cycles,
    so that turns to issue, as many samples, count for half."""
    lead = lead_of(WAITING)
    assert lead.place.location is not None
    assert lead.place.location.line == 13
    assert lead.evidence[0].text.startswith("in 50 % of the samples warps wait for global memory")
    assert "in 50 % because of line 13 alone" in lead.evidence[0].text
    assert "--metrics memory" in lead.advice


def test_a_kernel_far_from_its_floor_says_it() -> None:
    """It has a place, the lead and its advice: 0.75 of a roof is far where it was sampled."""
    made = Made(code=WAITING, metrics={"bytes": 3e9}, blames=[(2, "long_scoreboard", 1)])
    finding = only(program(made, peaks={"hbm_copy": 4e12}), "far-from-floor")
    assert finding.place.location is not None
    assert finding.place.location.line == 13
    assert any("wait for global memory" in each.text for each in finding.evidence)
    assert "Have more bytes in flight" in finding.author


def test_without_samples_there_is_no_lead() -> None:
    """Nobody saw it."""
    assert strongest(Program(program(Made())).kernels[0]) is None
