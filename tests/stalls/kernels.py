"""Kernels with one known stall each: their text, their cubin, the lines that say what to find.

In: `kernels.cu`.  Out: a cubin for a target, and of each kernel the threads of a block, the line
where it stalls and the line of what it waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tileprof.compiler.cuda import nvrtc
from tileprof.errors import MissingDependencyError

SOURCE = Path(__file__).parent / "kernels.cu"
OPTIONS = ("-arch=sm_90a", "-lineinfo", "-std=c++17", "--ptxas-options=-v")


@dataclass(frozen=True)
class Stalled:
    """A kernel, and where in `kernels.cu` it stalls."""

    name: str
    threads: int
    hot: frozenset[int]
    """Lines where warps wait."""
    cause: frozenset[int]
    """Lines of what they wait for."""


@cache
def cubin(file: str = str(SOURCE)) -> bytes:
    """All kernels for an H100 or H200, with lines of `file`; skips where there is no NVRTC."""
    try:
        made = nvrtc.compile_text(SOURCE.read_text(), [], OPTIONS, name=file)
    except MissingDependencyError as error:
        pytest.skip(f"no NVRTC of 'cuda': {error.message}")
    assert made.ok, made.log
    return made.cubin


@cache
def stalled() -> dict[str, Stalled]:
    """The kernels by name. A function that is inlined into some has its lines in all of those."""
    text = SOURCE.read_text().splitlines()
    held = {}
    for start, line in enumerate(text):
        found = re.search(r"__global__ void __launch_bounds__\((\d+).*?\) (\w+)\(", line)
        if found:
            body = _body(text, start)
            places = [*body, *_inlined(text, body)]
            hot, cause = (_saying(text, places, word) for word in ("hot", "cause"))
            held[found[2]] = Stalled(found[2], int(found[1]), hot, cause)
    return held


def _body(text: list[str], start: int) -> range:
    """The lines of a function that begins there, counted from 0."""
    return range(start, next(at for at in range(start, len(text)) if text[at] == "}"))


def _inlined(text: list[str], body: range) -> list[int]:
    """The lines of the one function that has such a line and is called from several kernels."""
    if not any("passed(" in text[at] for at in body):
        return []
    start = next(
        at for at, line in enumerate(text) if line.endswith(" passed(u32 barrier, u32 parity) {")
    )
    return list(_body(text, start))


def _saying(text: list[str], places: list[int], word: str) -> frozenset[int]:
    """Numbers, from 1, of the lines whose comment has the word."""
    return frozenset(at + 1 for at in places if word in text[at].partition("// ")[2].split())
