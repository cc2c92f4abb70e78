"""Results of two processes: the same within tolerances, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileprof.analyzer.fixes import Autocast, LoaderWorkers, OptimizerForm
from tileprof.trying.comparing import DISTURBED, TOLERANCES, Reference, accuracy_of, tolerance_of
from tileprof.trying.inside.results import Results
from tileprof.trying.processes import Run

ROUNDING = TOLERANCES["rounding"]
STEPS = 5


def run_of(folder: Path, arrays: dict[str, Any], printed: str = "") -> Run:
    """A process that has ended, with these results and this output."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "results.npz", **arrays)
    (folder / "output.txt").write_text(printed)
    return Run(folder, 9, 1, (1,), len(printed.encode()))


def compared(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], tolerance: float = ROUNDING
) -> bool:
    """Whether arrays of two processes are the same."""
    reference = Reference(run_of(tmp_path / "old", old))
    return reference.compared(run_of(tmp_path / "new", new), tolerance).equal


def test_tolerances_follow_how_a_change_may_move_results() -> None:
    """The widest of several changes counts, and the user's own before all."""
    assert accuracy_of([LoaderWorkers()]) == "exact"
    assert accuracy_of([LoaderWorkers(), OptimizerForm()]) == "rounding"
    assert accuracy_of([OptimizerForm()], low_precision=True) == "precision"
    assert accuracy_of([LoaderWorkers()], low_precision=True) == "exact"
    assert accuracy_of([OptimizerForm(), Autocast()]) == "precision"
    assert [tolerance_of(each) for each in TOLERANCES] == [1e-6, 2e-5, 1e-2]
    assert tolerance_of("precision", 1e-3) == 1e-3


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-6], True),
        ([1.0, 2.0], [1.0, 2.001], False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.nan], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, np.nan], False),
        ([np.inf], [-np.inf], False),
        ([0.0], [0.0], True),
        ([0.0], [1e-9], False),
        ([1, 2, 3], [1, 2, 4], False),
        ([1.0, 2.0], [1.0, 2.0, 3.0], False),
    ],
)
def test_values(tmp_path: Path, old: list[float], new: list[float], same: bool) -> None:
    """Shares of the original; what is not finite has to be so in both; shapes are equal."""
    before, after = ({"returned/0/0": np.array(each)} for each in (old, new))
    assert compared(tmp_path, before, after) is same


def test_one_wrong_element_of_many_is_seen(tmp_path: Path) -> None:
    """Though it hardly changes the length of all of them."""
    old = np.random.default_rng(0).standard_normal(1_000_000)
    new = old.copy()
    new[123] += 0.01
    assert not compared(tmp_path, {"returned/0/0": old}, {"returned/0/0": new})


def test_a_missing_result_is_a_difference(tmp_path: Path) -> None:
    """In both directions; without any result nothing is the same."""
    one = {"value/0/0": np.array(1.0)}
    two = {**one, "value/1/0": np.array(1.0)}
    assert not compared(tmp_path, one, two)
    assert not compared(tmp_path, two, one)
    assert not compared(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("texts", "new", "same"),
    [
        (["loss 0.5012", "loss 0.5012"], "loss 0.5012", True),
        (["loss 0.5012", "loss 0.5012"], "loss 0.5013", True),  # one unit of the last digit
        (["loss 0.5012", "loss 0.5012"], "loss 0.5032", False),
        (["loss 0.5012", "loss 0.5012"], "nothing", False),
        (["1.5e-3 kept", "1.5e-3 kept"], "1.9e-3 kept", False),
        (["0.51 at 3.271", "0.51 at 9.175"], "0.51 at 7.111", True),  # a time
        (["0.51, 3.2 s", "0.51, 3.2 s"], "0.51, 1.1 s", True),
        (["0.51, 310.5 samples/s", "0.51, 310.5 samples/s"], "0.51, 999.1 samples/s", True),
        (["step 7", "step 7"], "step 7", False),  # whole numbers alone say nothing
        (["step 7", "step 7"], "step 8", False),
    ],
)
def test_printed_numbers(tmp_path: Path, texts: list[str], new: str, same: bool) -> None:
    """Those that the original prints in each process, and that are no times."""
    first, second = (run_of(tmp_path / f"{n}", {}, text) for n, text in enumerate(texts))
    reference = Reference(first)
    reference.add(second)
    assert reference.compared(run_of(tmp_path / "new", {}, new), ROUNDING).equal is same


