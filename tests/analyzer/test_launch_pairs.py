# mypy: disable-error-code="valid-type, no-untyped-def"
"""Launches that write all of a tensor, and pairs of launches that one could replace."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import tileprof
import tileprof.lang as T
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, only, program
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.launches import launch_shares
from tileprof.analyzer.tiles.launches.launch_pairs import covers, prepared, splits
from tileprof.analyzer.tiles.launches.needless_writes import needless_writes
from tileprof.analyzer.tiles.places import Accesses
from tileprof.ir import print_kernel
from tileprof.profile.storage.ir_text import read

PEAKS = {"hbm_read": 4.4e12, "hbm_copy": 4e12, "hbm_write": 4.4e12}


# -- launches that write all of a tensor


def writes(draw: Random) -> tuple[str, int, set[tuple[int, ...]]]:
    """A launch with a few stores at places of its indices: its text, how many elements the tensor
    has, and those that it writes."""
    extents = draw.randint(1, 6), draw.randint(1, 6)
    turns = dict(zip(("%b", "%i", "%j"), (draw.randint(1, 4) for _ in range(3))))
    text = f"kernel @k(%Y: out global<{extents[0]}, {extents[1]}, float32>) {{\n"
    text += "".join(f"  %c{n} = constant {n} : index\n" for n in range(9))
    text += "  %z = constant 0.0 : float32\n"
    text += f"  launch [%c{turns['%b']}] {{threads = [32]}} body(%b: index) {{\n"
    text += f"  parallel [%c{turns['%i']}, %c{turns['%j']}] body(%i: index, %j: index) {{\n"
    stored = set[tuple[int, ...]]()
    for at in range(draw.randint(1, 3)):
        axis_of = {index: draw.randrange(2) for index in turns}
        axes = list[tuple[int, dict[str, int]]]()
        for axis in range(2):
            first, name, factors = draw.choice((0, 0, 1, 3)), f"%p{at}{axis}", dict[str, int]()
            text += f"    {name} = add %c0, %c{first} : index\n"
            for index in turns:
                if axis_of[index] == axis or draw.random() < 0.05:
                    factors[index] = draw.choice((1, 1, 2, 3, 4))
                    text += f"    {name}f = mul {index}, %c{factors[index]} : index\n"
                    text += f"    {name}s = add {name}, {name}f : index\n"
                    name += "s"
            axes.append((first, factors))
            text += f"    %at{at}{axis} = add {name}, %c0 : index\n"
        text += f"    store %z, %Y, [%at{at}0, %at{at}1]\n"
        for held in itertools.product(*map(range, turns.values())):
            numbers = dict(zip(turns, held))
            stored.add(tuple(first + sum(f * numbers[name] for name, f in factors.items())
                             for first, factors in axes))  # fmt: skip
    inside = {place for place in stored if all(at < n for at, n in zip(place, extents))}
    return text + "  }\n  }\n}\n", math.prod(extents), inside


def test_launch_that_covers_a_tensor_writes_each_element() -> None:
    """Agree with counting the elements one by one; find most of those that cover, by free axes."""
    draw, said = Random(7), Counter[tuple[bool, bool]]()
    for _ in range(300):
        text, elements, stored = writes(draw)
        kernel = read(text)
        whole = covers(Accesses(kernel), next(kernel.named("launch")), "%Y")
        said[whole, len(stored) == elements] += 1
    assert said[True, False] == 0
    assert said[True, True] > said[False, True]


@tileprof.jit
def in_parts(X: T.Tensor((30, 100), T.float32)):  # noqa: ANN201
    """Fill a tensor, then write all of it by rows, in two branches, and by a copy."""
    Y = T.empty((33, 100), T.float32)
    with T.Kernel(33, threads=128) as row:
        for j in T.Parallel(128):
            Y[row, j] = 7.0
    with T.Kernel(2, threads=128) as half:
        sums = T.alloc_fragment((64,), T.float32)
        T.clear(sums)
        for i in T.serial(30):
            for j in T.Parallel(64):
                if X[i, half * 64 + j] > 0.0:
                    Y[i, half * 64 + j] = X[i, half * 64 + j]
                else:
                    Y[i, half * 64 + j] = 0.0
                sums[j] += X[i, half * 64 + j]
        T.copy(sums, Y[30, half * 64 : half * 64 + 64])
        for i, j in T.Parallel(2, 64):
            Y[31 + i, half * 64 + j] = sums[j]
    return Y


@pytest.mark.parametrize(
    ("change", "written_twice"),
    [
        (("", ""), ["%Y"]),
        (("launch [%c2]", "launch [%c1]"), []),
        (("constant 30", "constant 29"), []),
        (("for serial %c0, %c30", "for serial %c0, %rows"), []),
        (("otherwise", "otherwise_left_out"), []),
    ],
    ids=[
        "all",
        "a half is left out",
        "a row is left out",
        "data end a loop",
        "a branch is left out",
    ],
)
def test_tensor_that_another_launch_overwrites(
    change: tuple[str, str], written_twice: list[str]
) -> None:
    """Put parts together: two branches in a loop, a copy, a tile that ends beyond the tensor."""
    text = print_kernel(in_parts.compile().program.kernel)
    if change[0] == "otherwise":
        start = text.index("} otherwise {")
        text = text[:start] + text[text.index("}", start + 1) :]
    else:
        assert change[0] in text
        text = text.replace(*change)
        text = text.replace("%c1 = constant 1 : index\n", "").replace(
            "%c33 =", "%c1 = constant 1 : index\n  %c33 ="
        )
    assert [each.tensor for each in needless_writes(read(text))] == written_twice


# -- pairs of launches


@tileprof.jit
def halved(X: T.Tensor((1024, 512), T.float32)):  # noqa: ANN201
    """Copy a tile to memory, and halve it in a launch of the same grid."""
    Y = T.empty((1024, 512), T.float16)
    Held = T.alloc_global((8, 16, 64, 64), T.float32)
    with T.Kernel(8, 16, threads=128) as (bx, by):
        tile = T.alloc_fragment((64, 64), T.float32)
        T.copy(X[by * 64 : by * 64 + 64, bx * 64 : bx * 64 + 64], tile)
        T.copy(tile, Held[bx, by, :, :])
    with T.Kernel(8, 16, threads=128) as (column, row):
        again = T.alloc_fragment((64, 64), T.float32)
        T.copy(Held[column, row, :, :], again)
        for i, j in T.Parallel(64, 64):
            Y[row * 64 + i, column * 64 + j] = again[i, j] / 2.0
    return Y


@tileprof.jit
def activated(  # noqa: ANN201
    A: T.Tensor((256, 64), T.float16), B: T.Tensor((64, 512), T.float16)
):
    """Multiply matrices, and take what is above zero in a launch of another grid."""
    Y = T.empty((256, 512), T.float16)
    Sums = T.alloc_global((256, 512), T.float32)
    with T.Kernel(4, 4, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 128), T.float16)
        sums = T.alloc_fragment((64, 128), T.float32)
        T.copy(A[by * 64, 0], a)
        T.copy(B[0, bx * 128], b)
        T.gemm(a, b, sums, clear_accum=True)
        T.copy(sums, Sums[by * 64, bx * 128])
    with T.Kernel(256, 4, threads=128) as (row, part):
        for i in T.Parallel(128):
            Y[row, part * 128 + i] = T.max(Sums[row, part * 128 + i], 0.0)
    return Y


@pytest.mark.parametrize(
    ("kernel", "changes", "found"),
    [
        (halved, (), ("%Held",)),
        (halved, (("[%column, %row, ", "[%row, %column, "),), ()),
        (halved, (("launch [%c8, %c16] {threads = [128]} body(%column",
                   "launch [%c16, %c8] {threads = [128]} body(%column"),), ()),
        (activated, (), ("%Sums",)),
        (activated, (("[%row, ", "[%part, "),), ()),
        (activated, (("%6 = max", "%other = load %Sums, [%part, %3] : float32\n%6 = max"),), ()),
        (activated, (("%6 = max", "%one = constant 1 : index\n%next = add %3, %one : index\n"
                      "%other = load %Sums, [%row, %next] : float32\n%6 = max"),), ()),
    ],
    ids=["own block", "another block", "another grid", "own element", "one for several",
         "of another row", "a neighbour"],
)  # fmt: skip
def test_tensor_that_one_launch_hands_to_the_next(
    kernel: Any, changes: tuple[tuple[str, str], ...], found: tuple[str, ...]
) -> None:
    """Where each block, or thread, of the second reads what is its own."""
    text = print_kernel(kernel.compile().program.kernel)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1) if kernel is halved else text.replace(old, new)
    assert [each.tensors for each in splits(read(text))] == [found] * bool(found)


def test_what_both_launches_read_counts_once_more() -> None:
    """A block of the second reads the tile of X that its block of the first has read."""
    text = print_kernel(halved.compile().program.kernel)
    old = "copy %Held_tile_1, %again"
    assert old in text
    more = "copy %X_again, %again"
    view = next(line for line in text.splitlines() if "view %X" in line).strip()
    for one, other in (("%X_tile", "%X_again"), ("%row", "%row_1"), ("%column", "%column_1")):
        view = view.replace(one, other)
    (split,) = splits(read(text.replace(old, f"{view}\n {more}\n {old}")))
    assert split.again == 512 * 1024 * 4


def test_gain_of_one_launch_in_place_of_two() -> None:
    """Of 6 MB that memory moves, 4 MB go, which take 1.05 of 1.7 µs."""
    text = print_kernel(halved.compile().program.kernel)
    made = Made(time=1700, ir=text, attributes=launch(128))
    finding = only(on_h200(made, PEAKS), "redundant-traffic")
    assert finding.kernel_gain is not None
    assert "Held" in finding.title
    assert finding.kernel_gain.low < 1700 / 650 < finding.kernel_gain.high


# -- launches that only prepare a tensor


@tileprof.jit
def scaled(X: T.Tensor((512, 256), T.float32), Scale: T.Tensor((256,), T.float32)):  # noqa: ANN201
    """Scale and turn a matrix in a launch of its own, then add up its columns."""
    Y = T.empty((256,), T.float32)
    Turned = T.alloc_global((256, 512), T.float32)
    with T.Kernel(8, 16, threads=128) as (bx, by):
        for i, j in T.Parallel(32, 32):
            value = X[by * 32 + j, bx * 32 + i] * Scale[bx * 32 + i]
            Turned[bx * 32 + i, by * 32 + j] = value
    with T.Kernel(2, threads=128) as part:
        sums = T.alloc_fragment((128,), T.float32)
        T.clear(sums)
        for k in T.serial(512):
            for i in T.Parallel(128):
                sums[i] += Turned[part * 128 + i, k]
        T.copy(sums, Y[part * 128 : part * 128 + 128])
    return Y


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ((), [("%Turned", ("%Scale", "%X"), True)]),
        ((("load %Turned, [%9, %k]", "load %Turned, [%k, %9]"),), []),
        ((("for serial %c0, %c512", "for serial %c0, %c2048"),), []),
        ((("%Y_tile = view %Y", "%Y_tile = view %Scale"),), []),
    ],
    ids=["columns", "rows", "often", "a source is changed"],
)
def test_tensor_that_a_launch_only_prepares(
    changes: tuple[tuple[str, str], ...], found: list[tuple[str, tuple[str, ...], bool]]
) -> None:
    """Where later threads, that read each element once, go along rows of the source."""
    text = print_kernel(scaled.compile().program.kernel)
    for old, new in (*changes, ("launch [%c8", "%c2048 = constant 2048 : index\n  launch [%c8")):
        assert old in text
        text = text.replace(old, new)
    held = prepared(read(text))
    assert [(each.tensor, each.sources, each.turned) for each in held] == found


# -- time of a launch


@pytest.mark.parametrize(("blocks", "share"), [(1_000, 0.1), (500_000, 0.308)])
def test_launch_takes_what_its_blocks_take_to_start(blocks: int, share: float) -> None:
    """A tenth of the samples, or 0.616 ns for each block where that is more: 308 of 1,000 µs."""
    code = [("STG.E [R2.64], R4", {"selected": 10}, 0, 1)]
    longer = [("STG.E [R2.64], R4", {"selected": 90}, 0, 1)]
    sampled = program(Made(name="k_0", code=code), Made(name="k_1", code=longer)).tables.pc
    text = print_kernel(in_parts.compile().program.kernel)
    facts = launch(blocks) | {f"k_1.{name}": held for name, held in launch(132).items()}
    profile = on_h200(Made(name="k", time=1e6, ir=text, attributes=facts), PEAKS)
    profile = replace(profile, tables=replace(profile.tables, pc=sampled))
    (case,) = Program(profile).kernels
    assert launch_shares(case) == pytest.approx((share, 1 - share), rel=1e-3)
    (written,) = [e for e in analyze(profile).findings if e.title == "`Y` is written twice"]
    assert written.kernel_gain is not None
    assert written.kernel_gain.mid == pytest.approx(1 / (1 - share), rel=1e-3)
