"""Boxes of blocks against the elements that accesses name one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof import ir
from tileprof.drawing.boxes import Boxes, Cover, boxes_of, covered, taking_part, united
from tileprof.runtime.events.access import Access

SHAPE = (6, 7)
FLOAT = ir.DTYPES["float32"]


@dataclass
class Held:
    """A buffer of an access."""

    name: str
    type: ir.BufferType
    shape: tuple[int, ...]
    memory: object = None


def access(
    starts: tuple[Any, ...], sizes: tuple[int, ...], lanes: tuple[int, ...], mask: Any = True
) -> Access:
    """An access of a matrix of `SHAPE` by the blocks 0, 1, …"""
    op, kernel = ir.Yield([]), parse_nothing()
    held = Held("A", ir.BufferType(SHAPE, FLOAT, "global"), SHAPE)
    blocks = np.arange(lanes[0])
    return Access(kernel, op, "read", held, 0, blocks, lanes, mask, starts, sizes, -1, 0, ())


def parse_nothing() -> ir.Kernel:
    """A kernel without ops; nothing here depends on it."""
    return ir.Kernel("nothing", (), (), ir.Block([], []))


def elements(boxes: Boxes) -> set[tuple[int, int, int]]:
    """Block and indices of every element."""
    return {
        (int(block), int(low[0]) + row, int(low[1]) + column)
        for block, low, high in zip(boxes.blocks, boxes.low, boxes.high)
        for row, column in np.ndindex(*(high - low))
    }


def named(each: Access) -> set[tuple[int, int, int]]:
    """Block and indices of every element that an access names."""
    blocks, numbers = each.flat()
    rows, columns = np.unravel_index(numbers, SHAPE)
    return set(zip(blocks.tolist(), rows.tolist(), columns.tolist()))


ROW = np.arange(4).reshape(1, 4, 1)
COLUMN = np.arange(3).reshape(1, 1, 3)
BLOCK = np.arange(2).reshape(2, 1, 1)
ODD = (ROW + COLUMN + BLOCK) % 2 == 1

CASES = {
    "a tile of each block": access((BLOCK * 2, 3), (2, 3), (2, 1, 1)),
    "a tile past the edges": access((BLOCK * 4, 5), (4, 5), (2, 1, 1)),
    "a tile outside": access((BLOCK * 6, 0), (2, 2), (2, 1, 1)),
    "points": access((BLOCK * 3 + ROW, COLUMN * 1), (1, 1), (2, 4, 3)),
    "points that repeat": access((ROW // 2, 0), (1, 1), (2, 4, 3)),
    "points with a step": access((0, ROW * 2), (1, 1), (2, 4, 3)),
    "a diagonal": access((ROW, ROW + BLOCK), (1, 1), (2, 4, 3)),
    "a mask by point": access((ROW, COLUMN), (1, 1), (2, 4, 3), ODD),
    "a mask by block": access((ROW, COLUMN), (1, 1), (2, 4, 3), BLOCK == 1),
}


@pytest.mark.parametrize("name", CASES)
def test_boxes_hold_the_elements_of_an_access(name: str) -> None:
    """No more and no fewer."""
    assert elements(boxes_of(taking_part(CASES[name]))) == named(CASES[name])


def test_an_access_by_tiles_is_one_box_a_block() -> None:
    """So is one by points; a diagonal is not."""
    sizes = {name: len(boxes_of(taking_part(each))) for name, each in CASES.items()}
    assert sizes["a tile of each block"] == sizes["points"] == 2
    assert sizes["a tile outside"] == sizes["a mask by block"] == 1
    assert sizes["a diagonal"] == 8


RANGES = st.tuples(st.integers(0, 5), st.integers(1, 4))
DRAWN = st.lists(st.tuples(st.integers(0, 2), RANGES, RANGES), min_size=1, max_size=12)


@given(DRAWN)
def test_growing_and_uniting_keep_the_elements(drawn: list[Any]) -> None:
    """Also where boxes overlap, touch or lie inside each other."""
    cover, plain = Cover(3, 2), list[Boxes]()
    for block, *ranges in drawn:
        low = np.array([[begin for begin, _ in ranges]])
        high = low + np.array([[size for _, size in ranges]])
        plain.append(Boxes(np.array([block]), low, high))
        cover.add(plain[-1])
    expected = elements(Boxes.joined(plain, 2))
    once = united(cover.boxes())
    assert elements(once) == expected
    assert covered(once) == len({(row, column) for _, row, column in expected})
    assert (np.diff(once.blocks) >= 0).all()


def test_a_walk_along_a_dimension_is_one_box() -> None:
    """Tiles that follow each other, in two blocks that go different ways."""
    cover = Cover(2, 2)
    for step in range(4):
        low = np.array([[0, step * 2], [step * 2, 5]])
        cover.add(Boxes(np.arange(2), low, low + 2))
    held = united(cover.boxes())
    assert held.low.tolist() == [[0, 0], [0, 5]]
    assert held.high.tolist() == [[2, 8], [8, 7]]
