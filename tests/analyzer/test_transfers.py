"""Waits of the host, and copies of pageable memory."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import LATE, MS, Step, training
from tileprof.analyzer.cases import Program
from tileprof.profile import Profile

AFTER_WAIT = "waiting for its launch after a host's wait"
AFTER_COPY = "waiting for its launch after a host's copy"


def waiting(direct: float = 10, late: float = 0, waited: float = 50, times: int = 20) -> Step:
    """A loss that is read in each step of 100 ms; gaps follow it."""
    step = Step()
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - direct - late) * MS)
    above = step.op(step.top, "aten::mul")
    step.idle(above, AFTER_WAIT, direct * MS)
    step.idle(above, LATE, late * MS)
    line = step.frame(step.top, "train", 170)
    item = step.op(step.op(line, "aten::item", times), "aten::_local_scalar_dense", times)
    step.wait(item, waited * MS, times)
    return step


def test_an_item_in_each_step() -> None:
    """What directly follows goes; the call path is told."""
    finding = only(waiting().profile(), "transfers")
    assert finding.severity == "suggestion"
    assert finding.title.startswith(".item() at train_gpt.py:170")
    assert "20 times, 50 ms each" in finding.evidence[0].text
    assert (
        "aten::item → aten::_local_scalar_dense → cuStreamSynchronize" in finding.evidence[0].text
    )
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.95, 1 / 0.9, 1 / 0.9))


def test_late_launches_of_a_host_that_would_be_ahead() -> None:
    """Of further 20 ms none to all."""
    finding = only(waiting(late=20).profile(), "transfers")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.95, 1 / 0.8, 1 / 0.7))


def test_late_launches_of_a_host_that_is_behind() -> None:
    """It waits for 5 ms and is late by 20: those are not for the wait."""
    finding = only(waiting(late=20, waited=5).profile(), "transfers")
    assert finding.program_gain is not None
    assert finding.program_gain.high == pytest.approx(1 / 0.9)


def test_a_wait_that_costs_nothing() -> None:
    """The device has work meanwhile."""
    finding = only(waiting(direct=0.5).profile(), "transfers")
    assert (finding.severity, finding.program_gain) == ("ignore", None)


def test_gaps_are_dealt_out() -> None:
    """Two waits a step have half of the gaps each: together no more than there are."""
    step = waiting()
    step.wait(step.op(step.frame(step.top, "train", 171), "aten::nonzero"), 10 * MS)
    said = found(step.profile(), "transfers")
    assert len(said) == 2
    assert [each.program_gain.high for each in said if each.program_gain] == pytest.approx(
        [1 / 0.95] * 2
    )
    assert "fixed size" in next(each.author for each in said if "nonzero" in each.title)


def test_a_wait_at_the_end_is_none() -> None:
    """Once in twenty steps, as when a program ends; so in the recordings."""
    assert not found(waiting(times=1).profile(), "transfers")
    for name in ("h200-gemm", "h200-stalls"):
        assert "transfers" not in {each.rule for each in report_of(name).findings}


def test_the_case_study() -> None:
    """`losses.append(loss.item())`: 0.8 ms directly, 3 more at most, of 32.4."""
    finding = only(training().profile(), "transfers")
    assert finding.place.op == "aten::_local_scalar_dense"
    gain = finding.program_gain
    assert gain is not None
    assert gain.low < 1.03 < gain.mid < gain.high < 1.15


def copying(
    name: str = "HtoD pageable", time: float = 20, alone: float = 20, held: float = 0
) -> Step:
    """Copies of 400 MB in each step, of so many ms, in which nothing else runs; a gap behind."""
    step = Step()
    product = step.op(step.top, "aten::mm")
    step.launch(product, "nvjet_hsh", 80 * MS, gaps={AFTER_COPY: held * MS} if held else {})
    if alone:
        step.idle(product, "only copies", alone * MS)
    step.copy(step.op(step.frame(step.top, "train", 163), "aten::copy_"), name, time * MS, 20 * 4e8)
    return step


def gain_at(profile: Profile, low: float, high: float) -> tuple[float, float, float]:
    """The gain where so many ms of each step go, and the middle."""
    whole = Program(profile).device_time / MS
    low, high = low / whole, high / whole
    return 1 / (1 - low), 1 / (1 - (low + high) / 2), 1 / (1 - high)


def test_pageable_copies() -> None:
    """None to all of it; the middle of that."""
    profile = copying().profile()
    finding = only(profile, "transfers")
    assert finding.title == "copies of pageable memory at train_gpt.py:163, aten::copy_"
    assert "20 copies at 20 GB/s" in finding.evidence[0].text
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 0, 20))


def test_pinned_copies_tell_how_fast_they_are() -> None:
    """50 GB/s, elsewhere in the program: three fifths of the time at least."""
    step = copying()
    step.copy(step.op(step.top, "aten::to"), "HtoD pinned", 1e6, 5e7)
    profile = step.profile()
    gain = only(profile, "transfers").program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 12, 20), rel=1e-3)


def test_copies_that_hold_the_host_up() -> None:
    """Launches come late after them; that the host was late with the data is not their doing."""
    profile = copying(alone=0, held=10).profile()
    gain = only(profile, "transfers").program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 0, 10))
    step = copying(alone=0)
    call = int(step.profile().parents[step.profile().find(kind="memcpy")[0]])
    step.idle(call, AFTER_COPY, 10 * MS)
    assert only(step.profile(), "transfers").severity == "ignore"


def test_copies_beside_kernels() -> None:
    """Nothing waits for them, so nothing is to be gained."""
    finding = only(copying(alone=0).profile(), "transfers")
    assert (finding.severity, finding.program_gain) == ("ignore", None)


@pytest.mark.parametrize("step", [copying("HtoD pinned"), copying(time=0.5, alone=0.5)])
def test_copies_as_they_should_be(step: Step) -> None:
    """Pinned ones, and some of no account."""
    assert not found(step.profile(), "transfers")


def test_the_copy_of_an_item_is_its_own() -> None:
    """Four bytes by way of pageable memory are no reason to pin anything."""
    step = waiting()
    read = step.builder.child(step.frame(step.top, "train", 170), "op", "aten::item")
    step.copy(read, "DtoH pageable", 2 * MS, 80)
    assert [each.place.op for each in found(step.profile(), "transfers")] == [
        "aten::_local_scalar_dense"
    ]
