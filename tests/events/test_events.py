"""The stream of accesses: every row against what the program says, its window, its files."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.events.kernels import add, early, masked
from tests.interpreter.kernels import MATMUL
from tests.verified import parse
from tileprof.errors import OutputError, UninitializedError, UsageError
from tileprof.runtime.events.access import listening
from tileprof.runtime.events.log import EventLog, window
from tileprof.runtime.events.table import METADATA, SCHEMA, Events
from tileprof.runtime.interpreter import InterpreterExecutable

X = np.arange(10, dtype=np.float32)


def rows(events: Events, *names: str, **where: Any) -> list[tuple[Any, ...]]:
    """The named columns of the rows in which columns have these values."""
    chosen = np.ones(len(events), np.bool_)
    for name, value in where.items():
        chosen &= events[name] == value
    return list(zip(*(events[name][chosen].tolist() for name in names)))


def test_element_accesses_have_one_row_for_each_point() -> None:
    """Twelve points write C: ten inside, two guarded."""
    events = tileprof.events(add, X, X)
    assert len(events) == 36
    written = rows(events, "block", "point", "start0", "elements", "guarded", "bytes", buffer="C")
    assert written == [
        (b, i, 4 * b + i, int(4 * b + i < 10), int(4 * b + i >= 10), 4 * (4 * b + i < 10))
        for b in range(3)
        for i in range(4)
    ]
    assert set(rows(events, "op", "access", "space", "dtype", buffer="A")) == {
        ("load", "read", "global", "float32")
    }
    place = next(iter(set(rows(events, "file", "line"))))
    assert Path(place[0]).name == "kernels.py"
    assert "C[bx * 4 + i] = " in Path(place[0]).read_text().splitlines()[place[1] - 1]


def test_results_are_those_without_the_stream() -> None:
    """The kernel runs as ever; what it returns stays with its caller."""
    made: list[Any] = []
    tileprof.events(lambda: made.append(add(X, X)))
    np.testing.assert_array_equal(made[0], 2 * X)


def test_lanes_that_a_branch_leaves_out_have_no_rows() -> None:
    """The mask of a row is that it is there."""
    events = tileprof.events(masked, np.zeros((2, 4), np.float32))
    assert rows(events, "block", "point", "start0", "start1") == [(1, 1, 1, 1), (1, 3, 1, 3)]


def run_matmul(log: EventLog) -> Events:
    """A product of 100×64 and 64×130 in tiles of 64×64×32, two stages."""
    a, b = np.ones((100, 64), np.float32), np.ones((64, 130), np.float32)
    with listening(log):
        out = np.empty((100, 130), np.float32)
        InterpreterExecutable(parse(MATMUL)).run([a, b, out], (100, 130, 64))
    return log.table()


def test_tile_accesses_have_one_row_for_each_block() -> None:
    """Offsets, sizes and what an edge guards, of copies from global memory."""
    events = run_matmul(EventLog())
    read = rows(
        events, "block", "start0", "start1", "size0", "size1", "elements", "guarded",
        buffer="a",
    )  # fmt: skip
    assert read == [
        (b, 64 * (b // 3), 32 * k, 64, 32, *((2048, 0) if b < 3 else (36 * 32, 28 * 32)))
        for k in range(2)
        for b in range(6)
    ]
    kinds = dict.fromkeys(rows(events, "op", "access", "buffer"))
    assert ("gemm", "read", "acc") in kinds
    assert ("gemm", "write", "acc") in kinds


def test_shared_buffers_of_a_pipelined_loop_have_slots_and_phases() -> None:
    """Iteration k of two stages uses slot k % 2; the phase changes with each time around."""
    a, b = np.ones((64, 160), np.float32), np.ones((160, 64), np.float32)
    log = EventLog()
    with listening(log):
        out = np.empty((64, 64), np.float32)
        InterpreterExecutable(parse(MATMUL)).run([a, b, out], (64, 64, 160))
    events = log.table()
    assert rows(events, "slot", "phase", buffer="as", access="write") == [
        (0, 0), (1, 0), (0, 1), (1, 1), (0, 0)
    ]  # fmt: skip
    assert set(rows(events, "slot", "phase", buffer="acc")) == {(-1, -1)}


def test_steps_order_the_events_of_a_block() -> None:
    """A tile is written before the product that reads it."""
    events = run_matmul(EventLog())
    steps = rows(events, "step", "access", block=0, buffer="as")
    assert [kind for _, kind in steps] == ["write", "read", "write", "read"]
    assert sorted(steps) == steps


@pytest.mark.parametrize("batch", [1, 2, None])
def test_a_window_keeps_the_blocks_that_were_asked_for(batch: int | None) -> None:
    """Whatever runs at once, the events of a block are the same."""
    a, b = np.ones((100, 64), np.float32), np.ones((64, 130), np.float32)
    found = []
    for blocks in ([1, 4], 6):
        log = EventLog(blocks)
        with listening(log):
            out = np.empty((100, 130), np.float32)
            InterpreterExecutable(parse(MATMUL), batch=batch).run([a, b, out], (100, 130, 64))
        found.append(log.table())
    some, every = found
    assert set(some["block"].tolist()) == {1, 4}
    names = ("op", "buffer", "access", "start0", "start1", "elements", "slot")
    for block in (1, 4):
        assert rows(some, *names, block=block) == rows(every, *names, block=block)
    assert [each.blocks for each in some.launches] == [(1, 4)]
    assert [each.grid for each in some.launches] == [(3, 2)]


def test_windows_of_large_grids_reach_from_the_first_to_the_last_block() -> None:
    """64 blocks unless more are asked for; a list is taken as it is, without what is outside."""
    assert window(10, None).tolist() == list(range(10))
    chosen = window(1_000_000, None).tolist()
    assert (len(chosen), chosen[0], chosen[-1]) == (64, 0, 999_999)
    assert window(9, 3).tolist() == [0, 4, 8]
    assert window(9, 1).tolist() == [0]
    assert window(9, [7, 2, 2, 9]).tolist() == [2, 7]


@pytest.mark.parametrize("blocks", [0, -1, True, [1.5], [-1], "all"])
def test_a_window_that_is_none_is_refused(blocks: Any) -> None:
    """It is a positive number, or indices from 0."""
    with pytest.raises(UsageError, match="is not a number of blocks nor a list"):
        tileprof.events(add, X, X, blocks=blocks)


def test_rows_above_the_limit_are_counted() -> None:
    """Nothing is lost without a word."""
    events = run_matmul(EventLog(most_rows=20))
    assert (len(events), events.dropped) == (18, 114 - 18)


def test_an_error_of_the_kernel_is_raised() -> None:
    """Accesses up to the error stay in the log."""
    with pytest.raises(UninitializedError):
        tileprof.events(early, np.zeros(4, np.float32))
    log = EventLog()
    with pytest.raises(UninitializedError), listening(log), tileprof.device("interpreter"):
        early(np.zeros(4, np.float32))
    assert [kind for (kind,) in rows(log.table(), "access")] == ["read", "write", "read", "write"]


def test_what_runs_no_kernel_is_refused() -> None:
    """A function that calls none has no events."""
    with pytest.raises(UsageError, match="ran no kernel"):
        tileprof.events(lambda: None)


def test_several_kernels_are_one_stream() -> None:
    """Launches are numbered through."""
    events = tileprof.events(lambda: (add(X, X), masked(np.zeros((2, 4), np.float32))))
    assert sorted(set(rows(events, "launch", "kernel"))) == [(0, "add"), (1, "masked")]
    assert [each.kernel for each in events.launches] == ["add", "masked"]


def test_a_frame_has_all_columns() -> None:
    """Columns of the frame stand in the order of `names`."""
    pytest.importorskip("pandas")
    events = tileprof.events(add, X, X)
    frame = events.frame()
    assert tuple(frame.columns) == events.names == tuple(events)
    assert int(frame.groupby("buffer", observed=True)["bytes"].sum()["C"]) == 40


def test_a_parquet_file_holds_every_column_and_the_schema(tmp_path: Path) -> None:
    """Names are dictionaries; version, grid and window are in the metadata."""
    parquet = pytest.importorskip("pyarrow.parquet")
    events = tileprof.events(add, X, X, blocks=[0, 2])
    events.save(tmp_path / "add.parquet")
    table = parquet.read_table(tmp_path / "add.parquet")
    assert tuple(table.column_names) == events.names
    for name in events.names:
        assert table[name].to_pylist() == events[name].tolist()
    about = json.loads(table.schema.metadata[METADATA])
    assert about == {
        "schema": SCHEMA,
        "launches": [{"kernel": "add", "grid": [3], "blocks": [0, 2]}],
        "dropped": 0,
    }


def test_an_npz_file_holds_the_numbers_and_the_sites(tmp_path: Path) -> None:
    """Without pyarrow a table is NumPy arrays."""
    events = tileprof.events(add, X, X)
    events.save(tmp_path / "add.npz")
    with np.load(tmp_path / "add.npz") as held:
        np.testing.assert_array_equal(held["start0"], events["start0"])
        np.testing.assert_array_equal(held["sites.buffer"][held["site"]], events["buffer"])
        assert json.loads(str(held["about"]))["schema"] == SCHEMA


def test_a_table_without_rows_has_its_columns() -> None:
    """A kernel that accesses nothing has an empty table."""
    events = EventLog().table()
    assert len(events) == 0
    assert all(len(events[name]) == 0 for name in events.names)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """The name says which kind of file; the place must be there."""
    events = tileprof.events(add, X, X)
    with pytest.raises(UsageError, match=r"End it in \.parquet or \.npz"):
        events.save(tmp_path / "add.csv")
    with pytest.raises(OutputError, match="cannot be written"):
        events.save(tmp_path / "gone" / "add.npz")


def test_a_window_does_not_keep_the_numbers_of_other_blocks() -> None:
    """A log of one block of 4,000 that load 100 times holds less than 2 MB; all blocks would hold
    400 MB."""
    text = """
kernel @gather(%x: global<4096, float32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c100 = constant 100 : index
  %c128 = constant 128 : index
  %c4000 = constant 4000 : index
  launch [%c4000] {threads = [128]} body(%bx: index) {
    for serial %c0, %c100, %c1 body(%k: index) {
      parallel [%c128] body(%i: index) {
        %a = mul %bx, %i : index
        %b = add %a, %k : index
        %at = floormod %b, %c128 : index
        %v = load %x, [%at] : float32
      }
    }
  }
}
"""
    log = EventLog([7])
    executable = InterpreterExecutable(parse(text))
    tracemalloc.start()
    try:
        with listening(log):
            executable.run([np.ones(4096, np.float32)], ())
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2_000_000
    found = rows(log.table(), "start0", block=7)
    assert found == [((7 * i + k) % 128,) for k in range(100) for i in range(128)]
