"""Compiling in steps, and compiling again."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import MS, TORCH, Step, training
from tileprof.analyzer.findings import percent
from tileprof.errors import Location
from tileprof.profile import TreeBuilder

CONVERT = (f"{TORCH}_dynamo/convert_frame.py", "CatchErrorsWrapper.__call__")
TRIALS = (
    f"{TORCH}_inductor/runtime/triton_heuristics.py",
    "CachingAutotuner.benchmark_all_configs",
)


def compiling(
    idle: float = 20, code: tuple[str, str] = CONVERT, regions: tuple[str, ...] = (), **more: float
) -> Step:
    """Steps of 100 ms, with gaps while code is compiled; `before` and `host` are ns."""
    step = Step()
    file, function = code
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - idle) * MS)
    if before := more.get("before"):
        step.phase = "set-up"
        early = step.frame(step.frame(-1, "train", 9), function, 700, file)
        step.idle(early, "waiting for the host", before, 1)
        step.phase = ""
    at = step.frame(step.frame(step.top, "train", 165), function, 700, file)
    if idle:
        step.idle(at, "waiting for the host", idle * MS)
    step.builder.add(at, "cpu_time", more.get("host", 30 * MS))
    for name in regions:
        step.op(step.top, f"Torch-Compiled Region: {name}")
    return step


def test_in_steps() -> None:
    """Steps are told from what came before: 20 of 101 ms go in them."""
    finding = only(compiling(before=MS).profile(), "compiling")
    assert finding.severity == "suggestion"
    assert finding.title == "steps compile at train_gpt.py:165"
    gain = finding.program_gain
    assert gain is not None
    share = 20 / 101
    assert (gain.low, gain.mid) == pytest.approx((1 / (1 - share / 2), 1 / (1 - share)))
    assert "20 % of" not in finding.evidence[0].text
    assert f"{percent(share)} of their time" in finding.evidence[0].text


def test_before_the_steps() -> None:
    """That is where it belongs."""
    assert not found(compiling(idle=0, before=20 * MS, host=0).profile(), "compiling")


def test_compiled_again() -> None:
    """Of three compilations one is the second of its region: a third of the time, likely."""
    finding = only(compiling(regions=("0/0", "1/0", "0/1")).profile(), "compiling")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1, 1 / (1 - 0.2 / 3), 1 / 0.8))
    assert "1 of 3 compilations" in finding.evidence[2].text
    assert "mark_dynamic" in finding.author


def test_perhaps_the_first_use() -> None:
    """Steps are not told apart, no region was compiled again: no number, and how to find out."""
    finding = only(compiling(regions=("0/0",)).profile(), "compiling")
    assert (finding.severity, finding.program_gain) == ("symptom", None)
    assert "--every" in finding.author


def test_trials_are_work_of_the_device() -> None:
    """Kernels that the autotuner times count as lost; running what it chose does not."""
    step = compiling(idle=0, code=TRIALS)
    file, function = TRIALS
    step.launch(step.frame(step.frame(step.top, "train", 165), function, 700, file),
                "triton_poi_fused_0", 10 * MS, 300)  # fmt: skip
    assert "on trials" in only(step.profile(), "compiling").evidence[0].text
    assert not found(compiling(code=(file, "CachingAutotuner.run")).profile(), "compiling")


@pytest.mark.parametrize(
    "code",
    [
        (f"{TORCH}_dynamo/convert_frame.py", "<module>"),
        (f"{TORCH}_dynamo/eval_frame.py", "_TorchDynamoContext.__call__"),
        (f"{TORCH}_inductor/compile_fx.py", "align_inputs.<locals>.run"),
    ],
)
def test_importing_and_running_are_not_compiling(code: tuple[str, str]) -> None:
    """Files that compile are imported, and have wrappers that each step goes through."""
    assert not found(compiling(code=code).profile(), "compiling")


def test_little_of_it() -> None:
    """Half a percent."""
    assert not found(compiling(idle=0.5).profile(), "compiling")
    assert not found(training().profile(), "compiling")
    for name in ("h200-gemm", "h200-stalls"):
        assert "compiling" not in {each.rule for each in report_of(name).findings}


def test_a_program_without_a_device() -> None:
    """A tenth of the host's time; below a twentieth nothing is said."""
    for part, told in ((10, 1), (2, 0)):
        builder = TreeBuilder()
        main = builder.child(-1, "frame", "main", Location("main.py", 1, function="main"))
        file, function = CONVERT
        at = builder.child(main, "frame", function, Location(file, 9, function=function))
        builder.add(main, "cpu_time", 100 - part)
        builder.add(at, "cpu_time", part)
        said = found(builder.snapshot(), "compiling")
        assert [each.severity for each in said] == ["symptom"] * told


@pytest.mark.parametrize(("counts", "first"), [
    ({"jit_step": (1, 50, 900), "jit_broadcast_in_dim": (3, 3, 100)}, True),
    ({"jit_step": (1, 50, 500), "jit_update": (25, 50, 500)}, False),
    ({"jit_step": (1, 1, 1000)}, False),
])  # fmt: skip
def test_first_uses_of_functions_of_jax(
    counts: dict[str, tuple[int, int, int]], first: bool
) -> None:
    """Known by how often XLA compiled and ran each: what runs but once may be compiled again."""
    builder = TreeBuilder()
    main = builder.child(-1, "frame", "main", Location("main.py", 1, function="main"))
    file = "/venv/lib/python3.12/site-packages/jax/_src/compiler.py"
    at = builder.child(main, "frame", "compile_or_get_cached", Location(file, 9))
    for name, (compiled, ran, time) in counts.items():
        compiling = builder.child(at, "scope", f"XlaCompile:#module={name}#")
        builder.add(compiling, "count", compiled)
        builder.add(compiling, "cpu_time", time)
        builder.add(builder.child(main, "scope", f"XlaModule:#hlo_module={name}#"), "count", ran)
    finding = only(builder.snapshot(), "compiling")
    assert ("a longer run has no" in finding.author) == first
    assert ("twice the steps" in finding.author) != first
    programs, runs = (sum(each[at] for each in counts.values()) for at in (0, 1))
    assert f"{programs} programs, which ran {runs} times" in finding.evidence[1].text


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (("numba/core/dispatcher.py", "_DispatcherBase._compile_for_args"), "cache=True"),
        (("jax/_src/compiler.py", "compile_or_get_cached"), "jax_compilation_cache_dir"),
    ],
)
def test_compilers_that_have_no_steps(code: tuple[str, str], advice: str) -> None:
    """Their advice is their own, without a run that only steps of PyTorch make useful."""
    builder = TreeBuilder()
    main = builder.child(-1, "frame", "main", Location("main.py", 1, function="main"))
    file = f"/venv/lib/python3.12/site-packages/{code[0]}"
    at = builder.child(main, "frame", code[1], Location(file, 9, function=code[1]))
    builder.add(main, "cpu_time", 60)
    builder.add(at, "cpu_time", 40)
    finding = only(builder.snapshot(), "compiling")
    assert advice in finding.author
    assert "--every" not in finding.author
    assert "twice the steps" in finding.author
