"""Facts from the records of a function: told of what was recorded, each in a sentence."""

from __future__ import annotations

from tests.instrument.test_facts import SITES, STATES, kernel, times_of
from tests.instrument.warps import slots_of
from tileprof.runtime.cuda.records.facts import Observed


def sentences(observed: Observed) -> list[str]:
    """What is told."""
    return [str(remark.decision) for remark in observed.remarks(SITES, STATES, 1.0)]


def test_facts_of_what_was_recorded() -> None:
    """Who waits for whom, what is hidden, what is uneven; nothing before, and nothing after."""
    observed = Observed()
    assert sentences(observed) == []
    warps = kernel(slow=100)
    observed.add(times_of(warps), slots_of(warps, STATES))
    told = sentences(observed)
    assert told[0] == "Producers wait 60.0% of their time for a free slot."
    for part in (
        "Consumers wait",
        "“wait for gemm” waits",
        "Of the time from the start of a matrix product",
        "At “write C” the slowest warp of a block takes",
        "under way",
    ):
        assert any(part in each for each in told), (part, told)
    observed.clear()
    assert sentences(observed) == []


def test_launches_add_up() -> None:
    """However many readings there are, shares are those of all."""
    observed, even = Observed(), kernel()
    for _ in range(40):
        observed.add(times_of(even), slots_of(even, STATES))
    once = Observed()
    once.add(times_of(even), slots_of(even, STATES))
    assert len(observed.times) <= 16
    assert sentences(observed) == sentences(once)
