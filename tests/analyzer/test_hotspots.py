"""Where the host's time goes: operations, lines and scopes, each once; and nothing for devices."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program, report_of
from tests.analyzer.steps import MS, Step, training
from tileprof.analyzer import analyze
from tileprof.analyzer.findings import percent
from tileprof.errors import Location
from tileprof.profile import Profile, TreeBuilder


def with_a_kernel() -> Profile:
    """One kernel that takes all of the device's time, in an operation that takes the host's."""
    step = Step()
    step.launch(step.op(step.top, "aten::mm", cpu_time=9 * MS), "hot_kernel", 5 * MS)
    return step.profile()


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(training().profile(), id="a training"),
        pytest.param(with_a_kernel(), id="one kernel"),
        pytest.param(program(Made(time=11.0), idle=89.0), id="idle"),
    ],
)
def test_where_devices_were_timed_the_account_says_it(profile: Profile) -> None:
    """No place is reported as hot, of devices or of the host, and there is an account."""
    made = analyze(profile)
    assert made.account is not None
    assert not [each for each in made.findings if each.rule == "hotspot"]


@pytest.mark.parametrize("name", ["h200-gemm", "h200-stalls"])
def test_recordings_of_a_gpu_have_no_hotspot(name: str) -> None:
    """Neither a kernel that is all there is, nor sixteen alike."""
    made = report_of(name)
    assert not [each for each in made.findings if each.rule == "hotspot"]
    held = made.account
    assert held is not None
    assert sum(each.time for each in held.kernels) == pytest.approx(held.busy)


def test_a_program_without_a_device() -> None:
    """The host's time of operations in its steps, without what recording took."""
    step = Step()
    step.op(-1, "observer of PyTorch (tileprof)", 1, cpu_time=1e12)
    step.op(step.top, "aten::mm", cpu_time=9 * MS)
    step.op(step.top, "aten::add", cpu_time=0.5 * MS)
    finding = only(step.profile(), "hotspot")
    assert finding.title == "aten::mm takes 95 % of the host's time in its steps"
    assert finding.evidence[0].text.startswith(percent(9 / 9.5))
    assert finding.severity == "symptom"
    assert finding.author.startswith("Start with this operation")
    assert (finding.kernel_gain, finding.program_gain) == (None, None)


def test_the_table_is_amdahls() -> None:
    """A quarter of the time: 1 / (1 - 0.25 / 6), 1 / 0.875, 1 / 0.75."""
    step = Step()
    for name, part in (("a", 5), ("b", 3), ("c", 3), ("d", 3), ("e", 3), ("f", 3)):
        step.op(step.top, f"aten::{name}", cpu_time=part * MS)
    finding = found(step.profile(), "hotspot")[0]
    assert finding.title == "aten::a takes 25 % of the host's time in its steps"
    assert [f"{gain:.2f}×" in finding.evidence[1].text for gain in (1.04, 1.14, 1.33)] == [True] * 3


def test_a_scope_of_the_program_is_named_as_it_is_called() -> None:
    """With all characters of its name."""
    builder = TreeBuilder()
    scope = builder.child(-1, "scope", "range(A)#next")
    builder.add(scope, "cpu_time", MS)
    assert only(builder.snapshot(), "hotspot").title.startswith("range(A)#next takes 100 %")


def test_nested_operations_count_once() -> None:
    """An operation around another one has what is its own."""
    step = Step()
    outer = step.op(step.top, "aten::matmul")
    for _ in range(5):
        step.op(outer, "aten::mm", cpu_time=2 * MS)
    finding = only(step.profile(), "hotspot")
    assert finding.title == "aten::mm takes 100 % of the host's time in its steps"


def test_what_recording_took_is_not_the_programs() -> None:
    """Without steps all of the host's time counts, but for the observer's and what is in it."""
    builder = TreeBuilder()
    observer = builder.child(-1, "op", "observer of PyTorch (tileprof)")
    builder.add(observer, "cpu_time", 9e9)
    builder.add(builder.child(observer, "op", "aten::ones"), "cpu_time", 9e9)
    builder.add(builder.child(-1, "op", "aten::mm"), "cpu_time", 1e6)
    finding = only(builder.snapshot(), "hotspot")
    assert finding.title == "aten::mm takes 100 % of the host's time"


@pytest.mark.parametrize("metric", ["time", "cpu_time"])
def test_nothing_recorded(metric: str) -> None:
    """A tree without numbers, or with nothing but zeros."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "op", "aten::mm"), metric, 0)
    assert not found(builder.snapshot(), "hotspot")
    assert not found(TreeBuilder().snapshot(), "hotspot")


LIB = "/venv/lib/python3.12/"


def line_with(library: str, function: str = "wait", part: float = 9) -> TreeBuilder:
    """A line of the user's that calls a library, and a smaller operation."""
    builder = TreeBuilder()
    main = builder.child(-1, "frame", "main", Location("/home/me/a.py", 3, function="main"))
    place = Location(LIB + library, 9, function=function)
    inner = builder.child(builder.child(main, "frame", function, place), "frame", "C.wait", place)
    builder.add(main, "cpu_time", 10 - part)
    builder.add(inner, "cpu_time", part)
    builder.add(builder.child(-1, "op", "aten::mm"), "cpu_time", 1)
    return builder


