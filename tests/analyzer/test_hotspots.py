"""Where the time goes: kernels, operations and scopes, each once."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program, report_of
from tests.analyzer.steps import MS, Step, training
from tileprof.analyzer.findings import percent
from tileprof.profile import TreeBuilder


def test_a_training_step() -> None:
    """Products and norms of the case study, and the scope of both passes."""
    said = found(training().profile(), "hotspot")
    assert {each.severity for each in said} == {"symptom"}
    assert [each.place.path[-1] for each in said] == [
        "nvjet_hsh_256x128_NTN", "nvjet_hsh_128x256_TNT", "layer_norm_grad_input_kernel", "forward",
    ]  # fmt: skip
    line = said[0].place.location
    assert line is not None
    assert line.line == 71


def test_the_table_is_amdahls() -> None:
    """A quarter of the time: 1 / (1 - 0.25 / 6), 1 / 0.875, 1 / 0.75."""
    step = Step()
    step.launch(step.op(step.top, "aten::a"), "a_kernel", 5 * MS)
    for name in "bcdefghijklmnop":  # each a twentieth
        step.launch(step.op(step.top, f"aten::{name}"), f"{name}_kernel", MS)
    finding = found(step.profile(), "hotspot")[0]
    assert finding.title == "a_kernel takes 25 % of the devices' time"
    assert [f"{gain:.2f}×" in finding.evidence[1].text for gain in (1.04, 1.14, 1.33)] == [True] * 3
    assert (finding.kernel_gain, finding.program_gain) == (None, None)


def test_names_of_cpp() -> None:
    """The title has the name alone, the place all of it."""
    name = "void (anonymous namespace)::softmax_warp_forward<float, 8>(float*, int)"
    finding = only(program(Made(name)), "hotspot")
    assert finding.title == "softmax_warp_forward takes 100 % of the devices' time"
    assert finding.place.kernel == name
    step = Step()
    step.builder.add(step.builder.child(step.top, "scope", "range(A)#next"), "cpu_time", MS)
    assert only(step.profile(), "hotspot").title.startswith("range(A)#next takes")


def test_idle_time_is_of_the_whole() -> None:
    """A kernel that the device does nothing but wait for."""
    assert not found(program(Made(time=9.0), idle=91.0), "hotspot")
    assert found(program(Made(time=11.0), idle=89.0), "hotspot")


def test_an_operation_of_many_kernels_is_told_as_one() -> None:
    """None of its kernels is hot; it is. Its scope says no more than it does."""
    step = Step()
    op = step.op(step.top, "aten::_foreach_norm")
    for number in range(12):
        step.launch(op, f"kernel_{number}", MS)
    assert [each.place.path[-1] for each in found(step.profile(), "hotspot")] == [
        "aten::_foreach_norm"
    ]


def test_nested_nodes_count_once() -> None:
    """An operation around another one has what is its own."""
    step = Step()
    outer = step.op(step.top, "aten::matmul")
    for number in range(5):
        step.launch(step.op(outer, "aten::mm"), f"kernel_{number}", 2 * MS)
    (finding,) = [e for e in found(step.profile(), "hotspot") if e.place.kernel == ""]
    assert finding.title == "aten::mm takes 100 % of the devices' time"


def test_a_program_without_a_device() -> None:
    """The host's time of operations in its steps, without what recording took."""
    step = Step()
    step.op(-1, "observer of PyTorch (tileprof)", 1, cpu_time=1e12)
    step.op(step.top, "aten::mm", cpu_time=9 * MS)
    step.op(step.top, "aten::add", cpu_time=0.5 * MS)
    finding = only(step.profile(), "hotspot")
    assert finding.title == "aten::mm takes 95 % of the host's time in its steps"
    assert finding.evidence[0].text.startswith(percent(9 / 9.5))


def test_what_recording_took_is_not_the_programs() -> None:
    """Without steps all of the host's time counts, but for the observer's and what is in it."""
    builder = TreeBuilder()
    observer = builder.child(-1, "op", "observer of PyTorch (tileprof)")
    builder.add(observer, "cpu_time", 9e9)
    builder.add(builder.child(observer, "op", "aten::ones"), "cpu_time", 9e9)
    builder.add(builder.child(-1, "op", "aten::mm"), "cpu_time", 1e6)
    finding = only(builder.snapshot(), "hotspot")
    assert finding.title == "aten::mm takes 100 % of the host's time"


def test_recordings_of_a_gpu() -> None:
    """One kernel is all there is; of sixteen alike none stands out."""
    (finding,) = [each for each in report_of("h200-gemm").findings if each.rule == "hotspot"]
    assert finding.place.kernel == "matmul_nt"
    assert not [each for each in report_of("h200-stalls").findings if each.rule == "hotspot"]


@pytest.mark.parametrize("metric", ["time", "cpu_time"])
def test_nothing_recorded(metric: str) -> None:
    """A tree without numbers, or with nothing but zeros."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "op", "aten::mm"), metric, 0)
    assert not found(builder.snapshot(), "hotspot")
    assert not found(TreeBuilder().snapshot(), "hotspot")
