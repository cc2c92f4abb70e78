"""Triton kernels of generated defects: operators on their order of work, launches, results.

Only the last test needs Triton: sources are parsed, and what launches a kernel runs with a stand-in
that notes the launch.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import subprocess
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
families: Any = importlib.import_module("plant.generated.families")
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
triton_orders: Any = importlib.import_module("plant.generated.triton_orders")
dry_running: Any = importlib.import_module("plant.generated.dry_running")
running: Any = importlib.import_module("plant.generated.running")
del sys.path[0]

TRITON = [each for each in families.FAMILIES.values() if each.language == "triton"]
ROOMS = [each for each in TRITON if each.path.parent.name != "triton_kernels"]
"""Families of the rooms of `triton_kernels`."""


@cache
def of_orders() -> tuple[Any, ...]:
    """Mutants of all Triton families by operators on the order of work."""
    return tuple(
        mutant for family in TRITON for mutant in mutants.mutants_of(family)
        if mutant.operator in triton_orders.ORDERS
    )  # fmt: skip


# -- operators

SUMS = """\
@triton.jit
def made_kernel(x_ptr, w_ptr, out_ptr, N, K, rows: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    at = tl.arange(0, block)
    sums = tl.zeros((rows, block), dtype=tl.float32)
    product = tl.zeros((rows, block), dtype=tl.float32)
    for k in range(0, K, block):
        x = tl.load(x_ptr + i[:, None] * K + (k + at)[None, :])
        w = tl.load(w_ptr + (k + at)[:, None] * N + at[None, :])
        sums += x * x
        product = tl.dot(x, w, product)
    root = tl.sqrt(tl.sum(sums, 1))
    tl.store(out_ptr + i[:, None] * N + at[None, :], product / root[:, None], mask=i[:, None] < N)


def run(x, w):
    (M, K), N = x.shape, w.shape[1]
    rows, block = 32, triton.next_power_of_2(N)
    grid = (triton.cdiv(M, rows),)
    made_kernel[grid](x, w, out, N, K, rows, block)
    return out
"""


def made(operator: str, text: str = SUMS) -> list[str]:
    """Texts that an operator makes of a program."""
    program = programs.Program(text, "made_kernel", "run")
    sites = mutants.OPERATORS[operator].sites(program)
    return [programs.applied(text, site.edits) for site in sites]


_PLACE = "out_ptr + i[:, None] * N + at[None, :]"
_HALF = "product / root[:, None], mask=(at[None, :] % 2 == 1) & (i[:, None] < N))"


@pytest.mark.parametrize(
    ("operator", "number", "parts"),
    [
        ("reload-result", 0, (f"\n    tl.debug_barrier()\n    tl.store({_PLACE}, tl.load({_PLACE}, "
                              "mask=i[:, None] < N), mask=i[:, None] < N)\n",)),
        ("evict-first", 1, ('* N + at[None, :], eviction_policy="evict_first")\n',)),
        ("halve-store", 0, (f"\n    tl.store({_PLACE}, {_HALF}\n",)),
        ("widen-index", 0, (" + tl.arange(0, rows).to(tl.int64)\n",
                            " = tl.arange(0, block).to(tl.int64)\n")),
        ("interleave", 0, (" i = tl.program_id(0) + tl.arange(0, rows) * tl.num_programs(0)\n",)),
        ("pad-block", 1, (" rows, block = 32, 4 * triton.next_power_of_2(N)\n",)),
        ("reduce-each", 0, (" sums = tl.zeros((rows,), dtype=tl.float32)\n",
                            " sums += tl.sum(x * x, 1)\n", " root = tl.sqrt(sums)\n")),
        ("stagger-loop", 0, (" for k_turn in range(0, K, block):\n        k = (k_turn + "
                             "tl.program_id(0) * block) % (tl.cdiv(K, block) * block)\n",)),
        ("while-loop", 0, ("\n    k = 0\n    while k < K:\n", "\n        k += block\n    root")),
        ("few-programs", 0, ("kernel(blocks, x_ptr", "\n        i = each * rows + tl.arange",
                             "\n    for each in range(tl.program_id(0), blocks, "
                             "tl.num_programs(0)):\n", "\n            product = tl.dot(x,",
                             " grid = (33,)\n", "[grid](triton.cdiv(M, rows), x, w,")),
    ],
)  # fmt: skip
def test_an_operator_writes_what_it_says(
    operator: str, number: int, parts: tuple[str, ...]
) -> None:
    """An operator writes what a reader would, and what parses."""
    text = made(operator)[number]
    ast.parse(text)
    assert not [part for part in parts if part not in text], text


def test_a_sum_of_one_axis_becomes_a_number() -> None:
    """A vector that is added up whole starts as a number."""
    text = SUMS.replace("sums = tl.zeros((rows, block)", "sums = tl.zeros((block,)")
    text = text.replace("tl.sum(sums, 1)", "tl.sum(sums, 0)")
    (changed,) = made("reduce-each", text)
    assert "    sums = 0.0\n" in changed
    assert "tl.sum(x * x, 0)" in changed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sums += x * x", "sums = sums * 0.5 + x"), ("sums += x * x", "tl.store(out_ptr, x)"),
        ("range(0, K, block)", "range(1, K, block)"), ("tl.dot(x, w, product)", "product + x"),
    ],
)  # fmt: skip
def test_a_loop_whose_order_counts_is_not_staggered(old: str, new: str) -> None:
    """Iterations that need earlier ones, that write, or that are no product keep their order."""
    assert made("stagger-loop")
    assert not made("stagger-loop", SUMS.replace(old, new))


@pytest.mark.parametrize(
    ("operator", "old", "new"),
    [
        ("reduce-each", "sums += x * x", "sums += x * x\n        x = sums"),
        ("reduce-each", "dtype=tl.float32)\n    product", "dtype=tl.int32)\n    product"),
        ("evict-first", "tl.dot(x, w, product)", "product + x"),
        ("few-programs", "(triton.cdiv(M, rows),)", "(triton.cdiv(M, rows), 2)"),
        ("few-programs", "    at = tl", "    each = tl"),
        ("interleave", "* rows + tl", "* block + tl"),
        ("interleave", "x * x", "tl.cumsum(x, 0)"),
        ("while-loop", "range(0, K, block)", "range(K)"),
        ("halve-store", "out_ptr + i[:, None] * N + at[None, :]", "out_ptr"),
    ],
)
def test_programs_of_other_forms_are_left_alone(operator: str, old: str, new: str) -> None:
    """A site is where a change keeps the result, and nowhere else."""
    assert made(operator)
    assert old in SUMS
    assert not made(operator, SUMS.replace(old, new))


@pytest.mark.sweep
def test_orders_have_sites_in_many_families() -> None:
    """Each operator has sites, and none of them a text that another operator makes."""
    held = of_orders()
    by_operator = {
        each.name: {m.family.name for m in held if m.operator is each}
        for each in triton_orders.ORDERS
    }  # fmt: skip
    assert min(map(len, by_operator.values())) >= 5, by_operator
    assert len({mutant.text for mutant in held}) == len(held)


# -- launches


class Noted:
    """A kernel whose launches are noted."""

    def __init__(self, function: Any) -> None:
        self.parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        self.launches: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []

    def __getitem__(self, grid: Any) -> Any:
        def launched(*arguments: Any, **options: Any) -> None:
            assert set(options) <= {"num_warps", "num_stages", "maxnreg"}
            self.launches.append((grid, arguments))

        return launched


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a module in Triton's place that notes launches."""
    triton: Any = types.ModuleType("triton")
    language: Any = types.ModuleType("triton.language")
    language.constexpr = int
    triton.language, triton.jit = language, Noted
    triton.cdiv = lambda one, other: -(-one // other)
    triton.next_power_of_2 = lambda number: 1 << (number - 1).bit_length()
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)


@pytest.mark.spread(
    "triton-cache_write", "triton-int4_product", "triton-jagged_mean", "triton-linear_scan",
    "triton-lion", "triton-low_rank_product", "triton-max_pool", "triton-paged_decode"
)  # fmt: skip
@pytest.mark.parametrize("family", ROOMS, ids=lambda family: family.name)
def test_a_launch_fits_its_kernel_and_its_reference(family: Any, stand_in: None) -> None:
    """As many arguments as parameters, a grid that a GPU takes, and a result of the right form."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    inputs = problems.inputs_of(family, problems.small(family), "cpu")
    expected = problems.problem(family).reference(*inputs)
    texts = [family.text, *(m.text for m in of_orders() if m.family is family)]
    for text in texts:
        module: dict[str, Any] = {}
        exec(compile(text, family.path.name, "exec"), module)
        result = module[family.entry](*inputs)
        kernel = module[family.kernel]
        ((grid, arguments),) = kernel.launches
        assert len(arguments) == len(kernel.parameters)
        assert all(0 < each < 65536 for each in grid)
        assert result.shape == expected.shape
    assert problems.difference(expected, expected) == 0
    assert float(expected.abs().max()) > 0


def test_inputs_keep_the_extents_that_they_are_said_to_have() -> None:
    """What is done to random inputs keeps their extents, which compilation at full size reads."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    for family in ROOMS:
        shape = problems.small(family)
        made = [list(each.shape) for each in problems.inputs_of(family, shape, "cpu")]
        assert made == running._shapes(family, dict(shape)), family.name


def test_extents_of_a_run_fit_32_bits_of_address() -> None:
    """Kernels reckon addresses in 32 bits, so that no tensor of a run is larger."""
    pytest.importorskip("torch")
    for family in ROOMS:
        for extents in running._shapes(family, dict(family.shape)):
            size = 1
            for each in extents:
                size *= each
            assert size < 1 << 31, (family.name, extents)


# -- the check without a GPU


@pytest.mark.sweep
def test_cases_are_kernels_before_their_mutants() -> None:
    """A family as it is comes first; an expression over names leaves others out."""
    names = [each.name for each in dry_running.cases("triton-lion")]
    assert names[0] == "triton-lion/clean/0"
    assert {name.split("/")[0] for name in names} == {"triton-lion"}
    assert [each.name for each in dry_running.cases("triton-lion", True)] == names[:1]


def test_a_check_names_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a compiler raises is a fault of the case, as is its end; the next one is checked."""
    (case,) = dry_running.cases("triton-lion", True)

    def check(held: Any, folder: Path) -> str:
        assert held is case
        if folder.name == "0":
            raise ValueError("line 3:\n  no")
        if folder.name == "1":
            os._exit(3)
        return "" if folder.name == "2" else "0.5 from the reference"

    monkeypatch.setattr(dry_running, "_CHECKS", {"compiled": check})
    found = [fault for _, fault in dry_running.faults([case] * 4, "compiled", tmp_path)]
    assert found == [
        "ValueError: line 3: no", "ended with status 3", "", "0.5 from the reference"
    ]  # fmt: skip


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)
def test_kernels_are_right_in_the_interpreter_and_compile() -> None:
    """Kernels as they are: results by Triton's interpreter, and cubins for sm_90."""
    done = subprocess.run(
        [sys.executable, "-m", "plant.generated.dry_running", "--clean", "--only", "scan|lion"],
        cwd="benchmarks", capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
