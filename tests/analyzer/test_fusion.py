"""Memory-bound kernels between products, and optimizers of many passes, with what fusing brings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, LATE, MS, Step

LONG = 50e3
"""Mean time of a launch, ns: many times what launching takes."""


def activation(
    names: str = "abcdef", times: float = LONG, model: str = "NewGELU.forward", gap: float = 0
) -> Step:
    """An activation written as operations, between two products of 50 µs a step each.

    Before each of its kernels the device waits for `gap` ns for a late launch.
    """
    step = Step()
    forward = step.scope(step.top, "forward")
    late = {LATE: 20 * gap} if gap else {}
    for place, product in enumerate(("up", "down")):
        if place:
            inner = step.frame(forward, model, 10)
            for name in names:
                op = step.op(inner, f"aten::{name}")
                kernel = "sm90_xmma_gemm" if name == "P" else "vectorized_elementwise_kernel"
                step.launch(op, kernel, 20 * times, gaps=late)
        mlp = step.frame(forward, product, 30 + place)
        step.launch(step.op(mlp, "aten::mm"), "nvjet_hsh", MS / 20)
    return step


def test_a_run_and_its_gain() -> None:
    """Of 6 × 50 µs five go at best, three quarters of that likely, half at least."""
    finding = only(activation().profile(), "fusion")
    whole = 6 * 50 + 2 * 50
    low, mid, high = (1 / (1 - part * 250 / whole) for part in (0.5, 0.75, 1))
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert finding.title.startswith("6 memory-bound kernels")
    assert "NewGELU.forward" in finding.title
    assert "torch.nn.functional.gelu" in finding.author


def test_what_is_outside_of_the_model_goes_at_most() -> None:
    """Fusing likely saves three quarters of half the model's time, and nothing of a loss's kernels,
    which compiling the model does not reach."""
    step = Step()
    model = step.frame(step.top, "Model.forward", 10)
    loss = step.frame(step.top, "train", 20)
    for above, names in ((model, "ab"), (loss, "cd")):
        for name in names:
            step.launch(step.op(above, f"aten::{name}"), "elementwise_kernel", 20 * LONG)
    step.launch(step.op(loss, "aten::mm"), "nvjet_hsh", 20 * 4 * LONG)
    finding = only(step.profile(), "fusion")
    gain = finding.program_gain
    assert gain is not None
    low, mid, high = (1 / (1 - part / 8) for part in (0.5, 0.75, 2.0))
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert finding.title.startswith("2 memory-bound kernels")
    assert any("outside of the model" in each.text for each in finding.evidence)


def test_a_copy_on_the_device_is_part_of_a_run() -> None:
    """A clone between two operations by element is one of three kernels, of which two go."""
    step = Step()
    for name in ("mul", "clone", "add"):
        op = step.op(step.top, f"aten::{name}")
        if name == "clone":
            step.copy(op, "DtoD", 20 * LONG)
        else:
            step.launch(op, "elementwise_kernel", 20 * LONG)
    gain = only(step.profile(), "fusion").program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - 0.75 * 2 / 3))


def test_runs_follow_launches_and_not_first_frames() -> None:
    """The frame of a ReLU that was seen before its norm ends no run: the norm is launched first."""
    step = Step()
    relu, norm = (step.frame(step.top, f"{name}.forward", 5) for name in ("ReLU", "Norm"))
    step.launch(step.op(norm, "aten::batch_norm"), "bn_fw_inf", 20 * LONG)
    step.launch(step.op(relu, "aten::relu"), "elementwise_kernel", 20 * LONG)
    step.launch(step.op(step.frame(step.top, "Linear.forward", 6), "aten::mm"), "nvjet", 20 * LONG)
    step.launch(step.op(relu, "aten::mm"), "nvjet_late", 20 * LONG)
    finding = only(step.profile(), "fusion")
    assert finding.title.startswith("2 memory-bound kernels")


@pytest.mark.parametrize(("rate", "kernels"), [(1e12, 4), (20e12, 2)])
def test_a_product_that_hardly_multiplies_is_part_of_a_run(rate: float, kernels: int) -> None:
    """At 1 TFLOP/s of 60 a product of 50 µs is bound by its bytes, as its neighbours are; at 20 it
    ends the run before it."""
    step = Step()
    forward = step.frame(step.top, "forward", 9)
    for name in ("mul", "exp", "bmm", "add"):
        seconds = 20 * LONG * 1e-9 * (name == "bmm")
        op = step.op(forward, f"aten::{name}", flops=seconds * rate, bytes=seconds * 2e12)
        step.launch(op, "magma_sgemm" if name == "bmm" else f"elementwise_{name}", 20 * LONG)
    finding = only(step.profile({"fma_float32": 60e12, "hbm_copy": 4e12}), "fusion")
    assert finding.title.startswith(f"{kernels} memory-bound kernels")


def test_a_convolution_by_groups_is_no_part_of_a_run() -> None:
    """It hardly multiplies either, but compilers call the library's kernel for it."""
    step = Step()
    for name in ("mul", "exp", "conv_depthwise2d", "add"):
        seconds = 20 * LONG * 1e-9 * (name == "conv_depthwise2d")
        op = step.op(step.top, f"aten::{name}", bytes=1e12 * seconds, flops=1e12 * seconds)
        step.launch(op, f"{name}_kernel", 20 * LONG)
    roofs = {"hbm_copy": 4e12, "fma_float32": 6e13}
    finding = only(step.profile(roofs), "fusion")
    assert finding.title.startswith("2 memory-bound kernels")


