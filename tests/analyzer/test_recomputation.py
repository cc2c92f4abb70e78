"""Forward passes that checkpoints run again in the backward pass."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import LATE, MS, TORCH, Step

CHECKPOINT = f"{TORCH}utils/checkpoint.py"
NEWER = "_checkpoint_without_reentrant_generator.<locals>.recompute_fn"
OLDER = "CheckpointFunction.backward"


def step_of(again: float, function: str = NEWER, gradients: float = 0, late: float = 0) -> Step:
    """A step of 100 ms of work, of which so many run again, in ms; `gradients` are within that."""
    step = Step()
    product = step.op(step.frame(step.top, "forward", 40), "aten::mm")
    step.launch(product, "gemm", (100 - again - gradients) * MS)
    gradient = step.op(product, "MmBackward0", backward=True)
    frame = step.frame(gradient, function, 1607, CHECKPOINT)
    layer = step.op(step.frame(frame, "forward", 52), "aten::gelu")
    step.launch(layer, "gelu", again * MS, gaps={LATE: late * MS} if late else None)
    if gradients:
        inner = step.op(layer, "GeluBackward0", backward=True)
        step.launch(inner, "gelu_backward", gradients * MS, backward=True)
    return step


@pytest.mark.parametrize("function", [NEWER, OLDER])
def test_all_that_runs_again_goes(function: str) -> None:
    """20 of 100 ms, half of it at least, with the line of the user's that is run again."""
    finding = only(step_of(20, function).profile(), "recomputation")
    gain, place = finding.program_gain, finding.place.location
    assert gain is not None
    assert place is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.9, 1 / 0.8, 1 / 0.8))
    assert place.line == 52
    assert finding.evidence[0].text == (
        "20 kernels and copies of forward passes run in backward passes: 400 ms, 20.0 % of the"
        " devices' time"
    )


def test_gradients_inside_an_older_checkpoint_stay() -> None:
    """They are needed with and without it."""
    finding = only(step_of(20, OLDER, gradients=30).profile(), "recomputation")
    gain = finding.program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / 0.8)


def test_the_host_does_not_launch_it_either() -> None:
    """Gaps before its launches go too, and its work is none that a late launch waits for."""
    finding = only(step_of(20, late=50).profile(), "recomputation")
    gain = finding.program_gain
    assert gain is not None
    assert gain.mid > 1 / (1 - 20 / 150)
    assert gain.high >= (100 + 50) / 80 * 0.99
    assert "another 33.3 % is lost in gaps before them" in [e.text for e in finding.evidence]


@pytest.mark.parametrize(
    ("again", "function"), [(0.5, NEWER), (20, "checkpoint"), (20, "unpack_hook")]
)
def test_other_calls_of_a_checkpoint_are_no_cause(again: float, function: str) -> None:
    """A second run that takes hardly any time is not reported, nor is the first forward pass."""
    assert not found(step_of(again, function).profile(), "recomputation")
