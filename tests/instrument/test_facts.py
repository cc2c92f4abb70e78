"""Facts of kernels: from timelines made by hand, whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.instrument.warps import Warp, slots_of
from tileprof import ir
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode import facts
from tileprof.instrument.decode.queues import flights_of
from tileprof.instrument.decode.timeline import timeline_of
from tileprof.instrument.decode.warp_times import decode_slots

RING = "ring of As, Bs"
SITES = [
    ir.Site(0, "producer", "stage"),
    ir.Site(1, "wait for a free slot", "op", None, 0),
    ir.Site(2, "load A", "op", None, 0, issues=RING),
    ir.Site(3, "consumer", "stage"),
    ir.Site(4, "prologue", "stage", None, 3),
    ir.Site(5, "wait for As, Bs", "op", None, 3, retires=RING),
    ir.Site(6, "gemm", "op", None, 3, issues="wgmma"),
    ir.Site(7, "wait for gemm", "op", None, 3, retires="wgmma"),
    ir.Site(8, "epilogue", "stage", None, 3),
    ir.Site(9, "write C", "op", None, 8),
]
STATES = [ir.State(-1)] + [ir.State(s.id, f) for s in SITES for f in (0, 1)]
PRODUCER, SLOT, LOAD, CONSUMER, PROLOGUE, TILE, GEMM, PRODUCT, EPILOGUE, WRITE = range(10)


def warp(number: int, *steps: tuple[int, int], block: int = 0) -> Warp:
    """A warp that is at each site for some ns; roles and stages go on around them."""
    marks, now = [], 0
    for site, ns in steps:
        marks.append((now, ir.State(site, int(now > 0))))
        now += ns
    return Warp(block, number, 0, 5000, marks, now, begin_ns=5000)


def kernel(*, slow: int = 0) -> list[Warp]:
    """A block: a producer that loads two tiles, and two consumers, the second `slow` ns slower."""
    producer = warp(2, (SLOT, 10), (LOAD, 10), (SLOT, 20), (LOAD, 10))
    first = [(PROLOGUE, 20), (TILE, 40), (GEMM, 10), (PRODUCT, 70), (TILE, 10), (GEMM, 10)]
    last = [(PRODUCT, 40), (WRITE, 50)]
    consumers = [warp(n, *first, *last[:1], (WRITE, 50 + n * slow)) for n in (0, 1)]
    return [*consumers, producer]


def times_of(warps: list[Warp]) -> SiteTimes:
    """Times by site; warps 0 and 1 are consumers."""
    slots = slots_of(warps, STATES)
    return decode_slots(slots, SITES, STATES, consumer_warps=2, ns_per_cycle=1.0)


def test_shares_of_roles_and_stages() -> None:
    """The producer is idle for 30 of 50 ns, each consumer for 50 of 250; stages are the
    consumers'."""
    found = facts.shares(times_of(kernel()), SITES)
    assert {f.kind: (f.ns, f.of_ns) for f in found} == {
        "producer idle": (30, 50),
        "consumer idle": (100, 500),
        "prologue": (40, 500),
        "epilogue": (100, 500),
    }
    assert [str(f.decision) for f in found] == [
        "Producers wait 60.0% of their time for a free slot.",
        "Consumers wait 20.0% of their time for tiles that are not there yet.",
        "The prologue takes 8.0% of the consumers' time.",
        "The epilogue takes 20.0% of the consumers' time.",
    ]


def test_a_kernel_without_producers() -> None:
    """Waits for cp.async are waits for tiles; nothing is said of producers."""
    sites = [ir.Site(0, "wait for As", "op", retires="cp.async"), ir.Site(1, "gemm", "op")]
    marks = [(0, ir.State(0)), (30, ir.State(1))]
    states = [ir.State(-1), ir.State(0), ir.State(1)]
    slots = slots_of([Warp(marks=marks, length=100)], states)
    found = facts.shares(decode_slots(slots, sites, states, ns_per_cycle=1.0), sites)
    assert [(f.kind, f.share) for f in found] == [("consumer idle", 0.3)]


