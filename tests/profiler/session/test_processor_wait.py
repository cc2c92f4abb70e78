"""How long the main thread waited for a processor, as the system counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tileprof.profile.thread_times import PROCESSOR_WAIT
from tileprof.profiler.session.provenance import of_processor_wait

pytestmark = pytest.mark.usefixtures("forked")

SHARED = """
import os, threading, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tileprof.profiler.session.provenance import of_processor_wait, processor_wait_ns
def burn():
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
before, children = processor_wait_ns(), []
for _ in range(2):
    if (pid := os.fork()) == 0:
        burn()
        os._exit(0)
    children.append(pid)
burn()
for pid in children:
    os.waitpid(pid, 0)
print(*of_processor_wait(before).values())
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux does not count it")
def test_three_processes_on_one_processor_wait_for_it() -> None:
    """Each has it for a third of 0.3 s."""
    done = subprocess.run(
        [sys.executable, "-c", SHARED], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    seconds, unit = done.stdout.split()
    assert unit == "s"
    assert float(seconds) > 0.1


def test_a_forked_child_counts_from_its_own_start() -> None:
    """Its parent had waited longer than it ever has."""
    facts = of_processor_wait(10**18)
    assert float(facts.get(PROCESSOR_WAIT, "0 s").split()[0]) < 10**8
