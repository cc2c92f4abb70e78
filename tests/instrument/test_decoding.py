"""From records to times by nesting path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spread import examples
from tileprof.instrument import PathTimes, SiteTimes
from tileprof.instrument.decode import decoding as decoding_module
from tileprof.instrument.decode.decoding import decode, decode_records
from tileprof.instrument.records import Records, allocate, append, make_records

Event = tuple[int, int, str]
"""Block, clock, and `+site` or `-site`."""


def _records(events: list[Event]) -> Records:
    tags = [int(text[1:]) * 2 + (text[0] == "-") for _, _, text in events]
    return make_records([e[1] for e in events], [e[0] for e in events], tags)


def _table(times: SiteTimes) -> list[tuple[object, ...]]:
    return [
        (
            *(*e.path, "|", e.count, e.total_ns, e.min_ns, e.max_ns),
            *("|", e.blocks, e.block_min_ns, e.block_max_ns),
        )
        for e in times.entries()
    ]


def test_nested_sites_in_a_loop() -> None:
    """Site 1 runs twice in block 0 and once in block 1, always inside site 0."""
    block0 = ["+0", "+1", "-1", "+1", "-1", "-0"]
    block1 = ["+0", "+1", "-1", "-0"]
    events = [(0, c, e) for c, e in zip([0, 10, 14, 20, 26, 30], block0, strict=True)]
    events += [(1, c, e) for c, e in zip([40, 41, 43, 50], block1, strict=True)]
    times = decode_records([_records(events)])
    assert _table(times) == [
        (0, "|", 2, 40, 10, 30, "|", 2, 10, 30),
        (0, 1, "|", 3, 12, 2, 6, "|", 2, 2, 10),
    ]
    assert (times.block_ns, times.lost, times.unmatched) == (40, 0, 0)


def test_one_site_on_two_paths() -> None:
    """Site 2 inside 0 and inside 1 are two entries."""
    names = ["+0", "+2", "-2", "-0", "+1", "+2", "-2", "-1"]
    times = decode_records([_records([(0, 10 * i, n) for i, n in enumerate(names)])])
    assert times.paths() == [(0,), (0, 2), (1,), (1, 2)]
    assert times.parents.tolist() == [-1, 0, -1, 2]


def test_workers_are_added_up() -> None:
    """Each worker has its own buffer; a full one says how much it lost."""
    whole, small = allocate(8), allocate(3)
    append(whole, _records([(0, 0, "+0"), (0, 5, "-0")]))
    append(small, _records([(1, 0, "+0"), (1, 7, "-0"), (2, 9, "+0"), (2, 20, "-0")]))
    times = decode([whole, small])
    assert _table(times) == [(0, "|", 2, 12, 5, 7, "|", 2, 5, 7)]
    assert (times.lost, times.unmatched) == (1, 1)


def test_no_records() -> None:
    """A launch whose sites were never reached has no entries."""
    assert len(decode([allocate(4)])) == 0


@pytest.mark.parametrize(
    ("names", "table", "unmatched"),
    [
        (["-0"], [], 1),
        (["+0"], [], 1),
        (["+0", "+1", "-0"], [(0, "|", 1, 20, 20, 20, "|", 1, 20, 20)], 1),
        (["+0", "-1", "-0"], [(0, "|", 1, 20, 20, 20, "|", 1, 20, 20)], 1),
        (["+0", "+1", "-1"], [(0, 1, "|", 1, 10, 10, 10, "|", 1, 10, 10)], 1),
    ],
    ids=["end only", "begin only", "inner end lost", "foreign end", "outer end lost"],
)
def test_unmatched_records_are_counted(
    names: list[str], table: list[tuple[object, ...]], unmatched: int
) -> None:
    """A record without its other half is dropped and counted, the rest stays."""
    times = decode_records([_records([(0, 10 * i, n) for i, n in enumerate(names)])])
    shown = [row for row in _table(times) if row[len(row) - 8] != 0]
    assert (shown, times.unmatched) == (table, unmatched)


def _naive(events: list[Event]) -> tuple[dict[tuple[int, ...], list[int]], int]:
    """Durations by path, one record after another; a Python step each."""
    found: dict[tuple[int, ...], list[int]] = {}
    unmatched, opened, block = 0, list[tuple[int, int]](), -1
    for now, clock, name in events:
        if now != block:
            unmatched, opened, block = unmatched + len(opened), [], now
        site = int(name[1:])
        if name[0] == "+":
            opened.append((site, clock))
        elif site in [s for s, _ in opened]:
            while opened[-1][0] != site:
                opened.pop()
                unmatched += 1
            found.setdefault(tuple(s for s, _ in opened), []).append(clock - opened.pop()[1])
        else:
            unmatched += 1
    return found, unmatched + len(opened)


@st.composite
def _traces(draw: st.DrawFn) -> list[Event]:
    """Blocks of nested sites, often alike, sometimes with a record missing."""
    shapes: list[list[str]] = []
    for _ in range(draw(st.integers(1, 3))):
        names: list[str] = []
        opened: list[int] = []
        for step in draw(st.lists(st.integers(-2, 4), max_size=12)):
            if step < 0 and opened:
                names.append(f"-{opened.pop()}")
            elif step >= 0 and step not in opened:
                opened.append(step)
                names.append(f"+{step}")
        shapes.append(names + [f"-{s}" for s in reversed(opened)])
    blocks = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=12))
    events, clock = list[Event](), 0
    for block, names in enumerate(blocks):
        for name in names:
            clock += 1 + (clock * 7 + block) % 5
            events.append((block, clock, name))
    damaged: bool = draw(st.booleans())
    if events and damaged:
        del events[draw(st.integers(0, len(events) - 1))]
    return events


@given(_traces(), st.sampled_from([1, 5, 1 << 16]))
@settings(max_examples=examples(150), deadline=None)
def test_decoding_equals_walking_record_by_record(events: list[Event], piece: int) -> None:
    """Alike blocks, varied blocks, damaged blocks, pieces of any size: the same sums."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding_module, "PIECE", piece)
        times = decode_records([_records(events)])
    expected, unmatched = _naive(events)
    found = {e.path: e for e in times.entries() if e.count}
    assert {p: (e.count, e.total_ns, e.min_ns, e.max_ns) for p, e in found.items()} == {
        p: (len(t), sum(t), min(t), max(t)) for p, t in expected.items()
    }
    assert times.unmatched == unmatched


def test_merge_of_launches() -> None:
    """Counts and totals add, extremes combine, a path of one launch only is kept."""
    one = decode_records([_records([(0, 0, "+0"), (0, 5, "-0")])])
    two = decode_records([_records([(0, 0, "+1"), (0, 9, "-1"), (0, 9, "+0"), (0, 10, "-0")])])
    merged = SiteTimes.merge([one, two])
    assert merged.entries() == [
        PathTimes((0,), 2, 6, 1, 5, 2, 1, 5),
        PathTimes((1,), 1, 9, 9, 9, 1, 9, 9),
    ]
    assert merged.block_ns == 15


def test_a_record_lost_in_one_block_leaves_the_other_blocks_exact() -> None:
    """Of 100 equal blocks, the one that lost its end is missing and nothing else."""
    events = [(b, 10 * b + 5 * (e == "-0"), e) for b in range(100) for e in ("+0", "-0")]
    del events[51]
    times = decode_records([_records(events)])
    assert times.entries() == [PathTimes((0,), 99, 495, 5, 5, 99, 5, 5)]
    assert times.unmatched == 1
    assert times.count.dtype == np.int64
