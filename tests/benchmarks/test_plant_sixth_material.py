"""Kernels and operators of the sixth test split: they are right, and sites keep the result.

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
sixth: Any = importlib.import_module("plant.generated.sixth.extents")
SIXTH: Any = importlib.import_module("plant.generated.sixth.operators").SIXTH
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
del sys.path[0]

WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Lowers kernels as they are, too, and makes binaries."""
TILE = [families.FAMILIES[f"tile-{row.name}"] for row in sixth.TILES]
TRITON = [families.FAMILIES[f"triton-{row.name}"] for row in sixth.TRITONS]
OF_TILES = [each.name for each in SIXTH if "tile" in each.languages]


@cache
def every() -> list[Any]:
    """All mutants of the split's families by operators that came with it, short sources first."""
    held = sorted((*TILE, *TRITON), key=lambda each: len(each.text))
    return [
        mutants.Mutant(family, operator, number, site)
        for family in held for operator in SIXTH if family.language in operator.languages
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


@pytest.mark.spread("tile-ctc_alpha", "tile-outlier_product", "tile-triangle_counts")
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_tile_kernels_are_right(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    check(family, family.text, family.shape if WHOLE else None, tmp_path)


@pytest.mark.spread("count-visits", "roll-loop", "read-bytes")
@pytest.mark.parametrize("operator", OF_TILES)
def test_changed_tile_kernels_are_right_and_lowered(operator: str, tmp_path: Path) -> None:
    """A kernel that does the same in a worse way computes the same."""
    mutant = next(each for each in every() if each.operator.name == operator
                  and each.family.language == "tile" and not each.fault)  # fmt: skip
    check(mutant.family, mutant.text, mutant.shape, tmp_path)


def test_helpers_of_kernels_are_not_taken_for_them() -> None:
    """A Triton family's kernel is the function that is launched, of several under `jit`."""
    for family in TRITON:
        assert family.kernel == f"{family.path.stem}_kernel"
    assert any(family.text.count("@triton.jit") > 1 for family in TRITON)


# -- operators


def test_there_is_enough_for_a_split() -> None:
    """There are 28 families, half of either language; each operator has sites in some of them."""
    assert min(len(TILE), len(TRITON)) >= 14
    assert len(SIXTH) >= 8
    by_operator = {
        each.name: {m.family.name for m in every() if m.operator is each} for each in SIXTH
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
def made(X, W, Scale):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((M, N), T.float32)
    Scale: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    rows, columns = 4, 64

    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:
        tile = T.alloc_shared((rows, columns), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        for k in T.serial(T.ceildiv(N, columns)):
            T.copy(X[block * rows, k * columns], tile)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] += tile[i, j] * 0.3 * W[block * rows + i, k * columns + j]
        T.reduce_sum(sums, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            for n in T.unroll(2):
                sums[i, j] = sums[i, j] + total[i] * Scale[j]
        T.copy(sums, Y[block * rows, 0])
    return Y
"""
LAUNCHED = """\
import torch
@triton.jit
def made_kernel(x_ptr, w_ptr, out_ptr, M, N, block: tl.constexpr):
    row = tl.program_id(1)
    first = tl.program_id(0) * block
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        real = n + at < N
        x = tl.load(x_ptr + row * N + n + at, mask=real, other=0.0)
        sums += x * x
    left = real
    n = 0
    while (n < M) & (tl.max(left.to(tl.int32), 0) > 0):
        left = left & (sums > n)
        n += 1
    w = tl.load(w_ptr + first + at)
    tl.store(out_ptr + row * M + first + at, sums * w)


def run(x, w):
    M, N = x.shape
    block = 64
    out = torch.empty_like(x)
    made_kernel[(triton.cdiv(N, block), M)](x, w, out, M, N, block, num_warps=4)
    return out
"""


def made(operator: str, text: str) -> list[str]:
    """Texts that an operator makes of a program."""
    name = "made" if text.startswith("@tileprof") else "made_kernel"
    program = programs.Program(text, name, "made" if name == "made" else "run")
    (held,) = (each for each in SIXTH if each.name == operator)
    return [programs.applied(text, site.edits) for site in held.sites(program)]


@pytest.mark.parametrize(
    ("operator", "text", "number", "parts"),
    [
        ("compensate-sum", TILES, 0, (
            "sums_lost = T.alloc_fragment((rows, columns), T.float32)\n        T.clear(sums_lost)",
            "                next_sum = sums[i, j] + term\n                sums_lost[i, j] = (next",
            "columns + j]) - sums_lost[i, j]\n")),
        ("count-visits", TILES, 0, ("Visits = T.alloc_global((1,), T.int32)\n    with T.Kernel(1,",
                                    "columns)):\n            T.atomic_add(Visits[0], 1)\n")),
        ("roll-loop", TILES, 0, ("for n in T.serial(2):",)),
        ("spread-row", TILES, 0, (
            "wide = T.alloc_shared((rows, columns), T.float32)\n        tile = ",
            "        for i, j in T.Parallel(rows, columns):\n            wide[i, j] = total[i]\n",
            "sums[i, j] + wide[i, j] * Scale[j]\n")),
        ("copy-more", TILES, 0, ("tile = T.alloc_shared((rows, 2 * columns), T.float32)\n",)),
        ("read-bytes", TILES, 0, ("    W_bytes = T.view(W, (M, N * 4), T.uint8)\n    with T.Ker",
                                  "T.cast(W_bytes[block * rows + i, (k * columns + j) * 4 + 3], T.",
                                  "T.uint32) << T.uint32(24)), T.float32)\n")),
        ("divide-constant", TILES, 0, ("+= (tile[i, j]) / 3.3333333333333335 * W[",)),
        ("compensate-sum", LAUNCHED, 0, (
            "    sums_lost = tl.zeros((block,), dtype=tl.float32)\n    for n",
            "        sums_term = (x * x) - sums_lost\n        sums_next = sums + sums_term\n")),
        ("count-visits", LAUNCHED, 1, ("> 0):\n        tl.atomic_add(visit_ptr, 1)\n",
                                       "block, torch.zeros((1,), device=x.device, dtype=torch.i")),
        ("take-ticket", LAUNCHED, 0, ("    ticket = tl.atomic_add(ticket_ptr, 1)\n    row = (ticke",
                                      "row = (ticket // tl.num_programs(0))\n    first = (tick")),
        ("address-table", LAUNCHED, 1, ("    w_ptr = tl.load(table_ptr).to(w_ptr.dtype)\n    row",
                                        "torch.full((1,), w.data_ptr(), device=w.device, dtype=t")),
        ("forget-exit", LAUNCHED, 0, ("    while n < M:\n        left",)),
        ("check-block", LAUNCHED, 0, (
            "        real = n + at < N\n        if tl.max((real).to(tl.int32)) > 0:\n            x",
            "            sums += x * x\n    left = real\n")),
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
        ("compensate-sum", TILES, "sums[i, j] +=", "sums[i, 0] +="),
        ("count-visits", TILES, "block:", "Visits:"),
        ("roll-loop", TILES, "T.unroll(2)", "list(range(2))"),
        ("spread-row", TILES, "total[i] * Scale[j]", "total[n] * Scale[n]"),
        ("copy-more", TILES, "T.reduce_sum(sums", "T.reduce_sum(tile"),
        ("read-bytes", TILES, "W: T.Tensor((M, N), T.float32)", "W: T.Tensor((M, N), T.float16)"),
        ("divide-constant", TILES, "0.3", "0.25"),
        ("compensate-sum", LAUNCHED, "dtype=tl.float32", "dtype=tl.int32"),
        ("count-visits", LAUNCHED, "import torch\n", ""),
        ("take-ticket", LAUNCHED, "tl.program_id(1)", "tl.program_id(axis)"),
        ("address-table", LAUNCHED, "    row =", "    w_ptr += 0\n    row ="),
        ("forget-exit", LAUNCHED, "tl.max(left.to(tl.int32), 0) > 0", "(M > 0)"),
        ("check-block", LAUNCHED, "n + at < N", "tl.load(w_ptr + at) < N"),
    ],
)
def test_programs_of_other_forms_are_left_alone(
    operator: str, text: str, old: str, new: str
) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert old in text
    assert len(made(operator, text.replace(old, new))) < len(made(operator, text))
