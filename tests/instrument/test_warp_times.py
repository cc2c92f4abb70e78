"""From the slots of warps to times by site: against a reading that goes mark by mark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.instrument.warps import Visit, Warp, known_ns, sites_of, slots_of, visits_of
from tests.spread import examples
from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode import warp_times as module
from tileprof.instrument.decode.warp_times import decode_slots
from tileprof.instrument.slots import Slots
from tileprof.profile.sketch import Sketch, bucket_of, split


@st.composite
def _marks(draw: st.DrawFn, sites: list[ir.Site]) -> tuple[list[tuple[int, ir.State]], int]:
    """A walk over visits of the tree, and how long it took."""
    children = defaultdict[int, list[int]](list)
    for site in sites:
        children[-1 if site.parent is None else site.parent].append(site.id)
    path: list[int] = []
    marks, now = [], 0
    steps = st.one_of(st.integers(20, 500), st.integers(20, 500), st.integers(2**20, 2**31))
    for _ in range(draw(st.integers(0, 12))):
        now += draw(steps)
        # A walk that has just begun goes on with nothing.
        keep = draw(st.integers(0, len(path)))
        path = path[:keep]
        for _ in range(draw(st.integers(0, 3))):
            below = children[path[-1] if path else -1]
            if not below:
                break
            path = [*path, draw(st.sampled_from(below))]
        marks.append((now, ir.State(path[-1] if path else -1, keep)))
    return marks, now + draw(steps)


@st.composite
def _launches(draw: st.DrawFn) -> tuple[list[ir.Site], list[Warp]]:
    """Warps of a few blocks and launches; some alike, some with records missing."""
    size = draw(st.integers(1, 6))
    sites = sites_of([None, *(draw(st.none() | st.integers(0, i)) for i in range(size - 1))])
    walks = draw(st.lists(_marks(sites), min_size=1, max_size=3))
    scale = draw(st.sampled_from([1, 2]))
    warps = []
    for tag in range(draw(st.integers(1, 2))):
        for block in range(draw(st.integers(1, 3))):
            for number in range(draw(st.integers(1, 3))):
                marks, length = draw(st.sampled_from(walks))
                begin = draw(st.integers(0, 2**33))
                limit = draw(st.sampled_from([1 << 30, 1 << 30, 0, 1, 2, 5]))
                goes_round = draw(st.booleans()) and limit > 0
                ns = tag * 10**12 + block
                warps.append(
                    Warp(block, number, tag, begin, marks, length, limit, goes_round, ns, scale)
                )
    return sites, warps


def _states(warps: Iterable[Warp]) -> list[ir.State]:
    found = dict.fromkeys(state for warp in warps for _, state in warp.marks)
    return list(dict.fromkeys([ir.State(-1), *found]))


def _rounded(values: Iterable[float]) -> list[int]:
    return [round(value) for value in np.rint(list(values)).tolist()]


class _Site:
    """What the slow reading gives of one site."""

    def __init__(self, visits: list[tuple[Warp, Visit]], consumers: int) -> None:
        self.visits = [v for _, v in visits]
        whole = [v.ns for v in self.visits if v.whole]
        self.whole = whole or [sum(v.ns for v in self.visits) / len(self.visits)]
        self.sketch = Sketch.of(np.floor(whole)) if whole else None
        self.workers = defaultdict[tuple[int, int, int], float](float)
        for warp, visit in visits:
            # Where nothing is known of a worker's visits but that there were some, it counts not.
            if visit.ns > 0:
                self.workers[warp.tag, warp.block, warp.number] += visit.ns
        self.blocks = self._grouped(lambda key: key[:2])
        self.groups = self._grouped(lambda key: (*key[:2], key[2] < consumers))
        self.producer = sum(v for k, v in self.workers.items() if k[2] >= consumers)

    def _grouped(self, by: object) -> dict[tuple[int, ...], list[float]]:
        made = defaultdict[tuple[int, ...], list[float]](list)
        for key, value in self.workers.items():
            assert callable(by)
            made[by(key)].append(value)
        return made

    def row(self) -> list[float]:
        """The columns of `SiteTimes` and of `Spread`."""
        blocks = {key: sum(v) / len(v) for key, v in self.blocks.items()}
        launches = defaultdict[int, list[float]](list)
        for (tag, _), value in blocks.items():
            launches[tag].append(value)
        exact = [
            len(self.visits), sum(v.ns for v in self.visits), min(self.whole), max(self.whole),
            len(blocks), min(blocks.values(), default=0), max(blocks.values(), default=0),
        ]  # fmt: skip
        return [
            *_rounded(exact),
            self.producer,
            len(self.workers),
            sum(sum(v) / len(v) for v in self.groups.values()),
            sum(max(v) for v in self.groups.values()),
            sum(sum(v) / len(v) for v in launches.values()),
            sum(max(v) for v in launches.values()),
        ]


def _rows(times: SiteTimes) -> dict[int, list[float]]:
    spread = times.spread
    assert spread is not None
    columns = [
        times.count, times.total_ns, times.min_ns, times.max_ns, times.blocks, times.block_min_ns,
        times.block_max_ns, spread.producer_ns, spread.workers, spread.group_mean_ns,
        spread.group_most_ns, spread.launch_mean_ns, spread.launch_most_ns,
    ]  # fmt: skip
    return {s: [float(c[i]) for c in columns] for i, s in enumerate(times.site.tolist())}


def _sketches(times: SiteTimes) -> dict[int, Sketch]:
    found = times.histograms
    assert found is not None
    sketches = split(found.starts.tolist(), found.bucket, found.count)
    return dict(zip(times.site.tolist(), sketches, strict=True))


@given(_launches(), st.sampled_from([0, 3, 16]), st.sampled_from([1, 7, 1 << 15]))
@settings(max_examples=examples(120), deadline=None)
def test_decoding_equals_reading_mark_by_mark(
    launches: tuple[list[ir.Site], list[Warp]], record_cycles: int, piece: int
) -> None:
    """Clocks that wrap, loops, several warps, blocks and launches, missing begins and ends."""
    sites, warps = launches
    states = _states(warps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        times = decode_slots(
            slots_of(warps, states), sites, states, record_cycles=record_cycles,
            consumer_warps=2, ns_per_cycle=warps[0].ns_per_cycle,
        )  # fmt: skip
    by_site = defaultdict[int, list[tuple[Warp, Visit]]](list)
    for warp in warps:
        for visit in visits_of(warp, sites, record_cycles):
            by_site[visit.site].append((warp, visit))
    expected = {site: _Site(visits, 2) for site, visits in by_site.items()}
    found = _rows(times)
    assert found.keys() == expected.keys()
    for site, each in expected.items():
        assert found[site] == pytest.approx(each.row(), rel=1e-12)
    sketches = _sketches(times)
    assert {s: k for s, k in sketches.items() if k.count} == {
        s: e.sketch for s, e in expected.items() if e.sketch is not None
    }
    assert times.block_ns == round(sum(known_ns(w, record_cycles) for w in warps))
    assert times.unmatched == sum(not v.whole for e in expected.values() for v in e.visits)
    assert times.lost == sum(len(w.marks) - len(w.kept) for w in warps)


LOOP = sites_of([None, 0, 1, 1, None])
"""A kernel: a loop in it, two steps in the loop, and an epilogue."""


def _loop_warp(turns: int, *, block: int = 0, number: int = 0, step: int = 10) -> Warp:
    """A warp that turns the loop of `LOOP`; its steps take `step` and twice that."""
    marks, now = [(5, ir.State(0, 0))], 5 + step
    for turn in range(turns):
        marks += [(now, ir.State(2, 1 if turn == 0 else 2)), (now + step, ir.State(3, 2))]
        now += 3 * step
    marks += [(now, ir.State(4, 0))]
    return Warp(block, number, 0, 2**32 - 20, marks, now + step, begin_ns=1000)


def test_a_loop() -> None:
    """Steps are visited at each turn, the loop once; the clock wraps meanwhile."""
    warps = [_loop_warp(3), _loop_warp(1, block=1)]
    states = _states(warps)
    times = decode_slots(slots_of(warps, states), LOOP, states, ns_per_cycle=1.0)
    assert times.parents.tolist() == [-1, 0, 1, 1, -1]
    assert times.site.tolist() == [0, 1, 2, 3, 4]
    assert times.count.tolist() == [2, 2, 4, 4, 2]
    assert times.total_ns.tolist() == [140, 120, 40, 80, 20]
    assert times.max_ns.tolist() == [100, 90, 10, 20, 10]
    assert times.block_ns == 115 + 55
    assert times.quantile(0.5).tolist() == [40, 30, 10, 20, 10]
    spread = times.spread
    assert spread is not None
    assert spread.over_blocks[1] == pytest.approx(90 / 60)
    assert spread.over_workers.tolist() == [1] * 5


def test_times_without_what_marks_take() -> None:
    """A mark's own time is taken from the visit in which it is made."""
    warps = [_loop_warp(2)]
    states = _states(warps)
    times = decode_slots(slots_of(warps, states), LOOP, states, record_cycles=4, ns_per_cycle=1.0)
    assert times.total_ns.tolist() == [70 - 5 * 4, 60 - 4 * 4, 2 * 6, 2 * 16, 10 - 4]
    assert times.marks is not None
    assert times.marks.count.tolist() == [5, 4, 2, 2, 1]
    assert times.marks.ns.tolist() == [20, 16, 8, 8, 4]
    twice = SiteTimes.merge([times, times])
    assert twice.marks is not None
    assert (twice.marks.count.tolist(), twice.whole_ns) == ([10, 8, 4, 4, 2], 2 * times.whole_ns)


