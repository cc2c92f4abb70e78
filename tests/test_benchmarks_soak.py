"""The soak: its short form on `cpu`, and how it tells growth from noise."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.reliability.heap import told_by_library
from benchmarks.reliability.process_state import lock_words, thread_states
from benchmarks.reliability.soak import growth
from tileprof.compiler.build import find_compiler

ROOT = Path(__file__).parents[1]


@pytest.mark.usefixtures("forked_of_torch")
def test_short_soak_on_cpu_loses_no_launch(tmp_path: Path) -> None:
    """Three threads of operations and kernels: the profile counts what they launched."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.reliability.soak", "--device", "cpu"]
    subprocess.run(
        [*command, "--seconds", "0.2", "--threads", "3", "-o", str(out)],
        cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    result = json.loads(out.read_text())
    assert (result["lost"], result["hangs"], result["tracebacks"]) == (0, 0, 0), result["details"]
    assert len(result["rows"]) == 3 * 2
    assert result["runs"] == sum(row["counted"] for row in result["rows"]) > 0


@pytest.mark.usefixtures("forked_of_torch")
def test_short_soak_of_a_played_gpu_loses_no_record(tmp_path: Path) -> None:
    """Kernels, graphs, two streams, copies and records of the inside of kernels of three threads,
    each in its scope; before, the same without a recording."""
    pytest.importorskip("tileprof.native._recorder")
    if find_compiler() is None:
        pytest.skip("could not import 'g++': no compiler")
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.reliability.soak", "--device", "played"]
    subprocess.run(
        [*command, "--seconds", "0.5", "--threads", "3", "--unrecorded", "0.2", "-o", str(out)],
        cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    result = json.loads(out.read_text())
    assert (result["lost"], result["hangs"], result["tracebacks"]) == (0, 0, 0), result["details"]
    works = {"torch", "ours", "graph", "stream", "copies", "inside"}
    assert {row["work"] for row in result["rows"]} == works
    assert result["unrecorded"]["after_s"] == 0.1
    assert result["runs"] == sum(row["counted"] for row in result["rows"]) > 100
    assert set(result["provenance"]) == {"cupti"}


def test_growth_is_a_slope_after_the_warm_up() -> None:
    """Memory that rises 2 MB a minute is told from what is taken at the begin."""
    rows = [[0.0, 10.0], *([60.0 * minute, 500.0 + 2 * minute] for minute in range(1, 10))]
    told = growth(rows, 600)
    assert told["slope_mb_per_min"] == pytest.approx(2)
    assert told["range_mb"] == 16


def test_large_allocations_have_the_library_of_their_caller() -> None:
    """A caller outside of all files keeps its address."""
    maps = "1000-2000 r-xp 00000000 08:01 5 /usr/lib/libone.so\n2000-3000 rw-p 0 00:00 0\n"
    told = told_by_library(["1.5 7 malloc 200000 0x1fff", "2.5 7 mmap 300000 0x9000"], maps)
    assert told == ["1.5 7 malloc 200000 libone.so", "2.5 7 mmap 300000 0x9000"]


def test_a_thread_that_waits_for_a_lock_is_told_from_one_that_runs() -> None:
    """The line of a thread that waits names no processor time, that of one that polls much."""
    lock, ended, numbers = threading.Lock(), threading.Event(), {}

    def wait() -> None:
        numbers["waits"] = threading.get_native_id()
        lock.acquire()

    def poll() -> None:
        numbers["polls"] = threading.get_native_id()
        while not ended.is_set():
            pass

    lock.acquire()
    threads = [threading.Thread(target=each, daemon=True) for each in (wait, poll)]
    for thread in threads:
        thread.start()
    lines = thread_states(0.5)
    ended.set()
    lock.release()
    ran = {
        role: float(line.rpartition(", ran ")[2].split()[0])
        for role, number in numbers.items()
        for line in lines
        if line.startswith(f"thread {number} ")
    }
    assert ran["waits"] == 0 < ran["polls"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a thread")
def test_who_has_a_lock_is_told() -> None:
    """Of a lock of the C library that a thread waits for: its seventh word."""
    library, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_rwlock_init(lock, None)
    library.pthread_rwlock_wrlock(lock)

    def read() -> None:
        library.pthread_rwlock_rdlock(lock)
        library.pthread_rwlock_unlock(lock)

    thread = threading.Thread(target=read)
    thread.start()
    word = hex(ctypes.addressof(lock) + 8)
    until = time.monotonic() + 10
    while not (lines := [line for line in lock_words() if line.startswith(f"futex {word}:")]):
        assert time.monotonic() < until
    library.pthread_rwlock_unlock(lock)
    thread.join()
    (line,) = lines
    assert f"[{thread.native_id}] wait" in line
    # The list begins a word before the lock.
    assert int(line.rpartition("[")[2][:-1].split(", ")[7]) == threading.get_native_id()
