"""Findings in a recording of JAX on an H200: of the program, not of what XLA tried."""

from __future__ import annotations

from functools import cache

from tests.jax_recording import recording
from tileprof.analyzer import Report, analyze


@cache
def report() -> Report:
    """Findings of the stored recording of JAX."""
    return analyze(recording())


def test_kernels_that_xla_tried_are_none_of_the_programs() -> None:
    """A kernel that delays a trial has one block, and cuDNN's variants round nothing to TF32."""
    tried = {recording().names[at] for at in recording().find(kind="kernel")}
    assert {name for name in tried if "DelayKernel" in name or "Redzone" in name}
    text = " ".join(str(each) for each in report().findings)
    assert "DelayKernel" not in text
    assert "Redzone" not in text
    assert "precision" not in {each.rule for each in report().findings}
    assert report().program.kernel_time < 10e6


def test_advice_is_of_jax() -> None:
    """Neither torch.compile nor an optimizer of PyTorch changes such a program."""
    (late,) = (each for each in report().findings if each.rule == "launch-bound")
    assert "jax.jit" in late.author
    assert not any("torch" in each.author for each in report().findings)
