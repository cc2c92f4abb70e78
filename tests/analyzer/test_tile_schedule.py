"""What blocks read from memory, by their order."""

from __future__ import annotations

import math

import pytest

from tests.analyzer.defects import product
from tileprof.analyzer.tiles.panels import Schedule
from tileprof.analyzer.tiles.tile_schedule import schedule_of
from tileprof.ir import print_kernel
from tileprof.profile.storage.ir_text import read

IR = """kernel @k(%A: global<400, 25000, bfloat16>, %B: global<{n}, 25000, bfloat16>, %C: out \
global<400, 800, bfloat16>) {{
  %c4 = constant 4 : index
  launch [%c4, %c4] {{threads = [128]}} body(%bx: index, %by: index) {{
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c500 = constant 500 : index
    %c100 = constant 100 : index
    %c200 = constant 200 : index
    for pipelined %c0, {stop}, %c1 {{num_stages = 2}} body(%k: index) {{
      %c50 = constant 50 : index
      %0 = mul %by, %c100 : index
      %1 = mul %k, %c50 : index
      %A_tile = view %A, [%0, %1] {{sizes = [100, 50]}} : global<100, 50, bfloat16>
      copy %A_tile, %A_shared
      %2 = mul %bx, %c200 : index
      %B_tile = view %B, [%2, %1] {{sizes = [200, 50]}} : global<200, 50, bfloat16>
      copy %B_tile, %B_shared
    }}
    %3 = mul %by, %c100 : index
    %4 = mul %bx, %c200 : index
    %C_tile = view %C, [%3, %4] {{sizes = [100, 200]}} : global<100, 200, bfloat16>
    copy %C_local, %C_tile
  }}
}}
"""
"""Four rows of A with 5 MB each, four columns of B with 10 MB."""


def schedule(n: int = 800, stop: str = "%c500") -> Schedule | None:
    """Of a product whose B has n rows."""
    return schedule_of(read(IR.format(n=n, stop=stop)))


def test_panels() -> None:
    """A block reads its row of A and its column of B; what it writes is not read."""
    held = schedule()
    assert held is not None
    assert held.grid == (4, 4)
    a, b = held.panels
    assert (a.tensor, a.size.tolist()) == ("%A", [5e6] * 4)
    assert (b.tensor, b.size.tolist()) == ("%B", [10e6] * 4)
    assert a.number.tolist() == [row for row in range(4) for _ in range(4)]
    assert b.number.tolist() == [0, 1, 2, 3] * 4


def test_tiles_end_with_their_tensor() -> None:
    """The last column has half of its rows."""
    held = schedule(n=700)
    assert held is not None
    assert held.panels[1].size.tolist() == [10e6, 10e6, 10e6, 5e6]


@pytest.mark.parametrize(("group", "megabytes"), [(1, 180), (2, 100), (4, 60)])
def test_groups_of_rows_share(group: int, megabytes: int) -> None:
    """Four blocks at once. A row of blocks reads 5 + 40 MB, which the L2 does not keep, four times.
    Two by two they read 10 + 20, and keep the two rows of A for the next two columns. A column
    reads 20 + 10, and keeps all of A."""
    held = schedule()
    assert held is not None
    assert held.read(group, 4) == pytest.approx(megabytes * 1e6)


def test_all_at_once() -> None:
    """Each byte once."""
    held = schedule()
    assert held is not None
    assert held.read(1, 16) == pytest.approx(60e6)
    assert held.once == pytest.approx(60e6)


def test_the_order_of_groups() -> None:
    """Two rows go down before the next column; the last group has one row."""
    rows = Schedule((3, 3), ()).order(2).tolist()
    assert rows == [0, 3, 1, 4, 2, 5, 6, 7, 8]
    assert Schedule((3, 2, 2), ()).order(2).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert Schedule((3,), ()).order(8).tolist() == [0, 1, 2]
    # The third axis first: blocks 0 and 6 differ in it alone.
    turned = Schedule((3, 2, 2), ()).order(1, (2, 0, 1)).tolist()
    assert turned == [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]
    assert Schedule((3, 2), ()).order(1, (1, 0)).tolist() == Schedule((3, 2), ()).order(2).tolist()


