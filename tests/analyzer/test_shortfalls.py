"""Time beyond floors that launches, names and samples explain, each part with its typed cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.steps import Step
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.shortfalls import Shortfalls
from tileprof.profile import DeviceInfo, Metric, Profile
from tileprof.profile.tables import Attribute

RATE = 4e12
"""Bytes a second of the memory."""
PEAKS = {"hbm_copy": RATE, "tensor_tf32": 400e12}
HELD = 4
"""Blocks that a multiprocessor holds: 528 on all of them."""


def kernel(
    name: str,
    each: float,
    blocks: float,
    *,
    floor: float = 1000.0,
    op: str = "aten::x",
    flops: bool = False,
    backward: bool = False,
) -> Profile:
    """20 launches of `each` ns, whose work takes `floor` ns at the roof of bytes or of flops."""
    step = Step()
    step.builder.declare(Metric("op_bytes", "B"))
    step.builder.declare(Metric("blocks", "1"))
    work = 20 * floor * 1e-9
    own: dict[str, float] = (
        {"flops": work * 400e12, "op_bytes": 1.0} if flops else {"op_bytes": work * RATE}
    )
    at = step.op(step.frame(step.top, "forward", 10), op, 20, backward, **own)
    node = step.launch(at, name, 20 * each, backward=backward)
    step.builder.add(node, "blocks", 20 * blocks)
    profile = step.profile(PEAKS)
    facts: dict[str, Attribute] = {
        "grid": f"{blocks:.0f}×1×1",
        "block": "128×1×1",
        "blocks_per_sm": HELD,
    }
    kernels = tuple(replace(each, attributes=facts) for each in profile.tables.kernels)
    device = DeviceInfo("cuda:0", name="NVIDIA H200", major=9, multiprocessors=132)
    tables = replace(profile.tables, kernels=kernels, devices=(device,))
    return replace(profile, tables=tables)


def shortfalls(profile: Profile) -> dict[str, float]:
    """Return parts of a launch's time by cause, in ns, and what nothing explains."""
    tree = Contexts(Program(profile))
    floors = Floors(tree)
    found: dict[str, float] = {
        cause: float(column.sum()) / 20
        for cause, column in Shortfalls(tree, floors).by_cause.items()
    }
    beyond = float((tree.time - floors.floor)[tree.time > 0].sum()) / 20
    return {**found, "unexplained": beyond - sum(found.values())}


@pytest.mark.parametrize(
    ("blocks", "few"),
    [(264, 50_000), (132, 75_000), (528, 0), (1056, 0)],
)
def test_places_without_a_block(blocks: int, few: float) -> None:
    """A long launch: half of the places are empty, three quarters, none; two full waves."""
    found = shortfalls(kernel("k", 100_000, blocks, floor=10_000))
    assert found.get("few-blocks", 0) == pytest.approx(few)
    assert found["unexplained"] == pytest.approx(90_000 - few)
    assert found.keys() <= {"few-blocks", "unexplained"}


def test_never_more_than_is_beyond_the_floor() -> None:
    """An eighth of the places suffices for 0.9 of the roof."""
    found = shortfalls(kernel("k", 100_000, 66, floor=90_000))
    assert found == pytest.approx({"few-blocks": 10_000, "unexplained": 0}, abs=1e-3)


@pytest.mark.parametrize(("each", "left"), [(8_000, 0), (16_000, 1)])
def test_a_short_launch_of_one_wave_is_latency(each: float, left: int) -> None:
    """Nine tenths of the places are full: below 10 µs the rest is latency, above it is unknown."""
    found = shortfalls(kernel("k", each, 0.9 * 528, floor=2_000))
    assert found["few-blocks"] == pytest.approx(0.1 * each)
    rest = 0.9 * each - 2_000
    assert found.get("short-launch", 0) == pytest.approx((1 - left) * rest)
    assert found["unexplained"] == pytest.approx(left * rest)


@pytest.mark.parametrize(("blocks", "lost"), [(132 * 4.25, 0.15), (132 * 4.26, 0.0)])
def test_a_last_wave_that_is_not_full(blocks: float, lost: float) -> None:
    """4.25 blocks for each multiprocessor take the time of five; several grids are not judged."""
    found = shortfalls(kernel("k", 100_000, blocks, floor=10_000))
    assert found.get("last-wave", 0) == pytest.approx(lost * 100_000)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("sm80_xmma_fprop_implicit_gemm_tf32f32", 1 / 0.62 - 1),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>", 1 / 0.62 - 1),
        ("sm90_xmma_gemm_f32f32_tf32f32", 0.0),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>", 0.0),
    ],
)
def test_products_with_instructions_of_older_gpus(name: str, part: float) -> None:
    """On Hopper, mma reaches 0.62 of what wgmma does."""
    found = shortfalls(kernel(name, 100_000, 1056, floor=20_000, flops=True))
    assert found.get("older-instructions", 0) == pytest.approx(part * 20_000)


@pytest.mark.parametrize(
    ("name", "backward", "part"),
    [
        ("bn_fw_tr_1C11_kernel_NCHW", False, 1 / 2),
        ("bn_bw_1C11_kernel_new", True, 2 / 3),
        ("bn_fw_tr_1C11_singleread", False, 0.0),
        ("bn_fw_inf_1C11_kernel_NCHW", False, 0.0),
    ],
)
def test_norms_that_read_their_input_twice(name: str, backward: bool, part: float) -> None:
    """Forward one of two tensors, backward two of three; some of cuDNN's kernels read once,
    and so do those of inference, which are given the statistics."""
    op = "CudnnBatchNormBackward0" if backward else "aten::cudnn_batch_norm"
    found = shortfalls(kernel(name, 100_000, 1056, floor=30_000, op=op, backward=backward))
    assert found.get("second-read", 0) == pytest.approx(part * 30_000)


def test_layouts_and_indices_by_name() -> None:
    """All of a change of layout; of a kernel that computes indices what others were seen to."""
    name = "void cudnn::engines_precompiled::nchwToNhwcKernel<float>"
    assert shortfalls(kernel(name, 50_000, 1056))["layout"] == pytest.approx(49_000)
    strided = "void at::native::elementwise_kernel<128, 2>"
    found = shortfalls(kernel(strided, 100_000, 1056, floor=50_000))
    assert found == pytest.approx({"instructions": 20_000, "unexplained": 30_000})
    contiguous = "void at::native::vectorized_elementwise_kernel<4>"
    assert shortfalls(kernel(contiguous, 100_000, 1056, floor=50_000)).keys() == {"unexplained"}


def test_known_limits_are_evidence_of_a_kernel_far_from_its_floor() -> None:
    """It is still reported, with the part that is known apart from the part that is not."""
    report = analyze(kernel("k", 100_000, 264, floor=10_000))
    (found,) = (each for each in report.findings if each.rule == "far-from-floor")
    held = report.account
    assert held is not None
    assert dict(held.shortfalls) == held.kernels[0].shortfalls == {"few-blocks": 1e6}
    assert held.floor + 1e6 + held.unexplained == held.time
    texts = [each.text for each in found.evidence]
    assert texts[0].endswith("90.0 % of the devices' time is beyond that")
    assert texts[1] == (
        "known limits: grids that do not fill the device 1 ms; 800 µs has no known cause"
    )
