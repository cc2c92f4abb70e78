"""The driver starts, makes contexts and is attached to by one thread at a time."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tileprof.profiler.device import gpu
from tileprof.runtime.cuda import driver as drivers
from tileprof.runtime.cuda.device import CudaDevice


def is_held() -> bool:
    """Whether another thread would have to wait for the guard."""
    found: list[bool] = []

    def look() -> None:
        lock = drivers._START._lock
        found.append(not lock.acquire(blocking=False))
        if not found[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_cupti_attaches_while_no_other_thread_starts_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call that attaches holds the guard, and releases it."""
    held: list[bool] = []

    def gpu_start(*_: Any) -> tuple[int, str]:
        held.append(is_held())
        return 0, ""

    monkeypatch.setattr(gpu, "find_cupti", lambda: SimpleNamespace(path="libcupti.so"))
    monkeypatch.setattr(gpu, "OtherProfilers", lambda *_: None)
    codes = {"other_subscriber": -1}
    native = SimpleNamespace(gpu_start=gpu_start, GPU_CODES=codes)
    recorder = gpu.Gpu.__new__(gpu.Gpu)
    vars(recorder).update(
        _native=native, _codes=codes, counters=SimpleNamespace(plan=None), _kinds=[], _timeline=0,
        _others=None, library="",
    )  # fmt: skip
    recorder._start()
    assert held == [True]
    assert not is_held()


def test_contexts_are_made_while_cupti_does_not_attach() -> None:
    """The primary context is retained under the guard; the calls before need none."""
    held: dict[str, bool] = {}

    def resolve(name: str, prototype: Any) -> Any:
        def call(*arguments: Any) -> int:
            held[name] = is_held()
            if name == "cuDeviceGetAttribute":
                ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int))[0] = 9
            return 0

        return call

    CudaDevice(drivers.Driver(resolve), 0)
    assert held["cuDevicePrimaryCtxRetain"]
    assert not held["cuDeviceGet"]


def test_the_driver_starts_while_cupti_does_not_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cuInit` is called under the guard."""
    held: list[bool] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(drivers, "Driver", lambda resolve: held.append(is_held()))
    drivers.load_driver.__wrapped__()
    assert held == [True]


def test_no_process_forks_while_the_driver_starts() -> None:
    """A child of a half-started driver would wait for it for ever."""
    begun = threading.Event()
    ended: list[bool] = []

    def start() -> None:
        with drivers.driver_start():
            begun.set()
            time.sleep(0.2)
            ended.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if ended else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_held()
