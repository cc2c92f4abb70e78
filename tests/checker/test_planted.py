"""Planted faults: each is found, with a counterexample that is true; no proof says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.checker import planted
from tileprof.checker import Finding, check_proofs
from tileprof.checker.findings import PROPERTY_OF, Code


def ones(*shape: int) -> np.ndarray[Any, Any]:
    """A tensor of float32."""
    return np.ones(shape, np.float32)


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments and its fault."""

    name: str
    arguments: tuple[Any, ...]
    code: Code
    buffer: str
    accesses: tuple[tuple[str, int, tuple[int, ...], tuple[int, ...]], ...]
    """Kind, number of the marked line, index and block of each access."""


RACE: Code = "race-between-blocks"
EARLY: Code = "uninitialized-read"
OUTSIDE: Code = "out-of-bounds"
CASES = [
    Case("one_too_many", (ones(256),), RACE, "B",
         (("write", 1, (64,), (0,)), ("write", 1, (64,), (1,)))),
    Case("last_wins", (ones(4),), RACE, "A",
         (("write", 1, (0,), (0,)), ("write", 1, (0,), (1,)))),
    Case("forgotten_axis", (ones(64, 64),), RACE, "B",
         (("write", 1, (0, 0), (0, 0)), ("write", 1, (0, 0), (0, 1)))),
    Case("shift_in_place", (ones(128),), RACE, "A",
         (("read", 1, (32,), (0,)), ("write", 2, (32,), (1,)))),
    Case("wide_tiles", (ones(64, 8),), RACE, "B",
         (("write", 1, (16, 0), (0,)), ("write", 1, (16, 0), (1,)))),
    Case("sum_without_atomics", (ones(4, 32), ones(32)), RACE, "S",
         (("read", 1, (0,), (0,)), ("write", 1, (0,), (1,)))),
    Case("cleared_meanwhile", (ones(4, 32), ones(1)), RACE, "S",
         (("write", 1, (0,), (0,)), ("atomic", 2, (0,), (1,)))),
    Case("wrong_stride", (ones(12),), RACE, "A",
         (("write", 1, (2,), (0,)), ("write", 1, (2,), (2,)))),
    Case("wrong_quotient", (ones(2, 3),), RACE, "A",
         (("write", 1, (0, 0), (0,)), ("write", 1, (0, 0), (2,)))),
    Case("scatter", (ones(8), np.array([5, 1, 3, 1], np.int32)), RACE, "A",
         (("write", 1, (1,), (1,)), ("write", 1, (1,), (3,)))),
    Case("through_a_view", (ones(4, 8),), RACE, "A",
         (("read", 1, (16,), (0,)), ("write", 2, (2, 0), (1,)))),
    Case("sum_not_cleared", (ones(32, 32),), EARLY, "acc", (("read", 1, (0, 0), (0,)),)),
    Case("read_too_early", (ones(2, 8),), EARLY, "s", (("read", 1, (0,), (0,)),)),
    Case("output_read", (ones(8),), EARLY, "C", (("read", 1, (0,), (0,)),)),
    Case("filled_in_a_branch", (ones(2, 8),), EARLY, "s", (("read", 1, (0,), (1,)),)),
    Case("filled_in_part", (ones(2, 8),), EARLY, "s", (("read", 1, (7,), (0,)),)),
    Case("loop_that_never_runs", (ones(8), np.zeros(1, np.int32)), EARLY, "s",
         (("read", 1, (0,), (0,)),)),
    Case("left_of_the_tensor", (ones(8),), OUTSIDE, "A", (("read", 1, (-1,), (0,)),)),
    Case("tile_above_the_tensor", (ones(32, 8),), OUTSIDE, "A", (("read", 1, (-2, 0), (0,)),)),
    Case("outside_of_shared_memory", (ones(2, 8),), OUTSIDE, "s", (("write", 1, (8,), (1,)),)),
    Case("points_meet", (ones(8),), "race-in-block", "A",
         (("write", 1, (0,), (0,)), ("write", 1, (0,), (0,)))),
]  # fmt: skip


def marked(name: str, module: ModuleType = planted) -> list[int]:
    """The lines of a kernel that its fault is on, in the order of their marks."""
    lines = Path(str(module.__file__)).read_text().splitlines()
    begin = lines.index(next(line for line in lines if line.startswith(f"def {name}(")))
    found = {}
    for number, line in enumerate(lines[begin:], begin + 1):
        if number > begin + 1 and line.startswith("def "):
            break
        if line[-3:] in ("# 1", "# 2"):
            found[line[-1]] = number
    return [found[mark] for mark in sorted(found)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planted_fault_is_found_with_its_counterexample(case: Case) -> None:
    """Code, buffer, lines, indices and blocks."""
    arguments = [np.copy(each) for each in case.arguments]
    report = tileprof.check(getattr(planted, case.name), *arguments)
    found = [each for each in report.findings if _is(case, each)]
    assert len(found) == 1, report.findings
    assert {each.code for each in report.findings} == {case.code}
    lines = marked(case.name)
    assert [
        (a.kind, a.location.line if a.location else 0, a.index, a.block) for a in found[0].accesses
    ] == [(kind, lines[mark - 1], index, block) for kind, mark, index, block in case.accesses]
    name = PROPERTY_OF.get(case.code)
    if name is not None:
        assert report.launches[0].verdicts[name].status == "refuted"


def _is(case: Case, finding: Finding) -> bool:
    """Whether a finding is the case's: a race may show in several pairs of accesses."""
    kinds = [access.kind for access in finding.accesses]
    return finding.buffer == case.buffer and kinds == [kind for kind, *_ in case.accesses]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.code in PROPERTY_OF], ids=lambda case: case.name
)
def test_no_proof_of_a_property_that_a_planted_fault_breaks(case: Case) -> None:
    """A property that the fault makes false has another verdict than `proved`."""
    kernel = getattr(planted, case.name).compile(*case.arguments)
    (launch,) = check_proofs(kernel.program.kernel).launches
    assert launch.verdicts[PROPERTY_OF[case.code]].status == "unchecked"


def test_persistent_blocks_are_proved_apart() -> None:
    """Tiles are quotients and remainders of a loop counter that blocks begin at their own."""
    assert tileprof.check(planted.persistent, ones(100, 80)).proved == 1
