"""Kernels and operators of the eighth test split: they are right, and sites keep the result.

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
eighth: Any = importlib.import_module("plant.generated.eighth.extents")
EIGHTH: Any = importlib.import_module("plant.generated.eighth.operators").EIGHTH
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
del sys.path[0]

WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Lowers kernels as they are, too, and makes binaries."""
TILE = [families.FAMILIES[f"tile-{row.name}"] for row in eighth.TILES]
TRITON = [families.FAMILIES[f"triton-{row.name}"] for row in eighth.TRITONS]
OF_TILES = [each.name for each in EIGHTH if "tile" in each.languages]


@cache
def every() -> list[Any]:
    """All mutants of the split's families by operators that came with it, short sources first."""
    held = sorted((*TILE, *TRITON), key=lambda each: len(each.text))
    return [
        mutants.Mutant(family, operator, number, site)
        for family in held for operator in EIGHTH if family.language in operator.languages
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


@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_tile_kernels_are_right(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    check(family, family.text, family.shape if WHOLE else None, tmp_path)


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
    assert len(EIGHTH) >= 10
    by_operator = {
        each.name: {m.family.name for m in every() if m.operator is each} for each in EIGHTH
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

    with T.Kernel(N // columns, T.ceildiv(M, rows), threads=128) as (side, block):
        x = T.alloc_shared((rows, columns), T.bfloat16)
        w = T.alloc_shared((columns, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=2):
            T.copy(X[block * rows, k * columns], x)
            T.copy(W[k * columns, side * columns], w)
            T.gemm(x, w, sums)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = T.exp(sums[i, j])
        T.copy(sums, Y[block * rows, side * columns])
    return Y
"""
LAUNCHED = """\
import torch
@triton.jit
def made_kernel(x_ptr, w_ptr, out_ptr, M, N, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        spot = n + tl.arange(0, block)
        x = tl.load(x_ptr + row * N + spot, mask=spot < N, other=0.0)
        sums += x * tl.exp(x)
    w = tl.load(w_ptr + at, mask=at < M, other=0)
    both = tl.dot(w, sums)
    tl.store(out_ptr + row * M + at, both, mask=at < M)


def run(x, w):
    M, N = x.shape
    block = 64
    out = torch.empty_like(x)
    made_kernel[(triton.cdiv(M, block), M)](x, w, out, M, N, block, num_warps=4)
    return out
"""


def made(operator: str, text: str) -> list[str]:
    """Texts that an operator makes of a program."""
    name = "made" if text.startswith("@tileprof") else "made_kernel"
    program = programs.Program(text, name, "made" if name == "made" else "run")
    (held,) = (each for each in EIGHTH if each.name == operator)
    return [programs.applied(text, site.edits) for site in held.sites(program)]


@pytest.mark.parametrize(
    ("operator", "text", "parts"),
    [
        ("prefetch-by-hand", TILES, (
            "        T.copy(X[block * rows, 0 * columns], x_ahead)\n        T.copy(W[0 * columns",
            "            k_later = T.min(k + 1, T.ceildiv(N, columns) - 1)\n",
            "            T.copy(W[k_later * columns, side * columns], w_ahead)\n")),
        ("alternate-sums", TILES, (
            "if k % 2 == 0:\n                T.gemm(x, w, sums)\n            else:\n",
            "                T.gemm(x, w, sums_odd)\n        for pr, pc in T.")),
        ("promote-sums", TILES, ("T.gemm(x, w, sums_part, clear_accum=True)\n            for pr",
                                 "                sums[pr, pc] += sums_part[pr, pc]\n")),
        ("residual-product", TILES, ("            T.gemm(x, w, sums)\n            T.gemm(rest, w, ",
                                     "rest = T.alloc_shared((rows, columns), T.bfloat16)\n")),
        ("count-down", TILES, ("for k_up in T.Pipelined(T.ceildiv(N, columns), num_stages=2):\n"
                               "            k = T.ceildiv(N, columns) - 1 - k_up\n",)),
        ("fold-grid", TILES, (
            "with T.Kernel((N // columns) * (T.ceildiv(M, rows)), threads=128) as flat:\n"
            "        side = flat % (N // columns)\n        block = flat // (N // columns)\n",)),
        ("strip-loop", TILES, (
            "        for i_strip in list(range(4)):\n            for i_in, j in T.Parallel(",
            "                i = i_strip * (rows // 4) + i_in\n                sums[i, j]")),
        ("leave-at-nan", TILES, ("            if x[0, 0] != x[0, 0]:\n                break\n",)),
        ("uneven-threads", TILES.replace("T.gemm(x, w, sums)", "pass"), ("threads=96)",)),
        ("prefetch-by-hand", LAUNCHED, (
            "    spot_next = 0 + tl.arange(0, block)\n    x_next = tl.load(x_ptr + row * N",
            "        x = x_next\n        n_next = tl.minimum(n + block, (N - 1) // (block)",
            "        spot_next = n_next + tl.arange(0, block)\n")),
        ("alternate-sums", LAUNCHED, ("        sums, sums_other = sums_other, sums\n    sums = ",)),
        ("promote-sums", LAUNCHED, (
            "        sums += (x * tl.exp(x)) * tl.load(unit_ptr + (n // (block)) % 64)\n",)),
        ("residual-product", LAUNCHED, ("both = tl.dot(rest, sums, tl.dot(whole, sums))",)),
        ("count-down", LAUNCHED, (
            "for n_up in range(0, N, block):\n        n = (N - 1) // (block) * (block) - n_up\n",)),
        ("fold-grid", LAUNCHED, ("row = (tl.program_id(0) // across)", "cdiv(M, block)) * (M)",
                                 "(tl.program_id(0) % across) * block")),
        ("leave-dropout", LAUNCHED, (
            "x = tl.where(tl.rand(17, (row * N + spot).to(tl.int32)) >= chance, x, tl.zeros_",)),
        ("select-mode", LAUNCHED, ("tl.where(mode == 0, plain, bent.to(plain.dtype)), mask",)),
        ("widen-integers", LAUNCHED, ("    w = w.to(tl.int64)\n",)),
        ("ring-buffer", LAUNCHED, ("    head = tl.load(head_ptr)\n",
                                   "tl.load(w_ptr + ((at + head) % M), mask=at < M")),
        ("overlap-programs", LAUNCHED, ("at = tl.program_id(0) * (block // 2) + tl.arange(0,",
                                        "triton.cdiv(M, block // 2), M)")),
        ("append-row", LAUNCHED, ("(torch.cat((x, x[:1])), w, out,",)),
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
        ("prefetch-by-hand", TILES, "(T.ceildiv(N, columns), n", "(0, T.ceildiv(N, columns), n"),
        ("alternate-sums", TILES, "w, sums)", "w, sums)\n            T.copy(sums, sums)"),
        ("promote-sums", TILES, "w, sums)", "w, sums, clear_accum=True)"),
        ("residual-product", TILES, "x = T.alloc_shared((rows, columns), T.bfloat16)",
         "x = T.alloc_shared((rows, columns), T.int8)"),
        ("count-down", TILES, "T.gemm(x, w, sums)", "T.clear(x)"),
        ("fold-grid", TILES, "N // columns, T.ceildiv(M, rows), threads=128) as (side, block)",
         "N // columns, threads=128) as side"),
        ("strip-loop", TILES, "rows, columns = 64, 64", "rows, columns = 63, 64"),
        ("leave-at-nan", TILES, "T.alloc_shared((rows, columns), T.bfloat16)",
         "T.alloc_shared((rows, columns), T.int8)"),
        ("prefetch-by-hand", LAUNCHED, "spot = n +", "spot = sums +"),
        ("alternate-sums", LAUNCHED, "x * tl.exp(x)", "sums * x"),
        ("promote-sums", LAUNCHED, "range(0, N", "range(1, N"),
        ("residual-product", LAUNCHED, "tl.dot(w, sums)", "tl.dot(w, sums, out_dtype=tl.int32)"),
        ("count-down", LAUNCHED, "sums += x", "sums = sums * x"),
        ("fold-grid", LAUNCHED, "= tl.zeros((block,)", "= tl.num_programs(1) * tl.zeros((block,)"),
        ("leave-dropout", LAUNCHED, "other=0.0", "other=0"),
        ("select-mode", LAUNCHED, "n in range(0, N", "mode in range(0, N"),
        ("widen-integers", LAUNCHED, "float32", "int32"),
        ("ring-buffer", LAUNCHED, "spot < N", "spot <= N"),
        ("overlap-programs", LAUNCHED, "tl.store(", "tl.atomic_add("),
        ("append-row", LAUNCHED, "(x, w, out, M", "(x.T, w, out, M"),
    ],
)  # fmt: skip
def test_programs_of_other_forms_are_left_alone(
    operator: str, text: str, old: str, new: str
) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert old in text
    assert len(made(operator, text.replace(old, new))) < len(made(operator, text))
