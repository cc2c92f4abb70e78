"""Numbers that somebody chose stand in one table: no other module of the CUDA lowering has any."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repeated import for_each

CUDA = Path(__file__).parents[2] / "tileprof" / "compiler" / "cuda"
TABLES = {"tuning.py", "target.py"}
"""The chosen numbers with their sources, and what architectures have."""
FIXED = {
    "controls.py": ("_LEAST", "_MOST"),  # what users may ask for
    "emit/context.py": ("INT32",),  # the range of a type
    "emit/gemm/matrices.py": ("ROW",),  # encoding of ldmatrix
    "emit/gemm/wgmma.py": ("STEP",),  # encoding of wgmma
    "emit/gemm/wgmma_header.py": ("_DEPTH",),  # encoding of wgmma
    "emit/handovers.py": ("FIRST",),  # numbers of barriers in the prelude
    "emit/statements.py": ("_POSITION_RANGES",),  # ranges of a type
    "layouts/shared.py": ("ALIGNMENT", "CHUNK", "LINES", "SWIZZLES", "_SWIZZLES"),  # TMA's patterns
    "nvrtc.py": ("_MINIMAL_SINCE",),  # a version of NVRTC
    "passes/choice/copies.py": ("LARGEST_MULTIPLE",),  # stands for infinity
    "passes/choice/dealt_rows.py": ("_QUADS", "_UNIT"),  # layouts of wgmma and swizzles
    "passes/layout/graph.py": ("LARGE",),  # stands for infinity
    "passes/layout/index.py": ("EVERY",),  # stands for infinity
    "passes/peel/iterations.py": ("LARGEST",),  # the range of a type
    "passes/sample_counts.py": ("ALIGNMENT", "CYCLES_BYTES"),  # a format of the prelude
    "source.py": ("MOST_BLOCKS",),  # the range of CUDA's grid
}
"""Constants that are facts of a format, an encoding or a type: another value would be wrong, not
slower."""
NEUTRAL = {0.0, 1.0}
"""Floats that say "nothing" and "all"."""
_UNROLLED = re.compile(r"unroll\s*\(?\s*([2-9]|[1-9]\d)", re.IGNORECASE)


def constants(source: str) -> dict[str, int]:
    """Return the lines of constants of a module or a class that hold numbers, by their names."""
    tree = ast.parse(source)
    bodies = [tree.body, *(n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
    found: dict[str, int] = {}
    for node in (node for body in bodies for node in body):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case _:
                continue
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        if any(name.isupper() for name in names) and _has_number(value):
            found |= dict.fromkeys(names, node.lineno)
    return found


def _has_number(value: ast.expr | None) -> bool:
    """Whether a value is a number or holds some, directly or in containers."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _has_number(operand)
        case ast.BinOp(left=left, right=right):
            return _has_number(left) or _has_number(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(_has_number, parts))
        case ast.Dict(values=parts):
            return any(map(_has_number, parts))
        case ast.Call(func=ast.Name(id="Fraction" | "float" | "int"), args=parts):
            return any(map(_has_number, parts))
        case _:
            return False


def magic(source: str) -> Iterator[int]:
    """Yield the lines of floats, and of how far loops are unrolled, that have no name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=float() as number) if number not in NEUTRAL:
                yield node.lineno
            case ast.Constant(value=str() as text) if _UNROLLED.search(text):
                yield node.lineno


MODULES = [
    path.relative_to(CUDA).as_posix()
    for path in sorted(CUDA.rglob("*.py"))
    if path.relative_to(CUDA).as_posix() not in TABLES
]


@for_each(module=MODULES)
def test_numbers_stand_in_the_table(module: str) -> None:
    """A threshold goes to `tuning.py`, with its unit, source and date; a fact to `target.py`."""
    source = (CUDA / module).read_text()
    assert sorted(constants(source)) == sorted(FIXED.get(module, ()))
    assert list(magic(source)) == []


def test_reasons_name_modules() -> None:
    """Modules that are listed as exceptions are there."""
    assert FIXED.keys() <= set(MODULES)


@pytest.mark.parametrize(
    "source",
    [
        "SMALL = 4",
        "LONG: int = 1 << 9",
        "LOW = -1e4",
        "SHARES = {'a': 1 / 4}",
        "CHUNKS = (128, 64)",
        "FEW, MANY = 2, 8",
        "WORK = Fraction(4, 3)",
        "class Search:\n    TRIED = 8",
    ],
)
def test_numbers_would_be_found(source: str) -> None:
    """Each form in which modules once had thresholds is found."""
    assert constants(source)


@pytest.mark.parametrize(
    "source",
    [
        "def cost(n):\n    return 0.25 * n",
        "line('#pragma unroll 8')",
        "line('TP_UNROLL(2)')",
        "line(f'TP_UNROLL({n}) #pragma unroll 16')",
    ],
)
def test_unnamed_numbers_would_be_found(source: str) -> None:
    """Also those that have no name at all."""
    assert list(magic(source))


@pytest.mark.parametrize(
    "source",
    [
        "NAMES = ('a', 'b')",
        "LANES = tuple(Digit(2, step) for step in steps)",
        "ON = True",
        "total = 0.0",
        "line('#pragma unroll 1')",
        "line(f'TP_UNROLL({COUNT})')",
    ],
)
def test_others_may_stand_anywhere(source: str) -> None:
    """Names, tables of objects, neutral numbers and loops that stay loops."""
    assert not constants(source)
    assert not list(magic(source))
