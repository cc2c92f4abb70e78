"""Kernels and operators of the third test split: they are right, and faults are not drawn."""

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
drawing: Any = importlib.import_module("plant.generated.drawing")
extents: Any = importlib.import_module("plant.generated.later.extents")
families: Any = importlib.import_module("plant.generated.families")
later: Any = importlib.import_module("plant.generated.later.operators")
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
del sys.path[0]

WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Makes binaries, too, and takes every mutant instead of one for each operator."""
TILE = [families.FAMILIES[f"tile-{row.name}"] for row in extents.TILES]
TRITON = [families.FAMILIES[f"triton-{row.name}"] for row in extents.TRITONS]
OF_TILES = [each.name for each in later.LATER if "tile" in each.languages]


@cache
def mutants_of(family: str) -> list[Any]:
    """All mutants of a family by operators that came with it, made once."""
    held = mutants.mutants_of(families.FAMILIES[family])
    return [each for each in held if each.operator in later.LATER]


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
    kernel = getattr(module, family.entry).compile(**shape).program.kernel
    made = compile_cuda(kernel, find_target("sm_90a"), None)
    assert made.source.text
    if WHOLE:
        assert made.cubin
    work = problems.problem(family)
    inputs = problems.inputs_of(family, problems.small(family), "cpu")
    problems.reset(work, inputs)
    with tileprof.device("interpreter"):
        result = problems.called(family, module, inputs)
    assert problems.difference(result, work.reference(*inputs)) <= work.limit


# -- kernels


def test_there_is_enough_for_a_split() -> None:
    """More than 45 families, of which half are of either language, and 20 operators."""
    assert len(TILE) >= 24
    assert len(TRITON) >= 24
    kinds = [each.kind for each in later.LATER]
    assert kinds.count("defect") >= 20
    assert kinds.count("decoy") >= 4


@pytest.mark.spread("tile-byte_momentum", "tile-hash_encode", "tile-heat3d", "tile-latent_decode")
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_tile_kernels_are_right_and_lowered(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    check(family, family.text, family.shape, tmp_path)


@pytest.mark.spread("park-in-shared", "skip-tile", "pad-rows", "list-rows")
@pytest.mark.parametrize("operator", OF_TILES)
def test_changed_tile_kernels_are_right_and_lowered(operator: str, tmp_path: Path) -> None:
    """A kernel that does the same in a worse way computes the same."""
    mutant = example_of(operator)
    check(mutant.family, mutant.text, mutant.shape, tmp_path)


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
    assert used == {each.name for each in later.LATER}


TILES = """\
@tileprof.jit
def made(X, W):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    rows, columns = 4, 64

    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:
        tile = T.alloc_shared((rows, columns), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        for k in T.serial(N // columns):
            T.copy(X[block * rows, k * columns], tile)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] += tile[i, j] * 2.0
        T.reduce_sum(sums, total, dim=1)
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = X[block * rows + i, j] * total[i] + W[j]
    return Y
"""
LAUNCHED = """\
@triton.jit
def made_kernel(x_ptr, w_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=-1.0).to(tl.float32)
        sums += x
    most = tl.max(sums, 0)
    total = tl.sum(sums, 0) + most
    y = total * tl.load(w_ptr + at)
    tl.store(out_ptr + row * block + at, y.to(tl.bfloat16))


def run(x, w):
    M, N = x.shape
    block = 64
    out = torch.empty((M, block), device=x.device, dtype=torch.bfloat16)
    made_kernel[(M,)](x, w, out, N, block, num_warps=4)
    return out
"""
PRODUCT = """\
@triton.jit
def made_kernel(x_ptr, w_ptr, scale_ptr, out_ptr, N, K, size: tl.constexpr):
    i = tl.program_id(0) * size + tl.arange(0, size)
    j = tl.program_id(1) * size + tl.arange(0, size)
    d = tl.arange(0, size)
    scale = tl.load(scale_ptr + j, mask=j < N, other=0.0)
    sums = tl.zeros((size, size), dtype=tl.float32)
    for k in range(0, K, size):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :])
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :])
        sums = tl.dot(x, w, sums)
    y = sums * scale[None, :]
    tl.store(out_ptr + i[:, None] * N + j[None, :], y)


