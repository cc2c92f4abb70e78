"""What is said of five recordings of a training script, beside what its changes brought.

`h200-training.tar.xz` has `case_studies/advice/training.py` on an H200, with one mistake less each:
twelve steps each, paths of which all but the user's lines and the host's places in long gaps were
taken out. Times of a step without a profiler, and how much each change brought, are those of
`case_studies/advice/study.py` on the same day: 5 rounds of 3 steps, all versions in turns.
"""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.analyzer.made import DATA
from tileprof.analyzer import Finding, Report, analyze
from tileprof.analyzer.program.steady import Steps
from tileprof.files import unpack
from tileprof.profile import Profile, load

_MS = (157.1, 73.3, 63.5, 59.0, 52.5)
"""Of a step, by how many of the changes were made."""
_CHANGES = (
    ("precision", "32-bit floats without tensor cores", 2.099),
    ("transfers", ".item() at training.py:138", 1.161),
    ("transfers", "pageable memory at training.py:125", 1.082),
    ("small-kernels", "in a row at training.py:103", 1.127),
)
"""Rule, part of the title, how much it brought."""


@cache
def recordings() -> tuple[Profile, ...]:
    """With 0 to 4 changes."""
    with TemporaryDirectory() as folder, tarfile.open(DATA / "h200-training.tar.xz") as held:
        unpack(held, folder)
        return tuple(load(Path(folder) / f"training-{number}.tprof") for number in range(1, 6))


@cache
def reports() -> tuple[Report, ...]:
    """What is found in each."""
    return tuple(map(analyze, recordings()))


def asking(made: int, change: int) -> list[Finding]:
    """Suggestions that ask for a change, after so many of them were made."""
    rule, title, _ = _CHANGES[change]
    return [
        each
        for each in reports()[made].findings
        if each.rule == rule and title in each.title and each.severity == "suggestion"
    ]


@pytest.mark.parametrize("change", range(4))
def test_each_mistake_is_found_while_it_is_there(change: int) -> None:
    """And not when it has been put right."""
    assert [len(asking(made, change)) for made in range(5)] == [1] * (change + 1) + [0] * (
        4 - change
    )


@pytest.mark.parametrize("change", range(4))
def test_gains_hold_what_was_measured(change: int) -> None:
    """The range does; the likeliest is within 5 %."""
    (finding,) = asking(change, change)
    gain, measured = finding.program_gain, _CHANGES[change][2]
    assert gain is not None
    assert gain.low <= measured <= gain.high
    assert gain.mid == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("made", range(5))
def test_a_step_takes_what_it_takes_without_a_profiler(made: int) -> None:
    """Seconds of imports and first uses are no part of it; recording makes it a little longer."""
    steps = Steps(recordings()[made])
    assert steps.time / 12e6 == pytest.approx(_MS[made], rel=0.1)
    assert steps.once > 4e9


def test_imports_are_no_wait_for_the_host() -> None:
    """Line 90 makes the optimizer, which imports what compiles: four seconds, once."""
    told = [each for report in reports() for each in report.findings]
    assert not [each for each in told if each.rule == "launch-bound" and ":90" in each.title]


@pytest.mark.parametrize("made", range(5))
def test_the_first_suggestions_together_bring_no_more_than_their_sum(made: int) -> None:
    """And no less than each of them, at all ends of their ranges."""
    account = reports()[made].account
    assert account is not None
    count, gain = account.first
    titles = {each.title: each.program_gain for each in reports()[made].findings}
    causes = [each for each in account.causes if each.gained > 0][:count]
    gains = [held for each in causes if (held := titles[each.title]) is not None]
    assert len(gains) == count == 3
    for at in ("low", "mid"):
        each = [getattr(held, at) for held in gains]
        most = 1 / (1 - sum(1 - 1 / single for single in each))
        assert max(each) <= getattr(gain, at) <= most * (1 + 1e-9)
    assert gain.mid <= gain.high
