"""Loops, branches, parallel boxes and variables, where blocks and points part ways."""

from __future__ import annotations

from typing import get_args

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.running import array, run
from tests.verified import parse
from tileprof import ir
from tileprof.runtime.interpreter.dispatch import HANDLERS

COLLATZ = """
kernel @collatz(%x: global<n, int64>, %steps: out global<n, int64>) symbols(%n) {
  %one = constant 1 : int64
  %two = constant 2 : int64
  %three = constant 3 : int64
  %none = constant 0 : int64
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = alloc local {shape = []} : local<int64>
    %count = alloc local {shape = []} : local<int64>
    %start = load %x, [%bx] : int64
    store %start, %v, []
    store %none, %count, []
    while condition {
      %now = load %v, [] : int64
      %more = gt %now, %one : bool
      yield [%more]
    } body {
      %now = load %v, [] : int64
      %rest = floormod %now, %two : int64
      %even = eq %rest, %none : bool
      %next = if %even : int64 then {
        %half = floordiv %now, %two : int64
        yield [%half]
      } otherwise {
        %triple = mul %now, %three : int64
        %odd = add %triple, %one : int64
        yield [%odd]
      }
      store %next, %v, []
      %c = load %count, [] : int64
      %d = add %c, %one : int64
      store %d, %count, []
    }
    %c = load %count, [] : int64
    store %c, %steps, [%bx]
  }
}
"""


def collatz(v: int) -> int:
    """Steps to 1."""
    count = 0
    while v > 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        count += 1
    return count


def test_while_with_a_count_of_its_own_in_each_block() -> None:
    """Each block leaves the loop when its own condition fails."""
    x, steps = np.array([1, 6, 7, 27, 2], np.int64), np.zeros(5, np.int64)
    run(COLLATZ, x, steps, symbols=(5,))
    assert steps.tolist() == [collatz(v) for v in x.tolist()]


LOOP = """
kernel @loop(%start: global<n, int64>, %stop: global<n, int64>, %step: global<n, int64>,
    %log: out global<n, 64, int64>, %count: out global<n, int64>) symbols(%n) {
  %none = constant 0 : int64
  %one = constant 1 : int64
  %c7 = constant 7 : index
  %c3 = constant 3 : index
  %c13 = constant 13 : index
  launch [%n] {threads = [32]} body(%bx: index) {
    %at = alloc local {shape = []} : local<int64>
    store %none, %at, []
    %a64 = load %start, [%bx] : int64
    %b64 = load %stop, [%bx] : int64
    %s64 = load %step, [%bx] : int64
    %a = cast %a64 : index
    %b = cast %b64 : index
    %s = cast %s64 : index
    for serial %a, %b, %s body(%i: index) {
      %r = floormod %i, %c7 : index
      %skip = eq %r, %c3 : bool
      if %skip then {
        continue
      } otherwise {
      }
      %stop_here = eq %i, %c13 : bool
      if %stop_here then {
        break
      } otherwise {
      }
      %k = load %at, [] : int64
      %v = cast %i : int64
      store %v, %log, [%bx, %k]
      %k1 = add %k, %one : int64
      store %k1, %at, []
    }
    %k = load %at, [] : int64
    store %k, %count, [%bx]
  }
}
"""

bounds = st.tuples(st.integers(-20, 20), st.integers(-20, 20), st.sampled_from([1, 2, 5, -1, -3]))


@given(st.lists(bounds, min_size=1, max_size=7))
@settings(max_examples=30, deadline=None)
def test_loops_with_bounds_of_their_own(cases: list[tuple[int, int, int]]) -> None:
    """Every block runs exactly Python's `range`, with its own `continue` and `break`."""
    start, stop, step = (np.array(c, np.int64) for c in zip(*cases))
    n = len(cases)
    log, count = np.zeros((n, 64), np.int64), np.zeros(n, np.int64)
    run(LOOP, start, stop, step, log, count, symbols=(n,))
    for row, (a, b, s) in enumerate(cases):
        expected = []
        for i in range(a, b, s):
            if i % 7 == 3:
                continue
            if i == 13:
                break
            expected.append(i)
        assert log[row, : count[row]].tolist() == expected


NESTED = """
kernel @nested(%limit: global<n, int64>, %sums: out global<n, int64>) symbols(%n) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c5 = constant 5 : index
  %none = constant 0 : int64
  launch [%n] {threads = [32]} body(%bx: index) {
    %sum = alloc local {shape = []} : local<int64>
    store %none, %sum, []
    %l = load %limit, [%bx] : int64
    for serial %c0, %c5, %c1 body(%i: index) {
      for serial %c0, %c5, %c1 body(%j: index) {
        %p = mul %i, %j : index
        %p64 = cast %p : int64
        %far = gt %p64, %l : bool
        if %far then {
          break
        } otherwise {
        }
        %s = load %sum, [] : int64
        %t = add %s, %p64 : int64
        store %t, %sum, []
      }
    }
    %s = load %sum, [] : int64
    store %s, %sums, [%bx]
  }
}
"""


