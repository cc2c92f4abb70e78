"""Device memory that grows from step to step."""

from __future__ import annotations

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step
from tileprof.profile import Metric

MB = 10**6


def step_with(**growth: float) -> Step:
    """A step whose operations at these lines allocate; each grew by so many MB in 18 steps."""
    step = Step()
    for name in ("allocated_bytes", "peak_bytes", "growth_bytes"):
        step.builder.declare(Metric(name, "bytes"))
    step.builder.declare(Metric("grown_steps", "1", "max"))
    product = step.op(step.frame(step.top, "forward", 40), "aten::mm", peak_bytes=1000 * MB)
    step.launch(product, "gemm", 100 * MS)
    for line, (name, grown) in enumerate(growth.items(), 50):
        op = step.op(step.frame(step.top, "forward", line), f"aten::{name}")
        step.builder.add(op, "growth_bytes", round(grown * MB))
        if grown:
            step.builder.add(op, "grown_steps", 18)
    return step


def test_growth_is_reported_with_its_places() -> None:
    """The largest first, by the step and in all; no gain is promised."""
    finding = only(step_with(gelu=36, add=180, mul=0).profile(), "memory-growth")
    assert finding.severity == "warning"
    assert finding.title == "device memory grows from step to step, by 12.0 MB each time"
    place = finding.place.location
    assert place is not None
    assert (place.line, finding.program_gain) == (51, None)
    assert [each.text for each in finding.evidence] == [
        "216 MB more were alive after the last step than after the second, 21.6 % of the peak; it"
        " grew in 18 steps",
        "allocated at train_gpt.py:51, aten::add: 180 MB; train_gpt.py:50, aten::gelu: 36.0 MB",
    ]


def test_growth_that_is_nothing_beside_the_peak_is_left_out() -> None:
    """A list of losses, as numbers on the device."""
    assert not found(step_with(add=0.9).profile(), "memory-growth")
    assert not found(step_with(add=0).profile(), "memory-growth")