@pytest.mark.parametrize("goes_round", [False, True])
def test_how_much_was_seen(goes_round: bool) -> None:
    """The time of warps with what was lost of them, beside that in which their records are."""
    warps = [_loop_warp(9), _loop_warp(9, block=1)]
    warps[1].limit, warps[1].goes_round = 4, goes_round
    states = _states(warps)
    times = decode_slots(slots_of(warps, states), LOOP, states, record_cycles=1, ns_per_cycle=1.0)
    assert times.whole_ns == 2 * (warps[0].length - len(warps[0].marks))
    assert times.block_ns == round(sum(known_ns(w, 1) for w in warps)) < times.whole_ns


def test_a_block_that_runs_again_under_one_tag() -> None:
    """Of a graph that is replayed, block 0 is two blocks; warps of one block are told by number."""
    warps = [_loop_warp(1, number=n) for n in (0, 1, 0, 1)]
    states = _states(warps)
    times = decode_slots(slots_of(warps, states), LOOP, states, ns_per_cycle=1.0)
    assert times.blocks.tolist() == [2] * 5
    assert times.spread is not None
    assert times.spread.workers.tolist() == [4] * 5


def test_launches_merge_as_if_read_together() -> None:
    """Sums, extremes, quantiles and spreads of two launches; a site of one only is kept."""
    parts = [_loop_warp(3), _loop_warp(0, block=1)]
    parts[1].tag, parts[1].begin_ns = 1, 10**6
    states = _states(parts)
    whole = decode_slots(slots_of(parts, states), LOOP, states, ns_per_cycle=1.0)
    merged = SiteTimes.merge(
        [decode_slots(slots_of([w], states), LOOP, states, ns_per_cycle=1.0) for w in parts]
    )
    assert merged.paths() == whole.paths()
    assert _rows(merged) == _rows(whole)
    assert _sketches(merged) == _sketches(whole)
    assert (merged.block_ns, merged.unmatched) == (whole.block_ns, whole.unmatched)