def test_break_leaves_the_innermost_loop() -> None:
    """Lanes that broke off an inner loop take part in the next round of the outer one."""
    limit, sums = np.array([0, 3, 100, 8], np.int64), np.zeros(4, np.int64)
    run(NESTED, limit, sums, symbols=(4,))
    expected = []
    for most in limit.tolist():
        total = 0
        for i in range(5):
            for j in range(5):
                if i * j > most:
                    break
                total += i * j
        expected.append(total)
    assert sums.tolist() == expected


LAZY = """
kernel @lazy(%x: global<n, int32>, %y: out global<n, int32>) symbols(%n) {
  %none = constant 0 : int32
  %hundred = constant 100 : int32
  %minus = constant -1 : int32
  %c4 = constant 4 : index
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = load %x, [%bx] : int32
    %zero = eq %v, %none : bool
    %r = if %zero : int32 then {
      yield [%minus]
    } otherwise {
      %q = floordiv %hundred, %v : int32
      yield [%q]
    }
    store %r, %y, [%bx]
  }
}
"""


def test_if_is_lazy() -> None:
    """A division by zero in the branch that a block does not take is none."""
    x, y = array("int32", [5, 0, 3, 0]), np.zeros(4, np.int32)
    run(LAZY, x, y, symbols=(4,))
    assert y.tolist() == [20, -1, 33, -1]


PARALLEL_CONTROL = """
kernel @points(%x: global<m, n, int32>, %y: global<m, n, int32>) symbols(%m, %n) {
  %none = constant 0 : int32
  %one = constant 1 : int32
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  launch [%m] {threads = [32]} body(%bx: index) {
    %last = add %bx, %c1 : index
    %var = alloc local {shape = []} : local<int32>
    store %one, %var, []
    %pair = alloc local {shape = [2]} : local<2, int32>
    store %none, %pair, [%c0]
    store %none, %pair, [%c1]
    parallel [%last] body(%i: index) {
      %v = load %x, [%bx, %i] : int32
      %negative = lt %v, %none : bool
      if %negative then {
        continue
      } otherwise {
      }
      %stop = cast %v : index
      for serial %c0, %stop, %c1 body(%k: index) {
        %a = load %var, [] : int32
        %b = add %a, %a : int32
        store %b, %var, []
        %k32 = cast %k : int32
        store %k32, %pair, [%c1]
      }
      %p = load %var, [] : int32
      %q = load %pair, [%c1] : int32
      %r = add %p, %q : int32
      store %r, %y, [%bx, %i]
    }
  }
}
"""


def test_points_have_variables_of_their_own() -> None:
    """Each point starts from the value before the box; extents and trip counts may differ."""
    x = np.array([[2, 9, 9], [0, 3, 9], [-1, 4, 1]], np.int32)
    y = np.full((3, 3), -7, np.int32)
    run(PARALLEL_CONTROL, x, y, symbols=(3, 3))
    expected = [[4 + 1, -7, -7], [1, 8 + 2, -7], [-7, 16 + 3, 2 + 0]]
    assert y.tolist() == expected


NESTED_PARALLEL = """
kernel @boxes(%y: out global<2, 3, 4, int64>) {
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c10 = constant 10 : index
  launch [%c2] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [3, 4]} : shared<3, 4, int64>
    parallel [%c3] body(%i: index) {
      %ten = mul %i, %c10 : index
      %own = alloc local {shape = [4]} : local<4, int64>
      parallel [%c4] body(%j: index) {
        %sum = add %ten, %j : index
        %v = cast %sum : int64
        store %v, %s, [%i, %j]
      }
      parallel [%c4] body(%j: index) {
        %v = load %s, [%i, %j] : int64
        %b = cast %bx : int64
        %w = add %v, %b : int64
        store %w, %y, [%bx, %i, %j]
      }
    }
  }
}
"""


def test_nested_parallel() -> None:
    """A box inside a box: the inner one runs for every point of the outer one."""
    y = np.zeros((2, 3, 4), np.int64)
    run(NESTED_PARALLEL, y)
    np.testing.assert_array_equal(y, np.fromfunction(lambda b, i, j: 10 * i + j + b, y.shape))


TWICE = """
kernel @twice(%x: global<8, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  launch [%c2] {threads = [32]} body(%bx: index) {
    parallel [%c4] body(%i: index) {
      %b = mul %bx, %c4 : index
      %at = add %b, %i : index
      for serial %c0, %c4, %c1 body(%k: index) {
        %v = load %x, [%at] : int32
        %w = add %v, %v : int32
        store %w, %x, [%at]
      }
    }
    for serial %c0, %c2, %c1 body(%k: index) {
      parallel [%c4] body(%i: index) {
        %b = mul %bx, %c4 : index
        %up = add %b, %i : index
        %turned = sub %c4, %i : index
        %low = sub %turned, %c1 : index
        %at = add %b, %low : index
        %v = load %x, [%at] : int32
        %k32 = cast %k : int32
        %w = add %v, %k32 : int32
        store %w, %x, [%at]
      }
    }
  }
}
"""


