"""GPUs and drivers that fail while they are recorded, on a played CUPTI: a sentence each, and what
was recorded until then is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.cupti_programs import Fake
from tileprof import profiler
from tileprof.profile import Profile, load, save
from tileprof.profiler.session.session import Session

recorder = pytest.importorskip("tileprof.native._recorder")


@pytest.fixture
def fake(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The played driver, for sessions of this process."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
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
        (35, "not recorded: cannot subscribe to CUPTI: FAKE_ERROR"),
        (39, "has CUPTI already"),
        (43, "not recorded: cannot subscribe to CUPTI: FAKE_ERROR"),
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
    assert facts["gpu"] == "not recorded: libm.so.6 has no function cuptiGetVersion"
