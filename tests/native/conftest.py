"""The played CUPTI: compiled once a session, started anew for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.cupti_programs import Fake, build_fake


@pytest.fixture(scope="session")
def fake_library() -> Path:
    """The library that is played."""
    return build_fake()


@pytest.fixture
def stopped(fake_library: Path) -> Iterator[Fake]:
    """The played library with nobody recording; contexts are without Python's frames."""
    recorder = pytest.importorskip("tileprof.native._recorder")
    recorder.gpu_after_fork()  # what earlier tests counted
    recorder.set_frames(False)
    recorder.set_epoch(1)
    fake = Fake(fake_library, recorder)
    yield fake
    fake.option("flush_ms", 0)
    if recorder.gpu_started():
        recorder.gpu_stop(0.05)
    recorder.gpu_drain()
    recorder.set_epoch(0)
    recorder.set_frames(True)


@pytest.fixture
def fake(stopped: Fake) -> Fake:
    """The same, with a recording of all kinds of records."""
    assert stopped.start() == (0, "")
    return stopped
