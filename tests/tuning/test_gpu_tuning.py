"""The tuner on a GPU: machine code of trials runs, times are sure, and graphs are left alone."""

from __future__ import annotations

from typing import Any

import pytest

import tileprof
from tests.tuning import tuned_kernels as kernels
from tileprof.tuning import Settings, machine_of, tuned
from tileprof.tuning.subjects import KernelSubject

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture
def operands() -> tuple[Any, Any]:
    """Two square matrices in bfloat16."""
    import torch

    torch.manual_seed(0)
    made = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    return made[0], made[1]


def test_a_product_is_tuned(operands: tuple[Any, Any]) -> None:
    """The winner is not slower than the default, with right results, from machine code of trials;
    the model ranks as the measurement does."""
    a, b = operands
    subject = KernelSubject(
        kernels.product, {"A": a, "B": b}, lambda kernel: [a, b], "cuda:0", machine_of("cuda:0")
    )
    outcome = tuned(subject, Settings(timed=8))
    assert outcome.winner.measured is not None
    assert len(outcome.timed) > 1
    assert any(each.compiled and each.registers for each in outcome.timed)
    default = next(e for e in outcome.timed if e.configuration == outcome.space.default)
    assert default.measured is not None
    assert outcome.winner.measured.ns <= 1.01 * default.measured.ns
    assert not [each for each in outcome.looked if each.verdict in ("wrong", "failed")]


def test_a_call_tunes_and_then_runs_what_it_found(operands: tuple[Any, Any], cache: Any) -> None:
    """Results agree with PyTorch's; later calls search for nothing."""
    import torch

    a, b = operands
    function = tileprof.autotune(timed=4)(kernels.product)
    expected = a.float() @ b.float().t()
    for _ in range(3):
        found = function(a, b)
        torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=1.0)
    assert len(function.outcomes) == 1


def test_nothing_is_searched_while_a_graph_is_captured(
    operands: tuple[Any, Any], cache: Any
) -> None:
    """The defaults serve, once they have run before."""
    import torch

    a, b = operands
    function = tileprof.autotune(timed=4)(kernels.product)
    function.untuned(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function(a, b)
    graph.replay()
    torch.testing.assert_close(found.float(), a.float() @ b.float().t(), rtol=2e-2, atol=1.0)
    assert not function.outcomes


@pytest.fixture
def cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No result of an earlier run."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))


def test_short_kernels_are_timed_without_the_host() -> None:
    """A kernel of a few microseconds is replayed from a graph: its time is below a launch's."""
    import torch

    x, y = (torch.randn(1 << 14, device="cuda") for _ in range(2))
    subject = KernelSubject(
        kernels.added, {"X": x, "Y": y}, lambda kernel: [x, y], "cuda:0", machine_of("cuda:0")
    )
    outcome = tuned(subject, Settings(timed=3))
    assert outcome.winner.measured is not None
    assert outcome.winner.measured.ns < 8_000
