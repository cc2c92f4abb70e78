"""`doctor`: what is there, what is missing, and the command that would get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileprof.cli import doctor, doctor_gpu
from tileprof.cli.doctor_gpu import Finding
from tileprof.compiler import build
from tileprof.runtime.cuda import native_launcher as cuda_native

FOUND = (
    Finding("Python", "3.13.1 (/usr/bin/python3)", ""),
    Finding("numpy", "2.4.0", "needed", 'pip install "numpy"'),
    Finding("C++ compiler", "g++ 14.2.0 (/usr/bin/g++)", "kernels at the speed of C++", "apt"),
    Finding("cache folder", "/home/me/.cache/tileprof", "compiled kernels", "set TILEPROF_CACHE"),
    Finding("CUDA driver", "CUDA 13.0", "kernels on a GPU", "install it"),
    Finding("GPU", "cuda:0 NVIDIA H200 (sm_90a)", "kernels on a GPU", "see `nvidia-smi`"),
    Finding("NVRTC", "13.0", "kernels compiled for a GPU", 'pip install "tileprof[cuda]"'),
)


def test_what_it_says(
    cli: Any, monkeypatch: pytest.MonkeyPatch, golden: Callable[..., None]
) -> None:
    """Missing things stand with what they are for and how to get them; the code is 0."""
    missing = Finding("torch", "", "PyTorch tensors as arguments", 'pip install "tileprof[torch]"')
    monkeypatch.setattr(doctor, "examine", lambda: iter([*FOUND, missing]))
    found = cli("doctor")
    assert (found.code, found.err) == (0, "")
    golden(found.out)


@pytest.mark.parametrize(
    ("lacking", "verdict"),
    [
        ("", "Everything is installed."),
        ("GPU", "Kernels run on the CPU; profiles can be made, opened and compared."),
        ("NVRTC", "Kernels run on the CPU; profiles can be made, opened and compared."),
        ("C++ compiler", "Kernels run in the interpreter; profiles can be made, opened and "),
        ("cache folder", "Kernels run in the interpreter; profiles can be made, opened and "),
    ],
)
def test_the_verdict(cli: Any, monkeypatch: pytest.MonkeyPatch, lacking: str, verdict: str) -> None:
    """The last line says what works now."""
    findings = [
        Finding(f.name, "" if f.name == lacking else f.found, f.purpose, f.remedy) for f in FOUND
    ]
    monkeypatch.setattr(doctor, "examine", lambda: iter(findings))
    assert cli("doctor").out.splitlines()[-1].startswith(verdict)


def test_each_missing_thing_has_a_remedy(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing at all is found, every line says how to get it."""

    def none(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    monkeypatch.setattr(doctor_gpu, "_driver", lambda: ("", ""))
    monkeypatch.setattr(doctor_gpu, "_nvrtc", str)
    monkeypatch.setattr(doctor_gpu, "_nvdisasm", str)
    monkeypatch.setattr(doctor_gpu, "recording", lambda: iter(()))
    monkeypatch.setattr(cuda_native, "find_compiler", lambda: None)
    monkeypatch.setattr(cuda_native, "installed", lambda: None)
    lines = cli("doctor").out.splitlines()
    missing = [at for at, line in enumerate(lines) if line.startswith("missing")]
    # Without PyTorch one more: the observer of its operations.
    assert len(missing) == (15 if importlib.util.find_spec("torch") else 16)
    assert all(" get it: " in lines[at + 1] for at in missing)
    assert 'get it: pip install "tileprof[cuda]"' in "\n".join(lines)


def test_what_is_there_has_one_line_each(cli: Any) -> None:
    """On a real machine too: versions of many lines are cut to the first."""
    found = cli("doctor")
    assert (found.code, found.err) == (0, "")
    *lines, _ = found.out.splitlines()
    assert all(line.startswith(("ok      ", "missing ", " " * 10)) for line in lines)
    assert any(line.startswith("ok      numpy ") for line in lines)


def test_a_cache_that_cannot_be_written(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is named, and the variable that chooses another one."""
    monkeypatch.setenv("TILEPROF_CACHE", str(folder / "locked" / "cache"))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    out = cli("doctor").out
    assert f"compiled kernels; {folder}/locked/cache is not writable\n" in out
    assert "get it: set TILEPROF_CACHE\n" in out
