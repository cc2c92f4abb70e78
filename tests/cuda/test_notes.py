"""Failed checks that launches note while nobody waits, on a driver that records."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.cuda import noting
from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.noting import note
from tests.cuda.runtime_kernels import scale
from tileprof import ir
from tileprof.compiler.cuda.source import Argument, LaunchSpec
from tileprof.errors import BoundsError
from tileprof.runtime import hooks
from tileprof.runtime.cuda import check_notes as cuda_notes
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.cuda.host_values import HostProgram

ROOT = Path(__file__).parents[2]
KERNEL: ir.Kernel = scale.compile().traced
PLACE = replace(noting.PLACE, shape=("M", "N"))
NOTES = LaunchSpec("scale_0", (Argument("pointer", 0), Argument("notes", 0)), (), (), 128, 0)
PRINTS = replace(
    NOTES, function="said_0", arguments=(Argument("pointer", 0), Argument("report", 0))
)
PLAIN = replace(NOTES, function="plain_0", arguments=NOTES.arguments[:1])
WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize")
SAID = "`A` is read at [-3]: the index is negative (shape [4, 136]), in block (2, 1), point (i=9)"
LATER = ", noted by an earlier launch of `scale`"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose memory is the host's: arrays of NumPy count as lying on it."""
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77)
    monkeypatch.setattr(cuda_notes, "_told", [])
    return fake_gpu()


def fake_gpu() -> FakeDriver:
    """A driver that knows the functions."""
    fake = FakeDriver()
    fake.sizes = {"scale_0": (8, 8), "said_0": (8, 8), "plain_0": (8,)}
    return fake


def executable(gpu: FakeDriver, *specs: LaunchSpec) -> CudaExecutable:
    """A kernel of these launches, each over the author's grid."""
    launch = next(o for o in KERNEL.body.ops if isinstance(o, ir.Launch))
    host = HostProgram.of(KERNEL, launch.grid * len(specs))
    made = CudaBinary(b"cubin", specs, (PLACE,), host, (len(launch.grid),) * len(specs), "sm_90a")
    return CudaExecutable(KERNEL, lambda need: made, gpu.device)


def run(held: CudaExecutable, rows: int = 4) -> None:
    """One call, on a grid of (3, rows)."""
    whole = np.zeros((rows, 136), np.float16)
    held.run([whole, whole, 1.0, 1], (rows, 136))


def waits(gpu: FakeDriver) -> list[str]:
    """The waits since the last time."""
    found = [name for name in gpu.names() if name in WAITS]
    gpu.calls.clear()
    return found


def report(launched: Launched) -> int:
    """The address of the report of a launch."""
    return launched.words()[1]


def test_no_launch_waits(gpu: FakeDriver) -> None:
    """Launches of one combination share a report."""
    held = executable(gpu, NOTES)
    for _ in range(3):
        run(held)
    assert not waits(gpu)
    assert len({report(launched) for launched in gpu.launches}) == 1


def test_the_next_call_raises(gpu: FakeDriver) -> None:
    """Once, in the words of a call that waits; it launches nothing."""
    held = executable(gpu, NOTES)
    run(held)
    note(report(gpu.launches[0]), -3, 9, block=5)
    with pytest.raises(BoundsError) as e:
        run(held)
    assert e.value.message == SAID + LATER
    assert e.value.location == PLACE.location
    assert "guard the access" in e.value.hint
    assert "CUDA_LAUNCH_BLOCKING=1" in e.value.hint
    assert len(gpu.launches) == 1
    run(held)
    assert len(gpu.launches) == 2
    note(report(gpu.launches[1]), -4, 0)
    with pytest.raises(BoundsError, match=r"\[-4\]"):
        run(held)


def test_the_next_call_of_any_kernel(gpu: FakeDriver) -> None:
    """Also of one that notes nothing itself."""
    noting, plain = executable(gpu, NOTES), executable(gpu, PLAIN)
    run(noting)
    run(plain)
    note(report(gpu.launches[0]), -3, 9)
    with pytest.raises(BoundsError, match="earlier launch"):
        run(plain)
    run(plain)
    run(noting)


def test_each_combination_has_its_words(gpu: FakeDriver) -> None:
    """The shape and the grid are those of the launch that noted, not of the last one."""
    held = executable(gpu, NOTES, NOTES)
    for rows in (4, 9, 4):
        run(held, rows)
    reports = [report(launched) for launched in gpu.launches]
    assert reports[:2] == reports[4:]
    assert len(set(reports)) == 4
    note(reports[0], -3, 9, block=5)
    with pytest.raises(BoundsError) as e:
        run(held, 9)
    assert e.value.message == SAID + LATER


