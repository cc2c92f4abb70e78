"""Mistakes in a kernel that runs as plain Python: the interpreter's message, at the user's line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tileprof
from tests.lang import debug_mistakes
from tileprof.errors import ArgumentError, BoundsError, TileprofError

HERE = str(Path(debug_mistakes.__file__))
RUN_TIME = (
    "outside_shared",
    "negative_index",
    "never_written",
    "variable_never_set",
    "variable_after_parallel",
    "output_never_written",
    "assertion",
    "in_macro",
    "tile_outside",
    "zero_divisor",
    "two_blocks_write",
    "endless",
)
TRACE_TIME = ("shapes", "integer_division", "unknown_operation")
STRICT = ("tile_misses", "elements_miss")


def fails(name: str, monkeypatch: pytest.MonkeyPatch, *, debug: bool) -> str:
    """The whole message of what goes wrong."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1" if debug else "0")
    monkeypatch.setenv("TILEPROF_WHILE_LIMIT", "10")
    kernel = getattr(debug_mistakes, name)
    data = np.arange(6 if name == "elements_miss" else 8, dtype=np.float32)
    with tileprof.device("interpreter"), pytest.raises(TileprofError) as caught:
        kernel(data)
    return f"{type(caught.value).__name__}: {caught.value}".replace(HERE, "kernels.py")


@pytest.mark.parametrize("name", RUN_TIME + TRACE_TIME)
def test_message(name: str, golden: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What, where, which block and point, the line with a caret, and the way out."""
    golden(fails(name, monkeypatch, debug=True) + "\n")


@pytest.mark.parametrize("name", RUN_TIME + TRACE_TIME)
def test_message_is_the_interpreters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other executions say the same."""
    plain = fails(name, monkeypatch, debug=True)
    assert plain == fails(name, monkeypatch, debug=False)


@pytest.mark.parametrize("name", STRICT)
def test_strict_bounds(
    name: str, golden: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under TILEPROF_CHECK=1 an access with no element inside is an error, and only then."""
    monkeypatch.setenv("TILEPROF_CHECK", "1")
    golden(fails(name, monkeypatch, debug=True) + "\n")
    monkeypatch.setenv("TILEPROF_CHECK", "0")
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    getattr(debug_mistakes, name)(np.zeros(6 if name == "elements_miss" else 8, np.float32))


def frames(error: BaseException) -> list[tuple[str, str]]:
    """The functions of a traceback, each with its line of text."""
    return [(f.name, f.line or "") for f in traceback.extract_tb(error.__traceback__)]


def test_traceback_of_an_error_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the call to the wrong line there is no frame of tileprof; the macro is there."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    with pytest.raises(BoundsError) as caught:
        debug_mistakes.in_macro(np.zeros(8, np.float32))
    assert frames(caught.value)[1:] == [
        ("in_macro", "A[i] = two_further(tile, i)"),
        ("two_further", "return tile[i + 2]"),
    ]


def test_users_exception_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the author's own code raises is raised, from its own frames."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    with pytest.raises(LookupError, match="block 0") as caught:
        debug_mistakes.raises(np.zeros(8, np.float32))
    assert frames(caught.value)[1:] == [
        ("raises", "helper(bx)"),
        ("helper", 'raise LookupError(f"block {at}")'),
    ]


def test_arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument of another type, shape or kind is refused as by a compiled kernel."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    read_only = np.zeros(8, np.float32)
    read_only.flags.writeable = False
    said = []
    for value in (np.zeros(8), np.zeros(7, np.float32), 3.0, read_only):
        with pytest.raises(ArgumentError) as caught:
            debug_mistakes.two_blocks_write(value)
        said.append(caught.value.message)
    assert said == [
        "argument `A` of `two_blocks_write` has elements of type float64, and float32 is expected",
        "argument `A` of `two_blocks_write` has 7 in dimension 0, and 8 is expected",
        "argument `A` is 3.0, and a tensor of rank 1 is expected",
        "`A` is written by the kernel, but the array is read-only",
    ]
