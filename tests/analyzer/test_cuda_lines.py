"""Lines of loops, by the CUDA that was made of them."""

from __future__ import annotations

import pytest

from tileprof.analyzer.tiles.cuda_lines import lines_of
from tileprof.analyzer.tiles.tile_loops import narrow_loops, uneven_lines, unrolled
from tileprof.profile.storage.ir_text import read


def loop(name: str, head: int, *body: int, inside: str = "") -> str:
    """CUDA of a loop in a line, with statements in further lines."""
    lines = "".join(f"#line {each}\n  a({{}});\n" for each in body)
    return f"#line {head}\nfor (int {name} = 0; {name} < 4; ++{name}) {{\n{lines}{inside}}}\n"


def test_a_name_again() -> None:
    """Where the one before is out of scope."""
    code = loop("j", 4, 5) + loop("j", 7, 8) + "#line 9\nb();\n"
    assert lines_of(code, "%j", ["%j", "%j_1"]) == [4, 5]
    assert lines_of(code, "%j_1", ["%j", "%j_1"]) == [7, 8]


def test_a_loop_again() -> None:
    """In the prologue of a loop that was rotated, in its steady part, and in its epilogue, where a
    statement less is left: copies count once, so the loop after them is found."""
    prologue, steady = (loop(f"k{n}", 3, inside=loop(f"j{n}", 4, 5, 6)) for n in ("", "_1"))
    last = loop("k_2", 3, inside=loop("j_2", 4, 6))
    code = prologue + steady + last + loop("j_3", 9, 10)
    assert set(lines_of(code, "%j", ["%j", "%j_1"])) == {4, 5, 6}
    assert lines_of(code, "%j_1", ["%j", "%j_1"]) == [9, 10]


def test_two_loops_of_one_line() -> None:
    """Of a function that was inlined twice: which is which, their order tells."""
    code = loop("j", 4, 5) + loop("j", 4, 6)
    assert lines_of(code, "%j", ["%j", "%j_1"]) == [4, 5]
    assert lines_of(code, "%j_1", ["%j", "%j_1"]) == [4, 6]


@pytest.mark.parametrize("code", ["", "for (int j = 0; j < 4; ++j) {\n}\n", loop("i", 4)])
def test_what_is_not_there(code: str) -> None:
    """No text, no line before it, another name."""
    assert lines_of(code, "%j", ["%j"]) == []


IR = """kernel @k(%n: index) {
  %c256 = constant 256 : index
  %c64 = constant 64 : index
  %c32 = constant 32 : index
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  launch [%c64] {threads = [256]} body(%bx: index) {
    for serial %c0, %c64, %c1 {hints = [[order, 1]]} body(%j: index) {
      parallel [%c32] body(%i: index) {
        for serial %c0, %i, %c1 body(%each: index) {
        }
        for serial %c0, %bx, %c1 body(%alike: index) {
        }
      }
    }
    for unroll %c0, %c64, %c1 body(%wide: index) {
      parallel [%c256] body(%i_1: index) {
      }
    }
    for serial %c0, %c64, %c1 body(%together: index) {
      parallel [%c32] body(%i_2: index) {
      }
      scan sum %x, %y {dim = 0}
    }
  }
}
"""


def test_loops_of_each_kind() -> None:
    """Narrow ones but those with an op of all threads; uneven ones but those that turn as often
    for all elements of a block; unrolled ones."""
    inner = loop("each", 5, 6) + loop("alike", 7, 8)
    code = loop("j", 4, inside=inner) + loop("wide", 10, 11) + loop("together", 12, 13)
    kernel = read(IR)
    (narrow,) = narrow_loops(kernel, code)
    assert (sorted(narrow.lines), narrow.elements, narrow.turns) == ([4, 5, 6, 7, 8], 32, 64)
    assert uneven_lines(kernel, code) == {5, 6}
    assert [(each.line, each.turns) for each in unrolled(kernel, code)] == [(10, 64)]
