"""Asynchronous work from its start to the wait that retires it: timelines with known answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.instrument.warps import Warp, slots_of
from tileprof import ir
from tileprof.instrument.decode.queues import Flights, flights_of
from tileprof.instrument.decode.timeline import Timeline, timeline_of

RING = "ring of As, Bs"
SITES = [
    ir.Site(0, "gemm", "op", issues="wgmma"),
    ir.Site(1, "wait for gemm", "op", retires="wgmma", pending=1),
    ir.Site(2, "wait for all", "op", retires="wgmma"),
    ir.Site(3, "load A", "op", issues=RING),
    ir.Site(4, "load B", "op", issues=RING),
    ir.Site(5, "wait for As, Bs", "op", retires=RING),
    ir.Site(6, "wait for a free slot", "op"),
    ir.Site(7, "load C", "op", issues="cp.async"),
    ir.Site(8, "load D", "op", issues="cp.async"),
    ir.Site(9, "wait for Cs, Ds", "op", retires="cp.async", pending=1),
]
STATES = [ir.State(-1), *(ir.State(site.id) for site in SITES)]

GEMM, WAIT_1, WAIT_0, LOAD_A, LOAD_B, WAIT_TILE, WAIT_SLOT, LOAD_C, LOAD_D, WAIT_COPY = range(10)


def warp(steps: Sequence[tuple[int, int]], *, number: int = 0, begin: int = 1000) -> Warp:
    """A warp that is at each site for some ns, one after the other; -1 is outside of all."""
    marks, now = [], 0
    for site, ns in steps:
        marks.append((now, ir.State(site)))
        now += ns
    return Warp(0, number, 0, begin, marks, now, begin_ns=begin)


def timeline(warps: Sequence[Warp]) -> Timeline:
    """What these warps did; a cycle is 1 ns."""
    return timeline_of(slots_of(warps, STATES), SITES, STATES, ns_per_cycle=1.0)


def flights(warps: Sequence[Warp], queue: str) -> Flights:
    """What they had under way in one queue."""
    return next(f for f in flights_of(timeline(warps), SITES) if f.queue == queue)


def _rows(found: Flights) -> list[tuple[float, float, float]]:
    return list(zip(found.issued, found.wait, found.retired, strict=True))


def test_products_are_retired_but_for_the_youngest() -> None:
    """A wait that leaves one running retires all before it; the last one retires all."""
    steps = [(GEMM, 10), (GEMM, 10), (WAIT_1, 30), (-1, 5), (GEMM, 10), (WAIT_1, 30), (WAIT_0, 7)]
    found = flights([warp(steps)], "wgmma")
    assert _rows(found) == [(0, 20, 50), (10, 65, 95), (55, 95, 102)]
    assert found.exposed_ns.tolist() == [30, 30, 7]
    assert found.flight_ns.tolist() == [50, 85, 47]
    assert (found.site.tolist(), found.waited_at.tolist()) == ([0, 0, 0], [1, 1, 2])
    assert found.unretired == 0


def test_copies_that_follow_one_another_are_one_group() -> None:
    """C and D are loaded together, twice in a row at first: two groups, not one nor four."""
    load = [(LOAD_C, 3), (LOAD_D, 3)]
    found = flights([warp([*load, *load, (WAIT_COPY, 20), *load, (WAIT_COPY, 9)])], "cp.async")
    assert _rows(found) == [(0, 12, 32), (6, 38, 47)]
    assert found.unretired == 1


def test_a_ring_is_read_by_other_warps() -> None:
    """The k-th fill is retired by the k-th wait of each consumer; clocks differ by their begin."""
    fill = [(WAIT_SLOT, 5), (LOAD_A, 2), (LOAD_B, 2)]
    producer = warp([*fill, *fill, *fill], number=4, begin=1000)
    consumers = [
        warp([(WAIT_TILE, 20), (GEMM, 50), (WAIT_TILE, 1), (GEMM, 9)], begin=1010),
        warp([(WAIT_TILE, 25), (GEMM, 50)], number=1, begin=1010),
    ]
    found = flights([*consumers, producer], RING)
    assert _rows(found) == [(5, 10, 30), (14, 80, 81), (5, 10, 35)]
    assert found.site.tolist() == [LOAD_A] * 3
    assert found.unretired == 1 + 2


def test_what_was_cut_off_is_not_guessed() -> None:
    """A ring whose first fills are not known, and a wait whose end is not, retire nothing."""
    fill = [(WAIT_SLOT, 5), (LOAD_A, 2)]
    producer = warp([*fill, *fill], number=4)
    producer.limit, producer.goes_round = 2, True
    consumer = warp([(WAIT_TILE, 20), (WAIT_TILE, 20)])
    found = flights([consumer, producer], RING)
    assert (len(found), found.unretired) == (0, 1)
    stopped = warp([(GEMM, 10), (WAIT_0, 30), (GEMM, 10)])
    stopped.limit = 2
    assert (len(flights([stopped], "wgmma")), flights([stopped], "wgmma").unretired) == (0, 1)


def test_a_visit_that_goes_on_is_no_second_start() -> None:
    """A mark that comes back to a site without visiting it anew starts nothing."""
    states = [ir.State(-1), ir.State(0), ir.State(0, 1), ir.State(2)]
    marks = [(0, states[1]), (5, states[2]), (9, states[3])]
    slots = slots_of([Warp(marks=marks, length=20)], states)
    found = flights_of(timeline_of(slots, SITES, states, ns_per_cycle=1.0), SITES)
    assert [len(f) for f in found if f.queue == "wgmma"] == [1]


def test_nothing_was_recorded() -> None:
    """Each queue is there, with nothing in it."""
    assert [(f.queue, len(f)) for f in flights_of(timeline([]), SITES)] == [
        ("wgmma", 0),
        (RING, 0),
        ("cp.async", 0),
    ]


@given(st.lists(st.sampled_from([GEMM, WAIT_1, WAIT_0]), max_size=20))
def test_in_order_queues_equal_a_list_that_is_emptied_from_its_front(sites: list[int]) -> None:
    """Whatever the order of starts and waits."""
    running: list[int] = []
    expected: list[tuple[float, float, float]] = []
    for number, site in enumerate(sites):
        if site == GEMM:
            running.append(10 * number)
            continue
        while len(running) > (1 if site == WAIT_1 else 0):
            expected.append((running.pop(0), 10 * number, 10 * number + 10))
    found = flights([warp([(site, 10) for site in sites])], "wgmma")
    assert _rows(found) == [pytest.approx(row) for row in expected]
    assert found.unretired == len(running)