@pytest.mark.parametrize(("size", "same"), [(1e-10, True), (1e-2, False)])
def test_zeros_among_gradients_that_rounding_makes_are_not_trusted(
    tmp_path: Path, size: float, same: bool
) -> None:
    """The bias of attention's keys: an optimizer makes whole steps of what should be zero."""
    weights = {f"{kind}/0": np.ones(9) for kind in ("gradient", "first_update", "update")}
    bias = {"gradient/1": size * np.array([0.0, 1.0, 2.0]), "first_update/1": np.zeros(3)}
    old = {**weights, **bias, "update/1": np.array([0.0, 1e-5, 0.0])}
    new = {**weights, **bias, "update/1": np.array([1e-5, 0.0, 1e-5])}
    assert compared(tmp_path, old, new) is same


@pytest.mark.parametrize(
    ("new", "same"),
    [
        ([0.5, 3.0, 1.7], True),  # the last one is a time
        ([0.6, 3.0, 2.5], False),
        ([0.5, 4.0, 2.5], False),
        ([0.5, 3.0], False),
    ],
)
def test_numbers_that_the_original_agrees_on(tmp_path: Path, new: list[float], same: bool) -> None:
    """Those that a function holds after a step; whole numbers alone are no result."""
    first, second, third = (
        run_of(tmp_path / f"{n}", {"number/0": np.array(each)})
        for n, each in enumerate(([0.5, 3.0, 2.5], [0.5, 3.0, 9.1], new))
    )
    reference = Reference(first)
    reference.add(second)
    assert reference.compared(third, ROUNDING).equal is same
    whole = run_of(tmp_path / "whole", {"number/0": np.array([3.0])})
    reference = Reference(whole)
    reference.add(whole)
    assert not reference.compared(whole, ROUNDING).compared


# -- a small training


@contextmanager
def watching(disturbed: float = 0.0) -> Iterator[Results]:
    """Results of what runs inside."""
    results = Results(STEPS, disturbed)
    try:
        yield results
    finally:
        results.finish()


def train(
    torch: Any,
    path: Path,
    change: Callable[..., None] = lambda *_: None,
    disturbed: float = 0.0,
) -> Run:
    """Train a few steps and keep their results; `change` is told of each step's parts."""
    torch.manual_seed(0)
    with watching(disturbed) as results:
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
        )
        options = {"lr": 1e-3, "weight_decay": 0.1, "betas": (0.9, 0.99), "eps": 1e-8}
        change("options", options)
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        data, wanted = torch.randn(32, 8), torch.randn(32, 1)
        for step in range(STEPS):
            change("data", data, step)
            made = model(data)
            change("made", made, step)
            loss = ((made - wanted) ** 2).mean()
            optimizer.zero_grad()
            (loss * _scale(change)).backward()
            change("gradients", model, step)
            optimizer.step()
            change("stepped", model, step)
            results.end_step()
    path.mkdir()
    results.write(path / "results.npz")
    (path / "output.txt").write_text("")
    return Run(path, STEPS, 1, (1,), 0)


def _scale(change: Callable[..., None]) -> float:
    held = [1.0]
    change("scale", held)
    return held[0]


