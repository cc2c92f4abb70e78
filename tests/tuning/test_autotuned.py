"""`@tileprof.autotune` on the processor: calls, kept results, and where nothing may be tuned."""

# mypy: disable-error-code="no-untyped-def,valid-type,no-redef"
# ruff: noqa: ANN001, ANN201, ANN202
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.tuning import tuned_kernels as kernels
from tileprof import ir
from tileprof.errors import ArgumentError, ExecutionError, UsageError
from tileprof.native.building import find_compiler
from tileprof.native.cache import cache_folder
from tileprof.tuning import (
    AutotunedFunction,
    Configuration,
    Result,
    add_to_table,
    load_tuned,
    machine_of,
    set_autotune_inputs,
)
from tileprof.tuning.workers import Workers

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

X = np.arange(5000, dtype=np.float32)


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trials are made in this process, kernels run on the processor, and nothing is known.

    Batches are short: no test says which configuration is the fastest.
    """
    for module in ("bench.rounds", "tuning.timing"):
        monkeypatch.setattr(f"tileprof.{module}.BATCH_NS", 400_000)
    monkeypatch.setattr("tileprof.tuning.workers.default_workers", lambda: 1)
    monkeypatch.setenv("TILEPROF_DEVICE", "cpu")
    yield
    for each in cache_folder().glob("tuned-*"):
        if each.name.startswith(("tuned-doubled-", "tuned-factory-")):
            shutil.rmtree(each)


@tileprof.jit
def doubled(A, block: int = 64):
    """Twice the input; its length is known at launch only."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * 2
    return B


@tileprof.jit(out_idx=[-1])
def factory(N, block=None):
    """A factory of kernels, as TileLang has them: the tile has no default."""

    @T.prim_func
    def main(A: T.Tensor((N,), T.float32), B: T.Tensor((N,), T.float32)):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1

    return main


def tuned(function: Any = doubled, **wishes: Any) -> AutotunedFunction:
    """A function that tunes itself among two configurations."""
    given = {"configs": [{"block": 64}, {"block": 1024}], "timed": 2, **wishes}
    made: AutotunedFunction = tileprof.autotune(**given)(function)
    return made


def test_a_call_tunes_once_for_its_shapes() -> None:
    """The result is right; near lengths use what was found, and so does another process."""
    function = tuned()
    np.testing.assert_array_equal(function(X), X * 2)
    (outcome,) = function.outcomes
    assert {each.configuration.named["block"] for each in outcome.timed} == {64, 1024}
    np.testing.assert_array_equal(function(X[:3000]), X[:3000] * 2)
    again = tuned()
    np.testing.assert_array_equal(again(X[:4000]), X[:4000] * 2)
    assert len(function.outcomes) == 1
    assert not again.outcomes
    far = tuned(near=1.1, timed=1)
    far(X[:4000])
    assert len(far.outcomes) == 1


def test_a_factory_gives_the_tuned_kernel() -> None:
    """As TileLang's do; arguments are random where the author supplies none."""
    function = tuned(factory, configs={"block": [32, 512]})
    kernel = function(len(X))
    np.testing.assert_array_equal(kernel(X), X + 1)
    assert function(len(X)) is kernel
    assert "constant 32" in ir.print_kernel(function.compile(len(X)).traced)
    (outcome,) = function.outcomes
    assert len(outcome.timed) == 2
    seen: list[Any] = []

    def check(results: Any, expected: Any) -> None:
        seen.append(results)

    with set_autotune_inputs(X):
        tuned(factory, manual_check_prog=check, timed=2).tune(len(X))
    np.testing.assert_array_equal(seen[0][0], X + 1)


