"""Quantile sketches: exact arithmetic, merging, bytes; how those of nodes follow their nodes."""

from __future__ import annotations

import math
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies_profile import operations, profiles
from tileprof.errors import InternalError, ProfileFileError, UsageError
from tileprof.profile import (
    Profile,
    Sketch,
    Tables,
    TreeBuilder,
    diff,
    flat,
    limit_depth,
    load,
    merge,
    save,
)
from tileprof.profile.sketch import BUCKETS, bucket_of, sketches_from_bytes, value_of
from tileprof.profile.storage.sketch_bytes import decode

HEADER = Path(__file__).parents[2] / "tileprof" / "native" / "recorder" / "records" / "sketch.h"
NUMBERS = st.integers(0, 64).flatmap(lambda bits: st.integers(0, 2**bits - 1))
VALUES = st.lists(NUMBERS, max_size=60).map(lambda values: np.array(values, np.uint64))


# -- the arithmetic


@given(value=NUMBERS)
def test_a_bucket_knows_its_values_to_1_6_percent(value: int) -> None:
    """The middle is at most a 64th away, and is in its bucket; below 64 it is the value."""
    bucket = bucket_of(np.uint64(value))
    middle = float(value_of(bucket))
    assert abs(middle - value) <= value / 64
    assert middle == value or value >= 64
    if value < 2**52:
        assert bucket_of(middle) == bucket


def test_buckets_are_in_the_order_of_values() -> None:
    """Each bucket starts where the one before ends, up to the largest value there is."""
    assert bucket_of(np.uint64(2**64 - 1)) == BUCKETS - 1
    starts = value_of(np.arange(BUCKETS))
    assert (np.diff(starts) > 0).all()
    assert bucket_of(np.arange(130)).tolist() == [*range(64), *sorted([*range(64, 96)] * 2), 96, 96]


@pytest.mark.parametrize("values", [[-1], [1.0, math.nan], [2.0**64], [2**64], ["x"], [math.inf]])
def test_what_is_no_value(values: list[object]) -> None:
    """Numbers below 0, above 64 bits, and what is no number are refused."""
    with pytest.raises(UsageError, match="takes numbers from 0"):
        Sketch.of(np.array(values))


def test_the_native_recorder_counts_in_the_same_buckets(tmp_path: Path) -> None:
    """`sketch.h`, compiled, and the text of the module agree on every power of two and on noise."""
    compiler = shutil.which("g++")
    if compiler is None or not HEADER.exists():
        pytest.skip("needs a C++ compiler and the sources of the recorder")
    program = tmp_path / "buckets.cpp"
    program.write_text(
        f'#include "{HEADER}"\n#include <cstdio>\n'
        'int main() { unsigned long long v; while (std::scanf("%llu", &v) == 1)\n'
        '  std::printf("%u\\n", unsigned(tileprof::Sketch::bucket_of(v))); }\n'
    )
    binary = str(tmp_path / "buckets")
    command = [compiler, "-std=c++20", f"-I{HEADER.parents[1]}", "-o", binary, str(program)]
    subprocess.run(command, check=True, timeout=120)
    random = np.random.default_rng(7).integers(0, 2**64, 2000, np.uint64)
    edges = [2**n + d for n in range(64) for d in (-1, 0, 1)] + [2**64 - 1]
    shifted = random >> np.arange(2000, dtype=np.uint64) % np.uint64(64)
    values = np.concatenate([np.array(edges, np.uint64), shifted])
    said = subprocess.run(
        [binary], input="\n".join(map(str, values.tolist())), capture_output=True, text=True
    )
    assert list(map(int, said.stdout.split())) == bucket_of(values).tolist()


# -- sketches


@given(values=VALUES.filter(len), tenths=st.integers(0, 1000))
def test_quantiles_are_those_of_the_values(values: np.ndarray, tenths: int) -> None:
    """The value of that rank, to 1.6 %."""
    rank = max(math.ceil(Fraction(tenths, 1000) * len(values)), 1)
    exact = int(sorted(values.tolist())[rank - 1])
    assert abs(Sketch.of(values).quantile(tenths / 1000) - exact) <= exact / 64


def test_quantiles_that_do_not_exist() -> None:
    """An empty sketch has none, and a share is between 0 and 1."""
    assert math.isnan(Sketch.of([]).quantile(0.5))
    for q in (-0.1, 1.01, math.nan):
        with pytest.raises(UsageError, match="a quantile is between 0 and 1"):
            Sketch.of([1]).quantile(q)


