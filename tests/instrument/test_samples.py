"""Shares from sample counts: who is counted where, and whether intervals hold what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.instrument.samples import (
    FEWEST,
    Counts,
    SampleTotals,
    Share,
    _student,
    read_counts,
)

SITES = (
    ir.Site(0, "loop k", "stage"),
    ir.Site(1, "gemm", "op", parent=0),
    ir.Site(2, "wait for gemm", "op", parent=0),
)
STATES = (ir.State(-1, 0), ir.State(1, 0), ir.State(2, 1), ir.State(1, 1))


def counts(looks: int, *rows: list[int]) -> Counts:
    """Counts of a launch: a row for each warp."""
    return Counts(looks, np.array(rows, np.int64))


def shares(launches: list[Counts], consumer_warps: int) -> list[Share]:
    """Of all launches together."""
    first, *rest = (SampleTotals.of(each, SITES, STATES, consumer_warps) for each in launches)
    return sum(rest, start=first).shares()


def test_a_sample_counts_for_its_site_and_all_around_it() -> None:
    """Inclusive, as times are."""
    found = shares([counts(100, [10, 20, 60, 10])], 1)
    assert [(s.role, s.site, s.samples) for s in found] == [
        ("block", 0, 90), ("block", 1, 30), ("block", 2, 60), ("block", -1, 10),
    ]  # fmt: skip
    assert [s.share for s in found] == [0.9, 0.3, 0.6, 0.1]
    assert all(s.low < s.share < s.high for s in found)


def test_roles_have_shares_of_their_own() -> None:
    """A producer's share is not of the consumers' time."""
    found = shares([counts(100, [0, 100, 0, 0], [0, 50, 50, 0], [100, 0, 0, 0])], 2)
    assert {(s.role, s.site): s.share for s in found} == {
        ("consumer", 0): 1.0, ("consumer", 1): 0.75, ("consumer", 2): 0.25, ("producer", -1): 1.0,
    }  # fmt: skip


def test_warps_seen_together_do_not_narrow_the_interval() -> None:
    """Eight warps that do the same are one witness."""
    (one, *_) = shares([counts(400, [100, 300, 0, 0])], 1)
    (eight, *_) = shares([counts(400, *[[100, 300, 0, 0]] * 8)], 8)
    assert (one.low, one.high) == (eight.low, eight.high)
    assert eight.samples == 8 * one.samples


def test_too_few_looks_give_no_estimate() -> None:
    """A number from so little would be believed."""
    few = shares([counts(FEWEST - 1, [0, FEWEST - 1, 0, 0])], 1)
    assert all(math.isnan(s.share) for s in few)
    assert (few[0].low, few[0].high) == (0.0, 1.0)
    enough = shares([counts(FEWEST, [0, FEWEST, 0, 0])], 1)
    assert enough[0].share == 1.0


def test_launches_that_differ_widen_the_interval() -> None:
    """Looks of one launch may all have seen the same."""
    even = [counts(1000, [500, 500, 0, 0])] * 10
    uneven = [counts(1000, [100, 900, 0, 0]), counts(1000, [900, 100, 0, 0])] * 5
    narrow, wide = (shares(held, 1)[0] for held in (even, uneven))
    assert narrow.share == wide.share == 0.5
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)


@pytest.mark.parametrize("stays", [1, 20], ids=["independent looks", "looks that see the same"])
def test_the_interval_holds_the_true_share(stays: int) -> None:
    """A warp that stays in a state for `stays` looks; 30 launches of 200 looks each."""
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        launches = []
        for _ in range(30):
            seen = int(np.repeat(generator.random(200 // stays) < 0.3, stays).sum())
            launches.append(counts(200, [200 - seen, seen, 0, 0]))
        (gemm,) = (s for s in shares(launches, 1) if s.site == 1)
        held += gemm.low <= 0.3 <= gemm.high
    assert held >= 180  # 190 are expected; below 180 has a chance of 1 in 3,000


def test_students_t() -> None:
    """Values of the table in Abramowitz and Stegun, 26.10."""
    assert _student(7) == pytest.approx(2.365, abs=2e-3)
    assert _student(29) == pytest.approx(2.045, abs=1e-3)


def test_counts_are_read_as_they_lie() -> None:
    """Turns first, then a row for each warp."""
    words = np.array([9, 1, 2, 3, 4], np.uint64)
    held = read_counts(words, 2, 2)
    assert (held.looks, held.seen.tolist()) == (7, [[1, 2], [3, 4]])
    more = held + held
    assert (more.looks, (more - held).seen.tolist()) == (14, [[1, 2], [3, 4]])
    with pytest.raises(ProfileFileError, match="2 warps and 3 states have 7 counts, not 5"):
        read_counts(words, 2, 3)


def test_nothing_seen_is_nothing_said() -> None:
    """No shares of nothing."""
    assert shares([counts(0, [0, 0, 0, 0])], 1) == []


def test_sites_that_become_known_later_were_not_seen_before() -> None:
    """A variant of the kernel for other arguments may have further sites."""
    more = (*SITES, ir.Site(3, "barrier", "op", parent=0))
    early = SampleTotals.of(counts(100, [10, 20, 60, 10]), SITES, STATES, 1)
    late = SampleTotals.of(counts(50, [0, 0, 50]), more, (ir.State(-1), STATES[1], ir.State(3)), 1)
    for both in (early + late, late + early):
        assert {s.site: s.samples for s in both.shares()} == {0: 140, 1: 30, 2: 60, 3: 50, -1: 10}
