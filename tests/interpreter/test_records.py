"""Times of sites with a clock of executed ops, and what a kernel prints."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.interpreter.running import run
from tests.verified import parse
from tileprof import ir
from tileprof.errors import DeviceAssertError
from tileprof.runtime.interpreter import InterpreterExecutable, OpClock

SITES = """
kernel @sites(%x: global<n, 4, float32>, %y: out global<n, 4, float32>) symbols(%n) {
  site 0 scope "block"
  site 1 op "row" in 0
  site 2 op "odd" in 0
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %f = constant 1.0 : float32
  launch [%n] {threads = [32]} body(%bx: index) {
    record begin {site = 0}
    %s = alloc shared {shape = [4]} : shared<4, float32>
    for serial %c0, %c2, %c1 body(%k: index) {
      record begin {site = 1}
      %xv = view %x, [%bx, %c0] {sizes = [1, 4]} : global<1, 4, float32>
      copy %xv, %s
      record end {site = 1}
    }
    %r = floormod %bx, %c2 : index
    %odd = eq %r, %c1 : bool
    if %odd then {
      record begin {site = 2}
      %v = exp %f : float32
      record end {site = 2}
    } otherwise {
    }
    %yv = view %y, [%bx, %c0] {sizes = [1, 4]} : global<1, 4, float32>
    copy %s, %yv
    record end {site = 0}
  }
}
"""


def slow_copies(op: ir.OpBase) -> int:
    """A copy takes 100 ns, any other op 1."""
    return 100 if isinstance(op, ir.Copy) else 1


def run_sites(batch: int | None, n: int) -> InterpreterExecutable:
    """An executable with a clock of its own."""
    return InterpreterExecutable(parse(SITES), clock=OpClock(slow_copies), batch=batch)


@pytest.mark.parametrize("batch", [2, 4, None])
def test_exact_times(batch: int | None) -> None:
    """By path: visits, total, shortest, longest, blocks.  A batch's time is shared out evenly."""
    x = np.ones((8, 4), np.float32)
    result = run_sites(batch, 8).run([x, np.zeros_like(x)], [8])
    assert result.sites is not None
    rows = {
        e.path: (e.count, e.total_ns, e.min_ns, e.max_ns, e.blocks) for e in result.sites.entries()
    }
    # alloc, twice view and copy, floormod, eq, exp, view, copy
    block = 1 + 2 * 101 + 3 + 101
    assert rows == {
        (0,): (8, 8 * block, block, block, 8),
        (0, 1): (16, 16 * 101, 101, 101, 8),
        (0, 2): (4, 4, 1, 1, 4),
    }
    assert result.sites.block_ns == 8 * block
    assert (result.sites.lost, result.sites.unmatched) == (0, 0)


def test_times_do_not_depend_on_the_batch() -> None:
    """Where blocks do not part, a clock of ops gives one profile for every batch size."""
    text = SITES.replace("floormod %bx, %c2", "floormod %c1, %c2")
    x = np.ones((7, 4), np.float32)
    seen = []
    for batch in (1, 3, None):
        clock = OpClock(slow_copies)
        executable = InterpreterExecutable(parse(text), clock=clock, batch=batch)
        result = executable.run([x, np.zeros_like(x)], [7])
        assert result.sites is not None
        seen.append((result.time_ns, [*map(repr, result.sites.entries())]))
    assert seen[0] == seen[1] == seen[2]
    # Four constants at the top, and seven blocks.
    assert seen[0][0] == 4 + 7 * (1 + 2 * 101 + 3 + 101)


def test_fake_clock(fake_clock: Callable[[], int]) -> None:
    """Any clock does: here one that advances by 1,000 ns at every look."""
    executable = InterpreterExecutable(parse(SITES), clock=fake_clock)
    x = np.ones((4, 4), np.float32)
    result = executable.run([x, np.zeros_like(x)], [4])
    assert result.sites is not None
    totals = dict(zip(result.sites.paths(), result.sites.total_ns.tolist()))
    assert totals == {(0,): 7000, (0, 1): 2000, (0, 2): 500}
    assert result.time_ns == 11000


def test_no_sites_no_times() -> None:
    """A kernel without sites has no table of them."""
    text = "kernel @k(%n: index) { launch [%n] {threads = [32]} body(%bx: index) { } }"
    result = run(text, 3)
    assert (result.sites, result.blocks) == (None, 3)


PRINT = """
kernel @show(%x: global<2, 3, bfloat16>, %n: int32) {
  %c0 = constant 0 : index
  %c2 = constant 2 : index
  %never = constant false : bool
  print "start" %n
  launch [%c2] {threads = [32]} body(%bx: index) {
    print "hello" _
    parallel [%c2] body(%i: index) {
      %v = load %x, [%bx, %i] : bfloat16
      print "x =" %v
    }
    %s = alloc shared {shape = [3]} : shared<3, bfloat16>
    %xv = view %x, [%bx, %c0] {sizes = [1, 3]} : global<1, 3, bfloat16>
    copy %xv, %s
    print "s" %s
    %last = gt %bx, %c0 : bool
    if %last then {
      print "" %last
      assert "never" %never
    } otherwise {
    }
  }
}
"""
SHOWN = """\
start 7
block (0): hello
block (0), point (i=0): x = 0.5
block (0), point (i=1): x = 1.5
block (0): s
[0.5, 1.5, 2.5]
block (1): hello
block (1), point (i=0): x = 3.5
block (1), point (i=1): x = 4.5
block (1): s
[3.5, 4.5, 5.5]
block (1): True
"""


@pytest.mark.parametrize("batch", [1, None])
def test_print(batch: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks print in order, each in one piece, and what was printed before an error is shown."""
    x = (np.arange(6).reshape(2, 3) + 0.5).astype(ir.DTYPES["bfloat16"].to_numpy())
    executable = InterpreterExecutable(parse(PRINT), batch=batch)
    with pytest.raises(DeviceAssertError, match="never, in block \\(1\\)"):
        executable.run([x, 7], [])
    assert capsys.readouterr().out == SHOWN


def test_print_of_a_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """A scalar variable may be printed as a buffer."""
    text = """
kernel @k(%n: index) {
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = alloc local {shape = []} : local<index>
    store %bx, %v, []
    print "v" %v
  }
}
"""
    InterpreterExecutable(parse(text)).run([2], [])
    assert capsys.readouterr().out == "block (0): v\n0\nblock (1): v\n1\n"
