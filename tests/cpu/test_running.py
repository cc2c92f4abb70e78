"""Launches: threads, prints, assertions, measurement, forks, and what a run costs."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import kernel, load, run
from tests.verified import parse
from tileprof.compiler.codegen import emit
from tileprof.errors import ArgumentError, DeviceAssertError, ExecutionError, UsageError
from tileprof.instrument import insert, records
from tileprof.runtime.cpu import pool as cpu_pool
from tileprof.runtime.cpu.executable import CpuExecutable

Array = np.ndarray[Any, Any]

NUMBERS = """kernel @numbers(%y: global<n, int64>) symbols(%n) {
  launch [%n] {threads = [1]} body(%b: index) {
    %v = cast %b : int64
    store %v, %y, [%b]
  }
}"""


def test_every_block_runs_once(two_threads: None) -> None:
    """Any number of blocks, and the result says how many there were."""
    executable = load(NUMBERS)
    for count in (0, 1, 2, 3, 1000):
        y = np.full(count + 1, -1, np.int64)
        result = executable.run([y[:count]], [count])
        assert y.tolist() == [*range(count), -1]
        assert (result.grid, result.blocks) == ((count,), count)
        assert result.time_ns > 0


def test_threads_of_python_may_launch_at_once(two_threads: None) -> None:
    """Launches wait for each other; each has its own result."""
    executable = load(NUMBERS)
    held = [np.zeros(200, np.int64) for _ in range(8)]
    threads = [threading.Thread(target=executable.run, args=([y], [200])) for y in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(y.tolist() == list(range(200)) for y in held)


def test_a_forked_child_has_threads_of_its_own(two_threads: None) -> None:
    """After a launch of the parent, a child's launch neither hangs nor loses a block."""
    executable = load(NUMBERS)
    executable.run([np.zeros(100, np.int64)], [100])
    child = os.fork()
    if child == 0:
        y = np.zeros(100, np.int64)
        executable.run([y], [100])
        os._exit(0 if y.tolist() == list(range(100)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_number_of_threads() -> None:
    """Python's choice wins; without it there is at least one; none is refused."""
    cpu_pool.set_threads(3)
    assert cpu_pool.threads() == 3
    cpu_pool.set_threads(None)
    assert cpu_pool.threads() >= 1
    with pytest.raises(UsageError, match="0 threads"):
        cpu_pool.set_threads(0)


SPEAKING = """kernel @speaking(%x: global<n, float32>, %stop: index) symbols(%n) {
  %c0 = constant 0 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  launch [%c2, %c3] {threads = [1]} body(%bx: index, %by: index) {
    %half = constant 0.5 : bfloat16
    print "hello" _
    print "half" %half
    parallel [%c2] body(%i: index) {
      print "i" %i
    }
    %first = eq %by, %c0 : bool
    if %first then {
      print "x" %x
    } otherwise { }
    %fine = lt %by, %stop : bool
    assert "by is small" %fine loc("kernel.py":12:4-12:20 "speaking")
  }
  launch [%c2] {threads = [1]} body(%b: index) {
    print "second" %b
  }
}"""
LINES = """block ({0}): hello
block ({0}): half 0.5
block ({0}), point (i=0): i 0
block ({0}), point (i=1): i 1
"""


def test_prints_come_in_the_order_of_blocks(
    capsys: pytest.CaptureFixture[str], two_threads: None
) -> None:
    """Each block's lines in one piece, blocks in order, launches in order."""
    load(SPEAKING).run([np.array([1.5, 2], np.float32), 9], [2])
    blocks = ["0, 0", "1, 0", "0, 1", "1, 1", "0, 2", "1, 2"]
    expected = [
        LINES.format(b) + (f"block ({b}): x\n[1.5, 2. ]\n" if b.endswith("0") else "")
        for b in blocks
    ]
    second = ["block (0): second 0\n", "block (1): second 1\n"]
    assert capsys.readouterr().out == "".join(expected + second)


def test_an_assertion_stops_the_launch(
    capsys: pytest.CaptureFixture[str], two_threads: None
) -> None:
    """The lowest block that failed is named, what was printed until then is shown, and no later
    launch runs."""
    executable = load(SPEAKING)
    for _ in range(20):
        with pytest.raises(DeviceAssertError) as caught:
            executable.run([np.zeros(1, np.float32), 1], [1])
        assert str(caught.value).splitlines()[0] == (
            "kernel.py:12:5: the kernel's assertion failed: by is small, in block (0, 1)"
        )
    assert "second" not in capsys.readouterr().out


def test_a_read_only_array_is_not_written() -> None:
    """The error comes before anything runs; reading one is fine."""
    text = kernel("half", ["%x: global<4, float32>", "%y: global<4, float32>"], "    copy %x, %y")
    executable = load(text)
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    executable.run([x, y], [])
    y.flags.writeable = False
    with pytest.raises(ArgumentError, match="`y` is written by the kernel"):
        executable.run([x, y], [])


def test_a_block_that_needs_too_much_memory_is_an_error() -> None:
    """More than the machine can address: a sentence and a way out, and the process lives on."""
    body = """    %t = alloc shared {shape = [1000000, 1000000, 1000]}
      : shared<1000000, 1000000, 1000, float64>
    %v = load %x, [%c0] : float64
    store %v, %t, [%c0, %c0, %c0]"""
    with pytest.raises(ExecutionError, match="not enough memory"):
        run(kernel("huge", ["%x: global<1, float64>"], body), [np.zeros(1)])


MEASURED = """kernel @measured(%x: global<n, float32>) symbols(%n) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c3 = constant 3 : index
  launch [%n] {threads = [1]} body(%b: index) {
    scope "outer" body {
      for serial %c0, %c3, %c1 body(%k: index) {
        scope "inner" body {
          %v = load %x, [%b] : float32
          %w = add %v, %v : float32
          store %w, %x, [%b]
        }
      }
    }
  }
}"""


def measured() -> CpuExecutable:
    """The kernel above with records at its scopes."""
    instrumented = insert(parse(MEASURED), "scopes")
    return CpuExecutable(instrumented, emit(instrumented))


def test_records_of_all_blocks_arrive(two_threads: None) -> None:
    """Counts are exact, inner time lies within outer time, blocks of both threads are there."""
    executable = measured()
    for _ in range(2):
        sites = executable.run([np.zeros(50, np.float32)], [50]).sites
        assert sites is not None
        outer, inner = sites.entries()
        assert (outer.path, outer.count, outer.blocks) == ((0,), 50, 50)
        assert (inner.path, inner.count, inner.blocks) == ((0, 1), 150, 50)
        assert 0 < inner.total_ns <= outer.total_ns
        assert (sites.lost, sites.unmatched) == (0, 0)


def test_a_full_buffer_holds_complete_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block writes 8 records; of room for 20, two blocks are kept and the rest is counted."""
    cpu_pool.set_threads(1)
    try:
        executable = measured()
        monkeypatch.setattr(executable, "_capacity", 20)
        sites = executable.run([np.zeros(50, np.float32)], [50]).sites
    finally:
        cpu_pool.set_threads(None)
    assert sites is not None
    assert [e.count for e in sites.entries()] == [2, 6]
    assert (sites.lost, sites.unmatched) == (48 * 8, 0)


def test_a_measured_kernel_includes_the_record_layout() -> None:
    """The layout in the source is the one statement of it."""
    assert records.c_struct() in measured().source.text


def test_several_launches_run_in_order(two_threads: None) -> None:
    """A launch sees all that the one before wrote; the grid may come from memory."""
    text = """kernel @twice(%x: global<n, float32>, %g: global<1, int64>) symbols(%n) {
  %c0 = constant 0 : index
  %count = load %g, [%c0] : int64
  %blocks = cast %count : index
  %bits = reinterpret %x {shape = [n]} : global<n, int32>
  launch [%blocks] {threads = [1]} body(%b: index) {
    %one = constant 1.0 : float32
    store %one, %x, [%b]
  }
  launch [%blocks] {threads = [1]} body(%b: index) {
    %last = constant 2 : index
    %at = sub %last, %b : index
    %v = load %bits, [%at] : int32
    %one = constant 1 : int32
    %w = add %v, %one : int32
    store %w, %bits, [%at]
  }
}"""
    x = np.zeros(4, np.float32)
    result = run(text, [x, np.array([3])], [4])
    assert x.view(np.int32).tolist() == [0x3F800001] * 3 + [0]
    assert (result.grid, result.blocks) == ((3,), 6)
