"""GPUs and drivers that fail while they are recorded, on a played CUPTI: a sentence each, and what
was recorded until then is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.cupti_programs import Fake
from tileprof import profiler
from tileprof.profile import Profile, load, save
from tileprof.profiler.cupti.refusals import REFUSALS
from tileprof.profiler.session import recording
from tileprof.profiler.session.session import Session
from tileprof.runtime import hooks

recorder = pytest.importorskip("tileprof.native._recorder")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def fake(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The played driver, for sessions of this process."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    # Records are handed over when a test says so, however long the machine stops it.
    monkeypatch.setattr(recording, "HANDOVER_S", 1000)
    recorder.gpu_after_fork()
    yield (played := Fake(library, recorder))
    for option in ("flush_result", "subscribe_result"):
        played.option(option, 0)
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.gpu_drain()


def ended(session: Session, folder: Path) -> tuple[Profile, dict[str, str]]:
    """The session's profile as it is saved and loaded again, and its provenance."""
    save(session.finalize(), folder / "out.tprof")
    profile = load(folder / "out.tprof")
    profile.check()
    return profile, dict(profile.tables.provenance)


def kernels(profile: Profile) -> int:
    """How many kernels a profile counts."""
    return sum(int(profile.node(each).own("count")) for each in profile.find(kind="kernel"))


def test_records_are_handed_over_between_files(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUPTI's memory grows with what it has not handed over, however rarely files are written."""
    monkeypatch.setattr(recording, "HANDOVER_S", 0.01)
    session = profiler.start(tmp_path / "out.tprof", flush_interval=1000)
    for start in range(1000, 4000, 1000):
        fake.kernel(start=start, end=start + 100)
    until = time.monotonic() + 60
    while recorder.gpu_counts()["kernels"] < 3 and time.monotonic() < until:
        time.sleep(0.01)
    handed_over = recorder.gpu_counts()["kernels"]
    session.finalize()
    assert handed_over == 3
    assert kernels(load(tmp_path / "out.tprof")) == 3


def test_what_kernels_wrote_is_read_between_files(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of instrumented kernels that were copied to the host do not wait for a file."""
    asked: list[bool] = []

    class Holder:
        def collect(self, final: bool) -> None:
            asked.append(final)

    monkeypatch.setattr(recording, "HANDOVER_S", 0.01)
    monkeypatch.setattr(hooks, "collectors", [*hooks.collectors, Holder()])
    session = profiler.start(tmp_path / "out.tprof", flush_interval=1000)
    until = time.monotonic() + 60
    while len(asked) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    before_the_end = asked[:]
    session.finalize()
    assert len(before_the_end) >= 2
    assert not any(before_the_end)


def test_records_that_were_handed_over_before_a_flush_fails_are_kept(
    fake: Fake, tmp_path: Path
) -> None:
    """CUPTI refuses the last flush, as where a kernel made the context unusable; it is said."""
    session = profiler.start()
    for start in range(1000, 4000, 1000):
        fake.kernel(start=start, end=start + 100)
    fake.deliver()
    fake.kernel(start=9000, end=9100)
    fake.option("flush_result", 999)
    profile, facts = ended(session, tmp_path)
    assert kernels(profile) == 3
    assert facts["lost"] == "CUPTI does not hand over its records: FAKE_ERROR"
    assert "gpu" not in facts


def test_launches_whose_records_never_come_are_said(fake: Fake, tmp_path: Path) -> None:
    """The device gave none, as of a kernel that failed; the others count."""
    session = profiler.start()
    fake.kernel()
    fake.call()
    profile, facts = ended(session, tmp_path)
    assert kernels(profile) == 1
    assert facts["lost"].startswith("1 launch of which no record came")


def test_nothing_is_said_to_be_lost_where_all_records_came(fake: Fake, tmp_path: Path) -> None:
    """Calls that fail leave no record and are not missed."""
    session = profiler.start()
    fake.kernel()
    fake.c.fake_exit(307, fake.c.fake_enter(307), 700)
    profile, facts = ended(session, tmp_path)
    assert kernels(profile) == 1
    assert "lost" not in facts


@pytest.mark.parametrize(
    ("result", "said"),
    [
        *(
            (code, f"not recorded: CUPTI records no kernels {where} (cannot subscribe to CUPTI")
            for code, (where, _) in REFUSALS.items()
        ),
        *((code, way) for code, (_, way) in REFUSALS.items()),
        (39, "has CUPTI already"),
        (999, "not recorded: cannot subscribe to CUPTI: FAKE_ERROR"),
    ],
)
def test_host_is_recorded_where_cupti_refuses(
    fake: Fake, tmp_path: Path, result: int, said: str
) -> None:
    """Scopes are there, and why kernels are not."""
    fake.option("subscribe_result", result)
    session = profiler.start()
    with profiler.scope("step"):
        fake.kernel()
    profile, facts = ended(session, tmp_path)
    assert len(profile.find("step", "scope")) == 1
    assert kernels(profile) == 0
    assert said in facts["gpu"]


def test_library_without_a_function_is_named(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CUPTI that lacks what recording needs ends in a sentence, and the host is recorded."""
    monkeypatch.setenv("TILEPROF_CUPTI", "libm.so.6")
    session = profiler.start()
    with profiler.scope("step"):
        pass
    profile, facts = ended(session, tmp_path)
    assert len(profile.find("step", "scope")) == 1
    assert facts["gpu"] == (
        "not recorded: libm.so.6 has no function cuptiGetVersion: let TILEPROF_CUPTI name another"
        " copy of CUPTI, or unset it"
    )


ENDED = """
import sys, threading, time
from pathlib import Path
from tests.native.cupti_programs import Fake
from tests.profiler.ended_in_flush import end_in_flush
from tileprof import profiler
from tileprof.native import _recorder
from tileprof.profiler.endings.termination import finalize_on_terminate

library, at_end = sys.argv[1], sys.argv[2] == "end"
fake, done = Fake(Path(library), _recorder), 0
session = profiler.start("out.tprof", context="scopes", flush_interval=0.01)
finalize_on_terminate(session)
# The played CUPTI writes a record in a call after that of its launch: no signal in between.
launching = threading.Lock()

def say():
    launching.acquire()
    print(done, flush=True)

end_in_flush(lambda: done >= 100, say, forced=at_end)
while not at_end or done < 100:
    with profiler.scope("work"), launching:
        fake.kernel()
        time.sleep(0.0005)
    done += 1
session.finalize()
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals as on Linux")
@pytest.mark.parametrize("when", ["flush", "end"])
def test_sigterm_in_a_flush_leaves_all_that_ran_before(
    library: Path, tmp_path: Path, when: str
) -> None:
    """In a flush of the helping thread, or in the last one; kernels whose records CUPTI still has
    when the signal comes are in the file."""
    (tmp_path / "ended.py").write_text(ENDED)
    # With what stands there already: the recorder of this process may come from it.
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "TILEPROF_CUPTI": str(library)}
    ran = subprocess.run(
        [sys.executable, "ended.py", str(library), when], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (-signal.SIGTERM, "")
    profile = load(tmp_path / "out.tprof")
    profile.check()
    assert kernels(profile) >= int(ran.stdout) >= 100
    assert profile.tables.provenance.get("lost") is None