def run(x, w, scale, out):
    (M, K), N = x.shape, w.shape[1]
    size = 64
    made_kernel[(triton.cdiv(M, size), triton.cdiv(N, size))](x, w, scale, out, N, K, size)
    return out
"""


def made(operator: str, text: str, wrong: bool = False) -> list[str]:
    """Texts that an operator makes of a program, its faults alone where `wrong`."""
    name = "made" if text is TILES else "made_kernel"
    program = programs.Program(text, name, "made" if name == "made" else "run")
    sites = mutants.OPERATORS[operator].sites(program)
    return [programs.applied(text, site.edits) for site in sites if bool(site.fault) == wrong]


@pytest.mark.parametrize(
    ("operator", "text", "number", "parts"),
    [
        ("park-in-shared", TILES, 1, (" total = T.alloc_shared((rows,), T.float32)\n",)),
        ("skip-tile", TILES, 0, ("            pass\n",
                                 " += X[block * rows + (i), k * columns + (j)] * 2.0\n")),
        ("turn-buffer", TILES, 0, (" tile = T.alloc_shared((columns, rows), T.float32)\n",
                                   "                tile[q, p] = X[block * rows + p, k * columns",
                                   " += tile[j, i] * 2.0\n")),
        ("pad-rows", TILES, 0, ("X_longer = T.alloc_global((M, N + 1), T.float32)\n",
                                "T.copy(X_longer[block * rows, k * columns], tile)\n")),
        ("list-rows", TILES, 0, ("Listed = T.alloc_global((M,), T.int32)\n",
                                 " = X[Listed[block * rows + i], j] *")),
        ("widen-loop", TILES, 0, ("T.Parallel(rows, 2 * (columns)):\n                if j <",
                                  "                    sums[i, j] +=")),
        ("repeat-call", TILES, 0, ("sums, total, dim=1)\n        T.reduce_sum(sums, total, dim",)),
        ("long-blocks", TILES, 0, ("T.Kernel(T.ceildiv(T.ceildiv(M, rows), 16), threads=128) as "
                                   "block_long:\n", "        for each_of_block in T.serial(16):\n"
                                   "            block = block_long * 16 + each_of_block\n",
                                   "            T.clear(sums)\n")),
        ("copy-result", TILES, 0, ("Y_made = T.alloc_global((M, N,), T.float32)\n",
                                   "            Y_made[block * rows + i, j] = X",
                                   "    with T.Kernel(M, T.ceildiv(N, 1024), threads=128) as "
                                   "(p, o):\n")),
        ("double-sum", TILES, 0, (" sums = T.alloc_fragment((rows, columns), T.float64)\n",)),
        ("clamp-index", TILES, 0, ("X[block * rows + i, T.min(j, N - 1)]", "W[T.min(j, N - 1)]")),
        ("clear-twice", TILES, 0, ("        T.clear(sums)\n        T.clear(sums)\n",)),
        ("clone-argument", LAUNCHED, 0, ("(x.clone(), w, out, N,",)),
        ("widen-argument", LAUNCHED, 0, ("(x.float(), w, out, N,",)),
        ("widen-result", LAUNCHED, 0, ("dtype=torch.float32)\n    made",
                                       "return out.to(torch.bfloat16)\n")),
        ("clear-result", LAUNCHED, 0, ("out = torch.zeros((M, block),",)),
        ("copy-result", LAUNCHED, 0, ("return out.clone()\n",)),
        ("split-launch", LAUNCHED, 0, ("block: tl.constexpr, part):",
                                       "    parts = 8 if M % 8 == 0 else 1\n    for part in range("
                                       "parts):\n        made_kernel[(M // parts,)](x, w, out, N, "
                                       "block, part, num_warps=4)\n",
                                       "(tl.program_id(0) + part * tl.num_programs(0))")),
        ("repeat-programs", LAUNCHED, 0, ("[(2 * (M),)](", "row = (tl.program_id(0) // 2)\n")),
        ("clamp-index", LAUNCHED, 0, ("    at = tl.minimum(at, 1073741823)\n",)),
        ("halve-load", LAUNCHED, 0, ("tl.where(at % 2 == 0, tl.load(x_ptr + row * N + n + at, mask="
                                     "(at % 2 == 0) & (n + at < N), other=-1.0), tl.load(",)),
        ("sum-by-scan", LAUNCHED, 0, ("tl.where(tl.arange(0, block) == block - 1, tl.cumsum(sums, "
                                      "0), 0.0), 0) + most",)),
        ("sort-first", LAUNCHED, 0, ("tl.max(tl.sort(sums), 0)",)),
        ("double-sum", LAUNCHED, 0, ("tl.zeros((block,), dtype=tl.float64)",)),
        ("branch-once", LAUNCHED, 0, ("    if tl.program_id(0) < 0:\n        return\n    row",)),
        ("spread-load", PRODUCT, 0, ("sums * tl.load((scale_ptr + j)[None, :], mask=(j < N)"
                                     "[None, :], other=0.0)\n",)),
        ("turn-product", PRODUCT, 0, ("(sums + tl.trans(tl.dot(tl.trans(w), tl.trans(x))))\n",)),
        ("add-outside", PRODUCT, 0, ("sums = sums + tl.dot(x, w)\n",)),
        ("assert-off", PRODUCT, 0, ("    tl.device_assert(scale == scale)\n",)),
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
        ("widen-argument", LAUNCHED, ".to(tl.float32)", ""),
        ("widen-result", LAUNCHED, "y.to(tl.bfloat16)", "y"),
        ("clear-result", LAUNCHED, "return out", "return out + 1"),
        ("split-launch", LAUNCHED, "total *", "tl.num_programs(0) *"),
        ("repeat-programs", LAUNCHED, "tl.store", "tl.atomic_add"),
        ("repeat-programs", LAUNCHED, "w_ptr + at", "out_ptr + at"),
        ("sort-first", LAUNCHED, "    most =", "    at = at[:, None]\n    most ="),
        ("turn-product", PRODUCT, "w, sums)", 'w, sums, input_precision="tf32")'),
        ("add-outside", PRODUCT, "w, sums)", "w, sums * 2)"),
    ],
)
def test_programs_of_other_forms_are_left_alone(
    operator: str, text: str, old: str, new: str
) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert made(operator, text)
    assert old in text
    assert not made(operator, text.replace(old, new))


# -- faults


def test_a_result_that_is_made_after_a_loop_is_made_in_it_too() -> None:
    """Stored alone in the loop, it has no name yet: that is a fault, which keeps its number."""
    (alone,) = made("sink-result", PRODUCT, wrong=True)
    assert alone.count("y = sums") == 1
    (whole,) = made("sink-result", PRODUCT)
    assert whole.count("        y = sums * scale[None, :]\n        tl.store(") == 1


def test_programs_that_mean_their_neighbours_are_not_interleaved() -> None:
    """A second use of a program's place counts on rows that lie together."""
    text = PRODUCT.replace("+ j, mask", "+ tl.program_id(1) * size // 128 + j, mask")
    assert len(made("interleave", PRODUCT)) == 2
    assert len(made("interleave", text)) == len(made("interleave", text, wrong=True)) == 1


