"""Workers that are forked from the process which has collected the tests.

Collecting takes half a minute, most of it imports; each worker of pytest-xdist would do it again.
A worker takes whole files from a queue and sends the reports of their tests. Where one ends in the
middle of a test, this test has failed, and another worker goes on behind it.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest

WORKER = "TILEPROF_TEST_WORKER"
"""Environment variable with a worker's number, from 0 on, in workers alone."""
_NUMBER = struct.Struct("!i")


@dataclass
class _Worker:
    """A worker, seen from the process that reports its results."""

    pid: int
    reports: int
    """Descriptor from which its reports are read, one a line."""
    read: bytes = b""
    left: list[int] = field(default_factory=list)
    """Positions of the tests that it has taken and not yet ended, the running one first."""


def run(session: pytest.Session, count: int) -> None:
    """Run the collected tests in `count` workers, and report them as this process's own.

    Raises `session.Failed` where the options ask for an end after so many failures.
    """
    groups = [
        [at for at, _ in each]
        for _, each in groupby(enumerate(session.items), lambda each: each[1].path)
    ]
    queue, filled = os.pipe()
    # 2,000 files fit what a pipe holds.
    os.write(filled, b"".join(_NUMBER.pack(at) for at in range(len(groups))))
    os.close(filled)
    workers: dict[int, _Worker] = {}
    try:
        with selectors.DefaultSelector() as waiting:
            for number in range(min(count, len(groups))):
                _start(session, groups, queue, number, [], workers, waiting)
            number = count
            while workers:
                for key, _ in waiting.select():
                    worker = workers[key.fd]
                    if _receive(session, groups, worker):
                        continue
                    waiting.unregister(key.fd)
                    os.close(key.fd)
                    del workers[key.fd]
                    status = os.waitpid(worker.pid, 0)[1]
                    if worker.left:
                        _report_end(session, session.items[worker.left[0]], status)
                        _start(session, groups, queue, number, worker.left[1:], workers, waiting)
                        number += 1
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
    finally:
        os.close(queue)
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGTERM)
            os.waitpid(worker.pid, 0)


def _start(
    session: pytest.Session, groups: Sequence[Sequence[int]], queue: int, number: int,
    left: list[int], workers: dict[int, _Worker], waiting: selectors.BaseSelector,
) -> None:  # fmt: skip
    """Fork a worker, which begins with the tests `left`."""
    reports, written = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        # Python 3.12 warns where a library has threads, which end with the fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(written)
        workers[reports] = _Worker(pid, reports, left=left)
        waiting.register(reports, selectors.EVENT_READ)
        return
    code = 1
    try:
        for other in (reports, *workers):
            os.close(other)
        os.environ[WORKER] = str(number)
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = folder / f"worker{number}"
        factory._basetemp.mkdir()
        _work(session, groups, queue, os.fdopen(written, "w", buffering=1), left)
        atexit._run_exitfuncs()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _work(
    session: pytest.Session, groups: Sequence[Sequence[int]], queue: int, reports: Any,
    left: list[int],
) -> None:  # fmt: skip
    """Run tests until the queue is empty, in a worker."""
    plugins = session.config.pluginmanager
    # Explanations of failures ask the terminal's writer for colours, so it stays.
    session.config.get_terminal_writer()._file = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    # What is captured goes to files, which would be those of all workers.
    capture: Any = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=True)
    plugins.register(_Sender(session.config, reports))
    left = left or _next(groups, queue, reports)
    while left:
        item = session.items[left.pop(0)]
        left = left or _next(groups, queue, reports)
        # Fixtures of a module or a session end where the next test has no use for them.
        following = session.items[left[0]] if left else None
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        print("null", file=reports)


def _next(groups: Sequence[Sequence[int]], queue: int, reports: Any) -> list[int]:
    """Return the tests of the next file that nobody has taken; none at the end."""
    taken = os.read(queue, _NUMBER.size)
    if not taken:
        return []
    (at,) = _NUMBER.unpack(taken)
    print(at, file=reports)
    return list(groups[at])


class _Sender:
    """Sends the reports of a worker."""

    def __init__(self, config: pytest.Config, reports: Any) -> None:
        self.config, self.reports = config, reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        print(json.dumps(data), file=self.reports)


def _receive(session: pytest.Session, groups: Sequence[Sequence[int]], worker: _Worker) -> bool:
    """Report what has come from a worker; whether it goes on."""
    part = os.read(worker.reports, 1 << 16)
    *lines, worker.read = (worker.read + part).split(b"\n")
    for line in lines:
        told = json.loads(line)
        if told is None:
            del worker.left[0]
        elif isinstance(told, int):
            worker.left += groups[told]
        else:
            hook = session.config.hook
            report = hook.pytest_report_from_serializable(config=session.config, data=told)
            hook.pytest_runtest_logreport(report=report)
    return bool(part)


def _report_end(session: pytest.Session, item: pytest.Item, status: int) -> None:
    """Report a test in which its worker ended as one that has failed."""
    text = f"the worker ended in this test, with exit code {os.waitstatus_to_exitcode(status)}"
    report = pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call"
    )
    session.config.hook.pytest_runtest_logreport(report=report)
