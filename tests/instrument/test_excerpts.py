"""What is kept of single blocks: visits against a slow reading, which blocks, flights."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from tests.instrument import warps as slow
from tests.instrument.test_warp_times import _launches, _states
from tests.instrument.warps import Warp, slots_of
from tileprof import ir
from tileprof.instrument.decode import excerpts
from tileprof.instrument.decode.excerpts import Excerpt, excerpt_of, one_replay
from tileprof.instrument.decode.timeline import timeline_of, visits_of
from tileprof.instrument.slots import Slots

RING = "ring of a"
SITES = [
    ir.Site(0, "producer", "stage"),
    ir.Site(1, "load a", "op", parent=0, issues=RING),
    ir.Site(2, "consumer", "stage"),
    ir.Site(3, "wait for a", "op", parent=2, retires=RING),
    ir.Site(4, "gemm", "op", parent=2, issues="wgmma"),
    ir.Site(5, "wait for gemm", "op", parent=2, retires="wgmma"),
]
STATES = [ir.State(-1), ir.State(1, 0), ir.State(1, 1), ir.State(3, 0), ir.State(3, 1),
          ir.State(4, 1), ir.State(5, 1)]  # fmt: skip
LOAD, NEXT_LOAD, WAIT, NEXT_WAIT, GEMM, WAIT_GEMM = STATES[1:]


@settings(deadline=None)
@given(_launches())
def test_visits_are_those_of_a_slow_reading(made: tuple[list[ir.Site], list[Warp]]) -> None:
    """Of every warp whose clock makes sense: as many, as long; those inside lie inside."""
    sites, warps = made
    slots, states = slots_of(warps, _states(warps)), _states(warps)
    timeline = timeline_of(slots, sites, states, ns_per_cycle=1.0)
    if len(timeline.block) != len(warps):
        return
    found = visits_of(timeline, sites)
    for row, warp in enumerate(warps):
        mine = found.warp == row
        scale = (timeline.span[row, 1] - timeline.span[row, 0]) / max(_length(warp), 1)
        expected = Counter(
            (v.site, round(v.ns / warp.ns_per_cycle)) for v in slow.visits_of(warp, sites)
        )
        lengths = (found.end - found.begin)[mine] / (scale or 1)
        assert Counter(zip(found.site[mine].tolist(), np.rint(lengths).tolist())) == expected
        assert (np.diff(found.begin[mine]) >= 0).all()
        assert _nests(found.begin[mine].tolist(), found.end[mine].tolist())


def _length(warp: Warp) -> int:
    return warp.kept[-1][0] if warp.no_end and warp.kept else warp.length


def _nests(begin: list[float], end: list[float]) -> bool:
    opened: list[float] = []
    for b, e in zip(begin, end, strict=True):
        while opened and opened[-1] <= b:
            opened.pop()
        if opened and e > opened[-1]:
            return False
        opened.append(e)
    return True


def _block(number: int, length: int, begin: int, tag: int = 0) -> list[Warp]:
    """Two loads by warp 4, for which warp 0 waits as long as it takes."""
    load = [(10, LOAD), (20, NEXT_LOAD), (40, ir.State(-1))]
    work = [(0, WAIT), (50, GEMM), (55, WAIT_GEMM), (90, NEXT_WAIT), (95, GEMM), (99, WAIT_GEMM)]
    return [
        Warp(number, 0, tag, 1000, work, length, begin_ns=begin, sm=number % 3),
        Warp(number, 4, tag, 1000, load, 60, begin_ns=begin, sm=number % 3),
    ]


def _excerpt(slots: Slots, most: int = 4) -> Excerpt:
    found = excerpt_of(slots, SITES, STATES, consumer_warps=4, ns_per_cycle=1.0, most=most)
    assert found is not None
    return found


def test_blocks_are_chosen_by_their_time() -> None:
    """The median, the longest, the shortest, the first; in the order of their begins."""
    lengths = [150, 110, 160, 120, 190, 140, 130]
    warps = [w for i, n in enumerate(lengths) for w in _block(10 * i, n, 5000 + i)]
    found = _excerpt(slots_of(warps, STATES))
    assert found.recorded == 7
    assert [(b.number, b.chosen) for b in found.blocks] == [
        (0, "first"), (10, "shortest"), (40, "longest"), (50, "median"),
    ]  # fmt: skip
    assert [(b.begin_ns, b.end_ns) for b in found.blocks] == [
        (5000, 5150), (5001, 5111), (5004, 5194), (5005, 5145),
    ]  # fmt: skip
    assert [(w.block, w.number, w.role) for w in found.warps[:4]] == [
        (0, 4, "producer"), (0, 0, "consumer"), (1, 4, "producer"), (1, 0, "consumer"),
    ]  # fmt: skip
    assert [b.chosen for b in _excerpt(slots_of(warps, STATES), 2).blocks] == ["longest", "median"]
    every = [w for i, n in enumerate([150, 160, 110, 155]) for w in _block(i, n, 5000 + i)]
    assert [(b.number, b.chosen) for b in _excerpt(slots_of(every, STATES)).blocks] == [
        (0, "first"), (1, "longest"), (2, "shortest"), (3, "median, last"),
    ]  # fmt: skip
    alike = [w for i in range(4) for w in _block(i, 150, 5000 + i)]
    assert [(b.number, b.chosen) for b in _excerpt(slots_of(alike, STATES)).blocks] == [
        (0, "shortest, first"), (1, ""), (2, "median"), (3, "longest, last"),
    ]  # fmt: skip
    few = _excerpt(slots_of(warps[:4], STATES))
    assert [(b.number, b.chosen) for b in few.blocks] == [
        (0, "median, longest, first"), (10, "shortest, last"),
    ]  # fmt: skip


def test_blocks_and_warps_have_one_length_of_a_cycle() -> None:
    """That of all blocks: the few that are kept, whose stamps are all late, tell it less well."""
    lengths = [3000 + i for i in range(40)]
    slots = slots_of([w for i, n in enumerate(lengths) for w in _block(i, n, 50 * i)], STATES)
    kept = [b.number for b in _excerpt(slots).blocks]
    slots.heads["end_ns"][np.isin(slots.heads["block"], kept)] += 32
    found = _excerpt(slots)
    assert [b.number for b in found.blocks] == kept
    for warp in found.warps:
        block = found.blocks[warp.block]
        assert warp.end <= block.end_ns - block.begin_ns + 1


def test_visits_and_flights_of_a_block() -> None:
    """Nested, in ns since the block began; a load that two warps wait for is one flight."""
    warps = _block(7, 120, 5000)
    late = Warp(7, 1, 0, 1000, [(0, WAIT), (60, GEMM), (60, NEXT_WAIT), (97, GEMM)], 120,
                begin_ns=5000)  # fmt: skip
    found = _excerpt(slots_of([*warps, late], STATES))
    assert [(w.number, w.begin, w.end, w.missing) for w in found.warps] == [
        (4, 0, 60, ""), (0, 0, 120, ""), (1, 0, 120, ""),
    ]  # fmt: skip
    visits = zip(found.warp.tolist(), found.site.tolist(), found.begin.tolist(), found.end.tolist())
    assert list(visits)[:6] == [
        (0, 0, 10, 40), (0, 1, 10, 20), (0, 1, 20, 40),
        (1, 2, 0, 120), (1, 3, 0, 50), (1, 4, 50, 55),
    ]  # fmt: skip
    flights = found.passages
    rows = zip(flights.queue.tolist(), flights.issuer.tolist(), flights.waiter.tolist(),
               flights.issued.tolist(), flights.retired.tolist(), strict=True)  # fmt: skip
    assert found.queues == (RING, "wgmma")
    assert list(rows) == [
        (0, 0, 1, 10, 50), (0, 0, 1, 20, 95), (1, 1, 1, 50, 90), (1, 1, 1, 95, 120),
    ]  # fmt: skip


def test_records_that_are_missing_are_told() -> None:
    """What went on then is there as far as it was seen."""
    warps = _block(7, 120, 5000)
    warps[0].limit = 2
    found = _excerpt(slots_of(warps, STATES))
    assert [(w.number, w.end, w.missing) for w in found.warps] == [(4, 60, ""), (0, 50, "end")]
    assert found.end.tolist()[-3:] == [50, 50, 50]
    assert excerpt_of(slots_of([], STATES), SITES, STATES) is None


def test_of_a_long_block_the_begin_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many visits as there may be, of all warps up to one time."""
    monkeypatch.setattr(excerpts, "MOST_VISITS", 7)
    other = _block(9, 130, 6000)[1:]
    found = _excerpt(slots_of([*_block(7, 120, 5000), *other], STATES))
    # The second wait for a tile is the eighth visit to begin, at 90.
    mine = [w for w in found.warps if w.block == 0]
    assert [(w.number, w.end, w.missing) for w in mine] == [(4, 60, ""), (0, 90, "end")]
    kept = found.warp < 2
    assert found.end[kept].max() == 90
    assert kept.sum() == 7
    assert found.passages.retired.tolist() == [50, 90]
    assert (~kept).sum() == 3


def test_one_of_several_replays() -> None:
    """The second, where it is whole."""
    replays = [w for n in range(3) for w in _block(4, 120 + n, 5000 + 500 * n)]
    slots = slots_of(replays, STATES)
    found, which = one_replay(slots)
    assert which == 1
    assert found.heads["begin_ns"].tolist() == [5500, 5500]
    found, which = one_replay(slots.take(np.arange(3)))
    assert which == 0
    assert found.heads["begin_ns"].tolist() == [5000, 5000]