def test_one_author_may_write_again() -> None:
    """A point may write its element many times, and a later box may hand it to another point."""
    x = np.arange(8, dtype=np.int32)
    run(TWICE, x)
    assert x.tolist() == [16 * i + 1 for i in range(8)]


LAUNCHES = """
kernel @launches(%x: global<n, int32>, %t: out global<n, int32>, %y: out global<n, int32>)
    symbols(%n) {
  %c1 = constant 1 : index
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = load %x, [%bx] : int32
    store %v, %t, [%bx]
  }
  launch [%n, %c1] {threads = [32]} body(%bx: index, %by: index) {
    %up = sub %n, %bx : index
    %at = sub %up, %c1 : index
    %v = load %t, [%at] : int32
    store %v, %y, [%bx]
  }
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = load %y, [%bx] : int32
    store %v, %t, [%bx]
  }
}
"""


def test_launches_run_one_after_another() -> None:
    """A launch sees what an earlier one wrote, and another block may write it again."""
    x = np.arange(4, dtype=np.int32)
    t, y = np.zeros(4, np.int32), np.zeros(4, np.int32)
    result = run(LAUNCHES, x, t, y, symbols=(4,))
    assert y.tolist() == t.tolist() == [3, 2, 1, 0]
    assert (result.grid, result.blocks) == ((4,), 12)


def test_an_empty_grid_runs_nothing() -> None:
    """A grid with an extent of 0 has no blocks."""
    empty = np.zeros(0, np.int32)
    assert run(LAUNCHES, empty, empty, empty, symbols=(0,)).blocks == 0


GRID = """
kernel @grid(%y: out global<4, 3, 2, int64>) {
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c10 = constant 10 : index
  launch [%c2, %c3, %c4] {threads = [32]} body(%bx: index, %by: index, %bz: index) {
    %z = mul %bz, %c10 : index
    %zy = add %z, %by : index
    %zy0 = mul %zy, %c10 : index
    %zyx = add %zy0, %bx : index
    %v = cast %zyx : int64
    store %v, %y, [%bz, %by, %bx]
  }
}
"""


def test_grid_of_three_axes() -> None:
    """Each block has its own indices."""
    y = np.zeros((4, 3, 2), np.int64)
    run(GRID, y)
    np.testing.assert_array_equal(y, np.fromfunction(lambda z, y, x: 100 * z + 10 * y + x, y.shape))


MASKED_TILES = """
kernel @masked(%x: global<6, 4, int32>, %y: global<6, 4, int32>) {
  %c0 = constant 0 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %c6 = constant 6 : index
  launch [%c6] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [4]} : shared<4, int32>
    %t = alloc shared {shape = [1]} : shared<1, int32>
    %r = floormod %bx, %c3 : index
    %on = eq %r, %c2 : bool
    %xv = view %x, [%bx, %c0] {sizes = [1, 4]} : global<1, 4, int32>
    if %on then {
      copy %xv, %s
      reduce sum %s, %t {dim = 0}
      scan sum %s, %s {dim = 0}
    } otherwise {
      %v = constant 5 : int32
      fill %s, %v
    }
    %yv = view %y, [%bx, %c0] {sizes = [1, 4]} : global<1, 4, int32>
    copy %s, %yv
    if %on then {
      %sum = load %t, [%c0] : int32
      store %sum, %y, [%bx, %c0]
    } otherwise {
    }
  }
}
"""


def test_tile_ops_in_some_blocks() -> None:
    """Only the blocks that take a branch run its tile ops."""
    x, y = np.arange(24, dtype=np.int32).reshape(6, 4), np.zeros((6, 4), np.int32)
    run(MASKED_TILES, x, y)
    expected = np.full((6, 4), 5)
    for row in (2, 5):
        expected[row] = x[row].cumsum()
        expected[row, 0] = x[row].sum()
    np.testing.assert_array_equal(y, expected)


def test_every_op_is_handled() -> None:
    """The table of handlers is complete over the author's ops, and has nothing else."""
    assert set(HANDLERS) == set(ir.OPS.values()) - set(get_args(ir.DeviceOp))


def test_a_kernel_runs_many_times() -> None:
    """An executable keeps nothing from one run to the next."""
    from tileprof.runtime.interpreter import InterpreterExecutable

    executable = InterpreterExecutable(parse(COLLATZ))
    for n in (3, 1, 4):
        x, steps = np.arange(1, n + 1), np.zeros(n, np.int64)
        executable.run([x, steps], [n])
        assert steps.tolist() == [collatz(v) for v in range(1, n + 1)]
