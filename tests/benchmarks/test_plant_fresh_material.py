"""Kernels and operators of the fourth and fifth test split: they are right, sites keep the result.

What launches the splits' Triton kernels has its test with the others: `test_plant_triton`.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
families: Any = importlib.import_module("plant.generated.families")
fourth: Any = importlib.import_module("plant.generated.fresh.extents")
fifth: Any = importlib.import_module("plant.generated.fifth.extents")
FRESH: Any = importlib.import_module("plant.generated.fresh.operators").FRESH
FIFTH: Any = importlib.import_module("plant.generated.fifth.operators").FIFTH
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
del sys.path[0]

WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Makes binaries, too, and takes every mutant instead of one for each operator."""
TILE = [families.FAMILIES[f"tile-{row.name}"] for row in (*fourth.TILES, *fifth.TILES)]
TRITON = [families.FAMILIES[f"triton-{row.name}"] for row in (*fourth.TRITONS, *fifth.TRITONS)]
NEWEST = {f"{each}-{row.name}" for each, rows in (("tile", fifth.TILES), ("triton", fifth.TRITONS))
          for row in rows}  # fmt: skip
"""Families of the fifth test split."""
OF_TILES = [each.name for each in (*FRESH, *FIFTH) if "tile" in each.languages]


@cache
def mutants_of(family: str) -> list[Any]:
    """Mutants of a family by operators that came with it, made once."""
    held, made = families.FAMILIES[family], list[Any]()
    for operator in FIFTH if family in NEWEST else FRESH:
        if held.language in operator.languages:
            sites = enumerate(operator.sites(held.program))
            made += [mutants.Mutant(held, operator, number, site) for number, site in sites]
    return made


def example_of(operator: str) -> Any:
    """The mutant of an operator whose family has the shortest source."""
    for family in sorted(TILE, key=lambda each: len(each.text)):
        for mutant in mutants_of(family.name):
            if mutant.operator.name == operator and not mutant.fault:
                return mutant
    raise AssertionError(f"no family has a site of {operator}")


def check(family: Any, text: str, shape: Any, folder: Path) -> None:
    """Lower a tile kernel for an H200, and compare it with its reference at small extents."""
    pytest.importorskip("torch")
    import tileprof
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    problems: Any = importlib.import_module("plant.generated.problems")
    module = problems.imported(family, text, folder / f"{family.path.stem}.py")
    work = problems.problem(family)
    inputs = problems.inputs_of(family, problems.small(family), "cpu")
    problems.reset(work, inputs)
    with tileprof.device("interpreter"):
        result = problems.called(family, module, inputs)
    expected = work.reference(*inputs)
    assert result.shape == expected.shape
    assert problems.difference(result, expected) <= work.limit
    kernel = getattr(module, family.entry).compile(**shape).program.kernel
    made = compile_cuda(kernel, find_target("sm_90a"), None)
    assert made.source.text
    if WHOLE:
        assert made.cubin


# -- kernels


