"""Pages that are in memory before they are written to."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import numpy.typing as npt
import pytest

from tileprof.pages import pages
from tileprof.profile import Sketch
from tileprof.profiler.tree.sampled_nodes import Trail
from tileprof.profiler.tree.sketch_sums import SketchSums

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is in memory")


def resident(memory: npt.NDArray[np.generic]) -> float:
    """Return the share of an array's pages that are in memory."""
    page = mmap.PAGESIZE
    first = memory.ctypes.data // page * page
    count = -(-(memory.ctypes.data + memory.nbytes - first) // page)
    states = (ctypes.c_ubyte * count)()
    asked = (ctypes.c_void_p(first), ctypes.c_size_t(count * page), states)
    assert ctypes.CDLL(None, use_errno=True).mincore(*asked) == 0
    return sum(state & 1 for state in states) / count


def test_pages_are_resident_where_that_is_asked_for() -> None:
    """Others are when they are written to."""
    plain, held = (np.frombuffer(pages(1 << 20, each), np.uint8) for each in (False, True))
    assert resident(held) == 1
    assert resident(plain) < 0.1
    plain[:] = 1
    assert resident(plain) == 1


def test_what_fills_over_minutes_is_resident_from_the_begin() -> None:
    """The looks of the sampler, and the rows that nodes' times are added to."""
    looks = Trail()._looks
    assert [resident(np.frombuffer(each, np.int64)) for each in (looks.times, looks.indices)] == [
        1,
        1,
    ]
    sums = SketchSums()
    for node in range(200):
        sums.add(node, Sketch.of(np.array([1 << node % 30], np.uint64)))
    sums.settle()
    assert sums.room > 200 * 32
    assert resident(sums._table.counts) == 1
