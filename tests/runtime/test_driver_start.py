"""The driver starts, makes contexts and is attached to by one thread at a time."""

from __future__ import annotations

import ctypes
import threading
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
        lock = drivers.driver_start._lock
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
    monkeypatch.setattr(gpu, "watch", lambda *_: None)
    recorder = SimpleNamespace(
        _native=SimpleNamespace(gpu_start=gpu_start), counters=SimpleNamespace(plan=None),
        _kinds=[], _timeline=0, _others=None, _succeeded=lambda answer: True, library="",
        _give=None, _take_back=None,
    )  # fmt: skip
    gpu.Gpu._start(recorder)  # type: ignore[arg-type]
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
