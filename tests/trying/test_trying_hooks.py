"""Changes as they act in a process: patched libraries, and functions of the program's files."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tileprof.analyzer.fixes import (
    CHANNELS_LAST,
    COMPILED_MODELS,
    FIXES,
    GRADIENTS_TO_NONE,
    NO_CHECKPOINTS,
    SETTINGS,
    SPARSE_GRADIENTS,
    Autocast,
    CompiledFunction,
    EnvironmentVariable,
    Fix,
    LoaderWorkers,
    LoweringControl,
    MatmulPrecision,
    OptimizerForm,
    compiled_at,
    fix_from_json,
    fix_json,
)
from tileprof.errors import Location
from tileprof.trying.hooks import sources
from tileprof.trying.hooks.making import Made, environment
from tileprof.trying.hooks.sources import (
    compiled,
    decorate_function,
    function_names,
    runs_steps,
)


def made(code: str) -> Fix:
    """A change with a code."""
    facts: dict[str, Any] = {
        "compile": {"file": "a.py", "function": "f"},
        "env": {"name": "A", "value": "1"},
        "control": {"name": "stages", "value": 3},
    }
    return SETTINGS[code] if code in SETTINGS else FIXES[code](**facts.get(code, {}))


@pytest.mark.parametrize("code", [*FIXES, *SETTINGS])
def test_changes_come_back_from_json(code: str) -> None:
    """With all their facts; what a later version writes is none of ours."""
    fix = made(code)
    written = fix_json(fix)
    assert fix_from_json(written) == fix
    assert str(fix) == written["text"]
    assert fix_from_json({"fix": code, "fix_facts": {"later": 1}}) is None
    assert fix_from_json({"fix": "later", "fix_facts": {}}) is None


def test_functions_are_compiled_at_lines() -> None:
    """No module is, and nothing where no line is known."""
    assert compiled_at(Location("a.py", 7, function="f")) == (CompiledFunction("a.py", "", 7),)
    assert compiled_at(Location("a.py", 7, function="<module>")) == ()
    assert compiled_at(None) == ()


# -- PyTorch


@pytest.fixture
def restored(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch, whose patched names are put back."""
    for owner, name in (
        (torch.optim.AdamW, "__init__"), (torch.optim.Adam, "__init__"),
        (torch.optim.SGD, "__init__"), (torch.optim.Rprop, "__init__"),
        (torch.nn.Conv2d, "forward"), (torch.nn.Module, "__call__"),
        (torch.nn.Module, "zero_grad"), (torch.optim.Optimizer, "zero_grad"),
        (torch.utils.data.DataLoader, "__init__"), (torch.utils.checkpoint, "checkpoint"),
        (torch.nn.Embedding, "__init__"), (torch.nn.EmbeddingBag, "__init__"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, vars(owner)[name])
    for name in [n for n, kind in vars(torch.optim).items() if isinstance(kind, type)]:
        kind = vars(torch.optim)[name]
        if "__init__" in vars(kind):
            monkeypatch.setattr(kind, "__init__", vars(kind)["__init__"])
    precision = torch.get_float32_matmul_precision()
    allowed = torch.backends.cudnn.allow_tf32
    yield torch
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = allowed


def test_optimizers_get_a_form_that_they_were_not_given(restored: Any) -> None:
    """One that was given a form keeps it, and so does one that has none."""
    torch = restored
    found = Made([OptimizerForm("fused", "AdamW")])
    weights = [torch.nn.Parameter(torch.ones(2))]
    assert torch.optim.AdamW(iter(weights)).defaults["fused"] is True
    assert torch.optim.AdamW(weights, fused=False).defaults["fused"] is True
    assert torch.optim.AdamW(weights, foreach=True).defaults["fused"] is None
    assert torch.optim.SGD(weights, 0.1).defaults["fused"] is None
    assert found.counts == [2]
    # PyTorch refuses a fused step that can be differentiated: the program's own form stays.
    assert not torch.optim.AdamW(weights, differentiable=True).defaults["fused"]
    assert found.counts == [2]


def test_places_are_those_of_the_program(restored: Any) -> None:
    """The line that makes an optimizer, though a library's code is between."""
    found = Made([OptimizerForm("fused")])
    line = sys._getframe().f_lineno + 1
    restored.optim.SGD([restored.nn.Parameter(restored.ones(2))], 0.1)
    assert [[*each] for each in found.places] == [[(os.path.realpath(__file__), line)]]


def test_loaders_get_workers(restored: Any) -> None:
    """Those that have none; each worker would repeat a dataset that is only iterated over."""
    data = restored.utils.data
    found = Made([LoaderWorkers(1)])

    class Endless(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(range(4))

    assert data.DataLoader([1, 2, 3], batch_size=2).num_workers == 1
    assert data.DataLoader([1, 2, 3], num_workers=2).num_workers == 2
    assert data.DataLoader(Endless()).num_workers == 0
    assert found.counts == [1]


def test_convolutions_get_channels_last_when_they_are_used(restored: Any) -> None:
    """Not before: random numbers would go elsewhere. Results stay, and weights are the same."""
    torch = restored
    layer = torch.nn.Conv2d(3, 4, 3)
    pictures = torch.randn(2, 3, 8, 8)
    before = layer(pictures)
    weight = layer.weight
    found = Made([CHANNELS_LAST])
    assert weight.is_contiguous()
    after = layer(pictures)
    assert layer.weight is weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(before, after, atol=1e-6)
    layer(pictures)
    assert found.counts == [1]


def test_settings_and_calls(restored: Any) -> None:
    """TF32, autocast of the outermost call alone, gradients that are dropped."""
    torch = restored
    found = Made([MatmulPrecision(), Autocast(), GRADIENTS_TO_NONE])
    assert torch.get_float32_matmul_precision() == "high"
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    made = model(torch.ones(1, 2))
    assert made.dtype == torch.bfloat16
    made.float().sum().backward()
    model.zero_grad(set_to_none=False)
    assert model[0].weight.grad is None
    assert found.counts == [1, 1, 1]


def test_models_are_compiled_when_they_are_called(
    restored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outermost module, once; none that another one calls, and none without parameters."""
    torch, compiled = restored, list[Any]()
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compiled.append(self))
    found = Made([COMPILED_MODELS])
    model, loss = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.MSELoss()
    for _ in range(2):
        loss(model(torch.ones(1, 2)), torch.ones(1, 2))
    assert compiled == [model]
    assert found.counts == [1]


def test_checkpoints_call_their_functions(restored: Any) -> None:
    """Once, and not again for the gradient; settings of the checkpoint do not reach them."""
    torch = restored
    found, calls = Made([NO_CHECKPOINTS]), list[float]()

    def square(x: Any, power: float) -> Any:
        calls.append(power)
        return x**power

    x = torch.ones(2, requires_grad=True)
    call = torch.utils.checkpoint.checkpoint
    made = call(square, x, power=2.0, use_reentrant=False, preserve_rng_state=False)
    made.sum().backward()
    assert calls == [2.0]
    assert x.grad.tolist() == [2, 2]
    assert found.counts == [1]


def test_embeddings_get_sparse_gradients(restored: Any) -> None:
    """Unless the program says which they have, or they have none."""
    nn = restored.nn
    found = Made([SPARSE_GRADIENTS])
    assert nn.Embedding(9, 2).sparse
    assert nn.EmbeddingBag(9, 2, mode="sum").sparse
    assert not nn.Embedding(9, 2, sparse=False).sparse
    assert not nn.EmbeddingBag(9, 2, mode="max").sparse
    assert found.counts == [2]


def test_variables_are_set_before_python_starts() -> None:
    """Only changes of that kind set one."""
    fixes: list[Fix] = [EnvironmentVariable("A", "1"), CHANNELS_LAST, EnvironmentVariable("B", "")]
    assert environment(fixes) == {"A": "1", "B": ""}


def test_controls_of_tile_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels that are defined from then on have it, beside their own."""
    from tileprof.lang import compiled as of_kernels

    monkeypatch.setattr(of_kernels, "controls_of", vars(of_kernels)["controls_of"])
    found = Made([LoweringControl("stages", 3)])
    controls = of_kernels.options_of(False, {"tma": False}, None, {}).controls
    assert (controls.stages, controls.tma) == (3, False)
    assert found.counts == [1]


# -- functions of the program


SOURCE = dedent("""
    def plain(x):
        return x + 1

    class Model:
        def forward(self, x):
            def inner(y):
                return y * 2
            return inner(x)

        @staticmethod
        def still(x):
            return x
    """)


@pytest.fixture
def sources_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decorated in a test is not afterwards."""
    from importlib.machinery import SourceFileLoader

    monkeypatch.setattr(sources, "_decorations", {})
    monkeypatch.setattr(sources, "_installed", [])
    monkeypatch.setattr(sources, "_looped", [])
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)


def negated(function: Any) -> Any:
    """A function whose result is that of another one, negated."""
    return lambda *args: -function(*args)


@pytest.mark.usefixtures("sources_restored")
def test_functions_are_decorated_by_name_and_by_line() -> None:
    """Static methods stay what they are; a line means the innermost function around it."""
    assert function_names(SOURCE) == [
        "plain", "Model.forward", "Model.forward.<locals>.inner", "Model.still",
    ]  # fmt: skip
    decorate_function("a.py", "plain", 0, negated)
    decorate_function("a.py", "Model.still", 0, negated)
    decorate_function("a.py", "", 8, negated)
    space: dict[str, Any] = {}
    exec(compiled(SOURCE.encode(), "a.py"), space)
    assert space["plain"](1) == -2
    assert space["plain"].__code__ is not None
    assert space["Model"].still(3) == -3
    assert space["Model"]().forward(5) == -10


@pytest.mark.usefixtures("sources_restored")
def test_loops_say_when_an_iteration_begins(tmp_path: Path) -> None:
    """Also those that are left early; not loops that yield, nor those of other files."""
    source = dedent("""
        def numbers():
            for i in range(3):
                yield i
        for i in numbers():
            if i == 1:
                continue
            while True:
                break
        """)
    seen: list[int] = []
    sources.watch_loops(str(tmp_path), lambda file, line: seen.append(line))
    for folder in (tmp_path, tmp_path / "site-packages", tmp_path.parent):
        exec(compiled(source.encode(), str(folder / "a.py")), {})
    assert seen == [5, 8, 5, 5, 8]


@pytest.mark.parametrize(
    ("source", "name", "runs"),
    [
        ("def main():\n    pass\nif __name__ == '__main__':\n    main()\n", "main", True),
        ("def f():\n    for x in y:\n        loss(x).backward()\n", "f", True),
        ("def f(x):\n    loss(x).backward()\ndef main():\n    f(1)\nmain()\n", "f", False),
        ("def f(x):\n    for each in x:\n        g(each)\n", "f", False),
    ],
)
def test_functions_that_run_the_steps_are_known(source: str, name: str, runs: bool) -> None:
    """Find functions that the file calls, or that loop over gradients; no step, no part of one."""
    assert runs_steps(source, name) is runs


@pytest.mark.usefixtures("sources_restored")
def test_imported_modules_are_decorated_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Python has their bytecode from before."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "module_of_try.py"
    path.write_text(SOURCE)
    first = importlib.import_module("module_of_try")
    assert first.plain(1) == 2
    del sys.modules["module_of_try"]
    decorate_function(str(path), "plain", 0, negated)
    again = importlib.import_module("module_of_try")
    assert again.plain(1) == -2
    del sys.modules["module_of_try"]
