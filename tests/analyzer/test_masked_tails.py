# mypy: disable-error-code="valid-type, no-untyped-def"
"""Loops that go on behind the length that masks their elements."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tileprof
import tileprof.lang as T
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only
from tileprof.analyzer.tiles.conditions import masked_bytes, masked_tails
from tileprof.ir import plain_kernel, print_kernel
from tileprof.profile.storage.ir_text import read


@tileprof.jit
def pooled(X: T.Tensor((512, 1024), T.float32), Length: T.Tensor((512,), T.int32)):  # noqa: ANN201
    """Add up the first elements of each row."""
    Y = T.empty((512,), T.float32)
    with T.Kernel(512, threads=128) as row:
        held = T.alloc_fragment((128,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(total)
        for k in T.serial(8):
            T.copy(X[row, k * 128 : k * 128 + 128], held)
            for j in T.Parallel(128):
                held[j] = T.if_then_else(k * 128 + j < Length[row], held[j], 0.0)
            T.reduce_sum(held, total, dim=0, clear=False)
        T.copy(total, Y[row : row + 1])
    return Y


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("load %Length, [%row]", "load %Length, [%j]", 0),
        ("load %Length, [%row]", "load %Length, [%k]", 0),
        ("lt ", "gt ", 0),
        ("yield [%0]", "yield [%7]", 0),
        ("reduce sum %held, %total", "copy %held, %X_tile\n reduce sum %held, %total", 0),
    ],
    ids=["masked", "by element", "by iteration", "the begin", "no constant", "stored"],
)
def test_loop_behind_a_length(old: str, new: str, count: int) -> None:
    """The length is the block's, and nothing is stored behind it."""
    text = print_kernel(pooled.compile().program.kernel)
    assert old in text
    kernel = read(text.replace(old, new))
    assert [(e.lengths, e.read) for e in masked_tails(kernel)] == [("%Length", ("%X",))] * count
    assert masked_bytes(kernel) == 512 * 1024 * 4 * count


@tileprof.jit
def bagged(  # noqa: ANN201
    Row: T.Tensor((4096,), T.int32), X: T.Tensor((512, 64), T.float32),
    Begin: T.Tensor((65,), T.int32),
):  # fmt: skip
    """Add up the rows of each bag, as if each had 64."""
    Y = T.empty((64, 64), T.float32)
    with T.Kernel(64, threads=64) as bag:
        for j in T.Parallel(64):
            total = T.alloc_var(T.float32, 0.0)
            for q in T.serial(64):
                if Begin[bag] + q < Begin[bag + 1]:
                    total = total + X[Row[Begin[bag] + q], j]
            Y[bag, j] = total
    return Y


@pytest.mark.parametrize(("old", "new", "count"), [("", "", 1), ("lt ", "gt ", 0), ("} otherwise {",
    "} otherwise {\n store %1, %total, []", 0)])  # fmt: skip
def test_loop_that_does_nothing_behind_a_length(old: str, new: str, count: int) -> None:
    """An iteration behind it leaves all as it was."""
    text = print_kernel(bagged.compile().program.kernel)
    assert old in text
    assert len(masked_tails(read(text.replace(old, new)))) == count


def test_gain_of_a_loop_that_ends_at_its_length() -> None:
    """A guess, which no roof of all bytes keeps down: they need not all be read."""
    kernel = plain_kernel(pooled.compile().program.kernel)
    (tail,) = masked_tails(kernel)
    code = [("LDG.E R2, [R4.64]", {"long_scoreboard": 900}, 1, min(tail.lines)),
            ("EXIT", {"selected": 100}, 0, 1)]  # fmt: skip
    moved = 512 * 1024 * 4 / 4e12 * 1e9
    made = Made(time=moved / 0.95, attributes=launch(512), code=code)
    held = on_h200(made, {"hbm_read": 4e12, "hbm_copy": 4e12, "hbm_write": 4e12, "l2_read": 4e12})
    (info,) = held.tables.kernels
    told = replace(held, tables=replace(held.tables, kernels=(replace(info, program=kernel),)))
    finding = only(told, "wasted-lanes")
    assert finding.confidence == "low"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.low < 1.3 < finding.kernel_gain.mid < finding.kernel_gain.high
    assert not found(told, "at-roofline")
