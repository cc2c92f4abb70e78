"""What kernels wrote about their inside, which arrives after their launches are over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tileprof.profiler as profiler
from tests.profiler_programs import Clock, FakeKernel, as_ours, expect, site_times, tree
from tileprof import ir
from tileprof.errors import Location
from tileprof.instrument.decode.samples import Counts, SampleTotals
from tileprof.profile import Profile
from tileprof.profile.node_names import CAPTURED
from tileprof.profiler.host import scopes
from tileprof.profiler.session.session import Session
from tileprof.profiler.tree.totals import DeviceTotals
from tileprof.remarks import Remark
from tileprof.remarks.measured import NotWhatRuns, PartlySeen
from tileprof.runtime import hooks
from tileprof.runtime.hooks import (
    KernelDescription,
    LateDescription,
    LateListener,
    Launch,
    Measured,
    SiteDescription,
)

SITES = (SiteDescription(0, "load", "scope", Location("k.py", 10)),)
Seat = tuple[LateListener, int]


def kernel(name: str = "k", **more: object) -> FakeKernel:
    """One with a site called load."""
    described = KernelDescription(name, "cuda:0", sites=SITES, **more)  # type: ignore[arg-type]
    return FakeKernel(name, description=described)


@as_ours
def launched(which: FakeKernel, time: int = 100) -> Seat:
    """A launch, and who takes what is known of it later."""
    listener = hooks.listener
    assert listener is not None
    token = listener.begin(which)
    listener.end(token, Launch(which, "cuda:0", (1,), 4, time, 0))
    return listener.late, token


def loads(total: int, whole: int) -> Measured:
    """Of one launch with two warps that loaded once each."""
    return Measured(site_times([-1], [0], [2], [total], whole), launches=1, warps=2)


@pytest.fixture
def session() -> Iterator[Session]:
    """One on a clock that stands still."""
    made = profiler.start(clock=Clock(), context="scopes")
    yield made
    made.finalize()


def shown(profile: Profile) -> str:
    """Times and visits."""
    profile.check()
    return tree(profile, "time", "count", "block_time")


def test_sites_arrive_later(session: Session) -> None:
    """They become shares of the kernel's time, of all its launches; as often as they come."""
    which = kernel()
    late, token = launched(which, 300)
    launched(which, 60)
    assert "load" not in shown(session.snapshot())
    late.measured(token, loads(20, 40), replayed=False)
    late.measured(token, loads(10, 80), replayed=False)
    assert shown(session.snapshot()) == expect("""
        kernel k time=270 count=2
          site load time=90 count=4 block_time=30
    """)


def test_the_sessions_that_listened_get_them() -> None:
    """A session that begins later has none of it; one that paused since has all of it."""
    first = profiler.start(clock=Clock(), context="scopes")
    seat = launched(kernel())
    first.deactivate()
    second = profiler.start(clock=first.options.clock, context="scopes")
    other = launched(kernel("other"))
    seat[0].measured(seat[1], loads(20, 40), replayed=False)
    other[0].measured(other[1], loads(10, 40), replayed=False)
    assert shown(first.finalize()) == expect("""
        kernel k time=50 count=1
          site load time=50 count=2 block_time=20
    """)
    assert shown(second.finalize()) == expect("""
        kernel other time=75 count=1
          site load time=25 count=2 block_time=10
    """)
    assert seat[0].closed
    seat[0].measured(seat[1], loads(20, 40), replayed=False)


def test_what_ends_a_session_is_collected_first() -> None:
    """The runtime is asked for all that there is; it tells after the last launch is over."""
    asked: list[bool] = []
    seats: list[Seat] = []

    class Holder:
        def collect(self, final: bool) -> None:
            asked.append(final)
            for late, token in seats:
                late.measured(token, loads(20, 40), replayed=False)
            seats.clear()

    holder = Holder()
    hooks.collectors.append(holder)
    try:
        with profiler.profile(clock=Clock(), context="scopes") as session:
            seats.append(launched(kernel()))
    finally:
        hooks.collectors.remove(holder)
    assert asked == [True]
    assert session.profile is not None
    assert "site load time=50" in shown(session.profile)


def test_losses_are_told(session: Session) -> None:
    """Of a kernel with its facts; of nothing in particular in the provenance."""
    late, token = launched(kernel())
    launched(kernel("untouched"))
    late.measured(token, Measured(launches=3, warps=24, skipped=2), replayed=False)
    late.measured(token, Measured(unread=1), replayed=False)
    late.lost("warps found no room", 5)
    late.lost("warps found no room", 7)
    profile = session.snapshot()
    first, second = profile.tables.kernels
    assert first.attributes == {
        "recorded_launches": 3,
        "recorded_warps": 24,
        "skipped_launches": 2,
        "unread_launches": 1,
    }
    assert second.attributes == {}
    assert profile.tables.provenance["lost records"] == "12 warps found no room"


@pytest.mark.parametrize(("whole", "share"), [(1000, None), (1005, 0.995), (4000, 0.25)])
def test_what_part_was_seen(session: Session, whole: int, share: float | None) -> None:
    """Where records were lost: a fact, and where it is much a remark; shares are of that part."""
    late, token = launched(kernel())
    times = site_times([-1], [0], [2], [800], 1000)
    times = replace(times, whole_ns=whole, lost=int(whole > 1000))
    late.measured(token, Measured(times, launches=1, warps=2), replayed=False)
    profile = session.snapshot()
    (found,) = profile.tables.kernels
    assert found.attributes.get("recorded_share") == (share and pytest.approx(1000 / whole))
    said = [r.decision for r in found.remarks]
    assert said == ([PartlySeen(0.25)] if share == 0.25 else [])
    assert profile.node(profile.find("load", "site")[0]).total("time") == 80