def test_what_nothing_reads_goes_with_compiling() -> None:
    """Of 600 µs, 100 are of a line whose result is never read; of a run of two that is left, half
    goes likely three quarters: 37.5 of 50 µs."""
    source = "def forward(self, x):\n    unread = x.exp()\n    return x.mul(2).add(1)\n"
    step = Step()
    for line, name, time in ((2, "exp", 2), (3, "mul", 1), (3, "add", 1)):
        op = step.op(step.frame(step.top, "forward", line), f"aten::{name}")
        step.launch(op, f"elementwise_{name}", 20 * time * LONG)
    step.launch(step.op(step.frame(step.top, "forward", 4), "aten::mm"), "nvjet_hsh", 160 * LONG)
    profile = step.profile(sources={FILE: source})
    gain = only(profile, "fusion").program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - (100 + 37.5) / 600))
    assert found(profile, "unread-results")


def test_launches_that_go_take_their_gaps_along() -> None:
    """Five of six gaps of 10 µs likely go, half of that time at least; a quarter of each is the
    recording's."""
    finding = only(activation(gap=10e3).profile(), "fusion")
    whole, left = 6 * 60 + 2 * 50, 6 * 57.3 + 2 * 50
    low, mid = (1 / (1 - lost / left) for lost in (0.5 * 250 + 18.25, 0.75 * 250 + 36.5))
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid) == pytest.approx((low, mid))
    assert gain.high >= 1 / (1 - 300 / whole)
    assert "another 10.9 % is lost in gaps before launches that would disappear" in [
        each.text for each in finding.evidence
    ]


def test_the_part_with_most_of_the_time_is_named() -> None:
    """Not what is around all of a run: an activation, and a sum behind it in the layer."""
    step = Step()
    block = step.frame(step.scope(step.top, "forward"), "Block.forward", 20)
    step.launch(step.op(block, "aten::mm"), "nvjet_hsh", MS / 20)
    gelu = step.frame(block, "GELU.forward", 10)
    for name in "abc":
        step.launch(step.op(gelu, f"aten::{name}"), "elementwise_kernel", 20 * LONG)
    step.launch(step.op(block, "aten::add"), "elementwise_kernel", 20 * LONG)
    finding = only(step.profile(), "fusion")
    assert finding.title == (
        "4 memory-bound kernels could be fused, most of their time in GELU.forward"
    )
    assert finding.place.location is not None
    assert finding.place.location.line == 10


@pytest.mark.parametrize(
    "step",
    [activation("a"), activation("aPb"), activation(times=2e3), activation("aaa", 0.1e3)],
    ids=["one kernel", "a product in between", "short kernels", "nothing to gain"],
)
def test_no_run(step: Step) -> None:
    """Nothing to fuse, or what another rule tells."""
    assert not found(step.profile(), "fusion")