@pytest.mark.spread(
    "tile-compact_rows", "tile-mxfp4_product", "tile-ragged_decode", "tile-small_fft"
)  # fmt: skip
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_tile_kernels_are_right_and_lowered(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    check(family, family.text, family.shape, tmp_path)


@pytest.mark.spread("atomic-each", "sync-each", "branch-select", "oversize-tile", "long-index")
@pytest.mark.parametrize("operator", OF_TILES)
def test_changed_tile_kernels_are_right_and_lowered(operator: str, tmp_path: Path) -> None:
    """A kernel that does the same in a worse way computes the same."""
    mutant = example_of(operator)
    check(mutant.family, mutant.text, mutant.shape, tmp_path)


def test_no_kernel_has_a_name_that_another_has() -> None:
    """A family's file is found by its name alone."""
    for language in ("tile", "triton"):
        found = [path.stem for path in (families.HERE / f"{language}_kernels").rglob("*.py")]
        assert len(found) == len(set(found))


# -- operators


@pytest.mark.sweep
def test_operators_change_the_kernel_and_what_launches_it() -> None:
    """Their sources parse, other functions stay, guilty lines are there, causes are words."""
    used = set()
    for family in (*TILE, *TRITON):
        old = [ast.dump(each) for each in family.program.tree.body]
        known: set[str] = set()
        for mutant in mutants_of(family.name):
            if mutant.operator.name in known and not WHOLE:
                continue
            known.add(mutant.operator.name)
            new = ast.parse(mutant.text)
            apart = {e.name for e, o in zip(new.body, old, strict=True)
                     if isinstance(e, ast.FunctionDef) and ast.dump(e) != o}  # fmt: skip
            assert apart, mutant.name
            assert apart <= {family.kernel, family.entry}, mutant.name
            assert mutant.guilty, mutant.name
            assert mutant.guilty[-1] <= mutant.text.count("\n") + 1
            assert mutant.rules, mutant.name
        used |= known
    assert used == {each.name for each in (*FRESH, *FIFTH)}


TILES = """\
@tileprof.jit
def made(X, W, Length):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((M, N), T.float32)
    Length: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    rows, columns = 4, 64

    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:
        tile = T.alloc_shared((rows, columns), T.float32)
        table = T.alloc_shared((columns,), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        for i in T.Parallel(columns):
            table[i] = T.exp(i * 0.5)
        for k in T.serial(T.ceildiv(Length[block], columns)):
            T.copy(X[block * rows, k * columns], tile)
            for i, j in T.Parallel(rows, columns):
                real = k * columns + j < Length[block]
                sums[i, j] += T.if_then_else(real, tile[i, j] * tile[i, j] * table[j], 0.0)
        T.reduce_sum(sums, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = T.if_then_else(total[i] > 0.0, W[block * rows + i, j], 1.0)
        T.copy(sums, Y[block * rows, 0])
    return Y
"""
LAUNCHED = """\
import torch
@triton.jit
def made_kernel(x_ptr, start_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    half = at * 0.5
    first = tl.load(start_ptr + row)
    end = tl.load(start_ptr + row + 1)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(first, end, block):
        x = tl.load(x_ptr + n + at, mask=n + at < end, other=0.0).to(tl.float32)
        sums += x * half / (x + 2.0)
    total = tl.sum(sums, 0)
    tl.store(out_ptr + row, total)


def run(x, start):
    M = start.shape[0] - 1
    block = 64
    out = torch.empty((M,), device=x.device, dtype=torch.float32)
    made_kernel[(M,)](x, start, out, M, block, num_warps=4)
    return out
"""
PRODUCT = """\
import torch
@triton.jit
def made_kernel(x_ptr, w_ptr, list_ptr, out_ptr, N, K, size: tl.constexpr):
    i = tl.program_id(0) * size + tl.arange(0, size)
    j = tl.program_id(1) * size + tl.arange(0, size)
    d = tl.arange(0, size)
    token = tl.load(list_ptr + i)
    sums = tl.zeros((size, size), dtype=tl.float32)
    for k in range(0, K, size):
        x = tl.load(x_ptr + token[:, None] * K + (k + d)[None, :])
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :], mask=j[None, :] < N, other=0.0)
        sums = tl.dot(x, w, sums)
    tl.store(out_ptr + i[:, None] * N + j[None, :], sums / 3, mask=j[None, :] < N)


def run(x, w, places):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty_like(x)
    size = 64
    made_kernel[(triton.cdiv(M, size), triton.cdiv(N, size))](x, w, places, out, N, K, size)
    return out
"""
PLAIN = """\
@tileprof.jit
def made(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(M, 4), threads=128) as block:
        for i, j in T.Parallel(4, N):
            y, x = block * 4 + i, j
            Y[y, x] = X[y, x] * 2.0
    return Y
"""
SQUARES = LAUNCHED.replace("x * half / (x + 2.0)", "x * x * half")


def made(operator: str, text: str) -> list[str]:
    """Texts that an operator makes of a program."""
    name = "made" if text.startswith("@tileprof") else "made_kernel"
    program = programs.Program(text, name, "made" if name == "made" else "run")
    return [programs.applied(text, site.edits) for site in fresh_of(operator).sites(program)]


def fresh_of(operator: str) -> Any:
    """The operator of a name."""
    return next(each for each in (*FRESH, *FIFTH) if each.name == operator)


@pytest.mark.parametrize(
    ("operator", "text", "number", "parts"),
    [
        ("copy-by-row", TILES, 0, ("for r in T.serial(rows):\n                T.copy(X[(block * ",
                                   "+ r, (k * columns) : (k * columns) + columns], tile[r, :])")),
        ("copy-in-two", TILES, 1, ("between = T.alloc_fragment((rows, columns), T.float32)\n",
                                   "k * columns], between)\n            T.copy(between, tile)\n")),
        ("sink-table", TILES, 0, ("columns)):\n            for i in T.Parallel(columns):\n     ",
                                  "            table[i] = T.exp(i * 0.5)\n            T.copy(X")),
        ("split-epilogue", TILES, 0, (
            "sums_kept = T.alloc_global((T.ceildiv(M, rows), rows, columns), T.float32)\n",
            "T.copy(sums, sums_kept[block, :, :])\n        T.copy(total, total_kept[block, :])\n"
            "    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:\n",
            "        T.copy(total_kept[block, :], total)\n        for i, j in T.Parallel(rows,")),
        ("clear-launch", TILES, 0, ("as (p, o):\n        for i in T.Parallel(1024):\n"
                                    "            Y[p, o * 1024 + i] = 0\n",)),
        ("turn-input", TILES, 0, ("W_turned = T.alloc_global((N, M), T.float32)\n",
                                  ", W_turned[j, block * rows + i], 1.0)")),
        ("sync-each", TILES, 0, ("* table[j], 0.0)\n            T.sync_threads()\n",)),
        ("power-square", TILES, 0, ("(real, T.pow(tile[i, j], 2.0) * table[j], 0.0)",)),
        ("atomic-each", TILES, 0, ("met = T.alloc_shared((rows,), T.float32)\n",
                                   "T.atomic_add(met[p], sums[p, q])\n        T.copy(met, tot")),
        ("longest-row", TILES, 0, ("T.serial(T.ceildiv(N, columns))", "+ j < Length[block]")),
        ("true-condition", TILES, 0, ("(columns):\n            if i < columns:\n           ",)),
        ("branch-select", TILES, 0, ("if total[i] > 0.0:\n                sums[i, j] = W[block",
                                     "            else:\n                sums[i, j] = 1.0\n")),
        ("atomic-each", LAUNCHED, 0, ("out = torch.zeros((M,),", "tl.atomic_add(out_ptr + row + "
                                      "tl.zeros((block,), dtype=tl.int32), sums)")),
        ("longest-row", LAUNCHED, 0, ("tl.constexpr, longest):", "(first, first + longest, block)",
                                      "block, int((start[1:] - start[:-1]).max()), num_warps")),
        ("check-input", LAUNCHED, 0, ("    assert not torch.isnan(x).any()\n    M =",)),
        ("unaligned-result", LAUNCHED, 0, ("torch.empty((M) + 1, device=x.device, dtype="
                                           "torch.float32)[1:].view((M,))",)),
        ("debug-store", LAUNCHED, 2, ("    kept = torch.empty_like(x)\n    made_kernel[(M,)](",
                                      "tl.store(kept_ptr + n + at, x, mask=n + at < end)\n")),
        ("precise-division", LAUNCHED, 0, ("tl.div_rn(x * half, x + 2.0)",)),
        ("sink-arithmetic", LAUNCHED, 1, ("block):\n        half = at * 0.5\n        x =",)),
        ("cast-again", LAUNCHED, 0, (".to(tl.float32).to(tl.float32)\n",)),
        ("dead-load", LAUNCHED, 0, ("unused_first = tl.load(start_ptr + row)\n",)),
        ("long-list", PRODUCT, 0, ("](x, w, places.long(), out,",)),
        ("gather-identity", PRODUCT, 1, ("    j = tl.load(order_ptr + j)\n", "size, torch.arange(("
                                         "triton.cdiv(N, size)) * size, device=x.device, dtype=")),
        ("scatter-programs", PRODUCT, 0, ("program = program % 16 * sixteenth + program // 16\n",
                                          "\n    i = program * size +")),
        ("turn-store", PRODUCT, 0, ("tl.store(out_ptr + i[None, :] * N + j[:, None], tl.trans(",
                                    "tl.trans(sums / 3), mask=j[:, None] < N)")),
        ("inclusive-mask", PRODUCT, 0, ("mask=j[None, :] <= N - 1, o", "j[None, :] <= N - 1)")),
        ("widen-product", PRODUCT, 0, ("tl.dot((x).to(tl.float32), (w).to(tl.float32), sums)",)),
        ("pair-input", TILES, 0, ("W_pairs = T.alloc_global((M, N, 2), T.float32)\n",
                                  "            W_pairs[p, o * 1024 + i, 0] = W[p, o * 1024 + i]\n",
                                  "W_pairs[block * rows + i, j, 0], 1.0)")),
        ("clear-each", TILES, 0, ("            T.clear(tile)\n            T.copy(X[block",)),
        ("oversize-tile", TILES, 0, ("tile = T.alloc_shared(((rows) * 96, columns), T.float32)\n",
                                     "k * columns], tile[0:rows, 0:columns])\n")),
        ("long-index", PLAIN, 0, ("y, x = T.cast(block * 4 + i, T.int64), j\n",)),
        ("assert-each", TILES, 0, ("   T.device_assert(sums[i, j] == sums[i, j])\n",)),
        ("pair-input", LAUNCHED, 0, ("tl.load(x_ptr + (n + at) * 2, mask=n + at < end, other=0.0)",
                                     "](torch.stack((x, x), -1), start, out,")),
        ("pair-result", PRODUCT, 0, ("out = torch.empty((*x.shape, 2), device=x.device, dtype=",
                                     "tl.store(out_ptr + (i[:, None] * N + j[None, :]) * 2, sums",
                                     "    return out[..., 0].contiguous()\n")),
        ("turn-operand", PRODUCT, 1, ("w_ptr + (j[None, :]) * turned_rows + ((k + d)[:, None]), m",
                                      "(x, w.reshape(-1, N).t().contiguous(), places, out, N, K, "
                                      "size, w.numel() // (N))")),
        ("mask-tensor", PRODUCT, 0, ("mask=(tl.load(real_ptr + j[None, :]) != 0))",
                                     "(torch.arange((triton.cdiv(N, size)) * size, device=x.device)"
                                     " < N).to(torch.int8))")),
        ("sum-in-memory", LAUNCHED, 0, (
            "    place_of = kept_ptr + tl.program_id(0).to(tl.int64) * (block) + tl.arange(0, blo",
            "        tl.debug_barrier()\n        sums = tl.load(place_of)\n    total")),
        ("sum-in-memory", PRODUCT, 0, ("sums)\n        tl.store(place_of, sums)\n",)),
        ("lock-store", LAUNCHED, 0, ("    while tl.atomic_cas(lock, 0, 1) == 1:\n        pass\n",
                                     "    tl.atomic_xchg(lock, 0)\n")),
        ("log-square", SQUARES, 0, ("sums += tl.exp2(2.0 * tl.log2(tl.abs(x))) * half",)),
    ],
)  # fmt: skip
def test_an_operator_writes_what_it_says(
    operator: str, text: str, number: int, parts: tuple[str, ...]
) -> None:
    """An operator writes what a reader would, and what parses."""
    changed = made(operator, text)[number]
    ast.parse(changed)
    assert not [part for part in parts if part not in changed], changed


@pytest.mark.parametrize(
    ("operator", "text", "old", "new"),
    [
        ("sink-table", TILES, "exp(i * 0.5)", "exp(table[i])"),
        ("sink-table", TILES, "for i in T.Parallel(columns)", "for k in T.Parallel(columns)"),
        ("split-epilogue", TILES, "total[i] > 0.0", "tile[i, j] > 0.0"),
        ("turn-input", TILES, "W[block * rows + i, j]", "W[block, Length[W[0, 0]]]"),
        ("power-square", TILES, "tile[i, j] * tile[i, j]", "tile[i, j * j]"),
        ("longest-row", TILES, "+ j < Length[block]", "+ j < N"),
        ("longest-row", LAUNCHED, "mask=n + at < end", "mask=n + at < N"),
        ("longest-row", LAUNCHED, "first, end, block", "row, end, block"),
        ("atomic-each", LAUNCHED, "dtype=torch.float32)", "dtype=torch.bfloat16)"),
        ("atomic-each", LAUNCHED, "out_ptr + row,", "out_ptr + row + at,"),
        ("debug-store", LAUNCHED, "N, block: tl", "kept, block: tl"),
        ("sink-arithmetic", LAUNCHED, "sums += x", "half += 1\n        sums += x"),
        ("long-list", PRODUCT, "token[:, None]", "i[:, None]"),
        ("gather-identity", PRODUCT, "out, N, K, size)", "out, N, K, order_ptr)"),
        ("scatter-programs", PRODUCT, "d = tl.arange(0, size)", "d = tl.num_programs(0)"),
        ("turn-store", PRODUCT, "i[:, None] * N", "place"),
        ("widen-product", PRODUCT, "dtype=tl.float32)", "dtype=tl.int32)"),
        ("clear-each", TILES, "T.copy(X[block * rows, k * columns], tile)", "T.clear(tile)"),
        ("oversize-tile", TILES, "T.copy(sums, Y[block * rows, 0])", "T.gemm(tile, X, sums)"),
        ("long-index", PLAIN, "y, x = block * 4 + i, j", "y, x = i, j"),
        (
            "assert-each",
            TILES,
            "sums = T.alloc_fragment((rows, columns), T.float32)",
            "sums = T.alloc_fragment((rows, columns), T.int32)",
        ),
        ("pair-input", TILES, "W[block * rows + i, j]", "W[0, T.cast(W[0, 0], T.int32)]"),
        ("pair-input", LAUNCHED, "half = at * 0.5", "half = at * 0.5 + tl.load(x_ptr)"),
        (
            "pair-result",
            PRODUCT,
            "    tl.store(out_ptr",
            "    last = out_ptr\n    tl.store(out_ptr",
        ),
        ("turn-operand", PRODUCT, "(k + d)[:, None] * N + j", "(k + d)[:, None] * 8 + j"),
        ("mask-tensor", PRODUCT, "mask=j[None, :] < N, other", "mask=j[None, :] < K, other"),
        ("sum-in-memory", LAUNCHED, "sums += x", "sums += x\n        sums += x"),
        ("lock-store", LAUNCHED, "M, block, num_warps", "M, lock, num_warps"),
        ("log-square", SQUARES, "x * x", "x * at"),
    ],
)
def test_programs_of_other_forms_are_left_alone(
    operator: str, text: str, old: str, new: str
) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert old in text
    assert len(made(operator, text.replace(old, new))) < len(made(operator, text))
