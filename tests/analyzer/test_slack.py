"""Kernels that the program does not wait for: late launches follow them."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program
from tests.analyzer.steps import LATE, MS, Step
from tileprof.analyzer import analyze
from tileprof.profile import Metric, Profile

PEAKS = {"fma_float32": 60e12, "tensor_tf32": 400e12}
PLAIN = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3"


def products(slack: float, late: float = 20) -> Profile:
    """A product of 40 ms a step, of which so much is slack, beside 40 ms of other work and so many
    ms of gaps before late launches."""
    step = Step()
    step.builder.declare(Metric("slack_time", "ns"))
    linear = step.frame(step.top, "mlp", 71)
    product = step.launch(step.op(linear, "aten::mm"), PLAIN, 40 * MS)
    step.builder.add(product, "slack_time", slack * MS)
    step.launch(step.op(step.top, "aten::add"), "elementwise", 40 * MS, gaps={LATE: late * MS})
    return step.profile(PEAKS)


def test_of_slack_a_part_is_gained() -> None:
    """Without slack 32 ms go of 94.6, the time without a recording. Of 20 ms of slack 12 are left
    on average, where the host takes 0.73 × (20 + 20) ms."""
    whole, half = (only(products(slack), "precision") for slack in (0, 20))
    assert whole.program_gain is not None
    assert half.program_gain is not None
    counts = 12**2 / (12**2 + 29.2**2)
    goes = 32 * (0.5 + 0.5 * counts)
    assert whole.program_gain.mid == pytest.approx(1 / (1 - 32 / 94.6))
    assert half.program_gain.mid == pytest.approx(1 / (1 - goes / 89.2))
    assert half.program_gain.low < whole.program_gain.low
    assert half.program_gain.high >= whole.program_gain.high
    assert half.evidence[-1].text.startswith("of their time, 43 % passes before a late launch")


def test_work_that_a_slow_host_hides_is_left_as_it_is() -> None:
    """It is told, with what to do once launches are in time; its time has a cause."""
    finding = only(products(40, late=400), "precision")
    assert (finding.severity, finding.program_gain) == ("ignore", None)
    assert finding.title.endswith(", but the program waits for the host")
    assert finding.author.startswith("Leave it until launches are in time. Then: If 10 bits")
    held = [analyze(products(slack, late=400)).account for slack in (0, 40)]
    assert held[0] is not None
    assert held[1] is not None
    assert held[0].unexplained == pytest.approx(held[1].unexplained)
    named = {each.rule: each for each in held[1].causes}["precision"]
    assert named.time == pytest.approx(32 * MS)
    assert named.gained < 0.01 * named.time


def test_a_host_as_fast_as_the_device_is_not_the_limit() -> None:
    """10 ms of gaps and 40 of slack: without a recording the host takes 36.5 there."""
    assert found(products(0), "launch-bound")
    assert not found(products(40, late=10), "launch-bound")


def test_a_kernel_that_is_slack_gains_for_itself() -> None:
    """Its own gain is as before, that of its program is smaller."""
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
    assert 1 < gains[1].program_gain.mid < gains[0].program_gain.mid
    assert gains[1].program_gain.high == gains[0].program_gain.high
