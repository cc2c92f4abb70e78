"""Sample counts: who is counted where."""

from __future__ import annotations

import numpy as np
import pytest

from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.instrument.decode.samples import Counts, SampleTotals, read_counts

SITES = (
    ir.Site(0, "loop k", "stage"),
    ir.Site(1, "gemm", "op", parent=0),
    ir.Site(2, "wait for gemm", "op", parent=0),
)
STATES = (ir.State(-1, 0), ir.State(1, 0), ir.State(2, 1), ir.State(1, 1))


def counts(looks: int, *rows: list[int]) -> Counts:
    """Counts of a launch: a row for each warp."""
    return Counts(looks, np.array(rows, np.int64))


def seen(totals: SampleTotals) -> dict[tuple[str, int], int]:
    """By role and site, those that were seen; -1 is outside of all."""
    rows, columns = totals.seen.nonzero()
    outside = totals.seen.shape[1] - 1
    return {
        (totals.roles[row], column if column < outside else -1): int(totals.seen[row, column])
        for row, column in zip(rows.tolist(), columns.tolist())
    }


def test_a_sample_counts_for_its_site_and_all_around_it() -> None:
    """Inclusive, as times are."""
    found = SampleTotals.of(counts(100, [10, 20, 60, 10]), SITES, STATES, 1)
    assert seen(found) == {("block", 0): 90, ("block", 1): 30, ("block", 2): 60, ("block", -1): 10}
    assert found.samples.tolist() == [100]


def test_roles_have_counts_of_their_own() -> None:
    """A producer's samples are none of the consumers'."""
    rows = counts(100, [0, 100, 0, 0], [0, 50, 50, 0], [100, 0, 0, 0])
    found = SampleTotals.of(rows, SITES, STATES, 2)
    assert seen(found) == {
        ("consumer", 0): 200, ("consumer", 1): 150, ("consumer", 2): 50, ("producer", -1): 100,
    }  # fmt: skip
    assert found.samples.tolist() == [200, 100]


def test_counts_are_read_as_they_lie() -> None:
    """Turns first, then a row for each warp."""
    words = np.array([9, 1, 2, 3, 4], np.uint64)
    held = read_counts(words, 2, 2)
    assert (held.looks, held.seen.tolist()) == (7, [[1, 2], [3, 4]])
    more = held + held
    assert (more.looks, (more - held).seen.tolist()) == (14, [[1, 2], [3, 4]])
    with pytest.raises(ProfileFileError, match="2 warps and 3 states have 7 counts, not 5"):
        read_counts(words, 2, 3)


def test_sites_that_become_known_later_were_not_seen_before() -> None:
    """A variant of the kernel for other arguments may have further sites."""
    more = (*SITES, ir.Site(3, "barrier", "op", parent=0))
    early = SampleTotals.of(counts(100, [10, 20, 60, 10]), SITES, STATES, 1)
    late = SampleTotals.of(counts(50, [0, 0, 50]), more, (ir.State(-1), STATES[1], ir.State(3)), 1)
    for both in (early + late, late + early):
        found = {site: samples for (_, site), samples in seen(both).items()}
        assert found == {0: 140, 1: 30, 2: 60, 3: 50, -1: 10}
