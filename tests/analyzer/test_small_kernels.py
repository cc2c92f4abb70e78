"""Chains of short kernels: told with what fusing them would bring; others are left alone."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import DEPENDENT, FILE, LATE, MS, TORCH, Step, training
from tileprof.profile import Metric

SHORT = 4e3
"""Mean time of a launch, ns."""


def chain(names: str = "abcd", time: float = SHORT, gap: float = 1e3, why: str = DEPENDENT) -> Step:
    """A function of elementwise operations, a line each, beside a product of 1 ms a step."""
    step = Step()
    forward = step.scope(step.top, "forward")
    for line, name in enumerate(names, 10):
        op = step.op(step.frame(forward, "gelu", line), f"aten::{name}")
        kernel = "sm90_xmma_gemm_bf16" if name == "P" else f"elementwise_{name}"
        step.launch(op, kernel, 20 * time, gaps={why: 20 * gap})
    step.launch(step.op(step.frame(forward, "mlp", 30), "aten::mm"), "nvjet_hsh", MS / 20)
    return step


def test_a_chain_and_its_gain() -> None:
    """Of 4 × 4 µs three kernels go above the longest, half of that likely; of the gaps 3 of 4."""
    profile = chain().profile()
    finding = only(profile, "small-kernels")
    whole = 4 * (4 + 1) + 50
    low, mid, high = (1 / (1 - share / whole) for share in (1.5, 6 + 3, 12 + 3))
    assert finding.program_gain is not None
    gain = finding.program_gain
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, high))
    assert finding.severity == "suggestion"
    assert finding.place.location is not None
    assert (finding.place.location.line, finding.place.location.function) == (10, "gelu")
    assert "aten::a, aten::b, aten::c, aten::d" in finding.evidence[1].text
    assert "CUDA graph" not in finding.author


def simulation(inner: str = "elementwise", loop: int = 1) -> Step:
    """A function with two lines of its own and two that call another one; a total now and then."""
    step = Step(visits=900)
    main = step.frame(-1, "main", 61)
    for line, name in ((20, "mul"), (23, "clamp")):
        step.launch(step.frame(main, "react", line), name, 900 * SHORT, gaps={LATE: 900 * 1e3})
    for line in (21, 22):
        at = step.frame(step.frame(main, "react", line), "laplacian", 15)
        step.launch(at, inner, loop * 1_800 * SHORT, loop * 1_800, gaps={LATE: loop * 1_800e3})
        step.launch(at, "add", 900 * SHORT, gaps={LATE: 900 * 1e3})
    step.launch(step.frame(-1, "main", 63), "sum", 45 * SHORT, 45)
    return step


def test_a_function_whose_every_kernel_is_short_is_one_chain() -> None:
    """With those of the function that it calls twice, and not with what its caller does less."""
    finding = only(simulation().profile(), "small-kernels")
    assert finding.title == "8 short kernels in a row in react, train_gpt.py:21"
    assert finding.place.path[-1] == "react"


@pytest.mark.parametrize(("inner", "loop"), [("sm90_xmma_gemm_bf16", 1), ("elementwise", 10)])
def test_products_and_loops_keep_functions_apart(inner: str, loop: int) -> None:
    """A chain that they are in ends at the line of the function that calls them."""
    titles = [each.title for each in found(simulation(inner, loop).profile(), "small-kernels")]
    assert not any("in react" in title for title in titles)


AVERAGE = """for step in range(20):
    optimizer.step()
    for old, new in zip(kept, weights):
        old.mul_(0.9)
        old.add_(new)
