"""`doctor` on what GPUs do at most: a line for each, and `--roofs`, which measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileprof.cli import doctor, doctor_roofs
from tileprof.errors import ArgumentError
from tileprof.runtime import roofs as package
from tileprof.runtime.roofs import Roof, Roofs

HELD = (
    Roof("hbm_read", 4.31e12, "bytes/s", 4.33e12, 0.0021, 21, 1980.0, "bytes read / time; 4 GiB"),
    Roof("hbm_copy", 4.2e12, "bytes/s", 4.22e12, 0.0018, 21, 1980.0, "(bytes read + …) / time"),
    Roof("tensor_bfloat16", 7.53e14, "flop/s", 8.9e14, 0.011, 21, 1432.5, "2 m n k / time; wgmma"),
    Roof("tensor_int8", 1.5e15, "op/s", 1.6e15, 0.01, 21, 1432.5, "2 m n k / time; wgmma"),
    Roof("launch_gap", 1234.5, "ns", 1200.0, 0.004, 21, 0.0, "time of 500 empty kernels / 500"),
)
ROOFS = Roofs("NVIDIA H200", "GPU-abab", "sm_90a", 132, "13.0", "2026-11-20T10:00:00+00:00", "0.1",
              {roof.name: roof for roof in HELD})  # fmt: skip


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Of which one has been measured; the list fills with what is measured."""
    measured: list[tuple[int, bool]] = []

    def measure(number: int, *, again: bool, progress: Callable[[str], None]) -> Roofs:
        measured.append((number, again))
        progress("hbm_read")
        return ROOFS

    monkeypatch.setattr(doctor_roofs, "_devices", lambda: 2)
    monkeypatch.setattr(package, "known_roofs", lambda number: None if number else ROOFS)
    monkeypatch.setattr(package, "measured_roofs", measure)
    return measured


def test_what_is_known(
    cli: Any, monkeypatch: pytest.MonkeyPatch, two_gpus: object, golden: Callable[..., None]
) -> None:
    """Those that were measured, with the day; the others with the command that measures."""
    monkeypatch.setattr(doctor, "examine", doctor_roofs.findings)
    golden(cli("doctor").out)


def test_measuring(cli: Any, two_gpus: list[tuple[int, bool]], golden: Callable[..., None]) -> None:
    """Both anew, each with a table; nothing of progress where nobody looks."""
    found = cli("doctor", "--roofs")
    assert (found.code, found.err) == (0, "")
    assert two_gpus == [(0, True), (1, True)]
    golden(found.out)


def test_without_a_gpu(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of roofs, and there is nothing to measure."""
    monkeypatch.setattr(doctor_roofs, "_devices", lambda: 0)
    assert list(doctor_roofs.findings()) == []
    found = cli("doctor", "--roofs")
    assert found.code != 0
    assert "no GPU found to measure" in found.err


def test_a_device_that_cannot_be_measured(
    cli: Any, monkeypatch: pytest.MonkeyPatch, two_gpus: object
) -> None:
    """The reason is said."""

    def refuse(number: int, **more: Any) -> Roofs:
        raise ArgumentError("that device is gone")

    monkeypatch.setattr(package, "measured_roofs", refuse)
    found = cli("doctor", "--roofs")
    assert found.code != 0
    assert "that device is gone" in found.err
