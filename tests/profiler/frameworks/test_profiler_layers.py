"""Single layers of PyTorch's containers, and trees in which they are one line."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.errors import UsageError
from tileprof.profile import Profile, grouped, with_frames
from tileprof.profiler.frameworks import layers

torch = pytest.importorskip("torch")


class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A layer that is called in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))

    def forward(self, x: Any) -> Any:
        """Call what is in it."""
        return self.mlp(torch.relu(x))


class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.h = torch.nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x: Any) -> Any:
        """Call one after the other."""
        for block in self.h:
            x = block(x)
        return x


@pytest.fixture(scope="module")
def profile() -> Profile:
    """A recording of two forward passes that tells layers apart."""
    with profiler.profile(layers=True) as session:
        model = Model()
        for _ in range(2):
            model(torch.ones(2, 8))
    assert session.profile is not None
    session.profile.check()
    return session.profile


@pytest.fixture
def attached() -> Iterator[None]:
    """Layers that are made now are told apart."""
    layers.attach()
    yield
    layers.detach()


def visits(profile: Profile, choice: str | None, name: str) -> dict[str, int]:
    """Return how often an operation ran below each module, by the modules on the way to it."""
    shown = with_frames(profile, "user", layers=choice).profile
    assert shown.whole == profile.whole
    found: dict[str, int] = {}
    for node in shown.find(name):
        path = [shown.names[each] for each in shown.path(node)]
        key = " / ".join(path[path.index("model: Model.forward") + 1 : -1])
        found[key] = found.get(key, 0) + int(shown.node(node).own("count"))
    return found


def test_layers_of_a_loop_are_one_with_their_number(profile: Profile) -> None:
    """As without the option; those in them too."""
    assert visits(profile, None, "aten::relu") == {"h.*: Block.forward ×3": 6}
    assert visits(profile, None, "aten::linear") == {"h.*: Block.forward ×3 / mlp.*: Linear ×2": 12}


def test_layers_that_were_asked_for_are_shown_one_by_one(profile: Profile) -> None:
    """By their names in the model; the others stay together."""
    blocks = {f"h.{number}: Block.forward": 2 for number in range(3)}
    assert visits(profile, "", "aten::relu") == blocks
    assert visits(profile, r"h\.1$", "aten::relu") == {
        "h.*: Block.forward ×2": 4, "h.1: Block.forward": 2,
    }  # fmt: skip
    opened = visits(profile, r"mlp\.0", "aten::linear")
    assert opened == {
        "h.*: Block.forward ×3 / mlp.*: Linear": 6, "h.*: Block.forward ×3 / mlp.0: Linear": 6,
    }  # fmt: skip
    with pytest.raises(UsageError, match="regular expression"):
        with_frames(profile, "user", layers="(")


def test_modules_are_grouped_by_single_layers(profile: Profile) -> None:
    """Each has its own visits."""
    tree = grouped(with_frames(profile, "user", layers="").profile, "module")
    total = tree.total("count")
    own = {tree.names[top]: int(total[top]) for top in tree.roots() if "Linear" in tree.names[top]}
    assert len(own) == 6
    assert {name.partition(":")[0].removeprefix("model.") for name in own} == {
        f"h.{layer}.mlp.{part}" for layer in range(3) for part in range(2)
    }
    assert len(set(own.values())) == 1


def test_a_program_cannot_tell(attached: None) -> None:
    """Copies, pickled models, hooks, and layers that move on; later ones are PyTorch's again."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    x = torch.ones(1, 4)
    seen: list[str] = []
    model[1].register_forward_hook(lambda *_: seen.append("hook"))
    kept = io.BytesIO()
    torch.save(copy.deepcopy(model)[0], kept)
    kept.seek(0)
    again = torch.load(kept, weights_only=False)
    assert torch.equal(again(x), model[0](x))
    copied = copy.deepcopy(model[0])
    copied.weight.data.zero_()
    assert torch.equal(copied(x), copied.bias.expand(1, 4))
    model(x)
    assert seen == ["hook"]
    layers.detach()
    assert "_call_impl" not in vars(torch.nn.Sequential(torch.nn.ReLU())[0])
    layers.attach()


def test_a_class_that_calls_its_modules_itself_is_left_alone(attached: None) -> None:
    """Its own way goes on."""

    class Own(torch.nn.Module):  # type: ignore[misc,name-defined]
        def _call_impl(self, x: Any) -> Any:
            return x + 1

    assert torch.nn.Sequential(Own())(1) == 2