def test_nothing_was_recorded() -> None:
    """No slots; slots without records, whose time counts."""
    states = [ir.State(-1)]
    assert len(decode_slots(Slots.join([]), LOOP, states)) == 0
    times = decode_slots(slots_of([Warp(length=70)], states), [], states, ns_per_cycle=2.0)
    assert (len(times), times.block_ns) == (0, 140)


def test_a_state_that_the_kernel_does_not_have() -> None:
    """Records of another kernel are refused, with a way out."""
    warps = [_loop_warp(1)]
    slots = slots_of(warps, _states(warps))
    with pytest.raises(ProfileFileError, match="names state 4 of a kernel that has 2") as error:
        decode_slots(slots, LOOP, [ir.State(-1), ir.State(0)])
    assert error.value.hint


def test_warps_whose_clocks_make_no_sense_are_lost() -> None:
    """One whose clock goes back, one that ends before its last mark, one that rests too long."""
    warps = [_loop_warp(1) for _ in range(4)]
    for number, warp in enumerate(warps):
        warp.block = number
    warps[1].marks[2] = (1, warps[1].marks[2][1])
    warps[2].length = 20
    warps[3].length = 2**33
    states = _states(warps)
    times = decode_slots(slots_of(warps, states), LOOP, states, ns_per_cycle=1.0)
    alone = decode_slots(slots_of(warps[:1], states), LOOP, states, ns_per_cycle=1.0)
    assert _rows(times) == _rows(alone)
    assert times.lost == 3 * len(warps[0].marks)


def test_buckets_are_those_of_profiles() -> None:
    """Each bucket, at its least and its largest time, and fractions of a ns."""
    from tileprof.instrument.decode.buckets import BUCKETS, Histograms, middle_of, place_of
    from tileprof.profile import sketch

    powers = 2.0 ** np.arange(50)
    ns = np.concatenate([np.arange(3000), powers, powers - 1, powers * 1.03, powers + 0.75])
    places = place_of(ns)
    found = Histograms.of_places(places, np.ones(len(ns), np.int64), 1)
    expected = Sketch.of(np.floor(ns))
    assert split(found.starts.tolist(), found.bucket, found.count) == [expected]
    assert sketch.BUCKETS == BUCKETS
    numbers = bucket_of(np.floor(ns))
    np.testing.assert_array_equal(middle_of(numbers), sketch.value_of(numbers))
    shares = [0.0, 0.07, 0.5, 0.95, 1.0]
    assert [found.quantile(q)[0] for q in shares] == [expected.quantile(q) for q in shares]
