"""Last waves that are not full."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, stored
from tileprof.profile import Cta, CtaLaunch, CtaTimelines

RULE = "tail-wave"


def busy(share: float) -> list[tuple[str, dict[str, int], int, int]]:
    """Code whose schedulers issue in that share of all cycles."""
    idle = round(10_000 * (1 - share))
    reasons = {"wait": idle, "wait_not_issued": idle, "not_selected": 10_000 - idle}
    return [("FFMA R0, R0, R1, R2", reasons, 1, 5)]


def median_block(ns: int) -> CtaTimelines:
    """One recorded block of the first kernel."""
    blocks = [Cta(0, 0, 0, 0, ns, "median, first"), Cta(0, 1, 1, 0, 5 * ns, "longest")]
    return CtaTimelines([CtaLaunch(0, "kernel", "cuda:0", 0, 133)], blocks)


def test_a_block_too_many() -> None:
    """133 blocks take the time of 264: half of it, less what the 133rd did."""
    finding = only(on_h200(Made(attributes=launch(133))), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(264 / 133)
    assert finding.kernel_gain.high == pytest.approx(264 / 133)
    assert (finding.severity, finding.confidence) == ("suggestion", "medium")
    assert "1.01 waves" in finding.static[0].text


@pytest.mark.parametrize(("share", "left"), [(1.0, 1.0), (0.0, 5 / 8), (0.6, 1 - 0.4 * 3 / 8)])
def test_blocks_that_share_what_is_scarce(share: float, left: float) -> None:
    """Five blocks for each of 132 that hold four: nothing is lost where schedulers are busy, three
    of eight rounds where all is latency."""
    attributes = launch(5 * 132, held=4)
    findings = found(on_h200(Made(attributes=attributes, code=busy(share))), RULE)
    gains = [each.kernel_gain.mid for each in findings if each.kernel_gain]
    assert gains == ([pytest.approx(1 / left)] if left < 1 else [])


def test_full_waves_and_many_waves() -> None:
    """Three full ones; sixty and a bit."""
    for blocks in (132, 264, 396, 132 * 60 + 66):
        assert not found(on_h200(Made(attributes=launch(blocks))), RULE)
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


def test_recorded_blocks_say_how_much_is_idle() -> None:
    """1.25 waves of blocks of 0.72 ms, in a millisecond: a tenth of all places was empty."""
    several = Made(attributes=launch(5 * 132, held=4))
    finding = only(on_h200(several, ctas=median_block(720_000)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1.25 * 0.72))
    assert any(each.tier == "scopes" for each in finding.evidence)


def test_counted_cycles_without_work_are_the_most() -> None:
    """The blocks of the last wave are short: multiprocessors had work all the time."""
    counters = {"sm_active_cycles": 99.5, "sm_cycles": 100.0}
    finding = only(on_h200(Made(attributes=launch(133), metrics=counters)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_without_a_time_it_is_a_warning() -> None:
    """And without a device, nothing is known."""
    finding = only(on_h200(Made(attributes=launch(133), time=0)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert not found(program(Made(attributes=launch(133))), RULE)
