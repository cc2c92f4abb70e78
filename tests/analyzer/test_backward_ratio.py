"""Gradients that take far longer than what they are the gradients of."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, TORCH, Step, training


def step_of(
    forward: float, backward: float, name: str = "aten::index", flops: tuple[float, float] = (0, 0)
) -> Step:
    """An operation with its gradient, in ms a step, beside work that makes 100 ms in all."""
    step = Step()
    op = step.op(step.frame(step.top, "gather", 40), name, flops=flops[0])
    if forward:
        step.launch(op, "gather_kernel", forward * MS)
    gradient = step.op(op, "Backward0", backward=True, flops=flops[1])
    step.launch(gradient, "small_kernel", 0.1 * backward * MS, backward=True)
    step.launch(gradient, "indexing_backward_kernel", 0.9 * backward * MS, backward=True)
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - forward - backward) * MS)
    return step


def test_views_of_the_case_study() -> None:
    """Lines 52 and 51: 1.8 and 1.4 ms of copies, by kernel; products are as expected."""
    said = found(training().profile(), "backward-ratio")
    assert [each.place.op for each in said] == ["aten::unbind", "aten::view"]
    assert [each.place.location.line for each in said if each.place.location] == [52, 51]
    assert "CatArrayBatchedCopy" in said[0].evidence[1].text
    assert [each.severity for each in said] == ["suggestion"] * 2
    gain, share = said[0].program_gain, 1.8 / 32.4
    assert gain is not None
    assert gain.low == 1
    assert gain.high == pytest.approx(1 / (1 - share), rel=0.02)


def test_a_gradient_by_sorting() -> None:
    """20 ms where 2 × 1.5 are expected by bytes, 6 at most."""
    finding = only(step_of(2, 20).profile(), "backward-ratio")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid) == pytest.approx((1 / (1 - 0.14), 1 / (1 - 0.17)))
    assert "indexing_backward_kernel" in finding.evidence[1].text
    assert finding.title == "the gradient of aten::index takes 10.0 times its forward time"


@pytest.mark.parametrize(("forward", "backward"), [(5, 10), (5, 15), (0.1, 0.8), (0, 20)])
def test_gradients_as_they_should_be(forward: float, backward: float) -> None:
    """Twice; three times; cold; and what has no time of its own without being a view."""
    assert not found(step_of(forward, backward).profile(), "backward-ratio")


def test_operations_say_what_is_expected() -> None:
    """Attention has 2.5 times the operations: 3.3 times is no wonder, 6 times is.

    60 ms where 37.5 would be no wonder, and 25 are at the operation's pace.
    """
    attention = "aten::_scaled_dot_product_cudnn_attention"
    usual = step_of(10, 33, attention, (1e12, 2.5e12))
    assert not found(usual.profile(), "backward-ratio")
    slow = only(step_of(10, 60, attention, (1e12, 2.5e12)).profile(), "backward-ratio")
    gain = slow.program_gain
    assert gain is not None
    shares = (0.225, (0.225 + 0.35) / 2, 0.35)
    assert (gain.low, gain.mid, gain.high) == pytest.approx([1 / (1 - each) for each in shares])
    assert slow.evidence[2].text == "the number of operations suggests 2.5 times"


def test_recomputed_blocks_have_no_ratio() -> None:
    """With a checkpoint the last operation's gradient has a whole forward pass in it."""
    step = Step()
    again = step.frame(step.top, "checkpoint", 495, f"{TORCH}utils/checkpoint.py")
    op = step.op(step.frame(again, "mlp", 71), "aten::mm")
    step.launch(op, "nvjet", MS)
    step.launch(step.op(op, "MmBackward0", backward=True), "nvjet", 20 * MS, backward=True)
    assert not found(step.profile(), "backward-ratio")


def test_compiled_regions_have_no_ratio() -> None:
    """What was fused where is not known."""
    assert not found(step_of(2, 20, "CompiledFunction").profile(), "backward-ratio")


def test_gradients_of_one_operation_count_its_time_once() -> None:
    """Two of them, of 5 ms each, beside 2 ms forward: 5 times, not 2.5 and not 10."""
    step = step_of(2, 5)
    op = step.builder.child(step.frame(step.top, "gather", 40), "op", "aten::index")
    other = step.op(op, "OtherBackward0", backward=True)
    step.launch(other, "other_kernel", 5 * MS, backward=True)
    assert "takes 5.0 times" in only(step.profile(), "backward-ratio").title
