"""Planted faults of larger kernels: found, with a counterexample that another run shows again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.checker import planted_between
from tests.checker.test_planted import marked, ones
from tileprof import ir
from tileprof.checker import Finding, check_call, check_proofs
from tileprof.checker.findings import PROPERTY_OF, Code
from tileprof.errors import RaceError
from tileprof.runtime.events.access import Access, block_indices, listening


def integers(*values: Any) -> np.ndarray[Any, Any]:
    """A tensor of int32."""
    return np.array(values, np.int32)


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments and the buffer of its fault."""

    name: str
    arguments: tuple[Any, ...]
    buffer: str
    code: Code = "race-between-blocks"


TABLE = integers([0, 3], [1, 4], [2, 3])
CASES = [
    Case("histogram_with_a_plain_tail", (np.arange(100, dtype=np.int32) % 8, integers(*[0] * 8)),
         "Counts"),
    Case("maximum_read_while_it_grows", (ones(4, 32), ones(1), ones(4, 32)), "Most"),
    Case("ticket_written_back", (integers(0), integers(0, 0, 0, 0)), "Ticket"),
    Case("split_without_reset", (ones(32, 64), ones(64, 32)), "C", "uninitialized-read"),
    Case("split_cleared_by_the_first_part", (ones(32, 64), ones(64, 32), ones(32, 32)), "C"),
    Case("parts_summed_in_the_same_launch", (ones(4, 32), ones(4, 32), ones(32)), "Parts"),
    Case("parts_of_two_tiles_in_one_place", (ones(2, 4, 32), ones(8, 32)), "Parts"),
    Case("stencil_in_place", (ones(4, 34),), "A"),
    Case("transposed_in_place", (ones(64, 64),), "A"),
    Case("rows_normalised_in_parts", (ones(2, 64),), "A"),
    Case("prefix_carried_over", (ones(4, 32),), "A"),
    Case("tails_that_step_back", (ones(80),), "A"),
    Case("rows_of_a_wrong_width", (ones(48), 10), "A"),
    Case("grid_with_a_block_too_many", (ones(5, 8),), "A"),
    Case("ragged_without_a_mask", (ones(16, 8), integers(0, 6, 8, 16)), "A"),
    Case("ragged_ends_included", (ones(16, 8), integers(0, 5, 9, 16)), "A"),
    Case("page_of_two_sequences", (ones(6, 4), TABLE), "Pages"),
    Case("experts_without_padding", (ones(24, 4), integers(8, 13, 24), ones(24, 4)), "Y"),
    Case("threads_with_a_wrong_stride", (ones(256),), "A"),
    Case("one_result_of_a_grid", (ones(4, 32), ones(1)), "S"),
    Case("last_thread_reads_the_next_block", (ones(128),), "A"),
    Case("role_writes_for_all_blocks", (ones(4, 64), ones(2)), "Flag"),
]  # fmt: skip


class Replay:
    """A listener that looks for the accesses of a finding among those of a run."""

    def __init__(self, finding: Finding) -> None:
        self.missing = set(finding.accesses)
        self._buffer, self._launch = finding.buffer, finding.launch
        self._grid: tuple[int, ...] = ()

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Start a run."""

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch."""
        self._grid = grid

    def note(self, access: Access) -> None:
        """Drop the accesses of the finding that an access makes."""
        if (access.buffer.name, access.launch) != (self._buffer, self._launch):
            return
        for wanted in list(self.missing):
            if (wanted.kind, wanted.location) == (access.kind, access.op.span):
                for block, element in zip(*access.flat()):
                    where = block_indices(int(block), self._grid)
                    index = np.unravel_index(int(element), access.buffer.shape)
                    if (where, tuple(map(int, index))) == (wanted.block, wanted.index):
                        self.missing.discard(wanted)


def fresh(case: Case) -> list[Any]:
    """The arguments of a case, which a kernel may change."""
    return [np.copy(each) if isinstance(each, np.ndarray) else each for each in case.arguments]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault_is_found_and_shown_again(case: Case) -> None:
    """Code, buffer and lines; both accesses are made by the blocks that the finding names."""
    function = getattr(planted_between, case.name)
    report = check_call(function, fresh(case), {}, None)
    assert {each.code for each in report.findings} == {case.code}
    assert {each.buffer for each in report.findings} == {case.buffer}
    assert report.launches[0].verdicts[PROPERTY_OF[case.code]].status == "refuted"
    lines = {a.location.line for f in report.findings for a in f.accesses if a.location is not None}
    assert lines == set(marked(case.name, planted_between))
    finding = report.findings[0]
    if case.code == "uninitialized-read":
        return
    first, second = finding.accesses
    assert first.block != second.block
    assert first.index == second.index
    assert {first.kind, second.kind} not in ({"read"}, {"atomic"})
    replay = Replay(finding)
    # The interpreter refuses two blocks that write one element, after it has noted both.
    with tileprof.device("interpreter"), listening(replay), suppress(RaceError):
        function(*fresh(case))
    assert not replay.missing


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_proved_of_what_a_fault_breaks(case: Case) -> None:
    """The proofs alone, for all inputs, do not hold."""
    kernel = getattr(planted_between, case.name).compile(*case.arguments).program.kernel
    (launch,) = check_proofs(kernel).launches
    assert launch.verdicts[PROPERTY_OF[case.code]].status == "unchecked"
