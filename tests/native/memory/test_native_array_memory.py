"""Arrays of threads of ours lie in pages of their own; those of others are NumPy's as before."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.native.array_memory import arrays_in_pages
from tileprof.profiler.worker import Worker
from tileprof.runtime.cuda.records.reader import Reader

multiarray = pytest.importorskip("numpy._core.multiarray")
pytest.importorskip("tileprof.native._recorder")

OURS = "tileprof_pages"
LARGE = 1 << 16
"""Bytes of arrays that lie in pages."""


def in_thread(work: Callable[[], Any]) -> Any:
    """Return what a new thread gives, in which our memory is used."""
    found: list[Any] = []

    def run() -> None:
        assert arrays_in_pages()
        found.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_large_arrays_lie_in_pages() -> None:
    """They begin a page, behind 64 bytes; they outlive their thread, and others are as before."""
    small, large = in_thread(lambda: (np.ones(10), np.ones(LARGE)))
    assert [multiarray.get_handler_name(each) for each in (small, large)] == [OURS, OURS]
    assert large.ctypes.data % 4096 == 64
    assert small.ctypes.data % 16 == 0
    assert large.sum() == LARGE
    assert multiarray.get_handler_name() == "default_allocator"
    assert multiarray.get_handler_name(np.ones(LARGE)) == "default_allocator"


@given(st.lists(st.integers(0, 4 * LARGE), min_size=1, max_size=12))
def test_arrays_that_change_their_size_keep_what_they_hold(sizes: list[int]) -> None:
    """Across the size from which they lie in pages, to nothing and back."""

    def resized() -> None:
        array = np.arange(sizes[0], dtype=np.uint8)
        for before, size in itertools.pairwise(sizes):
            kept = array[: min(before, size)].copy()
            array.resize(size, refcheck=False)
            assert np.array_equal(array[: len(kept)], kept)
            assert not array[len(kept) :].any()
            array[:] = np.arange(size, dtype=np.uint8)

    in_thread(resized)


def test_zeros_are_zero_after_other_numbers() -> None:
    """In memory that others have used."""

    def zeroed() -> bool:
        for size in (100, LARGE, 3 * LARGE):
            for _ in range(8):
                used = np.full(size, 255, np.uint8)
                del used
                if np.zeros(size, np.uint8).any():
                    return False
        return True

    assert in_thread(zeroed)


def test_threads_of_ours_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that looks and writes, and the one that reads what kernels write."""
    seen: list[str] = []
    worker = Worker(lambda: seen.append(multiarray.get_handler_name()))
    worker.start()
    reader = Reader()

    class Device:
        is_busy = False

        def read(self) -> None:
            seen.append(f"read {multiarray.get_handler_name()}")

    monkeypatch.setitem(reader.devices, 0, Device())
    reader.notice(True)
    until = time.monotonic() + 30
    while len(set(seen)) < 2 and time.monotonic() < until:
        time.sleep(0.001)
    worker.stop()
    assert set(seen) == {OURS, f"read {OURS}"}