def test_a_stage_within_a_stage_of_its_name_counts_once() -> None:
    """The epilogue of an inner loop lies in that of the outer one."""
    sites = [ir.Site(0, "epilogue", "stage"), ir.Site(1, "epilogue", "stage", None, 0)]
    states = [ir.State(-1), ir.State(0), ir.State(1, 1)]
    slots = slots_of([Warp(marks=[(0, states[1]), (40, states[2])], length=100)], states)
    found = facts.shares(decode_slots(slots, sites, states, ns_per_cycle=1.0), sites)
    assert [(f.kind, f.ns, f.of_ns) for f in found] == [("epilogue", 100, 100)]


def test_exposed_waits() -> None:
    """Per visit, the costliest first: 4 visits for products (70 and 40 ns each), 4 for tiles (40
    and 10), 2 for slots; of 550 ns of three warps."""
    found = facts.exposed_waits(times_of(kernel()), SITES)
    shown = [(f.name, f.visits, f.mean_ns, f.share) for f in found]
    assert shown == [
        ("wait for gemm", 4, 55, 220 / 550),
        ("wait for As, Bs", 4, 25, 100 / 550),
        ("wait for a free slot", 2, 15, 30 / 550),
    ]
    assert [f.late_ns for f in found] == [70.5, 40, 20]
    assert str(found[1].decision) == (
        "“wait for As, Bs” waits 25 ns a visit, 5 % of them for more than 40 (18.2%)."
    )


def test_hidden_work_and_overlap() -> None:
    """Loads fly 50 + 110 ns and are waited for 40 + 10, of each consumer; products fly 80 + 50."""
    slots = slots_of(kernel(), STATES)
    flights = flights_of(timeline_of(slots, SITES, STATES, ns_per_cycle=1.0), SITES)
    hidden = {f.queue: f for f in facts.hidden_work(flights)}
    ring, products = hidden[RING], hidden["wgmma"]
    assert (ring.groups, ring.flight_ns, ring.exposed_ns) == (4, 2 * 160, 2 * 50)
    assert (products.groups, products.flight_ns, products.exposed_ns) == (4, 2 * 130, 2 * 110)
    assert ring.share == pytest.approx(1 - 50 / 160)
    assert "68.8% passes while the warp does something else" in str(ring.decision)
    both = facts.overlap(flights)
    assert both is not None
    # Loads 10–60 and 40–150, products 60–140 and 150–200.
    assert (both.loads_ns, both.products_ns, both.both_ns) == (140, 130, 80)
    assert both.share == pytest.approx(80 / 130)
    assert str(both.decision) == (
        "While matrix products are under way, loads are too for 61.5% of the time."
    )


def test_overlap_needs_both() -> None:
    """A kernel that only loads."""
    slots = slots_of(kernel()[2:], STATES)
    flights = flights_of(timeline_of(slots, SITES, STATES, ns_per_cycle=1.0), SITES)
    assert facts.overlap(flights) is None
    assert facts.hidden_work(flights) == []


def test_imbalance_of_warps() -> None:
    """The second consumer writes for 150 ns, the first for 50: 1.5 times the mean of 100."""
    found = facts.imbalances(times_of(kernel(slow=100)), SITES)
    assert {f.over for f in found} == {"warps"}
    factors = {f.name: f.factor for f in found}
    assert factors == {"write C": 1.5, "epilogue": 1.5, "consumer": pytest.approx(350 / 300)}
    assert (
        str(found[0].decision)
        == "At “epilogue” the slowest warp of a block takes 1.50 times the mean."
    )
    assert facts.imbalances(times_of(kernel()), SITES) == []


def test_imbalance_of_blocks() -> None:
    """One block takes 300 ns, three take 100: twice the mean of 150."""
    warps = [warp(0, (GEMM, ns), block=b) for b, ns in enumerate((300, 100, 100, 100))]
    found = facts.imbalances(times_of(warps), SITES)
    assert {(f.over, f.name, f.factor) for f in found} == {
        ("blocks", "consumer", 2.0),
        ("blocks", "gemm", 2.0),
    }


def test_no_facts_of_nothing() -> None:
    """No times, no facts."""
    nothing = times_of([])
    assert facts.shares(nothing, SITES) == []
    assert facts.exposed_waits(nothing, SITES) == []
    assert facts.imbalances(nothing, SITES) == []
    assert facts.overlap([]) is None
    assert np.isnan(nothing.quantile(0.5)).all()
