"""The cost of an operator's calls: what is compared is the same work, and ratios are of pairs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
cost: Any = importlib.import_module("benchmarks.operator_cost")


def test_operator_that_is_measured_has_pytorchs_results_and_gradients() -> None:
    """A product and a sum of three tensors, as `addcmul`."""
    given = [torch.randn(cost.EXTENT**2, requires_grad=True) for _ in range(3)]
    found, right = cost.multiply_add(*given), torch.addcmul(given[2], given[0], given[1])
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(
        torch.autograd.grad(found.sin().sum(), given), torch.autograd.grad(right.sin().sum(), given)
    )


def test_calls_on_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each call, and one for each kind of call beside addmm's."""
    rows = {row["what"]: row for row in cost.times_of_calls("cpu", 3, 5)["rows"]}
    for kind in ("", " under autograd", " and its backward"):
        held = rows[f"addmm{kind} / operator{kind}"]
        assert 0 < held["low"] <= held["median"] <= held["high"]
        assert held["unit"] == "×"
        assert rows[f"operator{kind}"]["unit"] == "µs"
    assert "operator under autograd" in capsys.readouterr().out


def test_ratio_is_above_1_where_ours_takes_less() -> None:
    """The median over pairs, and not of the medians."""
    made = cost.ratio("r", [4.0, 1.0, 9.0], [2.0, 1.0, 3.0])
    assert (made.low, made.median, made.high) == (1.0, 2.0, 3.0)
