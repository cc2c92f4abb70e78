"""Watched runs: accesses of shared memory that nothing orders, with their lines and threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.cuda.emulated import Array, Program
from tileprof.emulator import EmulationError, RaceFound, Watch, emulate

REVERSED = """
  int *const tile = (int *)shared;
#line 7 "author.py"
  tile[t] = t;
#line 8
  tp_barrier();
#line 9
  out[t] = tile[127 - t];
"""
COPIED = """
  int *const tile = (int *)shared;
  tp_cp_async<4>(tile + t, x + t);
  tp_cp_async_commit();
  tp_cp_async_wait<0>();
  tp_barrier();
  out[t] = tile[t ^ 64];
"""
STORED = """
  int *const tile = (int *)shared;
  tile[t] = t;
  tp_fence_async();
  tp_barrier();
  if (t == 0) {
    tp_bulk_store(out, shared, 512);
    tp_bulk_commit();
    tp_bulk_wait_read<0>();
  }
  tp_barrier();
  tile[t] = 0;
"""
LOADED = """
  uint64_t *const full = (uint64_t *)(shared + 512);
  if (t == 0) {
    tp_mbarrier_init(full, 1);
    tp_fence_mbarrier_init();
  }
  tp_barrier();
  if (t == 0) {
    tp_mbarrier_expect(full, 512);
    tp_bulk_load(shared, x, 512, full);
  }
  tp_mbarrier_wait(full, 0);
  out[t] = ((int *)shared)[t];
"""
HANDED = """
  int *const tile = (int *)shared;
  if (t < 64) {
    tile[t] = t;
    tp_barrier_arrive(1, 128);
  } else {
    tp_barrier(1, 128);
    out[t] = tile[t - 64];
  }
"""
IN_WARP = """
  int *const tile = (int *)shared;
  tile[t] = t;
  tp_warp_barrier();
  out[t] = tile[t ^ 1];
"""
COUNTED = """
  int *const count = (int *)shared;
  if (t == 0) *count = 0;
  tp_barrier();
  tp_atomic<TpAdd>(count, 1);
  tp_barrier();
  out[t] = *count;
"""


def watched(body: str, seeds: Sequence[int] = (0,), **more: Any) -> list[RaceFound]:
    """The faults of a text of 128 threads that reads `x` and writes `out`."""
    arrays: list[Array] = [np.arange(128, dtype=np.int32), np.zeros(128, np.int32)]
    program = Program(body, "const int *x, int *out", arrays, shared=1024, **more)
    watch = Watch()
    for seed in seeds:
        emulate(program.source, program.kernel, arrays, seed=seed, watch=watch)
    return [found for _, found in watch.found]


@pytest.mark.spread("body0", "body3", "body4")
@pytest.mark.parametrize("body", [REVERSED, COPIED, STORED, LOADED, HANDED, IN_WARP, COUNTED])
def test_ordered_accesses_are_no_fault(body: str) -> None:
    """For each of some schedules."""
    assert watched(body, range(4)) == []


@pytest.mark.spread(
    "body0-tp_barrier();-race-actors0", "body2-tp_barrier();-race-actors2",
    "body3-tp_fence_async();-missing-fence-actors3",
    "body4-tp_bulk_wait_read<0>();-race-actors4"
)  # fmt: skip
@pytest.mark.parametrize(
    ("body", "left_out", "fault", "actors"),
    [
        (REVERSED, "tp_barrier();", "race", {("thread", "read"), ("thread", "write")}),
        (COPIED, "tp_cp_async_wait<0>();", "race", {("cp.async", "write"), ("thread", "read")}),
        (COPIED, "tp_barrier();", "race", {("cp.async", "write"), ("thread", "read")}),
        (STORED, "tp_fence_async();", "missing-fence",
         {("thread", "write"), ("bulk store", "read")}),
        (STORED, "tp_bulk_wait_read<0>();", "race", {("bulk store", "read"), ("thread", "write")}),
        (LOADED, "tp_mbarrier_wait(full, 0);", "race", {("TMA load", "write"), ("thread", "read")}),
        (IN_WARP, "tp_warp_barrier();", "race", {("thread", "read"), ("thread", "write")}),
    ],
)  # fmt: skip
def test_what_is_left_out_shows_with_any_seed(
    body: str, left_out: str, fault: str, actors: set[tuple[str, str]]
) -> None:
    """Neither the order in which threads ran nor when a copy landed matters."""
    text = body.replace(left_out, "", 1)
    for seed in range(3):
        try:
            found = watched(text, [seed])
        except EmulationError as error:
            # A block that ends before its load has landed.
            assert "under way" in str(error) or "no wait for it" in str(error)  # noqa: PT017
            continue
        sides = [{(s.actor, s.way) for s in (each.first, each.second)} for each in found]
        assert actors in sides
        assert {each.fault for each in found} == {fault}


def test_a_race_has_lines_threads_and_a_byte() -> None:
    """The lines of the author are those of the text's `#line`s."""
    found = watched(REVERSED.replace("tp_barrier();", ""))[0]
    assert (found.fault, found.byte % 4, found.buffer) == ("race", 0, "")
    sides = {side.way: side for side in (found.first, found.second)}
    write, read = sides["write"], sides["read"]
    assert write.location is not None
    assert read.location is not None
    assert (write.location.file, write.location.line) == ("author.py", 7)
    assert (read.location.file, read.location.line) == ("author.py", 9)
    assert found.byte // 4 == write.thread == 127 - read.thread
    assert write.block == 0


def test_a_deadlock_has_the_line_of_each_wait() -> None:
    """Threads that wait at one place are one entry."""
    body = '#line 3 "author.py"\nif (t < 64) tp_barrier(1, 96);\n#line 4\nelse tp_barrier();'
    with pytest.raises(EmulationError) as caught:
        watched(body)
    error = caught.value
    assert (error.end, error.function) == ("deadlock", "kernel_0")
    lines = [each.location.line for each in error.stuck if each.location is not None]
    assert sorted(lines) == [3, 4]
    assert {each.threads for each in error.stuck} == {64}


def test_a_run_ends_at_the_limit_of_steps() -> None:
    """A loop that waits for nobody."""
    arrays = [np.zeros(1, np.int32)]
    body = "while (!*(volatile int *)out) __nanosleep(1);"
    program = Program(body, "int *out", arrays, threads=32)
    with pytest.raises(EmulationError) as caught:
        emulate(program.source, program.kernel, arrays, watch=Watch(), steps=1000)
    assert caught.value.end == "limit"
