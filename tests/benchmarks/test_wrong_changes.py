"""Mutants of programs, what they compute, and how their verdicts are counted."""

from __future__ import annotations

import ast

import pytest

from benchmarks.wrong_changes.mutations import mutants
from benchmarks.wrong_changes.programs import PROGRAMS

TEXT = """
def step(x):
    y = 0.5 * f(x, bias=1) - g(x)
    y = y + x[:4].mean()
    y.clamp(-1.0)
    return y
"""


def test_mutants_differ_from_the_program_at_one_place() -> None:
    """Each operator that applies makes a text of its own, which Python can read."""
    made = list(mutants(TEXT))
    assert len({each.text for each in made} | {ast.unparse(ast.parse(TEXT))}) == len(made) + 1
    found = {each.operator: each for each in reversed(made)}
    assert "0.55 * f(x, bias=1)" in found["a number 10 % larger"].text
    assert "f(x)" in found["without an argument"].text
    assert "x[:4 - 1]" in found["a slice shorter by one"].text
    assert ".sum()" in found["a mean for a sum"].text
    assert found["without a statement"].before == "y.clamp(-1.0)"
    assert found["without an assignment"].before == "y = y + x[:4].mean()"


@pytest.mark.sweep
def test_all_programs_have_mutants_of_most_operators() -> None:
    """At least 150 of each program, of at least twelve operators."""
    for program in PROGRAMS:
        made = list(mutants(program.text))
        assert len(made) >= 150, program.name
        assert len({each.operator for each in made}) >= 12, program.name


def test_truth_tells_a_learning_rate_from_a_loss() -> None:
    """A larger learning rate moves updates by as much, and neither the first loss nor gradients."""
    pytest.importorskip("torch")
    from benchmarks.wrong_changes.__main__ import kind_of
    from benchmarks.wrong_changes.truth import apart, outcome

    text = PROGRAMS[0].text
    plain = outcome(text, "", 5)
    assert (len(plain.values), len(plain.gradients)) == (5, 8)
    assert apart(plain, outcome(text, "", 5)) == dict.fromkeys(apart(plain, plain), 0.0)
    faster = apart(plain, outcome(text.replace("lr=1e-3", "lr=1.1e-3"), "", 5))
    assert (faster["first value"], faster["gradients"]) == (0.0, 0.0)
    assert faster["first updates"] == pytest.approx(0.1, rel=0.01)
    assert kind_of(faster, 2e-5) == "wrong"
    assert kind_of(dict.fromkeys(faster, 1e-5), 2e-5) == "harmless"
