"""Kernels that fault, memory that is short, processes that are killed, other tools: on a GPU.

    python -m pytest -m gpu tests/profiler/gpu/test_gpu_faults.py

What was recorded before is there, and a sentence says what is not.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.profiler.gpu.running import PROGRAMS, ROOT, Ran, counts, python
from tileprof.profile import Profile, load

pytestmark = pytest.mark.gpu
PROGRAM = str(PROGRAMS / "faulting.py")
COUNT = 500
KERNELS_OF_ROUND = 1001
"""What `faulting.py` launches in a round: a graph of ten kernels a hundred times, and one more."""
OURS = "This is a fault of tileprof"


def recorded(folder: Path, what: str, *options: str, more: tuple[str, ...] = ()) -> Ran:
    """Run the program under `tileprof run`; shows what is said of GPUs.

    `options` are those of `tileprof run`, `more` further arguments of the program.
    """
    run = ("-m", "tileprof", "run", "--quiet", *options, "-o", "out.tprof", PROGRAM, what, *more)
    ran = python(folder, *run, timeout=150)
    print(ran.code, ran.errors[-3000:], ran.profile.tables.provenance)
    assert OURS not in ran.errors
    return ran


def kernels(profile: Profile, scope: str) -> int:
    """How many kernels are counted below a scope."""
    return sum(counts(profile, scope=scope).values())


@pytest.mark.parametrize("options", [(), ("--pc-sampling",), ("--timeline",)])
def test_kernels_before_an_illegal_address_are_kept(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The program ends with its own error, and the profile has all that ran before."""
    ran = recorded(tmp_path, "illegal", *options)
    assert ran.code == 1
    assert "illegal memory access" in ran.errors
    assert kernels(ran.profile, "before") == COUNT


def test_parts_of_kernels_before_an_illegal_address(tmp_path: Path) -> None:
    """Kernels of ours that record inside are counted; the end is the program's own."""
    ran = recorded(tmp_path, "inside")
    assert ran.code == 1
    assert "illegal memory access" in ran.errors
    assert kernels(ran.profile, "ours") == COUNT


@pytest.mark.parametrize("options", [(), ("--instrument", "sample"), ("--pc-sampling",)])
def test_device_without_memory_for_records(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Kernels run and are counted, whatever room for their inside there is."""
    ran = recorded(tmp_path, "full", *options)
    assert ran.code == 0
    assert ran.told["count"] == COUNT
    assert kernels(ran.profile, "ours") == COUNT


@pytest.mark.parametrize("option", ["plain", "pc_sampling", "timeline"])
def test_file_of_a_process_that_is_killed_in_a_flush_loads(tmp_path: Path, option: str) -> None:
    """Replays of a graph go on, files are written all the time, and SIGKILL comes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = tmp_path / "out.tprof"
    command = [sys.executable, PROGRAM, "replays", option]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        until, profile = time.monotonic() + 90, None
        while process.poll() is None and time.monotonic() < until:
            if out.exists():
                profile = load(out)
                if kernels(profile, "replays"):
                    break
            time.sleep(0.05)
        assert profile is not None
        assert process.poll() is None
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    profile = load(out)
    profile.check()
    assert kernels(profile, "replays") > 0


@pytest.mark.parametrize("options", [(), ("--pc-sampling",), ("--timeline",)])
@pytest.mark.parametrize("when", ["flush", "end"])
def test_sigterm_in_a_flush_leaves_all_that_ran_before(
    tmp_path: Path, when: str, options: tuple[str, ...]
) -> None:
    """The process dies of the signal, and every round that was over is in the file."""
    ran = recorded(tmp_path, "ended", *options, more=(when,))
    assert ran.code == -signal.SIGTERM
    assert "Traceback" not in ran.errors
    assert "before out.tprof could be written" not in ran.errors
    rounds = ran.told["rounds"]
    assert rounds >= 20
    assert kernels(ran.profile, "replays") >= rounds * KERNELS_OF_ROUND


def test_another_subscriber_is_named_and_the_host_is_recorded(tmp_path: Path) -> None:
    """CUPTI serves the other; scopes are there, and why kernels are not."""
    ran = python(tmp_path, PROGRAM, "subscribed", timeout=120)
    assert ran.code == 0, ran.errors
    assert ran.profile.find("before", "scope")
    assert "has CUPTI already" in ran.profile.tables.provenance["gpu"]


@pytest.mark.skipif(shutil.which("ncu") is None, reason="Nsight Compute is not installed")
def test_nsight_compute_around_a_recording(tmp_path: Path) -> None:
    """The program ends well, and what is not recorded has a reason."""
    run = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", "out.tprof"]
    command = ["ncu", "--launch-count", "3", "--section", "LaunchStats", *run,
               str(PROGRAMS / "leaving.py"), "return"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170,
        check=False,
    )  # fmt: skip
    print(done.stdout[-2000:], done.stderr[-2000:])
    assert done.returncode == 0
    assert OURS not in done.stderr
    profile = load(tmp_path / "out.tprof")
    profile.check()
    facts = profile.tables.provenance
    assert sum(counts(profile).values()) >= 1000 or "Nsight Compute" in facts.get("gpu", ""), facts
