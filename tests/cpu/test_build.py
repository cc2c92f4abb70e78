"""Finding a compiler, compiling once, and saying what went wrong."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cpu.support import kernel, load
from tileprof.compiler.build import Compiler, build, cache_folder, find_compiler
from tileprof.compiler.codegen import emit
from tileprof.errors import BuildError, MissingDependencyError, OutputError
from tileprof.ir import parse
from tileprof.runtime.cpu.executable import CpuExecutable

TINY = 'extern "C" int answer() { return 42; }\n'
COPY = kernel(
    "copy_four",
    ["%x: global<4, float32>", "%y: global<4, float32>"],
    "    copy %x, %y",
)


@pytest.fixture
def compiler() -> Compiler:
    """The compiler of the machine."""
    found = find_compiler()
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_second_build_comes_from_the_cache(compiler: Compiler, folder: Path) -> None:
    """One entry for one text; the source lies beside the library; another text, another entry."""
    first = build(TINY, (), compiler, name="tiny")
    made = first.stat().st_mtime_ns
    assert build(TINY, (), compiler, name="tiny") == first
    assert first.stat().st_mtime_ns == made
    assert first.with_suffix(".cpp").read_text() == TINY
    assert build(TINY + "//", (), compiler, name="tiny") != first
    assert {p.suffix for p in folder.iterdir()} == {".so", ".cpp"}


def test_flags_and_compiler_are_part_of_the_key(compiler: Compiler, folder: Path) -> None:
    """What decides the bytes of a library decides its name."""
    other = Compiler(compiler.path, compiler.version + "!", compiler.flags)
    flags = Compiler(compiler.path, compiler.version, (*compiler.flags, "-O1"))
    paths = {build(TINY, (), c, name="tiny") for c in (compiler, other, flags)}
    assert len(paths) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "changed"])
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: str) -> None:
    """A library that is cut short or altered is never loaded: it is made anew."""
    executable = load(COPY)
    path = executable.library
    held = path.read_bytes()
    damaged = {"cut": held[: len(held) // 2], "empty": b"", "changed": held[:-1] + b"?"}[damage]
    path.unlink()
    path.write_bytes(damaged)
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    load(COPY).run([x, y], [])
    assert y.tolist() == [0, 1, 2, 3]
    assert len(path.read_bytes()) > len(held) // 2


PROCESS = f"""
import numpy as np
from tests.cpu.support import load
x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
load({COPY!r}).run([x, y], [])
assert y.tolist() == [0, 1, 2, 3]
"""


@pytest.mark.sweep
def test_processes_may_build_the_same_kernel_at_once(folder: Path) -> None:
    """Three processes start with an empty cache: all succeed, one entry is left and no rubbish."""
    root = Path(__file__).parents[2]
    held = [
        subprocess.Popen([sys.executable, "-c", PROCESS], cwd=root, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in held:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr.decode()
    names = sorted(p.name.split("-")[0] + p.suffix for p in folder.iterdir())
    assert names == ["copy_four.cpp", "copy_four.so", "pool.cpp", "pool.so"]


def test_an_error_of_the_compiler_points_at_the_python_line(
    compiler: Compiler, folder: Path
) -> None:
    """The first message, at the line that `#line` names, and where everything else can be read."""
    text = '#line 7 "kernel.py"\nint broken = missing;\n'
    with pytest.raises(BuildError) as caught:
        build(text, (), compiler, name="broken")
    shown = str(caught.value)
    assert shown.startswith("kernel.py:7: the C++ compiler refused the kernel: ")
    assert "missing" in shown
    (log,) = folder.glob("*.log")
    assert str(log) in shown
    assert compiler.path in log.read_text()
    assert "int broken" in log.read_text()


def test_a_folder_that_cannot_be_written_is_one_sentence(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way out is in the message."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="Set TILEPROF_CACHE to a folder"):
        build(TINY, (), compiler, name="tiny")


def test_the_compiler_is_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: Compiler
) -> None:
    """`CXX` wins over the path; a name that is no program is no compiler."""
    script = tmp_path / "my-compiler"
    script.write_text(f'#!/bin/sh\nexec {compiler.path} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(script))
    found = find_compiler()
    assert found is not None
    assert found.path == str(script)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert find_compiler() is None


def test_without_a_compiler_there_is_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty path: `find_compiler` gives None, and building an executable says what to do."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None
    parsed = parse(COPY)
    with pytest.raises(MissingDependencyError, match="TILEPROF_DEVICE=interpreter"):
        CpuExecutable(parsed, emit(parsed))


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`TILEPROF_CACHE`, else the user's cache folder."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("TILEPROF_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
        assert cache_folder() == tmp_path / "x" / "tileprof"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path(os.path.expanduser("~/.cache/tileprof"))
