"""Rules about what programs of PyTorch commonly leave: unaligned products, attention, loaders."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import LATE, MS, TORCH, Step
from tileprof.analyzer.rules.program.numbers import ALIGNMENT_PARTS
from tileprof.errors import Location
from tileprof.profile import Metric, Tables, TreeBuilder

NARROW = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align1>"


def head(name: str = NARROW, time: float = MS / 4) -> Step:
    """A product of a vocabulary in a step of 1 ms of other products."""
    step = Step()
    step.launch(step.op(step.frame(step.top, "block", 10), "aten::mm"), "nvjet_hsh", MS - time)
    step.launch(step.op(step.frame(step.top, "head", 20), "aten::addmm"), name, time)
    return step


def test_unaligned_products_and_what_padding_brings() -> None:
    """Far less than their share: the arithmetic stays."""
    finding = only(head().profile(), "alignment")
    low, mid, high = (1 / (1 - part / 4) for part in ALIGNMENT_PARTS)
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert gain.mid == pytest.approx(1.037, abs=0.005)
    assert finding.place.location is not None
    assert finding.place.location.line == 20


def test_padding_brings_what_is_above_the_roof_where_the_device_is_waited_for() -> None:
    """A product at a tenth of its roof; half of its time passes before late launches, of a host
    that takes far longer: half of what is above 1 / 0.7 floors is the program's."""
    step = head(time=MS / 4)
    flops = 0.1 * 800e12 * MS / 4 * 1e-9
    (product,) = step.builder.snapshot().find(NARROW)
    step.builder.declare(Metric("flops", "flop"))
    step.builder.add(product, "flops", flops)
    step.builder.declare(Metric("slack_time", "ns"))
    step.builder.add(product, "slack_time", MS / 8)
    step.idle(step.op(step.top, "aten::mul"), LATE, MS)
    finding = only(step.profile({"tensor_bfloat16": 800e12, "hbm_read": 4.7e12}), "alignment")
    gain, above = finding.program_gain, 0.25 * (1 - 0.1 / 0.7)
    assert gain is not None
    host, left = 0.73 * 1.125, 0.125 - above / 4
    counts = 0.5 + 0.5 * left**2 / (left**2 + host**2)
    unrecorded = 1 + host - 0.125
    assert (gain.low, gain.mid) == pytest.approx((1, 1 / (1 - above * counts / unrecorded)))
    assert gain.high >= 1 / (1 - above / 2)


@pytest.mark.parametrize(
    "name",
    [
        NARROW.replace("align1", "align8"),
        "cutlass_80_simt_sgemm_128x64_8x5_nn_align1",
        NARROW.replace("align1", "align16"),
    ],
)
def test_products_that_are_aligned_or_need_not_be(name: str) -> None:
    """Accesses of 16 bytes; plain multiply-adds, which read element by element anyway."""
    assert not found(head(name).profile(), "alignment")


def attention(
    *names: str, forward: str = "eager_attention_forward", product: str = "nvjet_hsh"
) -> Step:
    """A function of operations of 50 µs a launch each, beside a linear layer of 50 µs."""
    step = Step()
    outer = step.frame(step.top, "Attention.forward", 30)
    for line, name in enumerate(names, 10):
        inner = step.frame(outer, forward, line)
        kernel = product if name in ("bmm", "baddbmm", "addmm") else f"elementwise_{name}"
        step.launch(step.op(inner, f"aten::{name}"), kernel, MS / 20)
    step.launch(step.op(step.frame(step.top, "mlp", 40), "aten::addmm"), "nvjet_hsh", MS / 20)
    return step


@pytest.mark.parametrize(
    ("product", "likely"),
    [
        ("nvjet_hsh", 0.25),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3", 0.0),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16", 0.0),
    ],
    ids=["16 bits", "32-bit floats", "TF32"],
)
def test_attention_that_is_written_out(product: str, likely: float) -> None:
    """Of 6 × 50 µs, 3 lie between the products; a fused kernel multiplies 32-bit floats no
    faster."""
    step = attention("bmm", "mul", "add", "_softmax", "bmm", product=product)
    finding = only(step.profile(), "attention")
    parts = ((0.5, 0.0), (0.9, likely), (1.0, 0.67))
    low, mid, high = (1 / (1 - (3 * a + 2 * b) / 6) for a, b in parts)
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert "scaled_dot_product_attention" in finding.author
    assert not found(step.profile(), "fusion")


def test_attention_of_a_host_that_is_late() -> None:
    """Of five launches one stays, and of six in the backward pass two: so many of the gaps go that
    are there without a recording. Gaps before a linear layer stay."""
    step = Step()
    step.builder.declare(Metric("slack_time", "ns"))
    outer = step.frame(step.top, "Attention.forward", 30)
    for line, name in enumerate(("bmm", "mul", "add", "_softmax", "bmm"), 10):
        op = step.op(step.frame(outer, "eager_attention_forward", line), f"aten::{name}")
        kernel = step.launch(op, f"kernel_{name}", MS / 20, gaps={LATE: MS})
        step.builder.add(kernel, "slack_time", MS / 20)
        if name in ("bmm", "mul", "_softmax"):
            gradient = step.op(op, f"{name.title()}Backward0", backward=True)
            count = 30 if name == "bmm" else 20
            step.launch(gradient, f"kernel_{name}", MS / 20, count, True, gaps={LATE: MS})
    step.launch(step.op(outer, "aten::addmm"), "nvjet_hsh", 20 * MS, gaps={LATE: 20 * MS})
    finding = only(step.profile(), "attention")
    assert finding.severity == "suggestion"
    gain = finding.program_gain
    assert gain is not None
    late = 5 * 0.8 + 4 * (1 - 2 / 5)
    unrecorded = 0.73
    whole = 20 + 9 / 20 + unrecorded * 29
    assert gain.mid == pytest.approx(1 / (1 - unrecorded * late / whole), rel=0.02)
    assert any("launches that would disappear" in each.text for each in finding.evidence)


