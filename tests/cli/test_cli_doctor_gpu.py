"""`doctor` on what records kernels: each missing library or permission by name, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileprof.cli import doctor, doctor_gpu
from tileprof.profiler import native
from tileprof.profiler.cupti import cupti_library, other_profilers, permissions
from tileprof.profiler.device import nvtx

ADMINISTRATOR, USER = "CapEff:\t000001ffffffffff\n", "CapEff:\t00000000a80425fb\n"


class Machine:
    """A machine on which everything is there, to take things away from."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
        self.patch = monkeypatch
        self.cli = cli
        self.parameters = folder / "params"
        self.status = folder / "status"
        self.container = False
        monkeypatch.setattr(permissions, "DRIVER_PARAMETERS", self.parameters)
        monkeypatch.setattr(permissions, "PROCESS_STATUS", self.status)
        monkeypatch.setattr(permissions, "_in_container", lambda: self.container)
        monkeypatch.setattr(native, "why_not", str)
        monkeypatch.setattr(nvtx, "why_not", str)
        monkeypatch.setattr(other_profilers, "who_holds", lambda: None)
        library = cupti_library.CuptiLibrary(Path("/site/libcupti.so.13"), "PyTorch's")
        monkeypatch.setattr(cupti_library, "find_cupti", lambda: library)
        monkeypatch.setattr(cupti_library, "version", lambda path: ("13.0", ""))
        monkeypatch.setattr(doctor_gpu.platform, "python_version", lambda: "3.13.1")  # type: ignore[attr-defined]
        monkeypatch.setattr(doctor, "examine", doctor_gpu.recording)
        self.allow("0", USER)

    def allow(self, restricted: str, status: str) -> None:
        """Have the driver restrict counters or not, and this process be somebody."""
        self.parameters.write_text(f"Mobile: 1\nRmProfilingAdminOnly: {restricted}\n")
        self.status.write_text(f"Name:\tpython\n{status}")

    def says(self) -> str:
        """What is printed of recording."""
        done = self.cli("doctor")
        assert (done.code, done.err) == (0, "")
        return str(done.out)


@pytest.fixture
def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> Machine:
    """See `Machine`."""
    return Machine(folder, monkeypatch, cli)


def test_everything(machine: Machine, golden: Callable[..., None]) -> None:
    """Each thing with its version, its place or whom it serves."""
    golden(machine.says())


def test_nothing(machine: Machine, golden: Callable[..., None]) -> None:
    """Each with the reason, and what to install, change or leave out."""
    machine.allow("1", USER)
    machine.patch.setattr(native, "why_not", lambda: "it was not built at installation")
    machine.patch.setattr(cupti_library, "find_cupti", lambda: None)
    machine.patch.setattr(cupti_library, "why_not", lambda: "CUPTI is not installed")
    machine.patch.setattr(cupti_library, "remedy", lambda: "pip install nvidia-cuda-cupti-cu12")
    machine.patch.setattr(other_profilers, "who_holds", lambda: other_profilers.NSIGHT_SYSTEMS)
    machine.patch.setattr(nvtx, "why_not", lambda: "there is no native recorder")
    golden(machine.says())


def test_who_may_read_counters(machine: Machine) -> None:
    """All, where the driver lets them; else those with the capability, root or not."""
    assert "GPU counters     for every user (RmProfilingAdminOnly is 0)\n" in machine.says()
    machine.allow("1", ADMINISTRATOR)
    assert "GPU counters     as administrator (CAP_SYS_ADMIN)\n" in machine.says()
    machine.allow("1", USER)
    said = machine.says()
    assert "missing GPU counters     counters and stall reasons of a GPU; the driver lets" in said
    assert "get it: run as root; or for all users:\n" in said
    assert "NVreg_RestrictProfilingToAdminUsers=0" in said


def test_counters_in_a_container(machine: Machine) -> None:
    """Its root has not the capability by default; docker's option is named."""
    machine.allow("1", USER)
    machine.container = True
    assert "get it: start the container with --cap-add=SYS_ADMIN;" in machine.says()


def test_counters_without_a_driver(machine: Machine) -> None:
    """There is nothing to permit."""
    machine.parameters.unlink()
    said = machine.says()
    assert "stall reasons of a GPU; no NVIDIA driver is loaded\n" in said
    assert "get it: install the NVIDIA driver" in said


def test_a_driver_that_does_not_say(machine: Machine) -> None:
    """It is taken to restrict counters, as drivers do by default."""
    machine.parameters.write_text("Mobile: 1\n")
    assert "missing GPU counters" in machine.says()
    machine.status.unlink()
    assert "missing GPU counters" in machine.says()


def test_a_cupti_that_cannot_be_loaded(machine: Machine, folder: Path) -> None:
    """Its path and the reason are said."""
    broken = folder / "libcupti.so.13"
    broken.write_text("no library")
    machine.patch.undo()
    version, why = cupti_library.version(broken)
    assert (version, why[: len(str(broken))]) == ("", str(broken))
    machine.patch.setattr(doctor, "examine", lambda: iter([doctor_gpu._cupti()]))
    library = cupti_library.CuptiLibrary(broken, "PyTorch's")
    machine.patch.setattr(cupti_library, "find_cupti", lambda: library)
    said = machine.says()
    assert said.startswith(
        f"missing CUPTI  kernels, copies and idle time of a GPU; {broken} cannot"
    )
    assert "get it: pip install nvidia-cuda-cupti" in said


def test_ranges_that_go_to_another_tool(machine: Machine) -> None:
    """The variable is what to unset, not the recorder what to build."""
    why = "another tool receives them (NVTX_INJECTION64_PATH is /opt/libTool.so)"
    machine.patch.setattr(nvtx, "why_not", lambda: why)
    said = machine.says()
    assert f"missing NVTX ranges      ranges that libraries name; {why}\n" in said
    assert "get it: unset NVTX_INJECTION64_PATH, or run without that tool\n" in said


def test_the_version_of_an_installed_cupti() -> None:
    """The library itself is asked."""
    library = cupti_library.find_cupti()
    if library is None:
        pytest.skip("needs CUPTI")
    version, why = cupti_library.version(library.path)
    assert why == ""
    assert version.replace(".", "").isdigit() or version.startswith("interface ")
