"""The ladder of matrix products: how its steps are lowered, whether they and its page are right.

No GPU is needed: machine code is read, and the text runs on the emulated machine.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.compiled_kernels import compile_together, function, need_machine_code
from tests.cuda.emulated import run_together
from tileprof import binary
from tileprof.compiler.cuda.pipeline import CudaProgram

FOLDER = Path(__file__).parents[2] / "case_studies" / "gemm_ladder"
SIZE = 4096
ladder = importlib.import_module("case_studies.gemm_ladder.ladder")
NAMES = [step.name for step in ladder.STEPS]
TENSOR_CORES = NAMES[NAMES.index("tensor cores") :]
ROLES = NAMES[NAMES.index("warp roles") :]


@cache
def row(name: str) -> Any:
    """A step without its time."""
    return ladder.described(step_of(name), SIZE)


@cache
def programs() -> dict[str, CudaProgram]:
    """The program of each step, compiled in one text with those of the others."""
    need_machine_code()
    found = {
        step.name: ladder.lowered(step.traced(SIZE, SIZE, SIZE), step.forbidden)
        for step in ladder.STEPS
    }
    compile_together(found.values())
    return found


@cache
def instructions(name: str) -> Counter[str]:
    """The opcodes of a step's machine code, without their modifiers."""
    listing = binary.listing(function(programs()[name]))
    return Counter(re.findall(r"\b[A-Z][A-Z0-9]{2,}\b", listing))


def step_of(name: str) -> Any:
    """The step called so."""
    return ladder.STEPS[NAMES.index(name)]


def test_steps_differ_by_one_thing() -> None:
    """Each step after the second changes one control or one argument."""
    steps = ladder.STEPS[1:]
    for before, after in itertools.pairwise(steps):
        names = before.forbidden.keys() | after.forbidden.keys()
        changed = [n for n in names if before.forbidden.get(n) != after.forbidden.get(n)]
        changed += [n for n in after.tile if before.tile.get(n) != after.tile[n]]
        assert len(changed) == 1, after.name
    assert steps[-1].forbidden == {}


def test_the_naive_step_has_no_tiles() -> None:
    """Loads of global memory and fma; neither tensor cores nor shared memory."""
    found = instructions("naive")
    assert found["LDG"] > 0
    assert found["FFMA"] > 0
    assert not found.keys() & {"HGMMA", "HMMA", "UTMALDG", "LDGSTS", "LDS", "STS"}


def test_shared_memory_and_fma() -> None:
    """Tiles go through registers to shared memory."""
    found = instructions("shared memory")
    assert found["STS"] > 0
    assert found["FFMA"] > found["LDS"] > 0
    assert not found.keys() & {"HGMMA", "HMMA", "UTMALDG", "LDGSTS"}


@pytest.mark.spread("naive", "tensor cores", "warp roles", "persistent")
@pytest.mark.parametrize("name", NAMES)
def test_each_step_has_its_instructions(name: str) -> None:
    """Who multiplies and who loads, in machine code."""
    found = instructions(name)
    assert (found["HGMMA"] > 0) == (name in TENSOR_CORES)
    assert (found["LDGSTS"] > 0) == (name == "pipelined")
    assert (found["UTMALDG"] > 0) == (name in ROLES)
    assert (found["UTMASTG"] > 0) == (name in ROLES)
    assert not found.keys() & {"LDL", "STL"}
    assert row(name).spills == 0


def test_nothing_is_missed_where_nothing_is_forbidden() -> None:
    """Up to the roles the remarks say what is turned off; from there on nothing is missed."""
    at = NAMES.index("warp roles")
    for name in NAMES[1:at]:
        assert any("it is turned off" in remark for remark in row(name).remarks), name
    assert not any(row(name).missed for name in NAMES[at:])


def test_each_step_is_right() -> None:
    """Whole numbers, whose products and sums are exact; no size is a multiple of a tile."""
    m, n, k = 136, 264, 328
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (m, k)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-2, 3, (k, n)).astype(ml_dtypes.bfloat16)
    runs = []
    for step in ladder.STEPS:
        # So few tiles would not make it persistent by themselves.
        forced = {"persistent": True} if step.name == "persistent" else {}
        program = ladder.lowered(step.traced(m, n, k), {**step.forbidden, **forced})
        assert bool(program.source.launches[0].persistent) == bool(forced)
        runs.append((program, (a, b, np.zeros((m, n), ml_dtypes.bfloat16))))
    run_together(runs)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    for name, (_, (*_, c)) in zip(NAMES, runs):
        np.testing.assert_array_equal(c, expected, err_msg=name)


# -- the page


def test_the_page_quotes_remarks() -> None:
    """Each line in a fence of a step's section is one of its remarks."""
    page = (FOLDER / "README.md").read_text()
    sections = re.findall(r"^## \d ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert [title.lower() for title, _ in sections] == NAMES
    for title, text in sections:
        said = "\n".join(row(title.lower()).remarks)
        quoted = [
            line
            for fence in re.findall(r"```text\n(.*?)```", text, re.S)
            for line in fence.splitlines()
        ]
        assert quoted, title
        assert [line for line in quoted if line not in said] == [], title


def test_the_table_is_that_of_the_results() -> None:
    """Times are those of the results file; without one there are none."""
    page = (FOLDER / "README.md").read_text()
    if ladder.RESULTS.exists():
        made = json.loads(ladder.RESULTS.read_text())
        assert ladder.with_section(page, ladder.section(made)) == page
    else:
        assert "TFLOP/s" not in page.partition(ladder.BEGIN)[2].partition(ladder.END)[0]
    for number, step in enumerate(ladder.STEPS, 1):
        assert f"| {number} {step.name} | {step.change} |" in page


def test_a_table_with_times() -> None:
    """Measured rows have three columns more, relative to the first step."""
    rows = [dict(vars(row(name)), ms=8.0 / (at + 1), tflops=10.0) for at, name in enumerate(NAMES)]
    lines = list(ladder.table({"rows": rows, "cublas": {"ms": 0.5, "tflops": 700.0}}))
    assert "| ms | TFLOP/s | × naive |" in lines[0]
    assert "| 4.000 | 10.0 | 2.0 |" in lines[3]
    assert lines[-1] == "cuBLAS: 0.500 ms, 700.0 TFLOP/s."


# Those between differ from their neighbours in controls and in tiles.
@pytest.mark.parametrize("name", [NAMES[0], NAMES[1], NAMES[-1]])
def test_each_step_can_be_called(name: str) -> None:
    """As the ladder calls it, here on the processor, which has no use for controls."""
    step = step_of(name)
    a = np.eye(64, 128).astype(ml_dtypes.bfloat16)
    b = np.arange(128 * 128).reshape(128, 128).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(step.kernel()(a, b), b[:64])
