# mypy: disable-error-code="valid-type, no-untyped-def"
"""Elements that a block reads again, and results that are written over before they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tileprof
import tileprof.lang as T
from tests.analyzer.made import Made, found, only, program, remark
from tileprof.analyzer.tiles.read_again import read_again
from tileprof.analyzer.tiles.repeated import repeated
from tileprof.analyzer.tiles.tile_loops import narrow_loops
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.ir import plain_kernel, print_kernel
from tileprof.profile import Profile
from tileprof.profile.storage.ir_text import read
from tileprof.remarks.layouts import LoadedBefore


@tileprof.jit
def centred(X: T.Tensor((64, 4096), T.float32)):  # noqa: ANN201
    """Take the mean of each row from it: a pass for the mean, and one for the difference."""
    Y = T.empty((64, 4096), T.float32)
    with T.Kernel(64, threads=128) as row:
        held = T.alloc_fragment((1, 512), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(total)
        for k in T.serial(8):
            T.copy(X[row, k * 512 : k * 512 + 512], held[0, :])
            T.reduce_sum(held, total, dim=1, clear=False)
        for k in T.serial(8):
            for j in T.Parallel(512):
                Y[row, k * 512 + j] = X[row, k * 512 + j] - total[0] / 4096.0
    return Y


@tileprof.jit
def apart(X: T.Tensor((64, 512), T.float32), W: T.Tensor((64, 512), T.float32)):  # noqa: ANN201
    """Take the sum of two rows from their difference: both are read in one line the second time."""
    Y = T.empty((64, 512), T.float32)
    with T.Kernel(64, threads=128) as row:
        held = T.alloc_fragment((1, 512), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0:512], held[0, :])
        T.reduce_sum(held, total, dim=1)
        T.copy(W[row, 0:512], held[0, :])
        T.reduce_sum(held, total, dim=1, clear=False)
        for j in T.Parallel(512):
            Y[row, j] = X[row, j] - W[row, j] - total[0]
    return Y


@tileprof.jit
def prefix(X: T.Tensor((64, 1024), T.int32)):  # noqa: ANN201
    """Sum up the bits of each row: again from the start for the squares, and by one thread."""
    Y = T.empty((64, 1024), T.int32)
    with T.Kernel(64, threads=128) as row:
        held = T.alloc_shared((1024,), T.int32)
        T.copy(X[row, :], held)
        T.cumsum(held, dim=0)
        T.copy(X[row, :], held)
        for j in T.serial(1, 1024):
            held[j] = held[j] + held[j - 1]
        T.copy(held, Y[row, :])
    return Y


CENTRED, PREFIX = (print_kernel(each.compile().program.kernel) for each in (centred, prefix))


@pytest.mark.parametrize(
    ("old", "new", "elements"),
    [
        ("", "", [4096]),
        ("X: global<64, 4096", "X: global<64, 65536", [4096]),  # only what is read counts
        ("%c8 = constant 8", "%c8 = constant 64", []),  # 128 KiB
        ("[%row, %3]", "[%row, %j]", []),  # other elements
        ("store %8, %Y", "store %8, %X", []),  # which are not as they were
    ],
)
def test_row_that_two_loops_read(old: str, new: str, elements: list[int]) -> None:
    """A block could keep it, if it is small, and nothing writes it."""
    assert old in CENTRED
    found = read_again(read(CENTRED.replace(old, new)))
    assert [(each.tensor, each.elements) for each in found] == [("%X", n) for n in elements]


def test_a_loop_of_another_range_reads_other_elements() -> None:
    """It begins behind the first tile, so it is not the same row."""
    before, second = CENTRED.rsplit("for serial %c0, %c8", 1)
    nine = "%c9 = constant 9 : index\n    "
    assert not read_again(read(f"{before}{nine}for serial %c1, %c9{second}"))


def at_second(load: str, launches: int = 1, merged: str = "", of: Any = centred) -> Profile:
    """A kernel with nine tenths of its samples waiting for what is at its second read's line,
    where the compiler loads the elements of a tensor with earlier ones."""
    kernel = plain_kernel(of.compile().program.kernel)
    body = replace(kernel.body, ops=launches * kernel.body.ops)
    kernel = replace(kernel, body=body)
    again, *_ = read_again(kernel)
    code = [(load, {"long_scoreboard": 9000}, 1, again.op.line), ("EXIT", {"selected": 1000}, 0, 1)]
    told = [remark(f"load {merged}", again.op.line, LoadedBefore(again.first.line))]
    held = program(Made(code=code, remarks=told))
    (info,) = held.tables.kernels
    tables = replace(held.tables, kernels=(replace(info, program=kernel),))
    return replace(held, tables=tables)


def test_cost_of_a_read_again_is_that_of_its_loads() -> None:
    """All of it goes at most; where the compiler kept the values, there is no load to tell of, or
    one of another tensor."""
    finding = only(at_second("LDG.E R2, [R4.64]"), "redundant-traffic")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(10, rel=0.05)
    assert not found(at_second("FADD R2, R2, R4"), "redundant-traffic")
    assert not found(at_second("LDG.E R2, [R4.64]", merged="X"), "redundant-traffic")
    assert found(at_second("LDG.E R2, [R4.64]", merged="W"), "redundant-traffic")


def test_tensors_that_one_line_reads_again_are_one_finding() -> None:
    """Samples do not tell which of a line's loads they wait for."""
    held = at_second("LDG.E R2, [R4.64]", of=apart)
    (finding,) = (each for each in found(held, "redundant-traffic") if each.kernel_gain)
    assert "`X`, `W`" in finding.title


def test_a_line_of_several_launches_is_told_once() -> None:
    """Each launch of the kernel's program reads the row again there."""
    held = found(at_second("LDG.E R2, [R4.64]", launches=3), "redundant-traffic")
    assert [each.place.op for each in held if each.kernel_gain] == ["load X"]


def test_running_sums_that_are_written_over_unread() -> None:
    """The second copy fills the buffer before anything reads the sums."""
    assert [(each.how, each.op.name) for each in repeated(read(PREFIX))] == [("unread", "scan")]
    used = PREFIX.replace("{dim = 0}", "{dim = 0}\n    copy %held, %X_tile")
    assert not repeated(read(used))


def test_loop_that_stores_an_element_in_each_iteration() -> None:
    """One of 128 threads has work, though no parallel loop says so."""
    kernel = prefix.compile().program.kernel
    text = compile_cuda(kernel, find_target("sm_90a")).source.text
    (loop,) = narrow_loops(plain_kernel(kernel), text)
    assert (loop.elements, loop.threads, loop.turns) == (1, 128, 1023)
