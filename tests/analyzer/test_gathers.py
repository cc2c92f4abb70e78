"""What a kernel takes of a tensor by numbers that it loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.gathered import BAG
from tileprof.analyzer.tiles.gathers import asked_by_number, lines_by_number, takes_by_number
from tileprof.kernel_ir import Block, Op
from tileprof.profile.storage.ir_text import read


def test_rows_of_a_table() -> None:
    """64 rows ask for 16 each, of 128 elements of two bytes: more than the table has of them."""
    assert takes_by_number(read(BAG))
    assert asked_by_number(read(BAG)) == {"%Table": 64 * 16 * 128 * 2}


@pytest.mark.parametrize("index", ["[%2, %j]", "[%4, %j] : bfloat16 \n %6 = load %Table, [%2, %j]"])
def test_a_tensor_that_is_read_in_order(index: str) -> None:
    """Only so, or as well, as rows of scores of which a label picks one."""
    kernel = read(BAG.replace("[%4, %j]", index))
    assert not takes_by_number(kernel)
    assert asked_by_number(kernel) == {}


def test_what_is_known_at_launch_only() -> None:
    """How often the loop turns is not known, so the bytes are not."""
    kernel = read(BAG.replace("%c0, %c16, %c1", "%c0, %N, %c1"))
    assert takes_by_number(kernel)
    assert asked_by_number(kernel) == {}


def test_lines_of_what_is_taken_by_number() -> None:
    """The load of the table is in line 6, that of its numbers in line 5."""
    lines = {"%Items": 5, "%Table": 6}

    def lined(block: Block) -> Block:
        ops = (
            replace(op, line=lines.get(op.source, 1), blocks=tuple(map(lined, op.blocks)))
            for op in block.ops
        )
        return replace(block, ops=tuple(ops))

    kernel = read(BAG)
    assert lines_by_number(replace(kernel, body=lined(kernel.body))) == {6}


@pytest.mark.parametrize(("index", "lines"), [("[%4, %j]", {6}), ("[%j, %4]", set())])
def test_lanes_that_are_in_rows_of_their_own_anyway(index: str, lines: set[int]) -> None:
    """A number that all lanes share is not what takes them apart."""
    kernel = read(BAG.replace("[%4, %j]", index))
    ops = kernel.body.ops

    def lined(op: Op) -> Op:
        blocks = tuple(replace(b, ops=tuple(map(lined, b.ops))) for b in op.blocks)
        return replace(op, line=6 if op.source == "%Table" else 1, blocks=blocks)

    assert (
        lines_by_number(replace(kernel, body=replace(kernel.body, ops=tuple(map(lined, ops)))))
        == lines
    )