def test_what_is_known_of_a_kernel_later(session: Session) -> None:
    """Asked whenever a profile is made; what devices tell goes first."""
    known: list[LateDescription] = [LateDescription()]
    launched(kernel(attributes={"registers": 40}, later=lambda: known[0]))
    assert session.snapshot().tables.kernels[0].attributes == {"registers": 40}
    remark = Remark(NotWhatRuns("k", registers=40, clean_registers=38), "measurement")
    more = (SiteDescription(1, "store", "op", None),)
    known[0] = LateDescription((remark,), more, {"registers": 0, "clean_registers": 38})
    (held,) = session.snapshot().tables.kernels
    assert held.attributes == {"registers": 40, "clean_registers": 38}
    assert held.remarks == (remark,)
    assert [s.name for s in held.sites] == ["load", "store"]


def test_replays_have_the_sites_of_their_capture(session: Session) -> None:
    """They go to the kernel below each launch of the graph, in proportion to the time there."""
    recorder = session.recording.recorder
    with scopes.scope("warm-up"):
        late, token = launched(kernel(), -1)
    for name, time in (("first", 60), ("second", 20)):
        root = recorder.tree.child(recorder.tree.root, "api", name, None)
        at = recorder.tree.child(root, "scope", CAPTURED, None)
        captured = recorder.tree.nodes[token]
        assert captured.parent is not None
        node = recorder.tree.like(recorder.tree.like(at, captured.parent), captured)
        totals = DeviceTotals("kernel")
        totals.count = totals.least = totals.most = totals.sum = time
        session.store.take_device(node.index, totals)
    late.measured(token, loads(40, 80), replayed=True)
    late.measured(token, loads(40, 80), replayed=True)
    assert shown(session.snapshot()) == expect("""
        scope warm-up count=1
          kernel k count=1
        api first
          scope captured at
            scope warm-up
              kernel k time=30 count=60
                site load time=30 count=3 block_time=60
        api second
          scope captured at
            scope warm-up
              kernel k time=10 count=20
                site load time=10 count=1 block_time=20
    """)
    assert len(session.snapshot().tables.node_kernels) == 3


def test_samples_share_out_the_time_of_their_kernel(session: Session) -> None:
    """By where warps were seen; a site that was not is left out; batches and launches add up."""
    sites = (
        SiteDescription(0, "loop k", "stage"),
        SiteDescription(1, "gemm", "op", parent=0),
        SiteDescription(2, "wait for gemm", "op", parent=0),
        SiteDescription(3, "write C", "op"),
    )
    which = FakeKernel("k", description=KernelDescription("k", "cuda:0", sites=sites))
    late, token = launched(which, 300)
    launched(which, 100)
    for seen in ([10, 0, 30, 10], [10, 20, 10, 10]):
        late.measured(token, Measured(samples=seen_in(sites, [seen])), replayed=False)
    profile = session.snapshot()
    profile.check()
    assert tree(profile, "time", "kernel_samples", "looks") == expect("""
        kernel k time=80 kernel_samples=20 looks=100
          site loop k time=80 kernel_samples=20
            site gemm time=160 kernel_samples=40
            site wait for gemm time=80 kernel_samples=20
    """)


def test_samples_by_role(session: Session) -> None:
    """Variants may differ in their roles; what is of none is what is left; times add up."""
    sites = (
        SiteDescription(0, "load", "op"),
        SiteDescription(1, "gemm", "op"),
        SiteDescription(2, "write", "op"),
    )
    which = FakeKernel("k", description=KernelDescription("k", "cuda:0", sites=sites))
    late, token = launched(which, 100)
    with_roles = seen_in(sites, [[0, 0, 30, 5], [7, 23, 0, 0]])
    late.measured(token, Measured(samples=with_roles), replayed=False)
    late.measured(token, Measured(samples=seen_in(sites, [[1, 1, 1, 1]])), replayed=False)
    late.measured(token, Measured(samples=with_roles), replayed=False)
    profile = session.snapshot()
    profile.check()
    columns = "time", "kernel_samples", "looks", "consumer_samples", "consumer_looks"
    assert tree(profile, *columns, "producer_samples", "producer_looks") == expect("""
        kernel k time=12 kernel_samples=15 looks=4 consumer_looks=70 producer_samples=14 producer_looks=60
          site load time=34 kernel_samples=47 producer_samples=46
          site gemm time=45 kernel_samples=61 consumer_samples=60
          site write time=9 kernel_samples=11 consumer_samples=10
    """)  # noqa: E501


def seen_in(sites: tuple[SiteDescription, ...], seen: list[list[int]]) -> SampleTotals:
    """Warps that were seen so often in no site, in sites 0, 1, 2; the second one loads."""
    table = [ir.Site(s.id, s.name, s.kind, parent=s.parent) for s in sites]
    states = [ir.State(-1), *(ir.State(n) for n in range(3))]
    return SampleTotals.of(Counts(max(map(sum, seen)), np.array(seen)), table, states, 1)