@pytest.mark.parametrize("why", ["switch", "interpreter"])
def test_nothing_is_timed_where_it_may_not_be(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """The default serves; with the switch, also the result for shapes that are far away."""
    function = tuned()
    if why == "switch":
        monkeypatch.setenv("TILEPROF_TUNE", "0")
    else:
        monkeypatch.setenv("TILEPROF_DEVICE", "interpreter")
    np.testing.assert_array_equal(function(X[:200]), X[:200] * 2)
    assert not function.outcomes
    if why == "interpreter":
        with pytest.raises(UsageError, match="its time says nothing"):
            function.tune(X[:200])


def test_given_arguments_are_used_as_they_are() -> None:
    """A call that sets a tunable argument chooses nothing, and compiling looks at the defaults."""
    function = tuned(timed=1)
    function(X)
    np.testing.assert_array_equal(function(X, block=32), X * 2)
    assert len(function.outcomes) == 1
    again = tuned(configs=None)
    np.testing.assert_array_equal(again(X, block=32), X * 2)
    assert not again.outcomes
    assert "mul %bx, %c64" in ir.print_kernel(function.compile(N=128).traced)
    with pytest.raises(ArgumentError, match="defined as"):
        function(X, blocks=32)


def test_results_are_checked() -> None:
    """A configuration whose results differ from the reference does not win."""
    wrong = tuned(ref_prog=lambda a: a * 3, timed=2)
    with pytest.raises(ExecutionError, match=r"can be used: .* differ by more than"):
        wrong(X)
    skipped = tuned(ref_prog=lambda a: a * 3, skip_check=True, timed=1)
    np.testing.assert_array_equal(skipped(X), X * 2)


def test_a_table_comes_with_the_kernel(tmp_path: Path) -> None:
    """What stands in it is believed for its device, before anything is timed."""
    first = tuned()
    first(X)
    table = tmp_path / "doubled.json"
    first.save_table(table, "cpu")
    function = tuned(table=table)
    shutil.rmtree(first._place(machine_of("cpu")).folder)
    np.testing.assert_array_equal(function(X), X * 2)
    assert not function.outcomes


@pytest.mark.parametrize("named", [{"block": 1 << 20}, {"block": "64"}, {"N": 64}, {"block": 7}])
def test_a_table_chooses_among_values_that_are_possible(
    tmp_path: Path, named: dict[str, Any]
) -> None:
    """Only whole numbers for arguments that have one; with a list, only what is in it."""
    function = tuned(configs=None if named != {"block": 7} else [{"block": 64}], timed=1)
    shapes = function._shapes({"A": X})
    made = Configuration.of(named)
    add_to_table(
        tmp_path / "t.json", [Result("doubled", "cpu", shapes, made, 1.0, 1, True, "", "0.1.0")]
    )
    spoilt = tuned(configs=function.wishes.configurations, timed=1, table=tmp_path / "t.json")
    np.testing.assert_array_equal(spoilt(X), X * 2)
    assert len(spoilt.outcomes) == 1


def test_tuned_kernels_are_saved_as_one_file(tmp_path: Path) -> None:
    """A call runs the kernel for its shapes, without the source; wrong files are refused."""
    function = tuned(near=1.0)
    path = tmp_path / "doubled.tpk"
    with pytest.raises(UsageError, match="0 tuned kernels"):
        function.save(path, ["sm_90a"], "cpu")
    function(X)
    function(X[:100])
    function.save(path, ["sm_90a"], "cpu")
    held = load_tuned(path)
    assert [dict(each.shapes.extents) for each in held.results] == [{"N": 100}, {"N": 5000}]
    for count in (90, 5000, 10_000):
        x = np.resize(X, count)
        np.testing.assert_array_equal(held(x), x * 2)
    with pytest.raises(ArgumentError, match=r"of shapes \(3, 3\)"):
        held(np.zeros((3, 3), np.float32))
    path.chmod(0o666)
    with pytest.raises(UsageError, match="may come from somebody else"):
        load_tuned(path)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(UsageError, match="holds no tuned kernels"):
        load_tuned(path)
    with pytest.raises(UsageError, match="there is no file"):
        load_tuned(tmp_path / "missing.tpk")


def test_the_tree_shows_tuning_as_its_own_scope(tmp_path: Path) -> None:
    """Each configuration that was timed stands below, with its kernel; later calls do not."""
    function = tuned()
    with tileprof.profile(tmp_path / "tuned.tprof"):
        for _ in range(3):
            function(X)
    profile = tileprof.load(tmp_path / "tuned.tprof")
    paths: list[str] = []
    for parent, symbol in zip(profile.parents, profile.symbol):
        above = paths[parent] + " / " if parent >= 0 else ""
        paths.append(above + profile.symbols[symbol].name)
    ends = [path.partition("tune doubled / ")[2] for path in paths if "tune doubled" in path]
    kernels_in = {end for end in ends if end.endswith(" / doubled")}
    assert {end.partition(" / ")[0] for end in kernels_in} == {"block=64", "block=1024"}
    outside = [path for path in paths if path.endswith("doubled") and "tune" not in path]
    counts = profile.total("count") if "count" in profile.metrics else None
    assert outside
    assert counts is None or len(counts) == len(paths)


def test_only_jit_functions_are_tuned() -> None:
    """The error says where the decorator goes."""
    with pytest.raises(UsageError, match="Put it above"):
        tileprof.autotune(lambda: None)
    with pytest.raises(UsageError, match=r"`tileprof.autotune` of"):
        tuned(tuned())
    assert isinstance(tileprof.autotune(kernels.added), AutotunedFunction)


def test_what_is_compiled_in_process_is_what_workers_are_for() -> None:
    """One worker stands for none."""
    with Workers(None) as workers:
        assert workers.count == 1
