"""Convolutions of a library: their work, how far they are from it, and what is worth a trial."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step
from tileprof.analyzer.account import KernelAccount
from tileprof.analyzer.cases import Program
from tileprof.analyzer.fixes import CHANNELS_LAST, CONVOLUTION_TRIALS, Autocast
from tileprof.analyzer.program import convolutions
from tileprof.analyzer.report import Report, analyze
from tileprof.profile import DeviceInfo, Metric, Profile

PEAKS = {
    "hbm_copy": 4.09e12, "fma_float32": 65e12, "tensor_tf32": 453e12, "tensor_bfloat16": 897e12,
    "tensor_float16": 833e12,
}  # fmt: skip
TF32 = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16"
DATA = "sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32"
WEIGHT = "sm80_xmma_wgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x32"
SHORT = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
PLAIN = "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)"
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>(int)"


def steps(
    reached: float = 0.4, kernel: str = TF32, rate: float = 453e12, layout: float = 0.0,
    blocks: float = 0.0,
) -> Step:  # fmt: skip
    """A convolution of 20 ms a step, of which its work is so much at a rate, beside 80 ms of a
    product at its roof; a kernel that changes the layout for it."""
    step = Step()
    step.builder.declare(Metric("blocks", "1"))
    line = step.frame(step.top, "forward", 41)
    op = step.op(line, "aten::convolution", flops=reached * 20 * MS * 1e-9 * rate, bytes=1e3)
    inner = step.op(op, "aten::cudnn_convolution")
    node = step.launch(inner, kernel, 20 * MS)
    step.builder.add(node, "blocks", 20 * blocks)
    if layout:
        step.launch(inner, LAYOUT, layout * MS)
    product = step.op(line, "aten::mm", flops=76 * MS * 1e-9 * 833e12, bytes=1e3)
    step.launch(product, "nvjet_hsh_128x256_TNT", 80 * MS)
    return step


def on_h200(step: Step) -> Profile:
    """The profile, of a device with 132 multiprocessors."""
    profile = step.profile(PEAKS)
    device = DeviceInfo("cuda:0", name="NVIDIA H200", multiprocessors=132)
    return replace(profile, tables=replace(profile.tables, devices=(device,)))


def kernel(report: Report, name: str) -> KernelAccount:
    """The account's entry of a kernel."""
    assert report.account is not None
    return next(each for each in report.account.kernels if each.name == name)


def test_a_lead_with_what_it_may_gain_at_most() -> None:
    """Twelve of 100 ms are beyond the least time of the work: no number, and no silence."""
    finding = only(steps().profile(PEAKS), "convolution")
    assert (finding.severity, finding.program_gain) == ("symptom", None)
    assert finding.place.op == "aten::cudnn_convolution"
    assert "reach 40 % of their roof" in finding.title
    assert f"at most {1 / 0.88:.2f}×" in finding.evidence[-1].text
    assert finding.fixes == (CHANNELS_LAST, CONVOLUTION_TRIALS, Autocast())
    assert not found(steps().profile(PEAKS), "far-from-floor")


def test_what_nobody_knows_stays_unexplained() -> None:
    """The lead takes none of the time: 12 of 20 ms."""
    held = kernel(analyze(steps().profile(PEAKS)), TF32)
    assert (held.limit, held.named) == ("arithmetic", 0)
    assert (held.floor, held.unexplained) == pytest.approx((8 * MS, 12 * MS))


@pytest.mark.parametrize(("reached", "told"), [(0.69, 1), (0.71, 0), (0.95, 0)])
def test_one_that_runs_well_is_left_alone(reached: float, told: int) -> None:
    """From 0.7 of its roof."""
    assert len(found(steps(reached).profile(PEAKS), "convolution")) == told


def test_types_and_layout_that_need_no_change() -> None:
    """Convolutions in bfloat16 with channels last have only trials left."""
    finding = only(steps(kernel=SHORT, rate=897e12).profile(PEAKS), "convolution")
    assert finding.fixes == (CONVOLUTION_TRIALS,)
    assert "channels_last" not in finding.author


def test_a_kernel_that_changes_a_layout_has_no_part_of_the_work() -> None:
    """All operations are the product's; the copy, 2.9 % of the time, is a cause with a name."""
    report = analyze(steps(layout=3.0).profile(PEAKS))
    product, copy = kernel(report, TF32), kernel(report, LAYOUT)
    assert product.floor == pytest.approx(8 * MS)
    assert (copy.floor, copy.unexplained) == pytest.approx((0, 0), abs=1e3 * 20)
    assert [each.rule for each in report.findings if each.program_gain] == ["layout-copies"]
    (lead,) = [each for each in report.findings if each.rule == "convolution"]
    assert any("kernels that change layouts" in each.text for each in lead.evidence)


