"""Kernels that the program does not wait for: late launches follow them."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program
from tests.analyzer.steps import LATE, MS, Step
from tileprof.analyzer import analyze
from tileprof.profile import Metric, Profile

PEAKS = {"fma_float32": 60e12, "tensor_tf32": 400e12}
PLAIN = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3"


def products(slack: float) -> Profile:
    """A product of 40 ms a step, of which so much is slack, in steps of 100 ms."""
    step = Step()
    step.builder.declare(Metric("slack_time", "ns"))
    linear = step.frame(step.top, "mlp", 71)
    product = step.launch(step.op(linear, "aten::mm"), PLAIN, 40 * MS)
    step.builder.add(product, "slack_time", slack * MS)
    step.launch(step.op(step.top, "aten::add"), "elementwise", 40 * MS, gaps={LATE: 20 * MS})
    return step.profile(PEAKS)


def test_of_work_that_is_half_slack_half_is_gained() -> None:
    """32 of 100 ms go of the device's time, and 16 of the program's; all of them at most."""
    whole, half = (only(products(slack), "precision") for slack in (0, 20))
    assert whole.program_gain is not None
    assert half.program_gain is not None
    assert (whole.program_gain.mid, half.program_gain.mid) == pytest.approx((1 / 0.68, 1 / 0.84))
    assert half.program_gain.low < whole.program_gain.low
    assert half.program_gain.high == whole.program_gain.high
    assert half.evidence[-1].text.startswith("of their time, 50 % passes before a late launch")


def test_work_that_is_all_slack_is_left_as_it_is() -> None:
    """It is told, with what to do once launches are in time; its time has a cause."""
    finding = only(products(40), "precision")
    assert (finding.severity, finding.program_gain) == ("ignore", None)
    assert finding.title.endswith(", but the program waits for the host")
    assert finding.author.startswith("Leave it until launches are in time. Then: If 10 bits")
    held = [analyze(products(slack)).account for slack in (0, 40)]
    assert held[0] is not None
    assert held[1] is not None
    assert held[0].unexplained == pytest.approx(held[1].unexplained)
    named = {each.rule: each for each in held[1].causes}["precision"]
    assert (named.time, named.gained) == pytest.approx((32 * MS, 0))


def test_a_kernel_that_is_slack_gains_for_itself() -> None:
    """Its own gain is as before, that of its program is not."""
    spills = [
        ("LDL R0, [R1+0x50]", {"lg_throttle": 4000}, 1, 5),
        ("FFMA R2, R0, R3, R4", {"selected": 6000}, 1, 6),
    ]
    gains = [
        only(program(Made(code=spills, metrics={"slack_time": slack})), "spill-hot")
        for slack in (0, 1e6)
    ]
    assert gains[0].kernel_gain == gains[1].kernel_gain
    assert gains[0].program_gain is not None
    assert gains[1].program_gain is not None
    assert gains[0].program_gain.mid > 1.1
    assert gains[1].program_gain.mid == 1
    assert gains[1].program_gain.high == gains[0].program_gain.high


def test_gaps_are_no_slack() -> None:
    """What goes of gaps counts in full, whatever kernels before them are."""
    assert found(products(40), "launch-bound") == found(products(0), "launch-bound")
