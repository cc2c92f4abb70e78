"""Trials in several processes at once, which compile while the tuner thinks.

In: orders.  Out: trials, in the order of the orders.  A worker is a Python of its own that reads
orders from its input and writes trials to its output; it imports nothing of the program that is
tuned, so a script without `if __name__ == "__main__"` is not run again.  Where no worker can be
started, or one ends early, trials are made in this process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import tileprof
from tileprof.progress import working

from .trials import Order, Trial, tried

MOST_WORKERS = 32
START_SECONDS = 0.6
"""Time in s that trials take in this process before workers are started for the rest: about as long
as the start of one takes."""
_SERVE = "import sys; sys.path.append({!r}); from tileprof.tuning.workers import serve; serve()"
_RECORDING = ("TILEPROF_OUTPUT", "TILEPROF_RUN", "LD_PRELOAD", "CUDA_INJECTION64_PATH")
"""Environment of a recorded program that a worker is not to inherit: it is no part of it."""


def default_workers() -> int:
    """Return how many processes compile at once: as many as there are processors for this one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(count or 1, MOST_WORKERS))


class Workers:
    """Processes that make trials; a context, at whose end they end."""

    def __init__(self, count: int | None = None) -> None:
        self.count = default_workers() if count is None else max(1, count)
        self._pool: ThreadPoolExecutor | None = None
        self._free: list[_Worker] = []
        self._all: list[_Worker] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Workers:
        """Return the workers; processes start with the first orders."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        for worker in self._all:
            worker.end()
        self._all, self._free = [], []

    def trials(self, orders: Sequence[Order], what: str = "trial compiles") -> list[Trial]:
        """Make trials, and return them in the order of `orders`."""
        return list(_counted(what, len(orders), self._made(orders)))

    def _made(self, orders: Sequence[Order]) -> Iterator[Trial]:
        """Yield trials: the first ones are made here, as there may be no need for workers."""
        spent, here = 0.0, 0
        while here < len(orders) and (self.count == 1 or (not self._all and spent < START_SECONDS)):
            made = tried(orders[here])
            spent, here = spent + made.seconds, here + 1
            yield made
        if here < len(orders):
            pool = self._pool = self._pool or ThreadPoolExecutor(self.count, "tileprof-tuning")
            yield from pool.map(self._trial, orders[here:])

    def _trial(self, order: Order) -> Trial:
        worker = self._take()
        try:
            return worker.trial(order) if worker is not None else tried(order)
        finally:
            if worker is not None:
                with self._lock:
                    self._free.append(worker)

    def _take(self) -> _Worker | None:
        with self._lock:
            if self._free:
                return self._free.pop()
        worker = _Worker.start()
        if worker is not None:
            with self._lock:
                self._all.append(worker)
        return worker


def _counted(what: str, total: int, made: Iterator[Trial]) -> Iterator[Trial]:
    with working(what, total) as task:
        for each in made:
            task.done += 1
            yield each


class _Worker:
    """One process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls) -> _Worker | None:
        """Start a process; None where Python cannot be started."""
        environment = {n: v for n, v in os.environ.items() if n not in _RECORDING}
        own = os.path.dirname(os.path.dirname(os.path.abspath(tileprof.__file__)))
        try:
            return cls(
                subprocess.Popen(
                    [sys.executable or "python", "-c", _SERVE.format(own)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                )
            )
        except OSError:
            return None

    def trial(self, order: Order) -> Trial:
        """Have one trial made; it is made here where the process has ended."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, order)
            made = _read(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            return tried(order)
        return made if isinstance(made, Trial) else tried(order)

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def serve() -> None:
    """Make trials for the process that started this one, until its end of the pipe closes."""
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever prints must not write between two trials.
    os.dup2(2, 1)
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            order = _read(source)
            assert isinstance(order, Order)
            _write(target, tried(order))


def _write(target: IO[bytes], held: object) -> None:
    content = pickle.dumps(held)
    target.write(len(content).to_bytes(8, "little") + content)
    target.flush()


def _read(source: IO[bytes]) -> object:
    size = int.from_bytes(_exactly(source, 8), "little")
    return pickle.loads(_exactly(source, size))


def _exactly(source: IO[bytes], size: int) -> bytes:
    held = source.read(size)
    if len(held) < size:
        raise EOFError
    return held
