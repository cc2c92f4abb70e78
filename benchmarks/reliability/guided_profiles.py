"""Coverage-guided damage to profile files, by Atheris; it is optional (`pip install atheris`).

In: a folder with inputs to begin from.  Out: inputs that reached new code are added to `--corpus`.
An input that fails is written to the current folder by Atheris, which then ends.

The input is not a database but a list of changes to one (`changed`), since few changes of bytes
leave a database that opens: table, column, row and value are drawn from the input's bytes.

    python -m benchmarks.reliability.guided_profiles --seconds 300 --corpus /tmp/corpus
    python -m benchmarks.reliability.guided_profiles --minimise /tmp/corpus \\
        --into tests/data/fuzz/profiles
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import inspect
import os
import random
import sqlite3
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType

from benchmarks.reliability.coverage import PROFILES, Lines, reached, read_profile
from benchmarks.reliability.exercise import failure
from benchmarks.reliability.mutate import bomb, mutated
from benchmarks.reliability.profiles import sound_profiles
from tileprof.profile import Profile, load

__all__ = ["changed", "main", "tried"]


def changed(data: bytes) -> bytes:
    """Return the file that an input stands for: a sound profile, damaged as its bytes say.

    The first byte chooses the profile; then each group of 8 bytes is the seed of one damage.  An
    input that begins with SQLite's own header is a file as it is.
    """
    if data.startswith(b"SQLite format 3\0"):
        return data
    if not data:
        return b""
    _, content = sound_profiles()[data[0] % len(sound_profiles())]
    for start in range(1, min(len(data), 33), 8):
        chance = random.Random(data[start : start + 8])
        with contextlib.suppress(sqlite3.Error):
            content = mutated(content, chance)
    return content


def tried(data: bytes, path: str) -> str | None:
    """Return how the file of an input fails; an empty text or None where it does not."""
    Path(path).write_bytes(changed(data))
    return failure(path, _other())


@cache
def _other() -> Profile:
    with tempfile.NamedTemporaryFile(suffix=".tprof") as file:
        file.write(sound_profiles()[0][1])
        file.flush()
        return load(file.name)


def _ran(content: bytes) -> Lines:
    """Return the lines of the readers that a file reaches, by module."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/p.tprof"
        Path(path).write_bytes(content)
        with reached(PROFILES.modules) as ran, contextlib.suppress(Exception):
            read_profile(path)
    return ran


def _made() -> Iterable[bytes]:
    """Files that chance seldom makes: damage of headers, and each damage that a test states."""
    from tests.profile.test_profile_hostile import DAMAGE, edited

    _, sound = sound_profiles()[0]
    yield from (b"", b"#!/bin/sh\n", sound[:50], sound[:-1])
    for place, content in ((60, 9), (60, 0), (68, 1)):
        yield sound[:place] + content.to_bytes(4, "big") + sound[place + 4 :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.tprof"
        for statement in (*DAMAGE, "UPDATE symbols SET name = char(27) || name"):
            if ":bomb" not in statement:
                path.write_bytes(sound)
                yield edited(path, statement).read_bytes()


def _minimised(inputs: Sequence[bytes], room: int = 200_000) -> list[bytes]:
    """Files that together reach all that any of them reaches, in `room` bytes once compressed."""
    kept: list[bytes] = []
    before: dict[str, set[int]] = {name: set() for name in PROFILES.modules}
    for data in sorted(inputs, key=len):
        found = _ran(data)
        new = any(found[name] - before[name] for name in before)
        size = len(zlib.compress(data, 9))
        if new and size <= room:
            room -= size
            kept.append(data)
            for name, lines in before.items():
                lines |= found[name]
    return kept


def _fuzz(corpus: str, seconds: int) -> None:
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore] # optional, and untyped

    # The readers are imported already, since they make the sound profiles.
    for function in _functions():
        atheris.instrument_func(function)
    warnings.simplefilter("ignore")
    bomb(), _other()
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)

    def one(data: bytes) -> None:
        if found := tried(data, f"{folder}/p.tprof"):
            raise AssertionError(found)

    arguments = [sys.argv[0], corpus, f"-max_total_time={seconds}", "-max_len=33", "-timeout=20"]
    atheris.Setup([*arguments, "-rss_limit_mb=2500"], one)
    atheris.Fuzz()


def _functions() -> Iterable[FunctionType]:
    """All functions of the readers, methods too."""
    for name in PROFILES.modules:
        module = importlib.import_module("tileprof." + name.replace("/", "."))
        for held in vars(module).values():
            members = vars(held).values() if isinstance(held, type) else [held]
            for each in members:
                function = inspect.unwrap(getattr(each, "fget", each) or each)
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    yield function


def _inputs(folder: str) -> list[bytes]:
    held = {path: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
    return [zlib.decompress(data) if path.suffix == ".z" else data for path, data in held.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz, or minimise a corpus."""
    parser = argparse.ArgumentParser(description="Coverage-guided damage to profiles.")
    parser.add_argument("--seconds", type=int, default=60, help="how long to fuzz")
    parser.add_argument("--corpus", help="folder of inputs to begin from and to add to")
    parser.add_argument("--minimise", metavar="FOLDER", help="choose the inputs that are needed")
    parser.add_argument("--into", metavar="FOLDER", help="where chosen inputs go")
    parser.add_argument("--seeds", type=int, default=0, help="also draw so many inputs")
    args = parser.parse_args(argv)
    if args.minimise:
        chance = random.Random(0)
        drawn = [chance.randbytes(chance.choice((1, 9, 17))) for _ in range(args.seeds)]
        files = {changed(data) for data in (*_inputs(args.minimise), *drawn)} | set(_made())
        for content in _minimised(sorted(files)):
            packed = zlib.compress(content, 9)
            Path(args.into, f"{hashlib.sha256(content).hexdigest()[:16]}.z").write_bytes(packed)
    else:
        _fuzz(args.corpus, args.seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
