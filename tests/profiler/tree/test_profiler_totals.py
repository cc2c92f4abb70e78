"""Totals of what happened inside kernels, over many launches."""

from dataclasses import replace

import numpy as np
import pytest

from tests.profiler_programs import site_times
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode.buckets import PLACES, Histograms
from tileprof.profiler.tree.totals import SiteTotals


def reading(number: int, buckets: int) -> SiteTimes:
    """Times of two sites whose visits differ; both have so many buckets, different ones each
    time."""
    chance = np.random.default_rng(number)
    drawn = np.concatenate([chance.choice(PLACES, buckets, replace=False) + at * PLACES
                            for at in (0, 1)])  # fmt: skip
    times = site_times([-1, 0], [0, 1], [buckets, buckets], [100, 50], 100)
    found = Histograms.of_places(drawn, np.ones(len(drawn), np.int64), 2)
    return replace(times, histograms=found)


@pytest.mark.parametrize("buckets", [1, 20, 300])
def test_histograms_of_many_readings_take_the_memory_of_a_few(buckets: int) -> None:
    """Parts are merged once they hold as much as what was merged before."""
    readings = [reading(number, buckets) for number in range(300)]
    totals = SiteTotals(readings[0])
    most = 0
    for times in readings[1:]:
        found = [times.histograms] if times.histograms else []
        totals.add(times.count, times.total_ns, times.min_ns, times.max_ns, found, None)
        most = max(most, sum(len(each.bucket) for each in totals.histograms))
    whole = totals.sketches()
    # The merged histogram, as many buckets again, and those of one reading.
    in_whole = sum(len(each.buckets) for each in whole)
    assert most <= in_whole + max(in_whole, 1024) + 2 * buckets
    alone = [SiteTotals(each).sketches() for each in readings]
    assert whole == [first.merge(*others) for first, *others in zip(*alone)]
    assert sum(int(each.counts.sum()) for each in whole) == 300 * 2 * buckets
