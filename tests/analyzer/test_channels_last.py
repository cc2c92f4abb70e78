"""Norms, poolings and convolutions that channels first holds up, and the layouts around them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step
from tileprof.analyzer.fixes import CHANNELS_LAST
from tileprof.profile import DeviceInfo, Metric, Profile

PEAKS = {"hbm_copy": 4e12, "fma_float32": 65e12, "tensor_tf32": 450e12}
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float>(int)"
NORM = "void cudnn::bn_bw_1C11_kernel_new<float>(int)"
POOL = "void at::native::max_pool_forward_nchw<float>(int)"
DEPTHWISE = "void at::native::conv_depthwise2d_forward_kernel<5, float>(int)"
ON_TENSOR_CORES = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw"
OPERATIONS = {
    NORM: "CudnnBatchNormBackward0", POOL: "aten::max_pool2d_with_indices",
    DEPTHWISE: "aten::_conv_depthwise2d", ON_TENSOR_CORES: "aten::cudnn_convolution",
}  # fmt: skip


def beside(kernel: str, blocks: float = 1e5, layout: float = 0.0, floor: float = 4.0) -> Profile:
    """A kernel of 20 ms a step with bytes of `floor` ms, beside 80 ms of a product; kernels that
    change layouts for a convolution."""
    return with_device(beside_of(kernel, blocks, layout, floor))


def beside_of(kernel: str, blocks: float, layout: float, floor: float = 4.0) -> Step:
    """The tree of `beside`."""
    step = Step()
    step.builder.declare(Metric("blocks", "1"))
    line = step.frame(step.top, "forward", 41)
    moved = floor * MS * 1e-9 * PEAKS["hbm_copy"]
    backward = kernel == NORM
    op = step.op(line, OPERATIONS[kernel], backward=backward, bytes=moved, flops=1.0)
    node = step.launch(op, kernel, 20 * MS, backward=backward)
    step.builder.add(node, "blocks", 20 * blocks)
    product = step.op(line, "aten::mm", flops=76 * MS * 1e-9 * 450e12, bytes=1e3)
    step.launch(product, "sm90_gemm_tf32f32", (80 - layout) * MS)
    if layout:
        step.launch(step.op(line, "aten::cudnn_convolution"), LAYOUT, layout * MS)
    return step


def with_device(step: Step) -> Profile:
    """The profile of a step on a GPU of 132 multiprocessors."""
    profile = step.profile(PEAKS)
    device = DeviceInfo("cuda:0", name="NVIDIA H200", multiprocessors=132)
    return replace(profile, tables=replace(profile.tables, devices=(device,)))


@pytest.mark.parametrize(
    ("kernel", "blocks", "left"),
    [(NORM, 64, 4 / 0.85), (POOL, 1e5, 4 / 0.85), (DEPTHWISE, 1e5, 4.0)],
)
def test_part_beyond_the_least_time_goes(kernel: str, blocks: float, left: float) -> None:
    """Of 20 ms up to all but what the bytes take; of changes of layout, 5 ms, all."""
    finding = only(beside(kernel, blocks, 5.0), "channels-last")
    gain = finding.program_gain
    assert gain is not None
    assert gain.low >= 1 / (1 - 0.025) - 1e-6
    assert 1 / (1 - 0.05) < gain.mid < gain.high
    assert gain.high <= 1 / (1 - (20 - left + 5) / 100) + 1e-6
    assert finding.fixes == (CHANNELS_LAST,)
    assert not found(beside(kernel, blocks, 5.0), "layout-copies")


@pytest.mark.parametrize(("operation", "undoes"), [("aten::_softmax", True), ("aten::exp", False)])
def test_operations_on_contiguous_tensors_undo_the_layout(operation: str, undoes: bool) -> None:
    """Changes of layout of 5 ms stay where a softmax stands at each convolution, and its own 1 ms
    is copied once more."""
    step, profile = beside_of(NORM, 64, 5.0), beside(NORM, 64, 5.0)
    step.launch(step.op(step.top, operation), "softmax_kernel", MS)
    gains = [only(each, "channels-last").program_gain for each in (profile, with_device(step))]
    before, after = (100 * (1 - 1 / gain.mid) for gain in gains if gain is not None)
    assert after == pytest.approx((before - 6 * undoes) / 1.01)


@pytest.mark.parametrize(
    "profile",
    [beside(NORM, 512, 5.0), beside(POOL, floor=19, layout=5.0), beside(ON_TENSOR_CORES, layout=5)],
    ids=["norm with enough channels", "pooling at its roof", "convolution on tensor cores"],
)
def test_layouts_alone_are_told_as_before(profile: Profile) -> None:
    """Where no other kernel is held up."""
    assert not found(profile, "channels-last")
    only(profile, "layout-copies")


@pytest.mark.parametrize(("channels", "adds"), [(64, False), (128, True)])
def test_compilers_leave_narrow_convolutions_alone(channels: float, adds: bool) -> None:
    """A compiler chooses channels last in training from 65 channels on; a norm has a block each."""
    with_layouts, without = (
        only(beside(NORM, channels, layout), "fusion").program_gain for layout in (5.0, 0.0)
    )
    assert with_layouts is not None
    assert without is not None
    assert (with_layouts.mid > without.mid + 0.03) == adds