def test_the_compilers_own_text() -> None:
    """1,024 by 64 elements of 2 bytes for each of 16 rows, and of 16 columns."""
    held = schedule_of(read(print_kernel(product().compile().program.kernel)))
    assert held is not None
    assert held.grid == (16, 16)
    assert [each.size.tolist() for each in held.panels] == [[131072.0] * 16] * 2
    assert held.read(8, 132) == pytest.approx(2 * 16 * 131072)


def test_what_is_known_at_launch_only() -> None:
    """A loop of as many turns as a parameter says; no text; no tiles."""
    assert schedule(stop="%n") is None
    assert schedule_of(read("")) is None
    cut_off = "kernel @k() {\n  %c4 = constant 4 : index\n  launch [%c4] {} body() {\n"
    assert schedule_of(read(cut_off)) is None


LOADS = """kernel @k(%X: global<12, 64, 128, bfloat16>, %T: global<64, 128, float32>, \
%R: global<64, int32>) {
  %c2 = constant 2 : index
  %c12 = constant 12 : index
  launch [%c2, %c12] {threads = [128]} body(%block: index, %head: index) {
    %c32 = constant 32 : index
    %c64 = constant 64 : index
    parallel [%c32, %c64] body(%i: index, %j: index) {
      %0 = mul %block, %c32 : index
      %token = add %0, %i : index
      %1 = load %X, [%head, %token, %j] {in_bounds = true} : bfloat16
      %2 = load %T, [%token, %j] {in_bounds = true} : float32
      %3 = load %T, [%token, %j] {in_bounds = true} : float32
      %4 = load %R, [%token] : int32
      %5 = load %T, [%4, %j] : float32
      %6 = floordiv %j, %c2 : index
      %7 = load %T, [%token, %6] : float32
    }
  }
}
"""


def test_loads_of_points() -> None:
    """Each head reads its own part of X, and all of them the same of T and R. What one load has
    read already, and what points share, are left out; an index that was loaded may be any."""
    held = schedule_of(read(LOADS))
    assert held is not None
    x, table, rows, somewhere = held.panels
    assert (x.tensor, x.size.tolist()) == ("%X", [32 * 64 * 2] * 24)
    assert (table.tensor, table.size.tolist()) == ("%T", [32 * 64 * 4] * 2)
    assert table.number.tolist() == [0, 1] * 12
    assert rows.size.tolist() == [32 * 4] * 2
    assert (somewhere.size.tolist(), somewhere.asked) == ([64 * 64 * 4], 32 * 64 * 4)


RANDOM = """kernel @k(%X: global<10000, 16384, float32>, %R: global<80000, int32>) {
  %c32 = constant 32 : index
  %c2500 = constant 2500 : index
  launch [GRID] {threads = [128]} body(NAMES) {
    %c512 = constant 512 : index
    parallel [%c32, %c512] body(%i: index, %j: index) {
      %0 = mul %by, %c32 : index
      %1 = add %0, %i : index
      %2 = load %R, [%1] : int32
      %3 = mul %bx, %c512 : index
      %4 = add %3, %j : index
      %5 = load %X, [%2, %4] : float32
    }
  }
}
"""


def test_elements_at_random() -> None:
    """80,000 rows of 10,000: whole rows at once, of 655 MB, the L2 has seldom; a slice of 512
    columns it keeps, and reads once what is asked for at all."""
    grid, names = ("%c32", "%c2500"), ("%bx: index", "%by: index")
    by_rows = RANDOM.replace("GRID", ", ".join(grid)).replace("NAMES", ", ".join(names))
    by_slices = RANDOM.replace("GRID", ", ".join(grid[::-1]))
    rows = schedule_of(read(by_rows))
    slices = schedule_of(read(by_slices.replace("NAMES", ", ".join(names[::-1]))))
    assert rows is not None
    assert slices is not None
    table, asked = 10000 * 16384 * 4, 80000 * 16384 * 4
    once, index = table * -math.expm1(-asked / table), 80000 * 4
    again = (asked - once) * (1 - 40e6 / table)
    assert rows.read(1, 1024) == pytest.approx(once + again + index)
    assert slices.read(1, 1024) == pytest.approx(once + index, rel=1e-3)
    assert rows.read(2500, 1024) == pytest.approx(once + index, rel=1e-3)


def test_points_that_are_known_at_launch_only() -> None:
    """Nothing is said of their loads."""
    held = schedule_of(read(LOADS.replace("%c64]", "%n]")))
    assert held is not None
    assert [each.tensor for each in held.panels] == ["%R"]
