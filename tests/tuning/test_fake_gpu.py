"""The tuner on a GPU that only records launches: machine code of trials is what runs there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver
from tests.tuning import tuned_kernels as kernels
from tileprof.bench import Batch
from tileprof.runtime import launch
from tileprof.runtime.cuda import device as cuda_device
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.tuning import Checks, KernelSubject, Settings, machine_of, tuned

pytest.importorskip("cuda")
X = np.zeros(1 << 14, np.float32)


class CountingTimer:
    """A timer that launches once, and finds larger blocks faster."""

    clock = "host"
    most_calls = 4

    def __init__(self, fake: FakeDriver) -> None:
        self._fake = fake

    def batch(self, run: Callable[[], Any], calls: int) -> Batch:
        """Time a call by the blocks that it launches."""
        run()
        blocks = self._fake.launches[-1].grid[0]
        return Batch(2e6 + 1e5 * blocks, 0.0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose memory is the host's."""
    fake = FakeDriver()
    fake.sizes["added_0"] = (8, 8, 8)
    monkeypatch.setattr(cuda_device, "find_device", lambda number: fake.device)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 0)
    monkeypatch.setattr("tileprof.tuning.workers.default_workers", lambda: 1)
    return fake


@pytest.mark.sweep
def test_machine_code_of_trials_is_run(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process compiles nothing, and loads what was timed alone."""
    subject = KernelSubject(
        kernels.added, {"X": X, "Y": X}, lambda kernel: [X, X], "cuda:0", machine_of("cuda:0"),
        checks=Checks(skipped=True),
    )  # fmt: skip
    monkeypatch.setattr(subject, "timer", lambda: CountingTimer(gpu))
    monkeypatch.setattr(launch, "_binary", lambda *_: pytest.fail("it compiles again"))
    outcome = tuned(subject, Settings(timed=4, trials=24, compiled=24))
    assert outcome.device == "cuda:0"
    timed = outcome.timed
    assert 1 < len(timed) <= 4
    assert all(each.compiled and each.registers for each in timed)
    assert gpu.names().count("cuModuleLoadDataEx") == len(timed)
    blocks = [each.configuration.named["block"] for each in timed]
    assert outcome.winner.configuration.named["block"] == max(blocks)  # type: ignore[type-var]


def test_an_extent_known_at_launch_is_compiled_here(gpu: FakeDriver) -> None:
    """The kernel of a trial has its extent compiled in, so its machine code is another."""
    subject = KernelSubject(
        kernels.added, {"X": X, "Y": X}, lambda kernel: [X, X], "cuda:0", machine_of("cuda:0"),
        extents={"N": 1 << 14},
    )  # fmt: skip
    assert not subject.takes_binaries
