"""Names of modules as the program writes them where it calls them."""

from __future__ import annotations

import linecache
import sys
import textwrap
import types
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.forked_programs import tileprof
from tileprof.profile import Profile, grouped, load, with_frames
from tileprof.profiler.tree import module_names
from tileprof.profiler.tree.module_names import called_as

CALLS = {
    "self.mlp(x)": "mlp",
    "self.transformer.wte(x)": "transformer.wte",
    "self.outer(self.inner(x))": "outer inner",
    "self.layers[2](x)": "layers.2",
    "self.layers['head'](x)": "layers.head",
    "self.layers[x](x)": "layers.*",
    "getattr(self, f'layer{x}')(x)": "layer*",
    "self.long(\n    x,\n)": "long",
    "for block in self.h: block(x)": "h.*",
    "for block in self.h[:1]: block(x)": "h.*",
    "for block in reversed(self.h): block(x)": "h.*",
    "for i, block in enumerate(self.h): block(x)": "h.*",
    "for i, (block, y) in enumerate(zip(self.h, [3])): block(x)": "h.*",
    "pairs = list(zip(self.h, self.g))\nfor i, (block, y) in enumerate(pairs): block(x), y(x)": (
        "h.* g.*"
    ),
    "for name, block in self.named.items(): block(x)": "named.*",
    "for block in self.named.values(): block(x)": "named.*",
    "for block in self: block(x)": "*",
    "for stage in self.h:\n    for block in stage: block(x)": "h.*.*",
    "[block(x) for block in self.h]": "h.*",
    "block = self.layers[1]; block(x)": "layers.1",
    "b = a = self.mlp; c = self.mlp; c(x)": "mlp",
    "a = self.mlp; a = self.long; a(x)": "a",
    "'é'; self.mlp(x)": "mlp",
}
"""Statements of a forward pass, and the names of the modules that each of them calls."""


class Module:
    """Anything that can be called and gone through, which notes where it is called from."""

    seen: list[str | None]

    def __call__(self, x: object) -> object:
        frame = sys._getframe(1)
        Module.seen.append(called_as([(frame.f_code, frame.f_lasti)]))
        return x

    def __getattr__(self, name: str) -> Module:
        return self

    def __getitem__(self, key: object) -> Module:
        return self

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter([Module.__new__(type(self))])

    def items(self) -> list[tuple[str, Module]]:
        """Return one, by its name."""
        return [("a", self)]

    def values(self) -> list[Module]:
        """Return one."""
        return [self]


def names_in(text: str, path: Path, header: str = "class Model:\n    def forward(self, x):") -> str:
    """Return the names under which calls of a program's text see themselves, sorted."""
    source = f"{header}\n{textwrap.indent(text, ' ' * 8)}\n"
    path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    space: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), space)
    Module.seen = []
    if "Model" in space:
        space["Model"].forward(Module(), 1)
    else:
        space["run"](Module(), 1)
    return " ".join(str(each) for each in Module.seen)


@pytest.mark.parametrize("text", CALLS)
def test_names_of_calls(text: str, tmp_path: Path) -> None:
    """Each of several calls on one line has its own name, because bytecode tells them apart."""
    found = names_in(text, tmp_path / "model.py").split()
    assert sorted(found) == sorted(CALLS[text].split())


def test_a_functions_first_parameter_is_no_self(tmp_path: Path) -> None:
    """`model` of a training step has its own name."""
    path, header = tmp_path / "train.py", "def run(model, x):"
    assert names_in("model(x); model.encoder(x)", path, header) == "model model.encoder"


def test_variables_of_libraries_have_no_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`function(*args)` of a library says nothing about what a user wrote."""
    monkeypatch.setattr(module_names, "of_user", lambda file: False)
    path, header = tmp_path / "library.py", "def run(function, x):"
    assert names_in("function(x)", path, header) == "None"
    assert names_in("self = function; self.block(x)", tmp_path / "b.py", header) == "block"


def test_source_that_is_gone_or_has_changed_gives_no_name(tmp_path: Path) -> None:
    """Never an error, never the name of something else."""
    path = tmp_path / "model.py"
    source = "class Model:\n    def forward(self, x):\n        self.mlp(x)\n"
    for now in (None, "", "x = 1\n" * 5, source.replace("self.mlp(x)", "(((((((((((")):
        path.write_text(source)
        space: dict[str, Any] = {}
        exec(compile(source, str(path), "exec"), space)
        if now is None:
            path.unlink()
        else:
            path.write_text(now)
        linecache.checkcache(str(path))
        Module.seen = []
        space["Model"].forward(Module(), 1)
        assert Module.seen == [None]


LIBRARY = """
from functools import partial
def decorated(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
@decorated
def checkpoint(function, *args):
    return function(*args)
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("checkpoint(self.mlp, x)", "mlp"),
        ("checkpoint(self.mlp.forward, x)", "mlp"),
        ("checkpoint(partial(self.mlp.__call__, y=1), x)", "mlp"),
        ("for block in self.h: checkpoint(block, x)", "h.*"),
        ("checkpoint(*[self.mlp, x])", "None"),
        ("checkpoint(lambda y: self.mlp(y), x)", "mlp"),
    ],
)
def test_a_library_calls_what_it_was_given(text: str, name: str, tmp_path: Path) -> None:
    """`checkpoint(layer, x)`: the name is that of the argument, beyond the library's decorators."""
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(LIBRARY)
    space: dict[str, Any] = {}
    exec(compile(LIBRARY, str(library), "exec"), space)
    path = tmp_path / "model.py"
    source = f"class Model:\n    def forward(self, x):\n        {text}\n"
    path.write_text(source)
    linecache.checkcache()
    exec(compile(source, str(path), "exec"), space)

    class Noting(Module):
        """A module that looks at all frames around it, as the recorder does."""

        def __call__(self, x: object, y: int = 0) -> object:
            frame, calls = sys._getframe(1), []
            while frame is not None and frame.f_code.co_filename != __file__:
                calls.append((frame.f_code, frame.f_lasti))
                frame = frame.f_back  # type: ignore[assignment]
            Module.seen.append(called_as(calls))
            return x

    Module.seen = []
    space["Model"].forward(Noting(), 1)
    assert [str(each) for each in Module.seen] == [name]


