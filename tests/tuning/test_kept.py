"""Results in the cache and in tables, and trials in other processes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileprof.lang as T
from tests.tuning import tuned_kernels as kernels
from tileprof.compiler.cuda.controls import Controls
from tileprof.errors import UsageError
from tileprof.tuning import machine_of
from tileprof.tuning.configurations import Configuration
from tileprof.tuning.kept import Place, Result, add_to_table, compiler_digest, nearest, read_table
from tileprof.tuning.shapes import Shapes, Tensor, shapes_of
from tileprof.tuning.trials import Order
from tileprof.tuning.workers import Workers

CPU = machine_of("cpu")
NAMES = st.text("abcN_", min_size=1, max_size=4)
EXTENTS = st.lists(st.one_of(st.integers(0, 1 << 40), NAMES), max_size=3).map(tuple)
SHAPES = st.builds(
    Shapes,
    st.lists(st.builds(Tensor, NAMES, st.just("float32"), EXTENTS), max_size=2).map(tuple),
    st.dictionaries(
        NAMES, st.one_of(st.text(max_size=4), st.integers(-9, 9), st.booleans()), max_size=3
    ).map(lambda d: tuple(sorted(d.items()))),
    st.dictionaries(NAMES, st.integers(0, 1 << 40), max_size=3).map(
        lambda d: tuple(sorted(d.items()))
    ),
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, empty."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def result(extent: int = 64, block: int = 32, kernel: str = "added") -> Result:
    """A result for one extent."""
    shapes = Shapes((Tensor("X", "float32", ("N",)),), (), (("N", extent),))
    made = Configuration.of({"block": block})
    return Result(kernel, "cpu", shapes, made, 1e3, 3, True, "2026-11-28", "0.1.0")


@given(SHAPES, SHAPES)
def test_shapes_are_as_far_apart_one_way_as_the_other(one: Shapes, other: Shapes) -> None:
    """And not apart from themselves, also after a way through JSON."""
    assert one.ratio(other) == other.ratio(one) >= 1
    assert one.ratio(Shapes.from_json(json.loads(json.dumps(one.as_json())))) == 1


def test_shapes_of_a_call() -> None:
    """Types and values that are compiled in have to agree; names that are ignored need not."""
    kernel = kernels.added.compile(N=64).traced
    held = shapes_of(kernel, {"window": 4}, {"N": 64})
    assert held.values == (("window", 4),)
    assert held.tensors[0] == Tensor("X", "float32", (64,))
    assert shapes_of(kernel, {"dtype": T.float16}, {}).values == (("dtype", "float16"),)
    assert held.ratio(shapes_of(kernel, {"window": 5}, {"N": 64})) == math.inf
    assert held.ratio(shapes_of(kernel, {"window": 4}, {"N": 96})) == 1.5
    loose = shapes_of(kernel, {"window": 5}, {"N": 7}, frozenset({"window", "N"}))
    assert loose == shapes_of(kernel, {}, {})


def test_the_nearest_result_is_taken_within_a_factor() -> None:
    """At 100, that for 64 is 1.56 times away; the first of two that are equally near."""
    held = [result(64), result(256), result(64, block=64)]
    assert nearest(held, result(100).shapes, 2.0) is held[0]
    assert nearest(held, result(200).shapes, 2.0) is held[1]
    assert nearest(held, result(1024).shapes, 2.0) is None
    assert nearest(held, result(1024).shapes, math.inf) is held[1]
    assert nearest([], result().shapes, math.inf) is None


def test_results_are_kept_for_later_processes(cache: Path) -> None:
    """One file for each shape; the newest of one shape counts."""
    place = Place.of("added", "def added(): ...", CPU)
    assert place.read() == []
    for each in (result(64), result(128), result(64, block=256)):
        place.write(each)
    assert {(r.shapes.extents, r.configuration.named["block"]) for r in place.read()} == {
        ((("N", 64),), 256), ((("N", 128),), 32),
    }  # fmt: skip
    assert place.folder.parent == cache
    assert place.folder.stat().st_mode & 0o077 == 0
    assert Place.of("added", "def added(): pass", CPU).folder != place.folder
    assert Place.of("added", "def added(): ...", machine_of("", "sm_90a")).folder != place.folder


@pytest.mark.parametrize("spoil", ["text", "schema", "shared", "control"])
def test_results_that_cannot_be_believed_are_left_out(cache: Path, spoil: str) -> None:
    """Damaged ones, those of another schema, and those that others could have written."""
    place = Place.of("added", "def added(): ...", CPU)
    place.write(result())
    (file,) = place.folder.iterdir()
    held = json.loads(file.read_text())
    match spoil:
        case "text":
            file.write_text("{")
        case "schema":
            file.write_text(json.dumps({**held, "schema": 99}))
        case "control":
            held["configuration"] = {"controls": {"clusters": 3}}
            file.write_text(json.dumps(held))
        case _:
            os.chmod(file, 0o666)
    assert place.read() == []


def test_results_follow_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of what compiles has its own results."""
    before = Place.of("added", "", CPU)
    assert compiler_digest() == compiler_digest()
    monkeypatch.setattr("tileprof.tuning.kept.compiler_digest", lambda: "another")
    assert Place.of("added", "", CPU) != before


def test_tables_hold_many_results(tmp_path: Path) -> None:
    """One for each kernel, device and shape; a later one takes the place of an earlier."""
    table = tmp_path / "kernels.json"
    add_to_table(table, [result(64), result(128)])
    add_to_table(table, [result(64, block=256), result(64, kernel="other")])
    held = read_table(table)
    assert len(held) == 3
    assert held[0] == result(64, block=256)
    for spoilt in ("{}", "[1]", '{"format": "tileprof tuned table", "schema": 1, "results": [3]}'):
        table.write_text(spoilt)
        with pytest.raises(UsageError, match="not a table of tuned configurations"):
            read_table(table)
    with pytest.raises(UsageError, match="cannot be read"):
        read_table(tmp_path / "missing.json")


@pytest.fixture
def orders() -> list[Order]:
    """Trials of a kernel, one of which is refused."""

    def order(**values: Any) -> Order:
        kernel = kernels.product.compile(M=512, N=512, K=512, **values).traced
        return Order(kernel, Controls(), "sm_90a", 132, compiled=False)

    return [*(order(block_K=16 << n) for n in range(3)), order(stages=2), order(stages=8)]


@pytest.mark.sweep
def test_a_worker_finds_what_this_process_finds(
    orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the orders, refusals included; no process is left behind."""
    with Workers(1) as here:
        expected = [(each.facts, each.refused) for each in here.trials(orders)]
    with Workers(2) as workers:
        workers.trials(orders[:1])
        assert not workers._all, "the first trial is made here"
    monkeypatch.setattr("tileprof.tuning.workers.START_SECONDS", 0.0)
    with Workers(2) as workers:
        found = workers.trials(orders)
        processes = [each._process for each in workers._all]
        assert len(processes) == 2
        assert [(each.facts, each.refused) for each in found] == expected
        assert found[-1].refused is not None
        assert found[-1].refused.resource == "shared memory"
        for process in processes:
            process.kill()
        # Those that have ended are made up for here.
        assert [(e.facts, e.refused) for e in workers.trials(orders)] == expected
    assert all(process.poll() is not None for process in processes)
