"""Requests with which threads exchange values, against machine code that runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.show_counters.code_beside import beside
from benchmarks.show_counters.kernels import Case
from tests.cuda.compiled_kernels import need_machine_code
from tests.drawing import exchange_kernels as kernels
from tileprof.drawing import show
from tileprof.drawing.moved import Moved, Traffic


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """A tensor of random numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


SCAN = {"rows": 8, "columns": 256}
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (kernels.row_maxima, (numbers(4, 1024),), {}),
    (kernels.column_sums, (numbers(128, 64),), {}),
    (kernels.sums_after_a_loop, (numbers(128, 256),), {}),
    (kernels.threads_of_a_row, (numbers(16, 256), numbers(256)), {}),
    (kernels.converted, (numbers(64, 64, dtype=np.float16),) * 2, {}),
    (kernels.scanned, (numbers(8, 256),), SCAN),
    (kernels.scanned, (numbers(64, 100),), {"rows": 32, "columns": 100, "along": 0}),
    (kernels.scanned, (numbers(2, 4096),), {"rows": 1, "columns": 4096, "reverse": True}),
]
NAMES = ["maxima", "columns", "late", "threads", "converted", "warps", "lines", "shared lines"]


# The others are counted by hand below.
@pytest.mark.parametrize("number", range(3, len(CALLS)), ids=lambda n: NAMES[n])
def test_exchanges_are_what_machine_code_asks_for(number: int) -> None:
    """Requests, wavefronts and the fewest that would do, of shared memory; shuffles but for those
    that hand out a warp's number, and the last carry of a loop that NVRTC unrolls."""
    need_machine_code()
    kernel, arguments, options = CALLS[number]
    both, left_out, unknown = beside(Case(kernel, lambda draw: list(arguments), "", options))
    assert not unknown
    assert set(left_out) <= {"matrix operands"}
    exchanged = False
    for (space, access, way), (page, code) in both.items():
        if way == "shuffle":
            assert abs(page.requests - code.requests) <= 8
            exchanged |= page.requests > 0
        elif space == "shared":
            assert (page.requests, page.taken, page.needed) == (
                code.requests, code.taken, code.needed,
            ), access  # fmt: skip
            exchanged |= page.requests > 0
    assert exchanged


def traffic(number: int) -> Traffic:
    """Requests of a call's launch."""
    kernel, arguments, options = CALLS[number]
    found = show(kernel, *arguments, machine_code=False, **options).watch.launches[0].traffic
    assert found is not None
    return found


def test_parts_of_warps_meet_in_shared_memory() -> None:
    """Each of 8 warps of 4 blocks stores a word and loads all 8 in two vectors, which take two
    wavefronts each; 5 shuffles join its lanes."""
    found = traffic(0)
    assert found.total("shared", "write") == Moved(32, 32, 32, 32 * 4)
    assert found.total("shared", "read") == Moved(64, 128, 128, 64 * 16)
    shuffles = found.total("fragment", "read", "shuffle")
    assert (shuffles.requests, shuffles.bytes) == (4 * 8 * 5, 4 * 8 * 5 * 128)
    assert not found.uncounted


def test_warps_that_store_nothing_load_nothing() -> None:
    """One of 4 warps stores 64 sums of each of 2 blocks: a lane has 2, of 4 parts each."""
    found = traffic(1)
    assert found.total("shared", "write").requests == 2 * 4 * 2
    assert found.total("shared", "read").requests == 2 * 1 * 2 * 4


def test_sums_behind_a_loop_are_joined_once() -> None:
    """4 iterations, and the shuffles of one: 64 registers of a thread hold 32 sums."""
    assert traffic(2).total("fragment").requests == 256
    assert traffic(2).total("shared").requests == 0
