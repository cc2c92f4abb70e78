"""What is said where CUPTI refuses: each result with its reason and its way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileprof.profiler.cupti import permissions
from tileprof.profiler.cupti.refusals import PERMISSION, REFUSALS, refusal

HOST = (
    "put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file of /etc/modprobe.d, and"
    " restart"
)


@pytest.fixture
def parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The driver's parameters, which are not there yet; this process is no administrator."""
    monkeypatch.setattr(permissions, "DRIVER_PARAMETERS", tmp_path / "params")
    monkeypatch.setattr(permissions, "PROCESS_STATUS", tmp_path / "status")
    monkeypatch.setattr(permissions, "WSL_DEVICE", tmp_path / "dxg")
    monkeypatch.setattr(permissions, "_in_container", lambda: False)
    return tmp_path / "params"


@pytest.mark.parametrize("code", REFUSALS)
def test_each_refusal_has_a_reason_and_a_way_out(parameters: Path, code: int) -> None:
    """In one line: what CUPTI does not do, where, which call failed, and what to change."""
    said = refusal(code, "call: NAME", "CUPTI reads no counters")
    reason, way = said.split(" (call: NAME): ")
    assert reason == f"CUPTI reads no counters {REFUSALS[code][0]}"
    assert way.strip()
    assert "\n" not in said


def test_other_results_are_no_refusals() -> None:
    """A call that failed for another reason is left to the caller."""
    assert refusal(999, "call: NAME", "CUPTI reads no counters") == ""


def test_permission_is_given_as_the_driver_says(parameters: Path) -> None:
    """Where its parameters are to be seen, by what `tileprof doctor` says too."""
    parameters.write_text("RmProfilingAdminOnly: 1\n")
    said = refusal(PERMISSION, "call: NAME", "CUPTI takes no samples")
    assert said == (
        "CUPTI takes no samples without the driver's permission (call: NAME): run as root; or for"
        f" all users: {HOST}"
    )


@pytest.mark.parametrize("text", ["", "RmProfilingAdminOnly: 0\n"])
def test_permission_that_only_the_driver_denies_is_given_on_the_host(
    parameters: Path, text: str
) -> None:
    """Without parameters, or with some that allow it, installing a driver would not help."""
    if text:
        parameters.write_text(text)
    assert permissions.refused_remedy() == (
        f"run as root of the host; or for all users, on the host: {HOST}"
    )


def test_permission_in_wsl_is_given_by_windows(parameters: Path) -> None:
    """No module of the kernel is there to be configured."""
    permissions.WSL_DEVICE.touch()
    assert "NVIDIA Control Panel of Windows" in permissions.refused_remedy()
