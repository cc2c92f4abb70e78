"""Work that is done again, and products written as loops, by dependences of the IR."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, only, program
from tests.analyzer.written import BY_HAND, EACH, GEMM, SQUARES, four_times, kernel
from tileprof.analyzer.tiles.conditions import products_by_data
from tileprof.analyzer.tiles.contractions import contractions
from tileprof.analyzer.tiles.repeated import repeated
from tileprof.profile.storage.ir_text import read

MASKED = """\
%13 = load %S, [%bx] {in_bounds = true} : int32
      %14 = constant 0 : int32
      %15 = ne %13, %14 : bool
      if %15 then {
        gemm %a, %b, %s
      } otherwise {
      }"""
ADDED = SQUARES.replace("store %12", "%16 = load %x, [%i, %j] {in_bounds = true} : float32\n"
                        " %17 = add %16, %12 : float32\n store %17")  # fmt: skip


@pytest.mark.parametrize(
    ("body", "how", "part"),
    [
        ((GEMM,), "", 0.0),
        ((BY_HAND,), "", 0.0),
        (("copy %first, %a", GEMM), "unread", 1.0),  # written over by another tile
        (("copy %B_tile, %b", GEMM), "twice", 1.0),
        ((GEMM, "copy %B_tile, %b"), "twice", 1.0),
            ((GEMM, "fill %b, %0", "copy %B_tile, %b"), "", 0.0),  # changed in between
        ((GEMM, four_times(SQUARES)), "whole loop", 0.75),
        ((GEMM, four_times(SQUARES.replace("%11, %11", "%11, %16").replace(
            "%12 =", "%16 = cast %z : float16\n %12 ="))), "", 0.0),  # goes with the index
        ((GEMM, four_times(ADDED)), "", 0.0),  # goes with the turn before
        ((GEMM, "copy %s, %C_tile"), "overwritten", 1 - 1 / 8),
    ],
)  # fmt: skip
def test_what_is_done_again(body: tuple[str, ...], how: str, part: float) -> None:
    """And how much of it goes."""
    found = [(str(each.how), round(each.part, 6)) for each in repeated(read(kernel(*body)))]
    assert found == ([(how, part)] if how else [])


def test_a_tile_of_each_turn() -> None:
    """One that does not go with the loop could be copied before it."""
    text = kernel(GEMM).replace("copy %A_tile, %a", "copy %first, %a")
    (again,) = repeated(read(text))
    assert (again.how, again.buffers, again.moves) == ("each turn", ("%a",), True)
    atomic = text.replace("copy %first, %a", "copy %first, %a\n tile_atomic add %s, %C_tile")
    assert not repeated(read(atomic))


def test_loops_that_are_a_product() -> None:
    """8 turns of 64 sums of 128 × 128, by 4 blocks."""
    (product,) = contractions(read(kernel(BY_HAND)))
    assert (product.rows, product.columns, product.dtype) == (128, 128, "float16")
    assert product.flops == 2 * 4 * 8 * 64 * 128 * 128
    assert product.certain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%b, [%d, %c]", "%b, [%d, %d]"),  # a product of a matrix and a vector
        ("%b, [%d, %c]", "%b, [%r, %c]"),  # nothing is summed over
        ("add %4, %9", "sub %4, %9"),
        ("load %s, [%r, %c]", "load %s, [%c, %r]"),
        ("%10 = add", "%18 = load %s, [%c, %c] : float32\n %10 = add"),  # read before complete
    ],
)
def test_loops_that_are_none(old: str, new: str) -> None:
    """Where elements are used once, or sums meanwhile."""
    assert not contractions(read(kernel(BY_HAND.replace(old, new))))


def test_products_that_data_leave_out() -> None:
    """By a condition on what was loaded."""
    assert products_by_data(read(kernel(MASKED)))
    assert not products_by_data(read(kernel(GEMM)))
    assert not products_by_data(read(kernel(MASKED.replace("ne %13", "ne %14"))))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ((GEMM, four_times(SQUARES)), "redundant-work"),
        (("copy %B_tile, %b", GEMM), "redundant-traffic"),
        ((BY_HAND,), "tensor-core-missed"),
    ],
)
def test_without_samples_it_is_a_warning(body: tuple[str, ...], rule: str) -> None:
    """A cause without a number."""
    finding = only(program(Made(ir=kernel(*body))), rule)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_a_sum_for_each_element() -> None:
    """By a loop of its own over rows and columns in global memory."""
    (product,) = contractions(read(EACH))
    assert (product.rows, product.columns, product.flops) == (8, 32, 2.0 * 4096**3)
    vector = EACH.replace("load %B, [%k, %column]", "load %B, [%k, %c0]")
    assert not contractions(read(vector))