GENERATION = """
def undecided(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
class Generating:
    @undecided
    def generate(self, ids):
        method = getattr(type(self), "sample")
        return method(self, ids)
    def sample(self, ids):
        forward = self.compiled() if ids is None else self.__call__
        return forward(ids), self.prefill(ids)
    def prefill(self, ids):
        return self(ids)
class Trainer:
    def train(self, resume=None):
        return self.inner(args=[1])
    def inner(self, args):
        return self.step(self.model, args)
    def step(self, model, inputs):
        self.log(self.loss)
        return model(inputs)
    def log(self, loss):
        return self.evaluate(loss)
    def evaluate(self, loss):
        model = self.wrapped(self.model)
        return model(loss)
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("model.generate(prompts)", {"model"}),
        ("self.decoder.generate(prompts)", {"decoder"}),
        ("run(trainer)", {"model", None}),
        ("start(prompts)", {"model"}),
    ],
)
def test_methods_of_libraries_call_their_own_object(
    text: str, names: set[str], tmp_path: Path
) -> None:
    """`model.generate(prompts)` calls `model`, never `prompts`; `trainer.train()` has no name."""
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(GENERATION)
    space: dict[str, Any] = {}
    exec(compile(GENERATION, str(library), "exec"), space)
    seen: set[str | None] = set()

    def noting(model: object, x: object) -> None:
        """Look at all frames around, as the recorder does."""
        frame, calls = sys._getframe(1), []
        while frame is not None and frame.f_code.co_filename != __file__:
            calls.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        seen.add(called_as(calls))

    bases: tuple[type, ...] = (space["Generating"],)
    Model = type("Model", bases, {"__call__": noting})
    model, trainer = Model(), space["Trainer"]()
    trainer.model, trainer.loss, trainer.wrapped = model, 0.0, lambda each: each
    path = tmp_path / "model.py"
    source = (
        "def run(trainer):\n    trainer.train()\n"
        "def start(prompts):\n    return model.generate(prompts)\n"
        f"def program(self):\n    return {text}\n"
    )
    path.write_text(source)
    linecache.checkcache()
    space.update(model=model, trainer=trainer, prompts=1)
    exec(compile(source, str(path), "exec"), space)
    space["program"](types.SimpleNamespace(decoder=model))
    assert seen == names


def test_super_calls_are_those_of_the_frame_around() -> None:
    """A class that extends `__call__` stands between a module and its caller."""

    class Extended:
        def __call__(self) -> None:
            super().__call__()  # type: ignore[misc]

    def caller(self: Any) -> None:
        self.block()

    def at_call(code: CodeType) -> tuple[CodeType, int]:
        """Return the place of the last instruction with the text of a whole call."""
        spans = list(code.co_positions())
        widest = max(
            (at for at in spans if at[2] is not None),
            key=lambda at: ((at[3] or 0) - (at[2] or 0), at[0] or 0),
        )
        return code, 2 * spans.index(widest)

    inner, outer = at_call(Extended.__call__.__code__), at_call(caller.__code__)
    assert called_as([inner, outer]) == "block"
    assert called_as([inner]) is None


PROGRAM = """
import torch
from torch import nn

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)

    def forward(self, x):
        return self.down(self.act(self.up(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList(MLP() for _ in range(3))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        for block in self.h:
            x = x + block(x)
        return self.head(x)

model = Model()
for _ in range(3):
    model(torch.ones(2, 8)).sum().backward()
"""


def recorded(tmp_path: Path) -> Profile:
    """Return a recording of the program above."""
    (tmp_path / "model.py").write_text(PROGRAM)
    tileprof(tmp_path, ["run", "--quiet", "-o", "out.tprof", "model.py"])
    return load(tmp_path / "out.tprof")


def paths_of(profile: Profile) -> set[str]:
    """Return the names on the way to each node, joined."""
    return {
        "/".join(profile.names[each] for each in profile.path(at)) for at in range(len(profile))
    }


def test_a_recorded_model(tmp_path: Path) -> None:
    """Modules have their names in the default tree, and a group each; containers join theirs."""
    pytest.importorskip("torch")
    pytest.importorskip("tileprof.native._recorder")
    profile = recorded(tmp_path)
    assert not [name for name in profile.names if "_wrapped_call_impl" in name]
    shown = with_frames(profile, "user").profile
    path = "<module>/model: Model.forward/h.*: MLP.forward/up: Linear/aten::linear"
    assert path in paths_of(shown)
    groups = grouped(shown, "module")
    assert {groups.names[each] for each in groups.roots()} >= {
        "model.h.*.up: Linear", "model.h.*.down: Linear", "model.h.*.act: GELU",
        "model.head.*: Linear", "model.head.*: ReLU",
    }  # fmt: skip
    groups.check()
    assert groups.whole == profile.whole