@pytest.mark.parametrize(
    ("kernel", "floor", "told"),
    [
        ("max_pool_forward_nchw", 5, True),
        ("max_pool_forward_nchw", 10, False),
        ("a_library_of_its_own", 5, False),
    ],
    ids=["far from its bytes", "near", "no compiler writes it"],
)
def test_kernel_that_a_compiler_writes_better(kernel: str, floor: float, told: bool) -> None:
    """A pooling alone, of 20 ms: what its bytes take is left at best, nine tenths of the rest go
    likely."""
    step = Step()
    op = step.op(step.top, "aten::max_pool2d", bytes=floor * MS * 1e-9 * 4e12)
    step.launch(op, kernel, 20 * MS)
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", 80 * MS)
    findings = found(step.profile({"hbm_copy": 4e12}), "fusion")
    assert bool(findings) == told
    if told:
        (finding,) = findings
        gain = finding.program_gain
        assert gain is not None
        assert gain.mid == pytest.approx(1 / (1 - 0.9 * (20 - floor / 0.85) / 100))
        assert gain.high == pytest.approx(1 / (1 - (20 - floor) / 100))
        assert finding.title.startswith("1 memory-bound kernel takes far longer")


@pytest.mark.parametrize(("ir", "told"), [("", True), ("kernel row_norm() {}", False)])
def test_a_tile_kernel_far_from_its_bytes_is_no_run(ir: str, told: bool) -> None:
    """Compilers call it as it is, though its name is that of a norm and it hardly multiplies."""
    step = Step()
    op = step.op(step.top, "row_norm", bytes=5 * MS * 1e-9 * 4e12, flops=1e6)
    step.launch(op, "row_norm", 20 * MS)
    held = step.profile({"hbm_copy": 4e12, "fma_float32": 6e13})
    infos = tuple(replace(each, ir=ir) for each in held.tables.kernels)
    held = replace(held, tables=replace(held.tables, kernels=infos))
    assert bool(found(held, "fusion")) == told


def test_kernels_that_are_fused_already() -> None:
    """Kernels that a compiler made are left alone."""
    step = Step()
    for number in range(4):
        op = step.op(step.frame(step.top, "forward", 10 + number), f"aten::{number}")
        step.launch(op, f"triton_poi_fused_add_{number}", 20 * LONG)
    assert not found(step.profile(), "fusion")


def test_kernels_that_no_operation_launches() -> None:
    """Uses of each other's results are not known of kernels of the program's own."""
    step = Step()
    for number in range(4):
        at = step.frame(step.top, "forward", 10 + number)
        step.launch(at, f"kernel_{number}", 20 * LONG)
    assert not found(step.profile(), "fusion")


def test_passes_are_told_apart() -> None:
    """A gradient's kernel runs at another time than the one of the operation above it."""
    step = Step()
    op = step.op(step.frame(step.top, "forward", 10), "aten::mul")
    step.launch(op, "elementwise", 20 * LONG)
    step.launch(step.op(op, "MulBackward0", backward=True), "elementwise", 20 * LONG, backward=True)
    assert not found(step.profile(), "fusion")


ADAM = ("add_", "mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div_", "addcdiv_")
PASSES = (2, 2, 3, 2, 3, 2, 2, 4)


def optimizer(names: tuple[str, ...], times: tuple[float, ...], kind: str = "AdamW") -> Step:
    """A step of an optimizer beside a product of 50 µs."""
    step = Step()
    train = step.frame(step.top, "train", 20)
    around = step.scope(train, f"Optimizer.step#{kind}.step")
    for line, (name, time) in enumerate(zip(names, times, strict=True)):
        inside = step.frame(around, "_multi_tensor", 100 + line)
        step.launch(step.op(inside, f"aten::_foreach_{name}"), "multi_tensor_apply", 20 * time)
    step.launch(step.op(train, "aten::mm"), "nvjet_hsh", MS / 20)
    return step


def test_passes_of_an_optimizer() -> None:
    """AdamW on lists reads and writes 20 tensors for each parameter, fused 7."""
    times = tuple(10e3 * each for each in PASSES)
    finding = only(optimizer(ADAM, times).profile(), "optimizer-passes")
    whole, time = 200 + 50, 200
    parts = (1 - 7 / 20 * slower for slower in (4 / 3, 1.1, 1))
    low, mid, high = (1 / (1 - part * time / whole) for part in parts)
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert "read and write 20 tensors" in finding.evidence[0].text
    assert "torch.optim.AdamW" in finding.author


@pytest.mark.parametrize(
    ("names", "kind"), [(("add_",), "SGD"), (ADAM, "Lion"), (("_fused_adamw_",), "AdamW")]
)
def test_optimizers_without_a_better_form(names: tuple[str, ...], kind: str) -> None:
    """One pass, one that has no fused form here, one that is fused."""
    step = optimizer(names, (LONG,) * len(names), kind)
    assert not found(step.profile(), "optimizer-passes")