def test_a_renumbered_block_is_not_named(gpu: FakeDriver) -> None:
    """Its number is not that of the author's grid."""
    held = executable(gpu, replace(NOTES, in_order=False))
    run(held)
    note(report(gpu.launches[0]), -3, 9, block=5)
    with pytest.raises(BoundsError) as e:
        run(held)
    assert "block" not in e.value.message


def test_two_notes_are_two_errors(gpu: FakeDriver) -> None:
    """Neither is lost, none is told twice."""
    held = executable(gpu, NOTES)
    for rows in (4, 9):
        run(held, rows)
    for launched in gpu.launches:
        note(report(launched), -3, 9)
        note(report(launched), -7, 9)
    found = []
    for _ in range(2):
        with pytest.raises(BoundsError) as e:
            run(held)
        found.append(e.value.message)
    assert len(set(found)) == 2
    assert all("[-3]" in each for each in found)
    run(held)


def test_a_note_that_comes_while_another_is_read(
    gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written between the waits is complete after the second one, or told later."""
    held = executable(gpu, NOTES)
    for rows in (4, 9):
        run(held, rows)
    first, second = (report(launched) for launched in gpu.launches)
    note(first, -3, 9)
    waited = gpu.device.notes._is_over

    def wait() -> bool:
        note(second, -5, 9)
        return waited()

    monkeypatch.setattr(gpu.device.notes, "_is_over", wait)
    for expected in ("-3", "-5"):
        with pytest.raises(BoundsError, match=expected):
            run(held)
        monkeypatch.setattr(gpu.device.notes, "_is_over", waited)
    run(held)


def test_graphs(gpu: FakeDriver) -> None:
    """Nothing is raised or waited for while one is recorded; what a replay notes is told later."""
    held = executable(gpu, NOTES)
    run(held)
    note(report(gpu.launches[0]), -3, 9)
    gpu.capturing = 1
    run(held, 9)
    assert not waits(gpu)
    gpu.capturing = 0
    with pytest.raises(BoundsError, match=r"\[-3\]"):
        run(held)
    for value in (-5, -6):
        note(report(gpu.launches[1]), value, 9)
        with pytest.raises(BoundsError, match=rf"\[{value}\].*shape \[9, 136\]"):
            run(held)
        run(held)


@pytest.mark.parametrize(("code", "raises"), [(900, False), (700, True)])
def test_a_wait_that_fails(gpu: FakeDriver, code: int, raises: bool) -> None:
    """Another thread's capture leaves it for later; what a lost device noted is there."""
    held = executable(gpu, NOTES)
    run(held)
    note(report(gpu.launches[0]), -3, 9)
    gpu.fails["cuCtxSynchronize"] = code
    if not raises:
        run(held)
        gpu.fails.clear()
    with pytest.raises(BoundsError, match=r"\[-3\]"):
        run(held)


def test_one_thread_raises(gpu: FakeDriver) -> None:
    """Of several that call at once."""
    held = executable(gpu, NOTES)
    run(held)
    note(report(gpu.launches[0]), -3, 9)
    raised, start = [], threading.Barrier(8)

    def work() -> None:
        start.wait()
        try:
            with gpu.device.current():
                gpu.device.notes.check(0)
        except BoundsError as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(raised) == 1


def test_without_a_context(gpu: FakeDriver) -> None:
    """A thread that has not worked on the device may learn a call, and may have to wait."""
    assert gpu.device.notes.word()
    held = executable(gpu, NOTES)
    whole = np.zeros((4, 136), np.float16)
    assert held.prepare([whole, whole, 1.0, 1], (4, 136)) is not None
    gpu.device.notes._reclaim()
    assert waits(gpu) == ["cuCtxSynchronize"]
    assert gpu.device.notes._free


# -- calls that wait


def notes_always(gpu: FakeDriver) -> None:
    """A fake kernel that notes an index in each launch."""

    def work(launched: Launched) -> int:
        note(report(launched), -3, 9, block=5)
        return 0

    gpu.kernels["scale_0"] = work


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_launch_blocking(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Each call tells of itself where the user wants it."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", value)
    gpu.device.notes = cuda_notes.Notes(gpu.device)
    held = executable(gpu, NOTES)
    notes_always(gpu)
    if value != "1":
        run(held)
        assert not waits(gpu)
        return
    for _ in range(2):
        with pytest.raises(BoundsError) as e:
            run(held)
        assert e.value.message == SAID


def test_host_arrays() -> None:
    """They wait for their copies, so they raise at once; nothing of the device stays."""
    gpu = fake_gpu()
    held = executable(gpu, NOTES)
    notes_always(gpu)
    for _ in range(2):
        with pytest.raises(BoundsError) as e:
            run(held)
        assert e.value.message == SAID
    assert not gpu.memory


def test_timed_launches(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """They raise at once; the wait comes after what is timed."""
    held = executable(gpu, NOTES, PLAIN)
    monkeypatch.setattr(hooks, "listener", SimpleNamespace(times_gpus=False))
    notes_always(gpu)
    gpu.calls.clear()
    with pytest.raises(BoundsError) as e:
        run(held)
    assert e.value.message == SAID
    names = [n for n in gpu.names() if n.startswith(("cuEventR", "cuLaunch", "cuStreamS"))]
    assert names == [
        "cuEventRecord", "cuLaunchKernelEx", "cuLaunchKernelEx", "cuEventRecord",
        "cuStreamSynchronize",
    ]  # fmt: skip


def test_what_prints_is_waited_for(gpu: FakeDriver) -> None:
    """Launch by launch, as ever."""
    held = executable(gpu, PRINTS, NOTES)
    run(held)
    assert waits(gpu) == ["cuStreamSynchronize"]


# -- many combinations


def test_reports_are_used_again(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the device was waited for: not those of graphs, nor those that were noted in."""
    monkeypatch.setattr(cuda_notes, "_AT_ONCE", 8)
    gpu.device.notes._most = 8
    held = executable(gpu, NOTES)
    gpu.capturing = 1
    run(held, 1)
    gpu.capturing = 0
    for rows in range(2, 9):
        run(held, rows)
    graph, noted, *others = [report(launched) for launched in gpu.launches]
    assert not waits(gpu)
    gpu.launches.clear()
    # Between the call's look at the word and its search for a report.
    with monkeypatch.context() as patched:
        patched.setattr(gpu.device.notes, "check", lambda stream: note(noted, -3, 9))
        run(held, 9)
    assert waits(gpu) == ["cuCtxSynchronize"]
    assert report(gpu.launches[0]) in others
    with pytest.raises(BoundsError, match=r"\[-3\].*shape \[2, 136\]"):
        gpu.device.notes.check(77)
    note(graph, -4, 9)
    with pytest.raises(BoundsError, match=r"\[-4\]"):
        gpu.device.notes.check(77)


def test_more_than_are_free_are_allocated(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs may hold as many as they like; then more are made before the device is waited for."""
    monkeypatch.setattr(cuda_notes, "_AT_ONCE", 8)
    gpu.device.notes._most = 8
    held = executable(gpu, NOTES)
    gpu.capturing = 1
    for rows in range(1, 20):
        run(held, rows)
    gpu.capturing = 0
    for rows in range(20, 30):
        run(held, rows)
    reports = [report(launched) for launched in gpu.launches]
    assert len(set(reports[:19])) == 19
    assert not set(reports[:19]) & set(reports[19:])
    assert waits(gpu) == ["cuCtxSynchronize"]


# -- the end of the program


def test_the_end_tells_the_rest(gpu: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, once."""
    held = executable(gpu, NOTES)
    for rows in (4, 9):
        run(held, rows)
    for launched in gpu.launches:
        note(report(launched), -3, 9)
    gpu.device.notes.tell_rest()
    told = capsys.readouterr().err
    assert told.count("BoundsError: k.py:7: `A` is read at [-3]") == 2
    assert told.count(LATER) == 2
    gpu.device.notes.tell_rest()
    assert not capsys.readouterr().err


@pytest.mark.sweep
def test_a_program_that_ends() -> None:
    """With a note that no call has raised."""
    code = (
        "import os\n"
        "from tests.cuda import test_notes as t\n"
        "t.cuda_module.is_host = lambda value: False\n"
        "t.cuda_module.stream_of = lambda value, number: 77\n"
        "gpu = t.fake_gpu(); held = t.executable(gpu, t.NOTES); t.run(held)\n"
        "t.note(t.report(gpu.launches[0]), -3, 9, block=5)\n"
        "if os.fork() == 0: raise SystemExit  # a child has nothing of it\n"
        "os.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID + LATER) == 1
