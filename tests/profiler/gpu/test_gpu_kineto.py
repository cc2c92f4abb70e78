"""torch.profiler as a second client of CUPTI, on a GPU: in every order of beginnings and ends.

    python -m pytest -m gpu tests/profiler/gpu/test_gpu_kineto.py

It always sees all of its kernels. We record all kernels outside its traces, or a sentence names it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, counts, profiled, python, succeeded
from tests.profiler.trace_orders import ORDERS

pytestmark = pytest.mark.gpu
COUNT = 100
"""Kernels that the program launches in each scope."""


def check_what_each_keeps(ran: Ran, words: list[str]) -> None:
    """Compare both sides with what an order of events means for them.

    A trace of torch.profiler has all kernels that were launched while it was on. A recording of
    ours has every scope, and of kernels either all, or none and the name of torch.profiler. Before
    its first trace, and where it never traces, nothing may be missing.
    """
    print(ran.code, ran.errors[-3000:], ran.output)
    profile = succeeded(ran).profile
    facts = profile.tables.provenance
    print({key: facts[key] for key in ("cupti", "gpu", "gaps", "lost") if key in facts})
    ours = theirs = traced = False
    traces: list[int] = []
    seen: dict[str, int] = {}
    expected: dict[str, tuple[int, ...]] = {}
    for word in words:
        match word:
            case "ours+":
                ours, expected = True, {}
            case "ours-":
                ours = False
            case "theirs+":
                theirs = traced = True
                traces.append(0)
            case "theirs-":
                theirs = False
            case scope:
                if theirs:
                    traces[-1] += COUNT
                if ours:
                    expected[scope] = (0,) if theirs else (0, COUNT) if traced else (COUNT,)
    for scope in expected:
        assert profile.find(scope, "scope"), scope
        seen[scope] = sum(counts(profile, scope=scope).values())
    print(seen, expected)
    assert ran.told["theirs"] == traces
    assert all(seen[scope] in expected[scope] for scope in expected), (seen, expected)
    said = f"{facts.get('gpu', '')} {facts.get('gaps', '')}"
    assert ("torch.profiler" in said) == (0 in seen.values()), said
    assert "lost" not in facts


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("teardown", ["0", "1"])
def test_what_each_of_two_profilers_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, teardown: str
) -> None:
    """Whether torch.profiler keeps CUPTI after its traces (0) or gives it back (1)."""
    monkeypatch.setenv("TEARDOWN_CUPTI", teardown)
    words = ORDERS[order].split()
    ran = python(tmp_path, str(PROGRAMS / "kineto.py"), *words, timeout=120)
    check_what_each_keeps(ran, words)


def test_trace_inside_a_program_that_is_run(tmp_path: Path) -> None:
    """Under `tileprof run` as in a session that the program begins."""
    words = ["before", "theirs+", "during", "theirs-", "after"]
    ran = profiled(tmp_path, "kineto", *words, timeout=120)
    check_what_each_keeps(ran, ["ours+", *words, "ours-"])
