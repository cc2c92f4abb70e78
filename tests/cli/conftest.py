"""The command line, run inside of the test's process, in a folder of the test's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.viewer.samples import matmul
from tileprof.cli import main
from tileprof.profile import save


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """The environment is put back, after whatever a test's monkeypatch puts back."""
    kept = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what running a program changes in this process is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("RANK", "LOCAL_RANK", "NO_COLOR", "TILEPROF_DEBUG", "TILEPROF_CHECK"):
        os.environ.pop(name, None)
    os.environ.update(TILEPROF_DEVICE="interpreter", COLUMNS="100")
    modules = set(sys.modules)
    yield tmp_path
    # Programs of other tests, run in this process, may have modules of the same name.
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`cli("view", "x.tprof")` runs a command in the folder."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        sys.argv[:] = ["tileprof", *arguments]
        code = main(arguments)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def write(folder: Path) -> Callable[..., None]:
    """`write(prog="…")` writes `prog.py`, dedented, into the folder."""

    def files(**texts: str) -> None:
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(dedent(text).lstrip("\n"))

    return files


@pytest.fixture
def sample(folder: Path) -> str:
    """The name of a profile in the folder: two kernels, one of them with scopes inside."""
    save(matmul(), folder / "sample.tprof")
    return "sample.tprof"
