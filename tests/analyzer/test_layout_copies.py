"""Copies that change layouts and types, by operation and by name."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import MS, Step, training

COPY = "at::native::direct_copy_kernel_cuda"


def copying(*ops: str, time: float = 10, kernel: str = COPY, backward: bool = False) -> Step:
    """Operations inside one another around a kernel of so many of 100 ms a step."""
    step = Step()
    at = step.frame(step.top, "Net.forward", 25)
    for name in ops:
        at = step.op(at, name, backward=backward)
    step.launch(at, kernel, time * MS, backward=backward)
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - time) * MS)
    return step


def test_contiguous() -> None:
    """A tenth of the time; all of it goes where the layout is kept."""
    step = copying("aten::contiguous", "aten::clone", "aten::copy_")
    finding = only(step.profile(), "layout-copies")
    assert finding.title == "10 % of the devices' time is spent on changing layouts"
    assert finding.severity == "suggestion"
    assert finding.place.location is not None
    assert finding.place.location.line == 25
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.95, 1 / 0.9, 1 / 0.9))


def test_casts() -> None:
    """Half of it goes likely: weights have to be cast all the same."""
    for step in (
        copying("aten::to", "aten::_to_copy", "aten::copy_"),
        copying("ToCopyBackward0", backward=True),
    ):
        finding = only(step.profile(), "layout-copies")
        assert finding.title == "10 % of the devices' time is spent on changing types"
        gain = finding.program_gain
        assert gain is not None
        assert (gain.low, gain.mid, gain.high) == pytest.approx((1, 1 / 0.95, 1 / 0.9))


def test_transposes_by_name() -> None:
    """What a library puts before its convolution stands below the convolution."""
    step = copying("aten::cudnn_convolution", kernel="cudnn::ops::nchwToNhwcKernel<__half>")
    assert "layouts" in only(step.profile(), "layout-copies").title


def test_plain_copies() -> None:
    """`x[...] = y`: neither of the two."""
    step = copying("aten::copy_")
    assert "copying on the device" in only(step.profile(), "layout-copies").title


def test_each_kind_is_told_once() -> None:
    """Nested operations do not add up: 10 ms of layouts are 10 ms."""
    step = copying("aten::reshape", "aten::clone", "aten::copy_")
    block = step.op(step.frame(step.top, "Net.forward", 31), "aten::to")
    step.launch(step.op(step.op(block, "aten::_to_copy"), "aten::copy_"), COPY, 10 * MS)
    said = [each.title for each in found(step.profile(), "layout-copies")]
    assert sorted(each[:3] for each in said) == ["9 %", "9 %"]


@pytest.mark.parametrize(
    "step",
    [
        copying("aten::contiguous", "aten::copy_", time=2),
        copying("aten::add", kernel="vectorized_elementwise_kernel"),
        copying("aten::cat", kernel="CatArrayBatchedCopy"),
        training(),
    ],
)  # fmt: skip
def test_no_copies(step: Step) -> None:
    """Two percent; other operations; gradients of views, of which another rule tells."""
    assert not found(step.profile(), "layout-copies")


def test_copies_from_the_host_are_no_layouts() -> None:
    """Those are transfers."""
    step = Step()
    step.copy(step.op(step.top, "aten::copy_"), "HtoD pinned", 10 * MS, 1e9)
    assert not found(step.profile(), "layout-copies")
    for name in ("h200-gemm", "h200-stalls"):
        assert "layout-copies" not in {each.rule for each in report_of(name).findings}


def test_a_kernel_of_ones_own_is_no_copy() -> None:
    """A user's kernel that transposes does its work; within an operation it is a library's."""
    step = Step()
    step.launch(step.frame(step.top, "transpose", 25), "transpose_kernel", 50 * MS)
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", 50 * MS)
    assert not found(step.profile(), "layout-copies")
    only(copying("aten::contiguous", kernel="transpose_kernel").profile(), "layout-copies")
