"""Recordings that exercises use: profiles that were measured on an H200, compressed."""

from __future__ import annotations

import gzip
import tempfile
from importlib import resources
from pathlib import Path

from tileprof.analyzer import Report, analyze
from tileprof.once import once
from tileprof.profile import Profile, load


def stored(name: str) -> bytes:
    """Return the content of a file of `tileprof/learn/data`, uncompressed."""
    content = (resources.files("tileprof.learn") / "data" / name).read_bytes()
    return gzip.decompress(content) if name.endswith(".gz") else content


@once
def profile(name: str) -> Profile:
    """Return a stored profile; a learner's copy of it may have been changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stored.tprof")
        path.write_bytes(stored(name))
        return load(path)


@once
def report(name: str) -> Report:
    """Return what is found in a stored profile."""
    return analyze(profile(name))
