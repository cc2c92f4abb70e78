"""Values of indices, and how many iterations loops have."""

from __future__ import annotations

from tests.analyzer.rotated import read_kernel
from tileprof.analyzer.tiles.values import turns_of, values_of
from tileprof.profile.storage.ir_text import read

LOOPS = """kernel @k(%n: index) {
  %c4 = constant 4 : index
  %c1 = constant 1 : index
  %c0 = constant 0 : index
  launch [%c4] {threads = [128]} body(%bx: index) {
    %0 = add %bx, %c1 : index
    for serial %c0, %0, %c1 body(%k: index) {
      %1 = min %c4, %c1 : index
      for serial %1, %c4, %c4 body(%j: index) {
      }
      for serial %c0, %k, %c1 body(%i: index) {
      }
    }
    for serial %c0, %n, %c1 body(%l: index) {
    }
  }
}
"""


def test_turns_of_loops() -> None:
    """Values are known by block and in parts of a step, not where a loop or a parameter decides."""
    kernel = read(LOOPS)
    values, loops = values_of(kernel), [*kernel.named("for")]
    assert values.turns["%k"].tolist() == [1, 2, 3, 4]
    assert [values.mean_turns(each) for each in loops] == [2.5, 1.0, None, None]
    assert turns_of(values, loops) == 2.5
    assert (values.number("%1"), values.number("%bx"), values.number("%j")) == (1, None, None)


def test_turns_of_the_diagonal() -> None:
    """Of 32 rows of tiles, 1 to 32 tiles are seen."""
    kernel = read_kernel("attention", causal=True)
    values = values_of(kernel)
    assert [values.mean_turns(each) for each in kernel.named("for")] == [16.5]
