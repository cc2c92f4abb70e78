"""The length of a cycle from clocks that step coarsely, and cycles from clocks that go round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileprof.instrument.decode.clocks import cycles_of, launch_clocks
from tileprof.instrument.slots import RECORD, SLOT, Slots


def _slots(count: int, length: int, *, step: int = 32, ghz: float = 1.75, seed: int = 0) -> Slots:
    """Warps of about so many cycles, begun at random, seen by a globaltimer of such steps."""
    draw = np.random.default_rng(seed)
    heads = np.zeros(count, SLOT)
    begin = draw.integers(10**9, 2 * 10**9, count)
    heads["begin_clock"] = begin
    heads["end_clock"] = begin + draw.integers(length, 2 * length, count)
    for name in ("begin", "end"):
        ns = heads[f"{name}_clock"] / ghz
        heads[f"{name}_ns"] = (ns // step).astype(np.uint64) * step
    return Slots(heads, np.empty(0, RECORD))


@pytest.mark.parametrize(("step", "length"), [(32, 20_000), (1024, 60_000), (1024, 10_000)])
def test_the_error_is_what_is_said(step: int, length: int) -> None:
    """Over many launches of 40 warps, the ratio is off by the standard error that is told."""
    found = [launch_clocks(_slots(40, length, step=step, seed=seed)) for seed in range(200)]
    off = np.array([each.ns_per_cycle[0] * 1.75 - 1 for each in found])
    said = np.array([each.error for each in found])
    assert math.sqrt(float((off**2).mean())) == pytest.approx(float(said.mean()), rel=0.3)
    assert said.mean() < 0.02


def test_warps_that_begin_at_one_stamp_are_one() -> None:
    """Of 64 warps that began and ended together no more is known than of one."""
    one = _slots(1, 100_000, step=1024)
    many = Slots(np.repeat(one.heads, 64), one.records)
    assert launch_clocks(many).error == launch_clocks(one).error > 0


def test_a_launch_that_is_too_short_takes_the_ratio_of_the_others() -> None:
    """One of 500 cycles beside one of 100,000."""
    short, long = _slots(3, 500, step=1024), _slots(30, 100_000, step=1024)
    short.heads["tag"] = 1
    clocks = launch_clocks(Slots.join([short, long]))
    assert clocks.ns_per_cycle * 1.75 == pytest.approx(1, rel=0.03)
    assert len(clocks.ns_per_cycle) == 33


def test_launches_that_are_all_too_short() -> None:
    """They take what is handed in; without that a cycle counts as 1 ns, and the error says so."""
    short = _slots(3, 200, step=1024)
    handed = launch_clocks(short, 0.6)
    assert handed.ns_per_cycle.tolist() == [0.6] * 3
    assert math.isnan(handed.error)
    unknown = launch_clocks(short)
    assert (unknown.ns_per_cycle.tolist(), unknown.error) == ([1.0] * 3, math.inf)


def test_two_launches_at_two_frequencies() -> None:
    """Each has its own ratio."""
    fast, slow = _slots(20, 50_000), _slots(20, 50_000, ghz=1.0)
    slow.heads["tag"] = 7
    found = launch_clocks(Slots.join([slow, fast])).ns_per_cycle
    assert found[[0, 39]] == pytest.approx([1.0, 1 / 1.75], rel=2e-3)


def _long(cycles: list[int], length: int, *, missing: int = 0, flags: int = 0) -> Slots:
    heads = np.zeros(1, SLOT)
    begin = 2**32 - 5
    heads[0]["begin_clock"], heads[0]["end_clock"] = begin, begin + length
    heads["kept"], heads["wanted"], heads["flags"] = len(cycles), len(cycles) + missing, flags
    records = np.array([((begin + c) % 2**32, 0) for c in cycles], RECORD)
    return Slots(heads, records)


@pytest.mark.parametrize(
    ("cycles", "length", "missing", "flags", "good"),
    [
        ([3, 100], 200, 0, 0, True),
        ([3, 3 * 2**30, 6 * 2**30, 9 * 2**30], 10 * 2**30, 0, 0, True),
        ([9 * 2**30, 10 * 2**30, 13 * 2**30], 14 * 2**30, 5, 1, True),
        ([3, 3 * 2**30], 9 * 2**30, 4, 0, True),
        ([3, 3 * 2**30], 9 * 2**30, 0, 0, False),
        ([3, 100], 50, 0, 0, False),
    ],
    ids=["short", "round twice", "newest kept", "oldest kept", "long rest", "after the end"],
)
def test_cycles(cycles: list[int], length: int, missing: int, flags: int, good: bool) -> None:
    """Cycles since the begin, over as many turns of 32 bits as there were."""
    found, sound = cycles_of(_long(cycles, length, missing=missing, flags=flags))
    assert sound.tolist() == [good]
    if good:
        assert found.tolist() == cycles
