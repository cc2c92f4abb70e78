"""Effective sample size of a sampler's correlated samples."""

from __future__ import annotations

import numpy as np
import pytest

from tileprof import ir
from tileprof.instrument.decode.samples import Counts, SampleTotals, effective_sample_size

SITES = (ir.Site(0, "a", "op"), ir.Site(1, "b", "op"))
STATES = (ir.State(-1), ir.State(0), ir.State(1))


def totals(launches: list[list[list[int]]], looks: int, consumers: int = 1) -> SampleTotals:
    """Of launches of so many looks, from the counts of each warp outside, in `a`, in `b`."""
    first, *rest = (
        SampleTotals.of(Counts(looks, np.array(seen)), SITES, STATES, consumers)
        for seen in launches
    )
    return sum(rest, first)


def test_warps_of_a_role_count_once() -> None:
    """As many as there were looks, or samples where these are fewer; each role has its own."""
    found = totals([[[0, 40, 60], [0, 50, 50], [20, 0, 0]]], looks=100, consumers=2)
    assert [effective_sample_size(found, row) for row in (0, 1)] == [100, 20]
    assert effective_sample_size(totals([[[0, 0, 0]]], looks=0), 0) == 0


def test_launches_that_differ_by_chance() -> None:
    """All looks count: nearly, for what chance does to the estimate itself."""
    random = np.random.default_rng(3)
    seen = [[random.multinomial(100, [0.1, 0.6, 0.3]).tolist()] for _ in range(400)]
    assert effective_sample_size(totals(seen, looks=100), 0) == pytest.approx(40_000, rel=0.1)


def test_launches_that_differ_by_more() -> None:
    """Where all looks at a launch see the same, it counts as one."""
    random = np.random.default_rng(3)
    seen = [[[0, 100, 0] if random.random() < 0.4 else [0, 0, 100]] for _ in range(400)]
    assert effective_sample_size(totals(seen, looks=100), 0) == pytest.approx(400, rel=0.1)


def test_few_launches_say_nothing_of_how_they_differ() -> None:
    """Then all looks count."""
    seen = [[[0, 100, 0]], [[0, 0, 100]]]
    assert effective_sample_size(totals(seen, looks=100), 0) == 200
