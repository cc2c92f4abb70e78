"""Tiles that reach beyond their tensors, by IR."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyzer.padded import guarded, product, windows
from tileprof import ir
from tileprof.analyzer.tiles.padding import Outside, padded_ops
from tileprof.kernel_ir import TileKernel
from tileprof.profile.storage.ir_text import read


def printed(kernel: Any) -> TileKernel:
    """As a profile has it."""
    return read(ir.print_kernel(kernel.compile().program.kernel))


@pytest.mark.parametrize(
    ("shape", "inside"),
    [
        ((128, 128, 64), None),
        ((128, 96, 64), 96 / 128),
        ((100, 128, 64), 100 / 128),
        ((100, 96, 64), 100 * 96 / 128**2),
        ((128, 128, 48), 48 / 64),
    ],
)
def test_products(shape: tuple[int, int, int], inside: float | None) -> None:
    """Rows, columns, and what is summed over, which counts once."""
    found = [each.inside for each in padded_ops(printed(product(*shape))) if each.op == "gemm"]
    assert found == ([pytest.approx(inside)] if inside else [])


def test_copies_of_tiles_say_what_they_reach_beyond() -> None:
    """Rows and columns of C."""
    found = {
        (each.op, each.name): each.beyond for each in padded_ops(printed(product(100, 96, 64)))
    }
    assert found["copy", "C"] == (Outside("C", 0, 100, 128), Outside("C", 1, 96, 128))


def test_a_guard_of_the_author() -> None:
    """Lanes that it keeps out are outside too."""
    found = {(each.op, each.name): each.inside for each in padded_ops(printed(guarded))}
    assert found == {("load", "X"): 320 / 512, ("store", "Y"): 320 / 512}


def test_rims_of_windows_are_no_padding() -> None:
    """Nor is a bound that is known at launch only."""
    assert not padded_ops(printed(windows))
    known = ir.print_kernel(product(100, 96, 64).compile().program.kernel)
    assert not padded_ops(read(known.replace("= mul", "= floordiv")))
    assert not padded_ops(read(""))