def test_softmax_by_a_function_of_pytorch() -> None:
    """The function that multiplies is the one that calls `torch.nn.functional.softmax`."""
    step = Step()
    outer = step.frame(step.top, "Attention.forward", 30)
    for line, name in enumerate(("bmm", "softmax", "bmm"), 10):
        at = step.frame(outer, "eager_attention_forward", line)
        if name == "softmax":
            at = step.frame(at, "softmax", 2000, f"{TORCH}nn/functional.py")
        step.launch(step.op(at, f"aten::{name}"), f"kernel_{name}", MS / 20)
    assert found(step.profile(), "attention")


def test_linear_layers_in_the_same_function_are_no_part_of_attention() -> None:
    """Their products stay, whether attention is fused or not."""
    plain = attention("bmm", "_softmax", "bmm")
    beside = attention("bmm", "_softmax", "bmm", "addmm")
    shares = [
        only(each.profile(), "attention").evidence[0].text.split()[2:4] for each in (plain, beside)
    ]
    assert shares == [["75.0", "%"], ["60.0", "%"]]


@pytest.mark.parametrize(
    "names",
    [
        ("_scaled_dot_product_flash_attention",),
        ("bmm", "_softmax"),
        ("bmm", "mul", "bmm"),
        ("add", "_softmax", "mul"),
    ],
)
def test_no_attention(names: tuple[str, ...]) -> None:
    """Fused; a classifier; products without a softmax; a softmax without products."""
    assert not found(attention(*names).profile(), "attention")


def test_an_attention_inside_of_pytorch_is_not_written_out() -> None:
    """Without a fused kernel, PyTorch computes its own function by products and a softmax."""
    step = Step()
    fused = step.op(
        step.frame(step.top, "Attention.forward", 30), "aten::scaled_dot_product_attention"
    )
    for name in ("bmm", "_safe_softmax", "bmm"):
        step.launch(step.op(fused, f"aten::{name}"), f"kernel_{name}", MS / 20)
    assert not found(step.profile(), "attention")


def test_other_lines_of_a_module_and_other_functions_are_no_part_of_attention() -> None:
    """Of 7 kernels of 50 µs, 3 are the attention's, which a module and not a function calls."""
    step = Step()
    lines = enumerate(("exp", "bmm", "softmax", "bmm", "cos"), 10)
    at = {line: (step.frame(step.top, "<module>", line), name) for line, name in lines}
    for line, name in at.values():
        step.launch(step.op(line, f"aten::{name}"), f"kernel_{name}", MS / 20)
    between, _ = at[12]
    step.launch(step.op(step.frame(between, "rotate", 40), "aten::mul"), "mul", MS / 20)
    step.launch(between, "tile_kernel", MS / 20)
    finding = only(step.profile(), "attention")
    assert finding.evidence[0].text.startswith("it takes 42.9 % of")


def loading(share: float, workers: bool = False) -> TreeBuilder:
    """A program on the host of 100 ms that loads for a share of it."""
    builder = TreeBuilder()
    line = builder.child(-1, "frame", "<module>", Location("/home/me/train.py", 9))
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    scope = builder.child(line, "scope", f"enumerate(DataLoader)#{kind}.__next__")
    builder.add(scope, "count", 10)
    inner = builder.child(scope, "frame", "fetch", Location(f"{TORCH}utils/data/fetch.py", 7))
    builder.add(inner, "cpu_time", 100e6 * share)
    builder.add(builder.child(line, "op", "aten::mm"), "cpu_time", 100e6 * (1 - share))
    return builder


@pytest.mark.parametrize(
    ("share", "cpus", "gains"),
    [
        (0.8, "64", (2.5, 5.0, 5.0)),
        (0.2, "64", (1 / (1 - 0.2 * 63 / 64), 1.25, 1.25)),
        (0.2, "2", (1 / 0.9, 1.25, 1.25)),
        (0.2, "", (1 / 0.9, 1.25, 1.25)),
        (0.2, "1", (1.0, 1.25, 1.25)),
    ],
)
def test_a_loader_without_workers(
    share: float, cpus: str, gains: tuple[float, float, float]
) -> None:
    """The longer one of computing and of loading by the workers is left, or, where computing has
    all processors, what these do beside it."""
    builder = loading(share)
    finding = only(builder.snapshot(Tables(provenance={"cpus": cpus})), "loader")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gains)
    assert "num_workers" in finding.author


def test_loaders_that_take_little_or_have_workers() -> None:
    """Nothing is told."""
    assert not found(loading(0.05).snapshot(), "loader")
    assert not found(loading(0.8, workers=True).snapshot(), "loader")