def mutations() -> list[tuple[str, Callable[..., None]]]:
    """Ways to be wrong by a few tolerances, at different parts of a step."""
    made: list[tuple[str, Callable[..., None]]] = []

    def at(part: str, name: str, edit: Callable[..., None]) -> None:
        def change(where: str, *what: Any) -> None:
            if where == part:
                edit(*what)

        made.append((f"{part}: {name}", change))

    for share in (2e-3, 1e-2, 0.1, -2e-3, -0.5):
        at("options", f"lr {share}", lambda o, s=share: o.update(lr=o["lr"] * (1 + s)))
        at("scale", f"loss {share}", lambda held, s=share: held.__setitem__(0, 1 + s))
        at("data", f"data {share}", lambda d, n, s=share: d.mul_(1 + s) if n == 0 else None)
        for number in range(6):

            def weigh(model: Any, step: int, s: float = share, number: int = number) -> None:
                if step == 0:
                    gradient = list(model.parameters())[number].grad
                    gradient.mul_(1 + 20 * s)

            at("gradients", f"gradient of {number}, {share}", weigh)

            def drop(model: Any, step: int, number: int = number, s: float = share) -> None:
                if step == 2:
                    list(model.parameters())[number].data.add_(s * 1e-2)

            at("stepped", f"parameter {number}, {share}", drop)
    at("options", "no weight decay", lambda o: o.update(weight_decay=0.0))
    at("options", "betas", lambda o: o.update(betas=(0.8, 0.99)))
    at("options", "eps", lambda o: o.update(eps=1e-3))
    at("data", "a lost row", lambda d, n: d[3].zero_() if n == 0 else None)
    return made


def test_mutated_trainings_are_refused(torch: Any, tmp_path: Path) -> None:
    """The same training in another optimizer form is accepted; of all mutations, none."""
    reference = Reference(train(torch, tmp_path / "original"))
    noisy = train(torch, tmp_path / "noise", disturbed=DISTURBED["rounding"])
    reference.disturbed(noisy, "rounding")
    assert reference.add(train(torch, tmp_path / "again")).equal

    def fused(where: str, *what: Any) -> None:
        if where == "options":
            what[0].update(fused=True)

    right = reference.compared(train(torch, tmp_path / "fused", fused), ROUNDING, "rounding")
    assert right.equal, right
    accepted = []
    cases = mutations()
    for number, (name, change) in enumerate(cases):
        found = reference.compared(
            train(torch, tmp_path / f"{number}", change), ROUNDING, "rounding"
        )
        if found.equal:
            accepted.append(f"{name}: {found}")
    assert len(cases) > 70
    assert not accepted, "\n".join(accepted)


def looked_up(torch: Any, path: Path, sparse: bool, rate: float = 0.1) -> Run:
    """A table of which a few rows are trained."""
    torch.manual_seed(0)
    with watching() as results:
        table = torch.nn.Embedding(100, 8, sparse=sparse)
        optimizer = torch.optim.SGD(table.parameters(), rate)
        for _ in range(STEPS):
            loss = table(torch.randint(0, 50, (20,))).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            results.end_step()
    path.mkdir()
    results.write(path / "results.npz")
    (path / "output.txt").write_text("")
    return Run(path, STEPS, 1, (1,), 0)


def test_sparse_gradients_are_compared_with_dense_ones(torch: Any, tmp_path: Path) -> None:
    """By all elements of the table; another update is refused."""
    reference = Reference(looked_up(torch, tmp_path / "original", sparse=False))
    assert reference.add(looked_up(torch, tmp_path / "again", sparse=False)).equal
    sparse = looked_up(torch, tmp_path / "sparse", sparse=True)
    assert reference.compared(sparse, ROUNDING, "rounding").equal
    wrong = looked_up(torch, tmp_path / "wrong", sparse=True, rate=0.2)
    assert not reference.compared(wrong, ROUNDING, "rounding").equal


def test_nothing_is_watched_after_the_kept_steps(torch: Any) -> None:
    """The program runs on as it would alone."""
    before = torch.Tensor.backward
    with watching():
        assert torch.Tensor.backward is not before
    assert torch.Tensor.backward is before