"""


def averaging(second: str) -> Step:
    """Twenty steps of an optimizer, and after each two operations on 100 tensors."""
    step = Step()
    optimizer = step.scope(step.frame(-1, "<module>", 2), "Optimizer.step#Adam.step")
    step.launch(step.op(optimizer, "aten::_fused_adam_"), "multi_tensor_apply", 20 * 400 * SHORT)
    for line, name in ((4, "mul_"), (5, second)):
        op = step.op(step.frame(-1, "<module>", line), f"aten::{name}", 2_000)
        step.launch(op, name, 2_000 * SHORT, 2_000, gaps={LATE: 2_000 * SHORT})
    return step


def test_a_loop_that_changes_tensors_in_each_step() -> None:
    """One call on lists leaves one launch a step; of two operations on each tensor one goes."""
    finding = only(averaging("add_").profile(sources={FILE: AVERAGE}), "small-kernels")
    assert finding.title.startswith(
        "A loop changes one tensor after the other: 200 short kernels in a row at train_gpt.py:4"
    )
    assert "torch._foreach_" in finding.author


def test_a_loop_that_makes_tensors_is_none_of_these() -> None:
    """One that changes them is, whether or not the program's text is known: the optimizer tells
    steps."""
    assert not found(averaging("add").profile(sources={FILE: AVERAGE}), "small-kernels")
    only(averaging("add_").profile(), "small-kernels")


def test_the_place_is_where_most_of_the_chain_is() -> None:
    """A chain may begin with what the line before launches last."""
    step = Step()
    fill = step.op(step.frame(step.top, "train", 31), "aten::fill_")
    step.launch(fill, "fill", 20 * SHORT)
    at = step.frame(
        step.frame(step.top, "train", 32), "_single_tensor_adam", 404, f"{TORCH}adam.py"
    )
    for name in ("lerp_", "mul_", "addcmul_", "sqrt", "div", "addcdiv_"):
        step.launch(step.op(at, f"aten::{name}", 2_000), "elementwise", 2_000 * SHORT, 2_000,
                    gaps={LATE: 2_000 * SHORT})  # fmt: skip
    finding = only(step.profile(), "small-kernels")
    assert finding.title == (
        "The optimizer updates one parameter after the other: 6 short kernels in a row at"
        " train_gpt.py:32, aten::lerp_"
    )
    assert "fused=True" in finding.author
    assert finding.place.location is not None
    assert finding.place.location.line == 32


def test_late_launches_ask_for_a_graph() -> None:
    """The host is what the gaps are for."""
    assert "CUDA graph" in only(chain(why=LATE).profile(), "small-kernels").author


@pytest.mark.parametrize(("slack", "late"), [(3e3, 2e3), (0, 2e3), (4e3, 10e3)])
def test_kernels_that_ran_while_the_host_launched_hide_its_time(slack: float, late: float) -> None:
    """The host takes 0.73 of gaps and slack together, a quarter of which stays with one launch for
    four; the device takes the slack, less what goes of it. The longer one of both counts."""
    step = chain(gap=late, why=LATE)
    step.builder.declare(Metric("slack_time", "ns"))
    for kernel, name in step.kernels.items():
        if name.startswith("elementwise"):
            step.builder.add(kernel, "slack_time", 20 * slack)
    gain = only(step.profile(), "small-kernels").program_gain
    host, device = 0.73 * 4 * (late + slack), 4 * slack
    goes = max(host, device) - max(host / 4, device - 1.5 * slack) + 1.5 * (SHORT - slack)
    whole = 4 * SHORT + MS / 20 / 20 + max(host, device) - device
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - goes / whole))
    assert gain.high >= 1 / (1 - (host - slack + 3 * (SHORT - slack)) / whole)


def test_chains_of_an_optimizer_have_a_finding_of_their_own() -> None:
    """Other lines of the function that calls it make no part of its gain."""
    step = Step()
    for line in (31, 40):
        at = step.frame(step.top, "train", line)
        if line == 31:
            at = step.frame(at, "_single_tensor_adam", 404, f"{TORCH}adam.py")
        for name in ("lerp_", "mul_", "addcmul_", "sqrt"):
            step.launch(step.op(at, f"aten::{name}"), "elementwise", 20 * SHORT)
        step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", 20 * SHORT)
    titles = [each.title for each in found(step.profile(), "small-kernels")]
    assert len(titles) == 2
    assert sum("optimizer" in each for each in titles) == 1


@pytest.mark.parametrize("step", [chain("abc"), chain(time=15e3), chain("abPcd")])
def test_no_chain(step: Step) -> None:
    """Three kernels; long ones; a product in between."""
    assert not found(step.profile(), "small-kernels")


def test_kernels_of_one_operation() -> None:
    """Three hundred launches a visit of an operation: half of the time is gaps, 299 of 300 go. A
    quarter of them is the recording's."""
    step = Step()
    op = step.op(step.frame(step.top, "train", 168), "aten::_foreach_add_")
    step.launch(op, "multi_tensor_apply", 6000 * SHORT, 6000, gaps={LATE: 6000 * SHORT})
    finding = only(step.profile(), "small-kernels")
    assert finding.title.startswith("300 short kernels in a row at train_gpt.py:168")
    gain, share, likely = finding.program_gain, 0.5 * 299 / 300, 0.73 / 1.73 * 299 / 300
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        (1 / (1 - likely / 2), 1 / (1 - likely), 1 / (1 - share))
    )


