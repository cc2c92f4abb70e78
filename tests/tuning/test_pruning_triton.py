"""Pruning with Triton itself, for a GPU that is not there; skipped without Triton."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tileprof
from tileprof.remarks.pruning import GridNotKnown, KeptForTiming, KernelNotCompiled
from tileprof.tuning.pruning import programs, pruner
from tileprof.tuning.pruning.programs import Call, program_of

triton: Any = pytest.importorskip("triton", reason="Triton is not installed")


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An H100, and an empty cache."""
    from triton.backends.compiler import GPUTarget

    found = GPUTarget("cuda", 90, 32)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pruner, "current_target", lambda: found)
    return found


def case(name: str) -> tuple[Any, list[Any], dict[str, Any]]:
    """A kernel of the benchmark, its list, and arguments without data."""
    from benchmarks.triton_pruning_cases import CASES, absent, kernel_of

    found = next(each for each in CASES if each.name == name)
    return *kernel_of(found), absent(found, found.shapes[0])


def autotuner(configs: list[Any], function: Any, **more: Any) -> Any:
    """Return an autotuner of Triton."""
    return triton.autotune(configs=configs, key=["n"], **more)(function)


@pytest.mark.parametrize("form", ["decorator", "argument"])
def test_one_line_prunes_a_list(target: Any, form: str) -> None:
    """As a decorator above the tuner, and as its `early_config_prune`."""
    function, configs, named = case("gelu")
    wanted = tileprof.triton_pruner(keep=2)
    if form == "decorator":
        tuner = wanted(autotuner(configs[:8], function))
    else:
        tuner = autotuner(configs[:8], function, prune_configs_by={"early_config_prune": wanted})
    grid = named.pop("grid")
    tuner.nargs = named
    kept = tuner.prune_configs({"grid": grid, "warmup": False})
    (outcome,) = wanted.outcomes
    assert outcome.why_all is None
    assert (outcome.kernel, len(kept), outcome.compiled <= 4) == ("gelu", 2, True)
    assert [configs[at] for at in outcome.kept] == kept
    best = outcome.configurations[outcome.kept[0]]
    assert best.decision == KeptForTiming(place=1)
    assert best.held is not None
    assert best.held.registers > 8


def test_heuristics_stand_between_tuner_and_kernel(target: Any) -> None:
    """What they give is a constant of the program."""
    function, configs, named = case("softmax")
    block = named.pop("BLOCK")
    around = triton.heuristics({"BLOCK": lambda given: block})(function)
    program = program_of(Call(around, named, named["grid"], target), configs[0])
    assert f"tensor<1x{block}xf16>" in program.text


def test_kernel_that_does_not_compile_keeps_everything(target: Any) -> None:
    """Triton's own error comes from the tuner, where the author expects it."""
    function, configs, named = case("gelu")
    wanted = tileprof.triton_pruner()
    outcome = wanted.ranked(function, configs[:3], {**named, "x": 3, "grid": (1,)}, target)
    assert isinstance(outcome.why_all, KernelNotCompiled)
    assert len(outcome.kept) == 3


def test_grid_that_fails_is_a_reason(target: Any) -> None:
    """Nothing is raised from within the tuner."""
    function, configs, named = case("gelu")
    grid = {"grid": lambda given: (given["NONE"],)}
    outcome = tileprof.triton_pruner().ranked(function, configs[:3], {**named, **grid}, target)
    assert isinstance(outcome.why_all, GridNotKnown)


def test_other_versions_are_a_reason(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton that lacks what is used here prunes nothing, and says so."""
    function, configs, named = case("gelu")
    monkeypatch.delattr(type(function), "_pack_args")
    outcome = tileprof.triton_pruner().ranked(function, configs[:3], named, target)
    assert outcome.why_all is not None
    assert outcome.why_all.code() == "other-triton"
    assert programs.current_target is not None
