"""Kernels and operators of the seventh test split: they are right, and sites keep the result.

What launches the split's Triton kernels has its test with the others: `test_plant_triton`.
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
seventh: Any = importlib.import_module("plant.generated.seventh.extents")
SEVENTH: Any = importlib.import_module("plant.generated.seventh.operators").SEVENTH
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
del sys.path[0]

WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Lowers kernels as they are, too, and makes binaries."""
TILE = [families.FAMILIES[f"tile-{row.name}"] for row in seventh.TILES]
TRITON = [families.FAMILIES[f"triton-{row.name}"] for row in seventh.TRITONS]
OF_TILES = [each.name for each in SEVENTH if "tile" in each.languages]


@cache
def every() -> list[Any]:
    """All mutants of the split's families by operators that came with it, short sources first."""
    held = sorted((*TILE, *TRITON), key=lambda each: len(each.text))
    return [
        mutants.Mutant(family, operator, number, site)
        for family in held for operator in SEVENTH if family.language in operator.languages
        for number, site in enumerate(operator.sites(family.program))
    ]  # fmt: skip


def check(family: Any, text: str, shape: Any, folder: Path) -> None:
    """Compare a tile kernel with its reference at small extents; at a shape, lower it as well."""
    pytest.importorskip("torch")
    import tileprof
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    problems: Any = importlib.import_module("plant.generated.problems")
    module = problems.imported(family, text, folder / f"{family.path.stem}.py")
    work = problems.problem(family)
    inputs = problems.inputs_of(family, problems.small(family), "cpu")
    with tileprof.device("interpreter"):
        result = problems.called(family, module, inputs)
    expected = work.reference(*inputs)
    assert result.shape == expected.shape
    assert problems.difference(result, expected) <= work.limit
    if shape is None:
        return
    kernel = getattr(module, family.entry).compile(**shape).program.kernel
    made = compile_cuda(kernel, find_target("sm_90a"), None)
    assert made.source.text
    if WHOLE:
        assert made.cubin


# -- kernels