def test_a_grid_that_no_gpu_launches_is_a_fault() -> None:
    """The second and third axis have 65,535 blocks at most; unknown names say nothing."""
    family = families.FAMILIES["triton-sparse_adagrad"]
    (swapped,) = (e for e in mutants.mutants_of(family) if e.operator.name == "swap-grid")
    assert swapped.fault.startswith("131072 blocks along an axis that has 65535")
    program = family.program
    assert mutants.counted(program, "triton.cdiv(N, block)", {"N": 257}) == 2
    assert mutants.counted(program, "T.ceildiv(N, 2) * M", {"N": 5, "M": 3}) == 9
    assert mutants.counted(program, "share * M", {"M": 3}) is None


def test_no_draw_has_faults() -> None:
    """A draw leaves faults out, of the language of tiles and of Triton's."""
    for name in ("tile-attention_delta", "triton-sparse_adagrad"):
        family = families.FAMILIES[name]
        assert any(each.fault for each in mutants.mutants_of(family))
        piles, decoys = drawing._sites(family, drawing.random.Random(0), ())
        assert not any(each.fault for pile in (*piles, decoys) for each in pile)


def test_no_draw_has_families_whose_results_are_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A family that a compiler makes wrong stays in the split that has run, and in no later one."""
    names = ("triton-lion", "triton-cosine_matrix")
    monkeypatch.setattr(drawing, "deal", lambda seed, without: drawing.Deal((), names, ()))
    assert {each.family.name for each in drawing.drawn(3, "test", ("test-2",))} == {"triton-lion"}
