"""Repairs by hand of kernels that suggestions are made for: they compute what the kernels do."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
claims: Any = importlib.import_module("benchmarks.claims")
problems_name = "plant.generated.problems"
del sys.path[0]

TILE = [each for each in claims.CLAIMS if each.family.startswith("tile-")]
INTERPRETED = """\
import sys
from pathlib import Path
sys.path[:0] = ["benchmarks"]
from benchmarks import claims
from plant.generated import dry_running
for at, each in enumerate(claims.CLAIMS):
    family = claims.FAMILIES[each.family]
    if family.language == "triton" and "tl." in str(each.edits):
        text = each.repaired()
        for name, exact in claims.INTERPRETED_AS.items():
            text = text.replace(name, exact)
        case = dry_running.Case(each.name, family, text, family.small)
        print(each.name, dry_running.interpreted(case, Path(sys.argv[1]) / str(at)), sep=": ")
"""
"""Says of each Triton repair of more than extents how far it is from its reference, and nothing of
those that are right; the interpreter has no approximate functions."""


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.name)
def test_a_repair_changes_the_kernel_that_is_claimed(claim: Any) -> None:
    """Each text of it stands once in the source, which is another program then."""
    before = claims.FAMILIES[claim.family].text
    assert ast.dump(ast.parse(claim.repaired())) != ast.dump(ast.parse(before))


@pytest.mark.spread(
    "tile-black_scholes/slow-math/root by its reciprocal",
    "tile-kalman/occupancy-limited/blocks of 128 threads",
    "tile-ssim/bank-conflict/columns in turns",
    "tile-sobel/narrow-access/rows of whole vectors",
    "tile-mxfp4_product/missed-async-copy/powers copied once",
    "tile-linkage/epilogue-drain/results through shared memory"
)  # fmt: skip
@pytest.mark.parametrize("claim", TILE, ids=lambda claim: claim.name)
def test_tile_repairs_are_right(claim: Any, tmp_path: Path) -> None:
    """On the interpreter, at small extents."""
    pytest.importorskip("torch")
    import tileprof

    problems: Any = importlib.import_module(problems_name)
    family = claims.FAMILIES[claim.family]
    work, inputs = (
        problems.problem(family),
        problems.inputs_of(family, problems.small(family), "cpu"),
    )
    module = problems.imported(family, claim.repaired(), tmp_path / f"{family.path.stem}.py")
    with tileprof.device("interpreter"):
        result = problems.called(family, module, inputs)
    assert problems.difference(result, work.reference(*inputs)) <= work.limit


def test_triton_repairs_are_right(tmp_path: Path) -> None:
    """In Triton's interpreter, at small extents."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED, str(tmp_path)],
        capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.endswith(": ")] == []