@given(a=VALUES, b=VALUES, c=VALUES)
def test_merging_is_sketching_the_union(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """In any order and grouping; no sketch changes."""
    first, second, third = Sketch.of(a), Sketch.of(b), Sketch.of(c)
    union = Sketch.of(np.concatenate([a, b, c]))
    assert first.merge(second, third) == union == third.merge(first).merge(second)
    assert first.add(b).add(c) == union
    assert hash(first.merge(second, third)) == hash(union)
    assert union.count == len(a) + len(b) + len(c)
    assert first == Sketch.of(a)


@given(values=VALUES)
def test_counted_buckets_in_any_order(values: np.ndarray) -> None:
    """As a recorder hands them over, a bucket repeatedly too."""
    assert Sketch.from_counts(bucket_of(values), np.ones(len(values))) == Sketch.of(values)


@pytest.mark.parametrize(
    ("buckets", "counts"), [([1, 2], [1]), ([BUCKETS], [1]), ([-1], [1]), ([3], [0])]
)
def test_counts_that_are_none(buckets: list[int], counts: list[int]) -> None:
    """Buckets that do not exist and counts below 1 are refused."""
    with pytest.raises(UsageError, match="a sketch"):
        Sketch.from_counts(buckets, counts)


def test_arrays_of_a_sketch_cannot_be_written() -> None:
    """Sketches are shared between profiles."""
    with pytest.raises(ValueError, match="read-only"):
        Sketch.of([1]).counts[0] = 2


# -- bytes


@given(groups=st.lists(VALUES, max_size=5), factor=st.integers(1, 2**40))
def test_bytes_round_trip(groups: list[np.ndarray], factor: int) -> None:
    """One at a time, and many at once; large counts too."""
    plain = [Sketch.of(values) for values in groups]
    sketches = [*plain, *(Sketch.from_counts(s.buckets, s.counts * factor) for s in plain)]
    contents = [sketch.to_bytes() for sketch in sketches]
    assert sketches_from_bytes(contents) == sketches
    assert [Sketch.from_bytes(content) for content in contents] == sketches


def test_bytes_are_few() -> None:
    """Two a bucket, where launches are alike: 190 twice, 191, 192, 263."""
    sketch = Sketch.of([1000, 1007, 1010, 1030, 5000])
    assert sketch.to_bytes() == bytes([190, 1, 1, 0, 0, 0, 0, 70, 0])


@given(content=st.binary(max_size=12))
def test_bytes_of_something_else(content: bytes) -> None:
    """They are refused, or are a sketch with every bucket in its place."""
    try:
        sketch = Sketch.from_bytes(content)
    except ProfileFileError:
        return
    assert (np.diff(sketch.buckets.astype(int)) > 0).all()
    assert (sketch.counts > 0).all()


@pytest.mark.parametrize(
    "content",
    [b"\x01", b"\x01\x80", b"\x01\x01\x01", b"\xff" * 8 + b"\x01\x01", b"\xff\x7f\x01"],
    ids=["half a pair", "half a number", "pair and half", "long number", "bucket too high"],
)
def test_damaged_bytes(content: bytes) -> None:
    """Each fault is found, beside whole sketches too."""
    whole = Sketch.of([5, 6]).to_bytes()
    for contents in ([content], [whole, content, whole]):
        with pytest.raises(ProfileFileError, match="damaged"):
            decode(contents, BUCKETS)


# -- nodes


def step() -> Profile:
    """Two frames that launch one kernel, with other times each."""
    builder = TreeBuilder()
    for frame, times in (("train", [100, 200, 300]), ("eval", [1000])):
        node = builder.child(builder.child(-1, "frame", frame), "kernel", "gemm")
        builder.add(node, "time", sum(times))
        builder.add(node, "count", len(times))
        for each in times:
            builder.sketch(node, "time", Sketch.of([each]))
    return builder.snapshot()


def test_quantiles_of_nodes() -> None:
    """Of a node's own values, and with all below it; NaN where there are none."""
    profile = step()
    (train,) = profile.find("train")
    frame = profile.node(train)
    kernel = frame.children[0]
    assert kernel.quantile("time", 0.5) == pytest.approx(200, rel=1 / 64)
    assert math.isnan(frame.quantile("time", 0.5))
    assert frame.quantile("time", 1, total=True) == pytest.approx(300, rel=1 / 64)
    assert math.isnan(kernel.quantile("count", 0.5))
    with pytest.raises(UsageError, match="no metric `speed`"):
        kernel.quantile("speed", 0.5)


def test_sketches_follow_their_nodes() -> None:
    """One symbol has one sketch when flat; what is cut off folds; merges and diffs keep sides."""
    profile = step()
    everything = Sketch.of([100, 200, 300, 1000])
    level = flat(profile)
    (gemm,) = level.find("gemm")
    assert level.tables.sketches == {(gemm, "time"): everything}
    top = limit_depth(profile, 1)
    assert not top.tables.sketches
    assert top.tables.absorbed_sketches == {
        (0, "time"): Sketch.of([100, 200, 300]),
        (1, "time"): Sketch.of([1000]),
    }
    double = merge([profile, profile])
    kernels = [double.node(node) for node in double.find("gemm")]
    assert [kernel.quantile("time", 0.5) for kernel in kernels] == [201.5, 999.5]
    assert [double.tables.sketches[kernel.id, "time"].count for kernel in kernels] == [6, 2]
    laid = diff(profile, limit_depth(profile, 1))
    assert [laid.old.node(node).quantile("time", 0.5) for node in (2, 3)] == [201.5, 999.5]
    assert laid.new.sketches("time", total=True)[0] == Sketch.of([100, 200, 300])


def whole_sketch(profile: Profile) -> Sketch:
    """All values of `time` in the tree."""
    found = profile.sketches("time", total=True) if "time" in profile.metrics else {}
    return Sketch.of([]).merge(*(found[top] for top in profile.roots() if top in found))


@given(data=st.data(), profile=profiles())
def test_no_operation_loses_a_value(data: st.DataObject, profile: Profile) -> None:
    """Two operations in a row leave the sketch of the whole program as it was."""
    twice = data.draw(operations(data.draw(operations(profile))))
    twice.check()
    for part, values in (
        (twice.tables.sketches, twice.own),
        (twice.tables.absorbed_sketches, twice.absorbed),
    ):
        assert all(s.count <= values["count"][node] for (node, _), s in part.items())
    assert whole_sketch(twice) == whole_sketch(profile)
    assert whole_sketch(merge([twice, profile])) == whole_sketch(profile).merge(
        whole_sketch(profile)
    )


@given(profile=profiles())
def test_totals_are_the_union_of_the_subtree(profile: Profile) -> None:
    """Own values of the node and of every node below it."""
    totals = profile.sketches("time", total=True) if "time" in profile.metrics else {}
    for node in range(len(profile)):
        inside = [
            sketch
            for (other, _), sketch in profile.tables.sketches.items()
            if node in profile.path(other)
        ]
        assert totals.get(node, Sketch.of([])) == Sketch.of([]).merge(*inside)


def test_a_sketch_needs_its_node() -> None:
    """An unknown node or an unknown metric break the tree's law, folded values likewise."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "kernel", "gemm"), "time", 30)
    thirty = Sketch.of([30])
    for key in ((1, "time"), (-1, "time"), (0, "bytes")):
        for tables in (Tables(sketches={key: thirty}), Tables(absorbed_sketches={key: thirty})):
            with pytest.raises(InternalError, match="has a sketch of"):
                builder.snapshot(tables).check()
    builder.snapshot(Tables(sketches={(0, "time"): thirty})).check()


def test_nodes_without_values_have_no_sketch() -> None:
    """An empty one is none; one of a metric that has no value goes as the metric does."""
    builder = TreeBuilder()
    node = builder.child(-1, "kernel", "gemm")
    builder.add(node, "count", 1)
    builder.sketch(node, "count", Sketch.of([]))
    builder.sketch(node, "time", Sketch.of([0]))
    assert builder.snapshot().tables.sketches == {}


def test_a_metric_that_nobody_knows() -> None:
    """As with `add`, a metric is declared first."""
    builder = TreeBuilder()
    with pytest.raises(UsageError, match="`speed` is not declared"):
        builder.sketch(builder.child(-1, "kernel", "gemm"), "speed", Sketch.of([1]))


# -- the file


def edited(path: Path, statement: str, *values: object) -> Path:
    """Change a profile's file."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement, values)
        database.commit()
    return path


def test_files_from_before_there_were_sketches(tmp_path: Path) -> None:
    """They open, without any."""
    save(step(), tmp_path / "p.tprof")
    old = load(edited(tmp_path / "p.tprof", "DROP TABLE sketches"))
    assert not old.tables.sketches
    assert old.total("time").tolist() == step().total("time").tolist()


@pytest.mark.parametrize("content", [b"\x01", b"\xff\x7f\x01", "text", 7])
def test_damaged_sketches_in_a_file(tmp_path: Path, content: object) -> None:
    """Bytes that are no sketch, and what is no bytes, are damage."""
    save(step(), tmp_path / "p.tprof")
    path = edited(tmp_path / "p.tprof", "UPDATE sketches SET own = ?", content)
    with pytest.raises(ProfileFileError, match=r"is damaged: (`sketches.own`|a quantile sketch)"):
        load(path)


@pytest.mark.sweep
def test_a_million_launches_fit_a_megabyte(
    tmp_path: Path, calls: Callable[[Callable[[], object]], int]
) -> None:
    """5,000 nodes with 200 launches each: 40 bytes a sketch at most, and read in few calls."""
    random = np.random.default_rng(0)
    builder = TreeBuilder()
    for i in range(5_000):
        node = builder.child(i // 4 - 1, "kernel", f"k{i % 500}")
        times = (random.lognormal(0, 0.05, 200) * random.integers(2_000, 10**6)).astype(int)
        builder.add(node, "time", int(times.sum()))
        builder.add(node, "count", len(times))
        builder.add(node, "time_min", int(times.min()))
        builder.add(node, "time_max", int(times.max()))
        builder.sketch(node, "time", Sketch.of(times))
    profile = builder.snapshot()
    path = tmp_path / "p.tprof"
    save(profile, path)
    with_sketches = path.stat().st_size
    assert load(path) == profile
    assert calls(lambda: load(path)) < 40_000
    save(load(edited(path, "DROP TABLE sketches")), path)
    assert with_sketches < 750_000
    assert with_sketches - path.stat().st_size < 40 * 5_000