@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("multiprocessing/pool.py", "waits here for its worker processes"),
        ("concurrent/futures/_base.py", "other threads"),
        ("selectors.py", "sockets and timers"),
        ("site-packages/jax/_src/array.py", "results of JAX"),
    ],
)
def test_a_line_that_waits_says_for_what(library: str, told: str) -> None:
    """Its own code is not what takes the time; lines come before smaller operations."""
    first = found(line_with(library).snapshot(), "hotspot")[0]
    assert first.title.startswith("a.py:3 takes 91 %")
    assert told in first.author
    works = found(line_with(library, part=5).snapshot(), "hotspot")[0]
    assert works.author.startswith("Start with this line")


@pytest.mark.parametrize(
    ("operation", "function", "words"),
    [
        (False, "", ["the libraries that it calls", "over several lines"]),
        (True, "", ["outside of PyTorch's operations", "over several lines"]),
        (False, "inner", ["the libraries that it calls", "`tileprof view`"]),
    ],
)
def test_a_line_is_told_by_what_is_below_it(
    operation: bool, function: str, words: list[str]
) -> None:
    """PyTorch is named where the line runs operations of it, the view where it shows more."""
    builder = line_with("site-packages/numpy/core.py", part=0)
    line = builder.child(-1, "frame", "main", Location("/home/me/a.py", 3, function="main"))
    if operation:
        builder.add(builder.child(line, "op", "aten::add"), "cpu_time", 0.1)
    if function:
        at = Location("/home/me/a.py", 8, function=function)
        builder.add(builder.child(line, "frame", function, at), "cpu_time", 0.1)
    advice = found(builder.snapshot(), "hotspot")[0].author
    assert advice.startswith("Start with this line")
    assert all(each in advice for each in words)


def test_an_optimizer_is_one_place_without_its_closure() -> None:
    """Its operations are one step that has a fused form; Lightning's training step is not in it."""
    step = Step()
    scope = step.scope(step.top, "Optimizer.step#AdamW.step")
    for name in ("sqrt", "div", "lerp_"):
        step.op(scope, f"aten::{name}", cpu_time=2 * MS)
    forward = step.frame(scope, "Model.forward", 9, f"{LIB}site-packages/lightning/model.py")
    step.op(forward, "aten::addmm", cpu_time=4 * MS)
    optimizer, product = found(step.profile(), "hotspot")
    assert optimizer.title.startswith("Optimizer.step#AdamW.step takes 60 %")
    assert "fused=True to torch.optim.AdamW" in optimizer.author
    assert product.title.startswith("aten::addmm takes 40 %")


def test_an_optimizer_that_is_fused_already_is_not_advised_to_be() -> None:
    """Its one operation is the place, and no change of its form is offered."""
    step = Step()
    scope = step.scope(step.top, "Optimizer.step#AdamW.step")
    step.op(scope, "aten::_fused_adamw_", cpu_time=6 * MS)
    step.op(step.top, "aten::mm", cpu_time=4 * MS)
    optimizer, _ = found(step.profile(), "hotspot")
    assert optimizer.title.startswith("aten::_fused_adamw_ takes 60 %")
    assert "fused=True" not in optimizer.author
    assert optimizer.fixes == ()


def test_advice_for_loaders_and_convolutions() -> None:
    """A loader that has workers needs more of them; convolutions have another memory format."""
    step = Step()
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    loader = step.node(step.frame(step.top, "train", 162), "scope", name)
    step.builder.add(loader, "count", 10)
    step.builder.add(loader, "cpu_time", 4 * MS)
    step.op(step.top, "aten::mkldnn_convolution", cpu_time=6 * MS)
    convolution, waits = found(step.profile(), "hotspot")
    assert "channels_last" in convolution.author
    assert "persistent_workers=True" in waits.author


def test_a_loader_without_workers_is_another_rules() -> None:
    """The suggestion to give it workers says more than a symptom could."""
    step = Step()
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    loader = step.node(step.frame(step.top, "train", 162), "scope", name)
    step.builder.add(loader, "count", 10)
    step.builder.add(loader, "cpu_time", 4 * MS)
    step.op(step.top, "aten::mm", cpu_time=6 * MS)
    assert len(found(step.profile(), "loader")) == 1
    assert [each.title[:8] for each in found(step.profile(), "hotspot")] == ["aten::mm"]


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        ("Net.__init__", "aten::uniform_", "first values"),
        ("Net.__init__", "aten::mm", "Start with this operation"),
        ("train", "aten::uniform_", "Start with this operation"),
    ],
)
def test_first_values_of_parameters_are_said_to_come_once(
    function: str, name: str, said: str
) -> None:
    """Another dtype or a GPU is no advice for them."""
    builder = TreeBuilder()
    at = Location("/home/me/net.py", 3, function=function)
    op = builder.child(builder.child(-1, "frame", function, at), "op", name)
    builder.add(op, "cpu_time", 1e9)
    builder.add(op, "count", 64)
    assert said in only(builder.snapshot(), "hotspot").author


def test_time_of_the_backward_engine_is_no_python_code() -> None:
    """The line only calls it; with several processes it mostly waits for their gradients."""
    builder = TreeBuilder()
    line = builder.child(-1, "frame", "train", Location("/home/me/a.py", 50, function="train"))
    engine = Location("/env/lib/python3.11/site-packages/torch/autograd/graph.py", 9)
    run = builder.child(line, "frame", "_engine_run_backward", engine)
    builder.add(run, "cpu_time", 1e9)
    builder.add(builder.child(line, "op", "aten::mm"), "count", 1)
    advice = only(builder.snapshot(), "hotspot").author
    assert "backward engine" in advice
    assert "Python code" not in advice
