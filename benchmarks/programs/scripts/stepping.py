"""Switches of the programs for standard changes, and the loop that times its steps.

Run by itself, a program does a fixed number of steps and prints the median time of one. Under the
harness (`PROGRAM_SOCKET`), it waits for its turn after its imports, and then either does the same
or as many steps at a time as it is asked for. No framework is imported here.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
TINY = bool(os.environ.get("PROGRAM_TINY"))
"""Sizes for a test on a CPU."""
_CHANGES = {name for name in os.environ.get("PROGRAM_CHANGE", "").split(",") if name}
_harness = None
_controlled = False


def changed(name: str) -> bool:
    """Whether a standard change is applied: `PROGRAM_CHANGE=tf32,compile` names those."""
    return name in _CHANGES


def size(full: T, tiny: T) -> T:
    """Return the first, or the second for a test."""
    return tiny if TINY else full


def device() -> str:
    """Return `cuda` where there is a GPU, else `cpu`; `PROGRAM_DEVICE` decides."""
    import torch

    return os.environ.get("PROGRAM_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")


def endless(batches: Iterable[T]) -> Iterator[T]:
    """Repeat a loader's epochs for ever."""
    while True:
        yield from batches


def _wait_for_device() -> None:
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _release() -> None:
    """Give memory back that no tensor holds, so that many programs can stand ready together."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _say(**message: Any) -> None:
    _harness.write(json.dumps(message) + "\n")
    _harness.flush()


def _hear() -> Any:
    return json.loads(_harness.readline() or '{"end": 1}')


def steps(
    count: int, samples: int, synchronize: Callable[[], None] = _wait_for_device
) -> Iterator[int]:
    """Yield numbers of `count` steps of `samples` samples each; time all but the first third."""
    warm = min(max(3, count // 3), count - 1)
    if not _controlled:
        yield from range(warm)
        synchronize()
        begin = time.perf_counter()
        yield from range(warm, count)
        synchronize()
        ms = (time.perf_counter() - begin) / (count - warm) * 1e3
        print(f"{ms:.3f} ms a step, {samples / ms * 1e3:.1f} samples/s")
        return
    yield from range(warm)
    synchronize()
    _release()
    _say(at="ready", samples=samples)
    done = warm
    while (asked := _hear()).get("steps"):
        more, untimed = asked["steps"], asked["untimed"]
        yield from range(done, done + untimed)  # these take the memory that was given back
        done += untimed
        synchronize()
        begin = time.perf_counter()
        yield from range(done, done + more)
        synchronize()
        seconds = time.perf_counter() - begin
        done += more
        _release()
        _say(at="timed", seconds=seconds)


def finish(result: float) -> None:
    """Print what came out, which a change must not alter."""
    print(f"result {result:.6g}")
    if _harness is not None:
        _say(at="over", result=result)


if path := os.environ.get("PROGRAM_SOCKET"):
    _socket = socket.socket(socket.AF_UNIX)
    _socket.connect(path)
    _harness = _socket.makefile("rw")
    _say(at="gate")
    _controlled = _hear().get("go") == "measure"
