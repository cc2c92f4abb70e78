"""Batches whose rows are filled up, of programs with a device."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step
from tileprof.profile import Metric, Profile


def padded(
    part: float = 0.75, update: float = 20, attention: float = 0, tiny: float = 0,
    waited: float = 0, metric: str = "aten::copy_",
) -> Profile:  # fmt: skip
    """A step of 100 ms with batches of which that part is padding: the optimizer and attention take
    so many ms, and so does a kernel of 1.2 µs a launch; the host waits for so long."""
    step = Step()
    for name in ("slots", "padding"):
        step.builder.declare(Metric(name, "1"))
    line = step.frame(step.top, "train", 48)
    step.op(line, metric, slots=20 * 8192, padding=20 * 8192 * part)
    model = step.frame(step.top, "forward", 12)
    step.launch(step.op(model, "aten::addmm"), "gemm", (100 - update - attention - tiny) * MS)
    if attention:
        op = step.op(model, "aten::_scaled_dot_product_efficient_attention")
        step.launch(op, "fmha", attention * MS)
    if tiny:
        step.launch(step.op(model, "aten::add"), "add", tiny * MS, int(tiny * MS / 1200))
    scope = step.scope(step.top, "Optimizer.step#AdamW.step")
    step.launch(step.op(scope, "aten::_foreach_lerp_"), "multi_tensor_apply", update * MS)
    if waited:
        read = step.op(step.frame(step.top, "train", 53), "aten::_local_scalar_dense")
        step.wait(read, waited * MS)
    return step.profile()


def test_work_goes_in_proportion_but_not_that_of_the_optimizer() -> None:
    """Three quarters of 80 ms: 0.3 of that for sure, 0.85 likely."""
    finding = only(padded(), "padding")
    gain, place = finding.program_gain, finding.place.location
    assert gain is not None
    assert place is not None
    expected = tuple(1 / (1 - part * 0.6) for part in (0.3, 0.85, 1))
    assert (gain.low, gain.mid, gain.high) == pytest.approx(expected)
    assert place.line == 48
    assert finding.title.startswith("75 % of the elements in the batches at train_gpt.py:48")
    assert "group_by_length" in finding.author


def test_attention_goes_with_the_square() -> None:
    """15 of 16 parts of 40 ms, three of four of the other 40."""
    gain = only(padded(attention=40), "padding").program_gain
    assert gain is not None
    assert gain.high == pytest.approx(1 / (1 - 0.4 * 15 / 16 - 0.4 * 3 / 4))


def test_no_launch_is_shorter_than_one_that_does_nothing() -> None:
    """Of 1.2 µs a launch 1.0 is left; at most all of its padding goes."""
    gain = only(padded(tiny=60), "padding").program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - 0.85 * (0.2 * 0.75 + 0.6 / 6)), rel=1e-3)
    assert gain.high == pytest.approx(1 / (1 - 0.8 * 0.75))


def test_no_step_is_shorter_than_the_host_s_work() -> None:
    """The host waits for 10 of 100 ms: without a recording it works for 0.73 × 90."""
    finding = only(padded(waited=10), "padding")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(1 / (1 - (1 - 0.73 * 0.9)))
    assert any("no step becomes shorter" in each.text for each in finding.evidence)


@pytest.mark.parametrize(
    "profile", [padded(0.15), padded(update=99.5), padded(waited=0.01, part=0)],
    ids=["few", "the optimizer takes all time", "none"],
)  # fmt: skip
def test_batches_that_are_left_alone(profile: Profile) -> None:
    """Little padding, or padding that costs nothing."""
    assert not found(profile, "padding")
