"""How GPU work is timed by benchmarks: by the package's timer, in pairs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, as benchmarks import it."""
    monkeypatch.syspath_prepend("benchmarks")
    return importlib.import_module("measuring")


def test_peers_are_compared_in_pairs(measuring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair has a batch of ours and of the peer, whose launches take about 4 ms."""
    from tests.bench.test_bench_measuring import Machine

    machine = Machine("gpu")
    monkeypatch.setattr(measuring, "_timer", lambda: machine)
    (found,) = measuring.compare(lambda: 2e6, {"peer": lambda: 3e6}, pairs=5)
    assert (found.ours_ms, found.peer_ms, found.pairs) == (2.0, 3.0, 5)
    assert (found.low, found.ratio, found.high) == (1.5, 1.5, 1.5)
    assert measuring.launches([lambda: 2e6, lambda: 1e6]) == [2, 4]


def test_clocks_have_the_names_of_nvidia_smi(
    measuring: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of results are read by these names; without a GPU there are none."""
    from tests.bench.test_bench_measuring import STATE

    monkeypatch.setattr(measuring, "read_gpu", lambda: STATE)
    assert measuring.clocks() == {
        "name": "H200", "driver_version": "580.1", "clocks.sm": "1980 MHz",
        "clocks.mem": "3201 MHz", "power.draw": "300.0 W", "temperature.gpu": "40",
    }  # fmt: skip
    monkeypatch.setattr(measuring, "read_gpu", lambda: None)
    assert measuring.clocks() == {}
