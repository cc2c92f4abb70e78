"""Libraries that are built when they are first wanted, by many processes at once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tileprof.errors import BuildError
from tileprof.native.building import (
    Compiler,
    Order,
    build_library,
    find_compiler,
    is_cached,
    one_at_a_time,
)

TINY = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """One that writes a line each time it is called and takes its time; an empty cache."""
    found = find_compiler()
    if found is None:
        pytest.skip("needs a C++ compiler")
    script = tmp_path / "compiler"
    lines = ("#!/bin/sh", f"echo called >> {tmp_path}/calls", "sleep 0.2", f'{found.path} "$@"')
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    return Compiler(str(script), found.version, ("-shared", "-fPIC"))


def calls(folder: Path) -> int:
    """How often the compiler was called."""
    log = folder / "calls"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_of_many_one_compiles_and_the_others_wait(compiler: Compiler, tmp_path: Path) -> None:
    """The lock is a file's, so it holds between processes as between these threads."""
    order, paths = Order("tiny", TINY, compiler), []

    def want() -> None:
        with one_at_a_time(order):
            paths.append(build_library(order))

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4
    assert len(set(paths)) == 1
    assert is_cached(order)
    assert calls(tmp_path) == 1


def test_without_a_place_for_locks_each_compiles(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache's folder is a file: the right is given, and building says what is wrong."""
    (tmp_path / "cache").write_text("")
    with one_at_a_time(Order("tiny", TINY, compiler)):
        pass


def test_what_decides_the_result_is_the_key(compiler: Compiler) -> None:
    """Text, flags, libraries, further parts; not where headers are."""
    order = Order("tiny", TINY, compiler)
    build_library(order)
    assert is_cached(replace(order, options=("-I/nowhere",), noun="something"))
    assert not is_cached(replace(order, text=TINY + "//"))
    assert not is_cached(replace(order, parts=("2.13.0",)))
    assert not is_cached(replace(order, libraries=("-lm",)))
    assert not is_cached(replace(order, compiler=replace(compiler, flags=("-shared",))))


def test_flags_of_the_environment_are_used_and_a_part_of_the_key(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that was built without them is not taken for one with them."""
    order = Order("tiny", "#ifdef TOLD\n" + TINY + "#else\n#error\n#endif\n", compiler)
    monkeypatch.setenv("TILEPROF_CXXFLAGS", "-DTOLD '-DTWO=a b'")
    build_library(order)
    assert is_cached(order)
    monkeypatch.delenv("TILEPROF_CXXFLAGS")
    assert not is_cached(order)


def test_a_refused_text_is_named(compiler: Compiler) -> None:
    """By the noun of its order, at the first message."""
    with pytest.raises(BuildError, match="the C\\+\\+ compiler refused the observer: ") as caught:
        build_library(Order("broken", "int x = y;\n", compiler, noun="the observer"))
    assert caught.value.location is not None
    assert caught.value.location.line == 1
