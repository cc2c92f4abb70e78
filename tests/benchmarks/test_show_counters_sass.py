"""Machine code that is run here: it writes what the kernel means, and asks of memory for what an
H200 counted, or what a page says of kernels with cut tiles."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.show_counters.code_beside import Prepared, beside, compared, prepared
from benchmarks.show_counters.kernels import CASES, Case
from tests.cuda.compiled_kernels import compile_together, function, need_machine_code
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing import show
from tileprof.drawing.machine_code.memory import MisalignedError
from tileprof.drawing.machine_code.running import ran

main: Any = importlib.import_module("benchmarks.show_counters.__main__")
ways: Any = importlib.import_module("tests.drawing.test_ways")
edges: Any = importlib.import_module("tests.drawing.edge_kernels")
boxes: Any = importlib.import_module("tests.cuda.test_aligned_boxes")


def test_machine_code_computes_what_the_kernel_means() -> None:
    """A tile that is cut, with divisions by numbers known at launch only."""
    need_machine_code()
    x = np.random.default_rng(0).standard_normal((9, 302)).astype(np.float32)
    drawing = show(ways.open_, x, np.zeros_like(x))
    program = compile_cuda(drawing.watch.kernels[0], find_target("sm_90a"))
    found = ran(program, [x, np.zeros_like(x)], [9, 302], "")
    assert not found.unknown
    np.testing.assert_array_equal(found.results[1], x + 1)


def test_machine_code_asks_for_what_an_h200_counted() -> None:
    """Random words of a table: counters of launches on an H200, 2026-11-28."""
    need_machine_code()
    (case,) = (each for each in CASES if each.name == "gather_words")
    both, _, unknown = beside(case)
    assert not unknown
    page, code = both["global", "read", "threads"]
    assert (code.requests, code.taken) == (page.requests, page.taken) == (4096, 73_724)


def test_a_launch_runs_on_what_the_ones_before_it_left() -> None:
    """Two launches: the second one reads maxima and sums of the first."""
    need_machine_code()
    every = (each for cases in main.GROUPS.values() for each in cases)
    (case,) = (each for each in every if each.name == "columns_softmax")
    both, left_out, unknown = beside(case)
    assert not left_out
    assert not unknown
    page, code = both["global", "read", "threads"]
    assert page == code


def edge(number: int) -> Case:
    """A call of a kernel whose page counts requests at an edge."""
    kernel, arguments, about = edges.CALLS[number]
    return Case(kernel, lambda draw: arguments(), about)


@pytest.fixture(scope="module")
def of_edges() -> list[Prepared]:
    """The pages of all edges, whose kernels are compiled in one text."""
    need_machine_code()
    found = [prepared(edge(number)) for number in range(len(edges.CALLS))]
    compile_together(each.program for each in found)
    return found


@pytest.mark.parametrize("number", range(len(edges.CALLS)), ids=lambda n: edges.CALLS[n][2])
def test_pages_of_edges_are_what_machine_code_asks_for(
    number: int, of_edges: list[Prepared]
) -> None:
    """Every kind of request that the page counts, to the byte; wavefronts of shared memory."""
    held = of_edges[number]
    both, left_out, unknown = compared(held, function(held.program))
    assert both
    assert not left_out
    assert not unknown
    for (space, access, _), (page, code) in both.items():
        if space == "global":
            assert page == code, access
        else:
            assert (page.taken, page.needed) == (code.taken, code.needed), access


@pytest.mark.parametrize(
    ("right", "wrong", "opcode"),
    [
        (r"tp_tma_store\(&map0, x \+ 640", "tp_tma_store(&map0, x + 608", "UTMASTG"),
        (r"tp_put_shared<2>\(\(\(float \*\)\(x \+", r"\g<0> 4 +", "STS"),
        (r"tp_get_global<4>\(X_in[^,]*, X \+", r"\g<0> 1 +", "LDG"),
    ],
)
def test_misaligned_addresses_end_a_run(right: str, wrong: str, opcode: str) -> None:
    """A box between two multiples of 128 bytes, a vector between two of its width."""
    need_machine_code()
    program = boxes.lowered(boxes.doubled, M=34, N=40, rows=17)
    x = np.ones((34, 40), np.float32)
    ran(program, [x, np.zeros_like(x)], [], "")
    text, count = re.subn(right, wrong, program.source.text)
    assert count
    changed = replace(program, source=replace(program.source, text=text))
    with pytest.raises(MisalignedError, match=opcode):
        ran(changed, [x, np.zeros_like(x)], [], "")