@pytest.mark.spread("tile-expert_slots", "tile-life_words", "tile-small_cholesky")
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_tile_kernels_are_right(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    check(family, family.text, family.shape if WHOLE else None, tmp_path)


@pytest.mark.spread("chop-loop", "drop-nans", "pile-in-shared")
@pytest.mark.parametrize("operator", OF_TILES)
def test_changed_tile_kernels_are_right_and_lowered(operator: str, tmp_path: Path) -> None:
    """A kernel that does the same in a worse way computes the same."""
    mutant = next(each for each in every() if each.operator.name == operator
                  and each.family.language == "tile" and not each.fault)  # fmt: skip
    check(mutant.family, mutant.text, mutant.shape, tmp_path)


# -- operators


def test_there_is_enough_for_a_split() -> None:
    """There are 36 families, half of either language; each operator has sites in some of them."""
    assert min(len(TILE), len(TRITON)) >= 18
    assert len(SEVENTH) >= 10
    by_operator = {
        each.name: {m.family.name for m in every() if m.operator is each} for each in SEVENTH
    }
    assert min(map(len, by_operator.values())) >= 3, by_operator


def test_operators_change_the_kernel_and_what_launches_it() -> None:
    """Their sources parse, other functions stay, guilty lines are there, causes are words."""
    for mutant in every():
        family = mutant.family
        pairs = zip(family.program.tree.body, ast.parse(mutant.text).body, strict=True)
        apart = {e.name for o, e in pairs
                 if isinstance(e, ast.FunctionDef) and ast.dump(e) != ast.dump(o)}  # fmt: skip
        assert apart, mutant.name
        assert apart <= {family.kernel, family.entry}, mutant.name
        assert mutant.guilty, mutant.name
        assert mutant.guilty[-1] <= mutant.text.count("\n") + 1, mutant.name
        assert mutant.rules, mutant.name


TILES = """\
@tileprof.jit
def made(X, W):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N, N), T.bfloat16)
    Y = T.empty((M, N), T.float32)
    rows, columns = 64, 64

    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:
        x = T.alloc_shared((rows, columns), T.bfloat16)
        w = T.alloc_shared((columns, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)
        made = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        T.clear(made)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=2):
            T.copy(X[block * rows, k * columns], x)
            T.copy(W[k * columns, 0], w)
            T.gemm(x, w, made)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] += T.exp(x[i, j])
        T.reduce_sum(sums, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            made[i, j] /= total[i]
        T.copy(made, Y[block * rows, 0])
    return Y
"""
LAUNCHED = """\
import torch
@triton.jit
def made_kernel(x_ptr, w_ptr, out_ptr, M, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=0.0)
        sums += x * tl.exp(x)
    w = tl.load(w_ptr + at)
    tl.store(out_ptr + row * M + at, sums * w)


def run(x, w):
    M, N = x.shape
    block = 64
    out = torch.empty_like(x)
    made_kernel[(M,)](x, w, out, M, N, block, num_warps=4)
    return out
"""


def made(operator: str, text: str) -> list[str]:
    """Texts that an operator makes of a program."""
    name = "made" if text.startswith("@tileprof") else "made_kernel"
    program = programs.Program(text, name, "made" if name == "made" else "run")
    (held,) = (each for each in SEVENTH if each.name == operator)
    return [programs.applied(text, site.edits) for site in held.sites(program)]


@pytest.mark.parametrize(
    ("operator", "text", "parts"),
    [
        ("running-mean", TILES, (
            "sums[i, j] += ((T.exp(x[i, j])) - sums[i, j]) / T.cast(k + 1, T.float32)\n        for",
            "            sums[i, j] = sums[i, j] * (T.ceildiv(N, columns))\n        T.reduce")),
        ("chop-loop", TILES, (
            "        for k_part in T.serial(T.ceildiv(T.ceildiv(N, columns), 4)):\n",
            "T.Pipelined(T.min(4, T.ceildiv(N, columns) - k_part * 4), num_stages=2):\n",
            "                k = k_part * 4 + k_step\n                T.copy(X[")),
        ("track-amax", TILES, ("    Amax = T.alloc_global((1,), T.float32)\n    with T.Kernel(1,",
                               "            T.reduce_max(row_top, tile_top, dim=0)\n")),
        ("drop-nans", TILES, ("], x)\n            for pr, pc in T.Parallel(rows, columns):\n",
                              "T.if_then_else(x[pr, pc] == x[pr, pc], x[pr, pc], T.cast(")),
        ("skip-zeros", TILES, ("if tile_top[0] > 0:\n                T.gemm(x, w, made)\n",
                               "dim=1)\n            T.reduce_max(row_top, tile_top, dim=0)\n")),
        ("split-exponential", TILES, (
            "(T.exp(T.floor(x[i, j])) * T.exp((x[i, j]) - T.floor(x[i, j])))",)),
        ("pile-in-shared", TILES, ("        T.fill(pile, 0)\n        for pr, pc in T.Parallel(",
                                   "            T.atomic_add(pile[pr], sums[pr, pc])\n")),
        ("tree-in-shared", TILES, (
            "        for half in [32, 16, 8, 4, 2, 1]:\n            for pr, pc in T.Parallel(rows",
            "tree[pr, pc] = tree[pr, pc] + tree[pr, pc + half]\n        for pr in T")),
        ("running-mean", LAUNCHED, (
            "        sums += ((x * tl.exp(x)) - sums) / (n // (block) + 1)\n    sums = sums * (",)),
        ("chop-loop", LAUNCHED, (
            "    for n_part in range(0, N, 4 * (block)):\n        for n in range(n_part, tl.",
            "            x = tl.load(")),
        ("track-amax", LAUNCHED, ("        tl.atomic_max(amax_ptr, tl.max(tl.abs(x.to(",
                                  "block, torch.zeros((1,), device=x.device, dtype=torch.int32)")),
        ("drop-nans", LAUNCHED, ("        x = tl.where(x == x, x, tl.zeros_like(x))\n",)),
        ("skip-zeros", LAUNCHED, (
            "if tl.max(tl.abs(x.to(tl.float32))) > 0:\n            sums += x * tl.exp(x)\n",)),
        ("split-exponential", LAUNCHED, ("(tl.exp(tl.floor(x)) * tl.exp((x) - tl.floor(x)))",)),
        ("turn-result", LAUNCHED, ("tl.store(out_ptr + (at) * turned_rows + (row), sums * w)",
                                   "return out.view(M, -1).t().reshape(out.shape)\n",
                                   "block, out.numel() // (M), num_warps")),
        ("descend-index", LAUNCHED, ("    at = (block - 1 - tl.arange(0, block))\n",)),
        ("search-place", LAUNCHED, ("    program += tl.load(part_ptr + part)\n    row = program\n",
                                    "block, torch.arange(65, device=x.device, dtype=torch.int32)")),
        ("poll-stop", LAUNCHED, (
            "        if tl.load(stop_ptr, volatile=True) == 0:\n            x = tl.load(x_ptr",
            "            sums += x")),
    ],
)  # fmt: skip
def test_an_operator_writes_what_it_says(operator: str, text: str, parts: tuple[str, ...]) -> None:
    """An operator writes what a reader would, and what parses."""
    changed = made(operator, text)[0]
    ast.parse(changed)
    assert not [part for part in parts if part not in changed], changed


@pytest.mark.parametrize(
    ("operator", "text", "old", "new"),
    [
        ("running-mean", TILES, "T.clear(sums)", "T.fill(sums, 1.0)"),
        ("running-mean", TILES, "sums[i, j] += ", "if j > 0:\n                    sums[i, j] += "),
        ("chop-loop", TILES, "T.ceildiv(N, columns), num", "0, T.ceildiv(N, columns), num"),
        ("track-amax", TILES, "block:", "Amax:"),
        ("drop-nans", TILES, "x = T.alloc_shared((rows, columns), T.bfloat16)",
         "x = T.alloc_shared((rows, columns), T.int8)"),
        ("skip-zeros", TILES, "T.gemm(x, w, made)", "T.gemm(x, w, made, clear_accum=k == 0)"),
        ("split-exponential", TILES, "T.exp(", "T.sin("),
        ("pile-in-shared", TILES, "dim=1", "1"),
        ("tree-in-shared", TILES, "rows, columns = 64, 64", "rows, columns = 64, 80"),
        ("running-mean", LAUNCHED, "sums += x", "sums += sums * x"),
        ("chop-loop", LAUNCHED, "range(0, N", "range(1, N"),
        ("track-amax", LAUNCHED, "import torch\n", ""),
        ("drop-nans", LAUNCHED, "other=0.0", "other=0"),
        ("skip-zeros", LAUNCHED, "x * tl.exp(x)", "tl.exp(x)"),
        ("split-exponential", LAUNCHED, "tl.exp(", "tl.sin("),
        ("turn-result", LAUNCHED, "+ row * M + at", "+ row * M + at * N"),
        ("descend-index", LAUNCHED, "sums * w", "tl.cumsum(sums, 0) * w"),
        ("search-place", LAUNCHED, "tl.program_id(0)", "tl.program_id(1)"),
        ("poll-stop", LAUNCHED, "sums * w", "sums * w + x"),
    ],
)  # fmt: skip
def test_programs_of_other_forms_are_left_alone(
    operator: str, text: str, old: str, new: str
) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert old in text
    assert len(made(operator, text.replace(old, new))) < len(made(operator, text))
