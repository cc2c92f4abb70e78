"""Products of 32-bit floats with and without tensor cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, only, program, report_of
from tests.analyzer.steps import MS, Step, training
from tileprof.analyzer.fixes import Autocast, MatmulPrecision
from tileprof.profile import DeviceInfo, Metric

PEAKS = {"fma_float32": 60e12, "tensor_tf32": 400e12}
PLAIN = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3"


def products(kernel: str = PLAIN, time: float = 40, flops: float = 0, moved: float = 0) -> Step:
    """A product below its operation, of so many of 100 ms a step."""
    step = Step()
    linear = step.frame(step.top, "mlp", 71)
    step.launch(step.op(linear, "aten::mm", flops=flops, bytes=moved), kernel, time * MS)
    step.launch(step.op(step.top, "aten::add"), "elementwise", (100 - time) * MS)
    return step


def test_by_measured_peaks() -> None:
    """40 ms become 40 × 60 / 400 = 6 at best, 8 likely, 20 at three tenths of that pace."""
    finding = only(products().profile(PEAKS), "precision")
    assert finding.severity == "suggestion"
    assert (finding.static[0].tier, finding.place.op) == ("static", "aten::mm")
    assert "60 TFLOP/s without and 400" in finding.evidence[2].text
    assert "set_float32_matmul_precision" in finding.author
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.8, 1 / 0.68, 1 / 0.66))


def test_no_faster_than_four_fifths_of_the_memory() -> None:
    """30 GB at 3 TB/s take 10 ms of each step at best, likely 12.5: 27.5 go, not 34."""
    profile = products(moved=20 * 3e10).profile({**PEAKS, "hbm_copy": 3e12})
    gain = only(profile, "precision").program_gain
    assert gain is not None
    assert (gain.mid, gain.high) == pytest.approx((1 / 0.725, 1 / 0.7))


@pytest.mark.parametrize(("rate", "plain"), [(55e12, True), (80e12, False)])
def test_a_kernel_above_the_rate_of_multiply_adds_uses_tensor_cores(
    rate: float, plain: bool
) -> None:
    """The device does 60 TFLOP/s without; the evidence has the rate."""
    profile = products(flops=20 * 0.04 * rate).profile(PEAKS)
    assert len(found(profile, "precision")) == plain
    if plain:
        assert "at 55 TFLOP/s" in only(profile, "precision").evidence[1].text


def test_a_product_that_hardly_multiplies_likely_stays() -> None:
    """At 1 TFLOP/s of 60, something else sets its time: nothing is likely, all of it possible."""
    assert not found(products(flops=20 * 0.04 * 1e12).profile(PEAKS), "precision")
    assert found(products(flops=20 * 0.04 * 10e12).profile(PEAKS), "precision")


NARROW = {**PEAKS, "tensor_bfloat16": 800e12, "hbm_copy": 3e12}


def test_bfloat16_halves_bytes_of_other_kernels_too() -> None:
    """Products take 40 × 60 / 800 / 0.75 = 4 ms; of 60 ms, 48 are bytes, of which 24 go."""
    step = products()
    op = step.op(step.top, "aten::mul", bytes=20 * 0.048 * 3e12)
    step.launch(op, "elementwise_of_floats", 60 * MS)
    half, tf32 = found(step.profile(NARROW), "precision")
    assert (half.fixes, tf32.fixes) == ((Autocast(),), (MatmulPrecision(),))
    assert "torch.bfloat16" in half.author
    assert "bfloat16" not in tf32.author
    assert half.program_gain is not None
    assert half.program_gain.mid == pytest.approx(160 / (160 - 36 - 24))


def moving(name: str, backward: bool = False) -> list[float]:
    """Likely gains of precision beside a kernel of 60 ms, 48 of them for its bytes."""
    step = products(moved=20 * 3e9)
    op = step.op(step.top, "aten::mul", bytes=20 * 0.048 * 3e12)
    step.launch(op, name, 60 * MS)
    step.launch(step.op(step.top, "aten::add", backward=backward), "adds", 0.1 * MS,
                backward=backward)  # fmt: skip
    gains = (each.program_gain for each in found(step.profile(NARROW), "precision"))
    return [round(160.1 * (1 - 1 / gain.mid), 2) for gain in gains if gain is not None]


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("scale<float>", [60.0, 32.0]),
        ("scale", [60.0, 32.0]),
        ("scale<long>", [36.0, 32.0]),
        ("scale<c10::BFloat16>", [36.0, 32.0]),
        ("scale<c10::BFloat16, float>", [60.0, 32.0]),
    ],
)
def test_other_types_are_not_halved(name: str, saved: list[float]) -> None:
    """Of 60 ms, 24 go where a kernel may move 32-bit floats: its name has no other type alone."""
    assert moving(name) == saved


def test_autocast_in_training() -> None:
    """Products alone become faster, and half of the casts takes a millisecond of their bytes."""
    assert moving("scale<float>", backward=True) == [35.5, 32.0]


@pytest.mark.parametrize(("operation", "more"), [("aten::mul", 12.0), ("aten::softmax", 0.0)])
def test_autocast_halves_bytes_between_products(operation: str, more: float) -> None:
    """Of 48 ms of bytes in the model 24 go likely by half; a softmax stays in 32 bits."""
    step = products(moved=20 * 3e9)
    model = step.frame(step.top, "Model.forward", 5)
    op = step.op(model, operation, bytes=20 * 0.048 * 3e12)
    step.launch(op, "scale<float>", 60 * MS)
    step.launch(step.op(step.top, "aten::add", backward=True), "adds", 0.1 * MS, backward=True)
    gain = found(step.profile(NARROW), "precision")[0].program_gain
    assert gain is not None
    assert 160.1 * (1 - 1 / gain.mid) == pytest.approx(35.5 + more, abs=0.05)


@pytest.mark.parametrize(("slack", "advised"), [(0.4, True), (0.6, False)])
def test_autocast_is_not_advised_where_launches_come_late(slack: float, advised: bool) -> None:
    """Each cast would be one launch more."""
    step = products()
    step.builder.declare(Metric("slack_time", "ns"))
    (product,) = (node for node, name in step.kernels.items() if name == PLAIN)
    step.builder.add(product, "slack_time", slack * 40 * MS)
    finding = only(step.profile(PEAKS), "precision")
    assert ("run the model under torch.autocast" in finding.author) == advised
    assert (Autocast() in finding.fixes) == advised


def test_a_host_that_hardly_works_is_no_limit() -> None:
    """It waits a millisecond of each step and works for five: it waits for the rest of the 100 ms
    later, after its steps."""
    step = products()
    step.wait(step.top, 1 * MS)
    step.op(step.top, "aten::view", cpu_time=5 * MS)
    gain = only(products().profile(PEAKS), "precision").program_gain
    assert only(step.profile(PEAKS), "precision").program_gain == gain


def test_each_kernel_has_its_own_roof() -> None:
    """Of two kernels of 20 ms one becomes 3, the other is bound by its bytes and stays."""
    step = products(time=20)
    op = step.op(step.frame(step.top, "mlp", 72), "aten::addmm", bytes=20 * 6e10)
    step.launch(op, f"{PLAIN}_tiles", 20 * MS)
    gain = only(step.profile({**PEAKS, "hbm_copy": 3e12}), "precision").program_gain
    assert gain is not None
    assert gain.high == pytest.approx(1 / (1 - 17 / 120))


def test_what_comes_before_the_steps_is_left_out() -> None:
    """A second of gaps that come once, before and in steps of 100 ms, changes nothing."""
    step = products()
    step.idle(step.frame(-1, "main", 9), "waiting for the host", 50 * MS, 1)
    step.idle(step.frame(step.top, "train", 9), "waiting for the host", 50 * MS, 1)
    finding = only(step.profile(PEAKS), "precision")
    assert finding.evidence[1].text == "1 such kernels take 40.0 % of the devices' time in steps"
    assert finding.program_gain == only(products().profile(PEAKS), "precision").program_gain


def test_without_measured_peaks_there_is_no_number() -> None:
    """The cause is known, and what it costs; not what a change brings."""
    finding = only(products().profile(), "precision")
    assert (finding.severity, finding.program_gain) == ("warning", None)


def test_usual_peaks_of_the_name_of_a_device_that_was_not_measured() -> None:
    """An H200 reaches 65 TFLOP/s without tensor cores and 453 with them."""
    profile = products().profile()
    device = DeviceInfo("cuda:0", name="NVIDIA H200", multiprocessors=132)
    tables = replace(profile.tables, devices=(device,))
    half, finding = found(replace(profile, tables=tables), "precision")
    assert "897 with tensor cores" in half.evidence[-1].text
    assert finding.severity == "suggestion"
    assert finding.evidence[-1].text == (
        "another device of this name was measured at 65 TFLOP/s without and 453 with tensor cores"
    )
    measured = only(products().profile({"fma_float32": 65e12, "tensor_tf32": 453e12}), "precision")
    assert finding.program_gain == measured.program_gain


def test_without_times_there_is_a_name() -> None:
    """Nothing was measured."""
    finding = only(program(Made(PLAIN, time=0.0)), "precision")
    assert (finding.severity, finding.program_gain) == ("warning", None)
    assert not finding.dynamic


def test_a_product_that_takes_no_time() -> None:
    """Half a percent."""
    finding = only(products(time=0.5).profile(PEAKS), "precision")
    assert (finding.severity, finding.program_gain) == ("ignore", None)


@pytest.mark.parametrize(
    "kernel",
    [
        "ampere_sgemm_128x64_tn",
        "volta_sgemm_32x128_nn",
        "cutlass_80_simt_sgemm_256x128_8x4_nn_align1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>",
        "implicit_convolve_sgemm",
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw",
    ],
)
def test_plain_kernels(kernel: str) -> None:
    """Names of cuBLAS, CUTLASS and cuDNN."""
    assert only(products(kernel).profile(PEAKS), "precision").severity == "suggestion"


@pytest.mark.parametrize(
    "kernel",
    [
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64",
        "sm90_xmma_gemm_f16f16_f16f32_f32_nt_n",
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT",
        "void at::native::vectorized_elementwise_kernel<4, float>",
        "sm80_xmma_gemm_f64f64_f64f64_f64_tn_n",
    ],
)
def test_kernels_of_tensor_cores_and_others(kernel: str) -> None:
    """Nothing to say."""
    assert not found(products(kernel).profile(PEAKS), "precision")


@pytest.mark.parametrize(
    "kernel",
    [
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16",
        "cutlass_80_tensorop_s1688gemm_128x128_16x5_tn_align4",
    ],
)
def test_bytes_beside_products_in_tf32_halve_where_a_program_only_infers(kernel: str) -> None:
    """Bytes take 30 ms of the other kernel's 60 at the memory's peak: 15 go at most, and half of
    the product's 40 ms; in training, or before late launches, nothing is told."""
    step = products(kernel)
    moved = step.op(step.top, "aten::mul", bytes=20 * 30e-3 * 3e12)
    step.launch(moved, "elementwise<float>", 60 * MS)
    peaks = {**PEAKS, "hbm_copy": 3e12}
    gain = only(step.profile(peaks), "precision").program_gain
    assert gain is not None
    saved = [1 - 1 / each for each in (gain.low, gain.mid, gain.high)]
    assert saved == pytest.approx([0.25 * 15 / 160, (0.85 * 15 + 0.33 * 40) / 160, 50 / 160])
    late = products(kernel)
    late.builder.declare(Metric("slack_time", "ns"))
    (product,) = (node for node, name in late.kernels.items() if name == kernel)
    late.builder.add(product, "slack_time", 0.6 * 40 * MS)
    assert found(products(kernel).profile(peaks), "precision")
    assert not found(late.profile(peaks), "precision")
    step.launch(step.op(step.top, "MulBackward0", backward=True), "grad", MS, backward=True)
    assert not found(step.profile(peaks), "precision")


def test_recordings() -> None:
    """16-bit products, and kernels without any."""
    assert not found(training().profile(PEAKS), "precision")
    for name in ("h200-gemm", "h200-stalls"):
        assert "precision" not in {each.rule for each in report_of(name).findings}