@pytest.mark.parametrize(("products", "chains"), [(6000, 0), (20, 1)])
def test_recurrence_of_a_library(products: int, chains: int) -> None:
    """An operation that launches a cell and a product in turn is a loop that no compiler sees; one
    product a visit is no part of a loop."""
    step = Step()
    op = step.op(step.frame(step.top, "train", 168), "aten::_cudnn_rnn")
    step.launch(op, "elemWiseRNNcell", 6000 * SHORT, 6000, gaps={LATE: 6000 * SHORT})
    step.launch(op, "cutlass_80_simt_sgemm_32x128", products * SHORT, products)
    assert len(found(step.profile(), "small-kernels")) == chains


def test_functions_are_told_apart() -> None:
    """Two of two kernels each, in a caller that launches a product too, are no chain."""
    step = Step()
    step.launch(step.op(step.frame(step.top, "train", 9), "aten::mm"), "nvjet_hsh", 20 * SHORT)
    for number, function in enumerate(("one", "one", "two", "two")):
        at = step.frame(step.top, function, 10 + number)
        step.launch(step.op(at, f"aten::{number}"), f"kernel_{number}", 20 * SHORT)
    assert not found(step.profile(), "small-kernels")


def test_passes_are_told_apart() -> None:
    """Gradients hang below what made them, but run at another time."""
    step = Step()
    for number in range(3):
        op = step.op(step.frame(step.top, "act", 10 + number), f"aten::{number}")
        step.launch(op, f"kernel_{number}", 20 * SHORT)
        gradient = step.op(op, f"Op{number}Backward0", backward=True)
        step.launch(gradient, f"grad_{number}", 20 * SHORT, backward=True)
    assert not found(step.profile(), "small-kernels")


def test_chains_that_take_no_time() -> None:
    """Less than a percent of the devices' time."""
    step = chain()
    step.launch(step.op(step.top, "aten::mm"), "nvjet_other", 10 * MS)
    assert not found(step.profile(), "small-kernels")


def standing(stood: float, gap: float) -> Step:
    """Four kernels of 2 ms a step in all, in whose launches the host stands; then it is late."""
    step = Step()
    step.builder.declare(Metric("overhead_time", "ns"))
    update = step.scope(step.top, "update")
    for line, name in enumerate("abcd", 10):
        op = step.op(step.frame(update, "AdamW.step", line), f"aten::{name}", 2500)
        step.launch(op, f"elementwise_{name}", 0.5 * MS, 2500)
        full = step.node(op, "api", "command buffer full (overhead)")
        step.builder.add(full, "overhead_time", stood / 4 * MS)
    data = step.frame(step.scope(step.top, "data"), "batches", 30)
    step.idle(data, "waiting for data", gap * MS)
    step.launch(step.op(step.frame(step.top, "mlp", 40), "aten::mm"), "nvjet_hsh", 88 * MS)
    return step


@pytest.mark.parametrize(("stood", "behind"), [(20, 10), (4, 4)])
def test_a_full_queue_holds_the_host_up(stood: float, behind: float) -> None:
    """Gaps of 10 ms before data: half of what the host stood for likely, nothing for sure."""
    finding = only(standing(stood, 10).profile(), "small-kernels")
    gain = finding.program_gain
    assert gain is not None
    shares = (0.0, 0.0075 + behind / 200, 0.015 + behind / 100)
    assert (gain.low, gain.mid, gain.high) == pytest.approx([1 / (1 - each) for each in shares])
    assert f"is blocked for {stood * 20} ms in these launches" in finding.evidence[-1].text


def test_a_full_queue_that_costs_nothing() -> None:
    """The host stands in launches, but the device has work all the time."""
    assert not found(standing(20, 0).profile(), "small-kernels")


def test_a_kernel_that_runs_once_does_not_make_the_chain_longer() -> None:
    """The first of 20 steps clears what the others add to."""
    step = chain()
    forward = step.scope(step.top, "forward")
    clear = step.op(step.frame(forward, "gelu", 9), "aten::fill_", 1)
    step.launch(clear, "FillFunctor", SHORT, 1)
    assert only(step.profile(), "small-kernels").title.startswith("4 short kernels in a row")


def test_steps_without_short_kernels() -> None:
    """Kernels of the case study take 18 µs and more; recordings have one launch after the other."""
    assert not found(training().profile(), "small-kernels")
    for name in ("h200-gemm", "h200-stalls"):
        assert "small-kernels" not in {each.rule for each in report_of(name).findings}
