"""Shares of the samples of kernels: by site and role, by line, with intervals from counts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tileprof.errors import Location
from tileprof.profile import (
    Metric,
    Profile,
    TreeBuilder,
    filter_nodes,
    flat,
    load,
    merge,
    prune,
    save,
)
from tileprof.profile.shares import Share, line_shares, roles_of, shares_of

NAMES = ("kernel_samples", "looks", "consumer_samples", "consumer_looks", "producer_samples",
         "producer_looks")  # fmt: skip


def profile_of(load_: int = 20, gemm: int = 60, outside: int = 20, looks: int = 100) -> Profile:
    """One kernel without roles, and one with, called from a frame that has samples of its own."""
    builder = TreeBuilder()
    for name in NAMES:
        builder.declare(Metric(name, "1"))
    frame = builder.child(-1, "frame", "main")
    builder.add(frame, "samples", 1000)
    plain = builder.child(frame, "kernel", "plain")
    loop = builder.child(plain, "site", "loop", Location("k.py", 3))
    inner = [
        builder.child(loop, "site", name, Location("k.py", 4 + at))
        for at, name in enumerate(("load", "gemm"))
    ]
    for node, count in ((plain, outside), (inner[0], load_), (inner[1], gemm)):
        builder.add(node, "kernel_samples", count)
    builder.add(plain, "looks", looks)
    roles = builder.child(frame, "kernel", "roles")
    wait = builder.child(roles, "site", "wait", Location("k.py", 4))
    builder.add(roles, "consumer_looks", 50)
    builder.add(roles, "producer_looks", 20)
    for node, consumer, producer in ((roles, 10, 0), (wait, 40, 20)):
        builder.add(node, "kernel_samples", consumer + producer)
        builder.add(node, "consumer_samples", consumer)
        builder.add(node, "producer_samples", producer)
    return builder.snapshot()


def by_name(profile: Profile) -> dict[str, tuple[Share, ...]]:
    """The shares of sites."""
    return {profile.names[node]: shares for node, shares in shares_of(profile).items()}


def test_shares_are_of_the_kernel() -> None:
    """With what lies inside of a site; by role; none of frames and kernels."""
    found = by_name(profile_of())
    assert list(found) == ["loop", "load", "gemm", "wait"]
    assert [(s.role, s.samples, s.share) for s in found["loop"]] == [("block", 80, 0.8)]
    assert [(s.role, s.samples, s.share) for s in found["gemm"]] == [("block", 60, 0.6)]
    consumer, producer = found["wait"]
    assert (consumer.role, consumer.samples, consumer.share) == ("consumer", 40, 0.8)
    assert (producer.role, producer.samples) == ("producer", 20)
    assert math.isnan(producer.share)  # 20 looks tell nothing
    assert (producer.low, producer.high) == (0, 1)
    assert roles_of(profile_of()) == ("block", "consumer", "producer")


def test_intervals_are_those_of_wilson() -> None:
    """Numbers of the literature: 81 of 263 (Newcombe, 1998)."""
    found = Share.of("block", 81, 263, 263)
    assert (found.low, found.high) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert Share.of("block", 0, 100, 100).low == 0
    assert Share.of("block", 100, 100, 100).high == pytest.approx(1)
    few = Share.of("block", 60, 100, 29)
    assert math.isnan(few.share)


def test_intervals_hold_the_truth() -> None:
    """In 95 % of cases, or nearly."""
    random = np.random.default_rng(5)
    for truth in (0.02, 0.3):
        held = [Share.of("", int(n), 400, 400) for n in random.binomial(400, truth, 2000)]
        assert np.mean([s.low <= truth <= s.high for s in held]) == pytest.approx(0.95, abs=0.02)


def test_more_warps_than_looks_make_no_interval_narrower() -> None:
    """Trials are looks."""
    (few,), (many,) = (by_name(profile_of(20 * n, 60 * n, 20 * n, 100))["gemm"] for n in (1, 50))
    assert (many.low, many.high) == pytest.approx((few.low, few.high))
    assert many.samples == 3000


def test_operations_leave_shares_as_they_are(tmp_path: Path) -> None:
    """Folding and files; merged profiles have the samples of both; a flat tree has no sites."""
    profile = profile_of()
    pruned = prune(profile, "kernel_samples", 0.2)
    assert "load" not in pruned.names
    assert by_name(pruned)["loop"] == by_name(profile)["loop"]
    path = tmp_path / "a.tprof"
    save(profile, path)
    assert by_name(load(path)) == by_name(profile)
    (once,), (twice,) = by_name(profile)["gemm"], by_name(merge([profile, profile]))["gemm"]
    assert (twice.samples, twice.share) == (120, once.share)
    assert twice.high - twice.low < once.high - once.low
    assert shares_of(filter_nodes(profile, exclude="plain")).keys() == {2}
    assert shares_of(flat(profile)) == {}


def test_shares_by_line() -> None:
    """Of those kernels that were seen at the line, all roles together."""
    profile = profile_of()
    places = {
        node: (place.file, place.line)
        for node, place in enumerate(profile.locations) if place is not None
    }  # fmt: skip
    found = line_shares(profile, places)
    assert found["k.py", 5] == Share.of("", 60, 100, 100)
    assert found["k.py", 4] == Share.of("", 20 + 60, 100 + 70, 100 + 50)
    assert ("k.py", 3) not in found


def test_a_profile_without_samples() -> None:
    """It has no shares."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "kernel", "k"), "time", 5)
    profile = builder.snapshot()
    assert shares_of(profile) == {}
    assert line_shares(profile, {0: ("k.py", 1)}) == {}
    assert roles_of(profile) == ()