def test_gradients_have_as_many_operations_each() -> None:
    """20 and 10 ms of one operation: each has half of its flops, and not by its time; the sum of
    the bias has none."""
    step = Step()
    op = step.op(step.top, "aten::convolution")
    flops = 16 * MS * 1e-9 * 453e12
    back = step.op(op, "ConvolutionBackward0", backward=True, flops=flops, bytes=1e3)
    step.launch(back, WEIGHT, 20 * MS, backward=True)
    step.launch(back, DATA, 10 * MS, backward=True)
    step.launch(back, "reduce_kernel", 5 * MS, backward=True)
    report = analyze(step.profile(PEAKS))
    for name in (WEIGHT, DATA):
        assert kernel(report, name).floor == pytest.approx(8 * MS)
    assert kernel(report, "reduce_kernel").floor < MS
    (lead,) = [each for each in report.findings if each.rule == "convolution"]
    assert "gradients of the weight" in lead.evidence[1].text
    assert "gradients of the data" not in lead.evidence[1].text  # at 0.8 of its roof


def test_layers_of_one_line_reach_as_much_of_their_roofs() -> None:
    """An operation stands for two layers, of which one takes a kernel without tensor cores: by time
    alone that one would have a tenth of the operations, more than it could do, and no time left."""
    step = Step()
    op = step.op(step.top, "aten::convolution", flops=0.5 * 20 * MS * 1e-9 * (453e12 * 9 + 65e12))
    step.launch(op, TF32, 9 * 20 * MS)
    step.launch(op, "implicit_convolve_sgemm", 20 * MS)
    report = analyze(step.profile(PEAKS))
    for name, time in ((TF32, 180), ("implicit_convolve_sgemm", 20)):
        assert kernel(report, name).floor == pytest.approx(0.5 * time * MS)


def test_floats_without_tensor_cores_where_tf32_is_allowed() -> None:
    """The setting that `precision` names would change nothing; layout, channels, types might."""
    step = steps(0.9)
    op = step.op(step.top, "aten::convolution", flops=0.8 * 20 * MS * 1e-9 * 65e12, bytes=1e3)
    step.launch(op, "implicit_convolve_sgemm", 20 * MS)
    step.launch(step.op(step.top, "aten::convolution", flops=1e9, bytes=1e3), PLAIN, MS)
    profile = step.profile(PEAKS)
    assert not found(profile, "precision")
    finding = only(profile, "convolution")
    assert any("without tensor cores" in each.text for each in finding.static)
    assert "multiples of 8" in finding.author
    alone = steps(0.8, "implicit_convolve_sgemm", 65e12).profile(PEAKS)
    assert found(alone, "precision")
    assert not found(alone, "convolution")


def test_few_blocks() -> None:
    """Of kernels too short for `small-grid`, 24 of 132 multiprocessors at work: a cause."""
    step, count = steps(0.9), 150
    line = step.frame(step.top, "forward", 42)
    for at in range(count):
        op = step.op(line, f"aten::convolution{at}", flops=0.1 * 0.2 * MS * 1e-9 * 453e12, bytes=1)
        node = step.launch(op, f"{TF32}_{at}", 0.2 * MS)
        step.builder.add(node, "blocks", 20 * 24)
    finding = only(on_h200(step), "convolution")
    assert (finding.severity, finding.fixes) == ("suggestion", (CONVOLUTION_TRIALS,))
    assert "24 blocks per launch" in finding.evidence[0].text
    gain = finding.program_gain
    lost = count * 0.2 * (1 - 24 / 132)
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        [1 / (1 - part * lost / 130) for part in (0, 0.5, 1)]
    )


KERNELS = (TF32, DATA, WEIGHT, SHORT, PLAIN, LAYOUT, "reduce_kernel", "elementwise_kernel")


@given(st.lists(st.tuples(st.sampled_from(KERNELS), st.integers(1, 1000)), min_size=1, max_size=6))
def test_work_is_dealt_out_once(launched: list[tuple[str, int]]) -> None:
    """Whichever kernels share an operation: their flops, and their bytes, are those that it has."""
    step = Step()
    op = step.op(step.top, "aten::convolution", flops=1e12, bytes=1e9)
    for name, time in launched:
        step.launch(step.op(op, "aten::inner"), name, time)
    work = Program(step.profile(PEAKS)).work
    assert float(work.flops.sum()) == pytest.approx(1e12)
    assert float(work.bytes.sum()) == pytest.approx(1e9)
    assert (work.flops >= 0).all()


@pytest.mark.parametrize(
    ("name", "multiplies", "gradient", "first", "tf32"),
    [
        (TF32, True, "", True, True),
        (DATA, True, "data", False, True),
        (WEIGHT, True, "weight", False, True),
        (SHORT, True, "", False, False),
        (PLAIN, True, "weight", True, False),
        (LAYOUT, False, "", False, False),
        ("cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_nhwc>",
         True, "data", False, True),
        ("cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", True, "", True, False),
        ("at::native::conv_depthwise2d_grad_weight_kernel<c10::BFloat16>", True, "weight", True,
         False),
        ("void at::native::reduce_kernel<512, 1, float>", False, "", False, False),
    ],
)  # fmt: skip
def test_names(name: str, multiplies: bool, gradient: str, first: bool, tf32: bool) -> None:
    """Of cuDNN, CUTLASS and PyTorch."""
    assert convolutions.multiplies(name) == multiplies
    assert convolutions.gradient_of(name) == gradient
    assert convolutions.has_channels_first(name) == first
    assert convolutions.rounds_to_tf32(name) == tf32
