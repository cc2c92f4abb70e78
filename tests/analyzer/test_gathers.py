"""What a kernel takes of a tensor by numbers that it loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.gathered import BAG
from tests.analyzer.made import Made, found, only, program, remark
from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.tiles.gathers import (
    asked_by_number,
    lines_by_number,
    takes_by_number,
    widened_lines,
)
from tileprof.kernel_ir import Block, Op, TileKernel
from tileprof.profile.storage.ir_text import read
from tileprof.remarks.layouts import GlobalAccess


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


COUNTED = """\
kernel @k(%X: global<4096, 4096, float32>, %Y: out global<4096, 4096, float32>) {
  %c64 = constant 64 : index
  launch [%c64, %c64] {threads = [128]} body(%bx: index, %by: index) {
    parallel [%c64, %c64] body(%i: index, %j: index) {
      %0 = mul %by, %c64 : index
      %y = add %0, %i : index
      %1 = mul %bx, %c64 : index
      %2 = add %1, %j : index
      %x = cast %2 : int64
      %v = load %X, [%y, %x] {in_bounds = true} : float32
      store %v, %Y, [%y, %2] {in_bounds = true}
    }
  }
}
"""
"""A tile that is copied, whose columns are counted in 64 bits where it is loaded."""


def at_lines(kernel: TileKernel) -> TileKernel:
    """Return a kernel with its loads in line 6, and its stores in line 7."""

    def lined(block: Block) -> Block:
        lines = {"load": 6, "store": 7}
        ops = (
            replace(op, line=lines.get(op.name, 1), blocks=tuple(map(lined, op.blocks)))
            for op in block.ops
        )
        return replace(block, ops=tuple(ops))

    return replace(kernel, body=lined(kernel.body))


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "", {6}),
        ("[%y, %2]", "[%y, %x]", {6, 7}),
        ("%x = cast %2 : int64", "%x = add %2, %c64 : index", set()),
        ("4096, 4096", "40960, 81920", set()),  # more elements than 31 bits can number
        ("4096, 4096", "N, 4096", set()),  # as many as are known at launch
    ],
)
def test_lines_whose_places_are_counted_in_64_bits(old: str, new: str, lines: set[int]) -> None:
    """Only where no tensor needs that."""
    kernel = read(COUNTED.replace(old, new) if old else COUNTED)
    assert kernel is not None
    assert widened_lines(at_lines(kernel)) == lines


def test_narrow_accesses_that_are_counted_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cast is the cause of what they cost, and not how lanes are placed: nobody else tells."""
    monkeypatch.setattr(KernelCase, "tiles", property(lambda case: at_lines(read(case.ir))))
    code = [
        ("IADD3.X R3, R5, RZ, RZ, P0, !PT", {"selected": 2000}, 0, 6),
        ("LDG.E R4, desc[UR6][R4.64]", {"lg_throttle": 5000, "selected": 1000}, 0, 6),
        ("STG.E.128 desc[UR6][R6.64], R4", {"selected": 2000}, 0, 7),
    ]
    said = remark("load X", 6, GlobalAccess(4, 4, 4))
    wide = program(Made(ir=COUNTED, code=code, remarks=[said]))
    finding = only(wide, "slow-math")
    assert finding.title == "indices are counted in 64 bits"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid > 1.5
    assert not found(wide, "narrow-access")
    straight = COUNTED.replace("[%y, %x]", "[%y, %2]")
    plain = program(Made(ir=straight, code=code, remarks=[said]))
    assert found(plain, "narrow-access")
    assert not found(plain, "slow-math")
