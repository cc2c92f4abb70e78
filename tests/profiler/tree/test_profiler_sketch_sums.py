"""Sketches of nodes that are added to for as long as a program runs."""

from __future__ import annotations

import weakref

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profile import Sketch, split_sketches
from tileprof.profile.sketch import merged
from tileprof.profiler.host.store import Store
from tileprof.profiler.tree.sketch_sums import SketchSums
from tileprof.profiler.tree.totals import DeviceTotals

TIMES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=20)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), TIMES), max_size=8), max_size=6))
def test_sums_are_those_of_the_sketches(batches: list[list[tuple[int, list[int]]]]) -> None:
    """In however many parts they come; a node whose sketches are empty has none."""
    sums, pairs = SketchSums(), []
    for batch in batches:
        for index, times in batch:
            pairs.append((index, Sketch.of(np.array(times, np.uint64))))
            sums.add(*pairs[-1])
        sums.settle()
    expected = {index: sketch for index, sketch in merged(pairs).items() if sketch.count}
    assert sums.sketches() == expected
    assert list(sums.sketches()) == sorted(expected)


def handed_over(nodes: int, seed: int) -> tuple[list[Sketch], weakref.ref[npt.NDArray[np.int64]]]:
    """Sketches that lie one after the other, as totals come; and what tells when they are gone."""
    chance = np.random.default_rng(seed)
    buckets = np.concatenate([np.sort(chance.choice(200, 50, replace=False))] * nodes)
    sketches = split_sketches(range(0, nodes * 50 + 1, 50), buckets, np.ones(nodes * 50, np.int64))
    base = sketches[0].counts.base
    assert isinstance(base, np.ndarray)
    return sketches, weakref.ref(base)


def test_a_rare_node_does_not_keep_what_others_were_given_with_it() -> None:
    """Of a batch in which a node is the only time, no array stays."""
    store = Store()
    for batch in range(5):
        sketches, batch_alive = handed_over(100, batch)
        for index, sketch in enumerate(sketches):
            totals = DeviceTotals("kernel", count=50, sketch=sketch)
            store.take_device(index if index else 1000 + batch, totals)
        store.sketches.settle()
        del sketches, sketch, totals
        assert batch_alive() is None
    assert {index: each.count for index, each in store.sketches.sketches().items()} == {
        **{index: 250 for index in range(1, 100)}, **{1000 + batch: 50 for batch in range(5)},
    }  # fmt: skip


def test_room_grows_with_the_buckets_and_not_with_the_batches() -> None:
    """Batches with the same buckets again take no more; new ones a part more than they need."""
    sums = SketchSums()
    rooms = []
    for batch in range(60):
        for index, sketch in enumerate(handed_over(20, batch % 20)[0]):
            sums.add(index, sketch)
        sums.settle()
        rooms.append(sums.room)
    found = sum(len(each.buckets) for each in sums.sketches().values())
    assert rooms[-1] == rooms[20]
    assert rooms[-1] <= 2 * (found + found // 8 + 512)
