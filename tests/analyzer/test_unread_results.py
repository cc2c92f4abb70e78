"""Results that nothing reads, by source text and by the time of the operations that make them."""

from __future__ import annotations

import textwrap

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, MS, Step
from tileprof.analyzer.program.unread_names import unread_names
from tileprof.profile import Profile


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("a = f(x)\nreturn x", [2]),
        ("a = f(x)\nreturn a", []),
        ("a = f(x)\nb = g(a)\nreturn x", [2, 3]),
        ("a = f(x)\nb = g(a)\nreturn a", [3]),
        ("a, b = f(x)\nreturn b", []),
        ("a, b = f(x)\na = g(a)\nreturn b", [3]),
        ("for i in range(3):\n    x = f(x)\nreturn 1", [3]),
        ("a = f(x)\nif x:\n    return a\nreturn x", []),
        ("a = f(x)\nreturn lambda: a", []),
        ("a = f(x)", []),
        ("a = f(x)\na += 1\nreturn x", []),
        ("a = f(x)\nreturn locals()", []),
        ("global a\na = f(x)\nreturn x", []),
        ("_ = f(x)\nreturn x", []),
        ("self.a = f(x)\nreturn x", []),
        ("a = x\nreturn x", []),
    ],
)
def test_names_that_nothing_reads(body: str, lines: list[int]) -> None:
    """Lines that assign such names, where line 1 is the head of the function."""
    text = f"def forward(self, x):\n{textwrap.indent(body, '    ')}\n"
    assert [each.first for each in unread_names(text)] == lines


SOURCE = """\
def forward(self, x):
    kept = torch.exp(x)
    total = torch.mul(kept, x)
    return x + 1
"""


def unread(op: str = "aten::mul", source: str = SOURCE, unread_ms: float = 20) -> Profile:
    """A line of 10 ms that the next one reads, that one, and 30 ms of others at the last line."""
    step = Step()
    for line, name, time in ((2, "aten::exp", 10), (3, op, unread_ms), (4, "aten::add", 30)):
        at = step.frame(step.top, "forward", line)
        step.launch(step.op(at, name), f"kernel_{line}", time * MS)
    return step.profile(sources={FILE: source})


def test_all_of_the_time_goes() -> None:
    """Of 60 ms, the 30 of both lines."""
    finding = only(unread(), "unread-results")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(2)
    assert finding.place.location is not None
    assert finding.place.location.line == 3
    assert "total" in finding.title


@pytest.mark.parametrize(
    "profile",
    [
        unread(op="aten::mul_"),
        unread(op="aten::_native_batch_norm_legit"),
        unread(op="mine::product"),
        unread(source=SOURCE.replace("x + 1", "total")),
        unread(source="not Python ("),
        unread(unread_ms=500),
    ],
    ids=["in place", "statistics", "not PyTorch's", "read", "no source", "all of the program"],
)
def test_work_that_may_be_wanted(profile: Profile) -> None:
    """Where an effect may be wanted, or the program was written to be measured, nothing is said of
    it; what only it reads may go where it has no effect itself."""
    assert all("total" not in each.title for each in found(profile, "unread-results"))
