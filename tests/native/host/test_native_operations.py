"""Operations within others, and what Python does in them."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterator
from typing import Any

import pytest

_recorder: Any = pytest.importorskip("tileprof.native._recorder")

FRAME = 1
_PLACE = C.c_void_p


@pytest.fixture
def recording() -> Iterator[Any]:
    """The recorder, which records frames of Python too."""
    _recorder.set_epoch(7)
    yield _recorder
    _recorder.set_epoch(0)


def _inner(recorder: Any) -> int:
    context: int = recorder.enter_op("inner", -1, 0)
    recorder.leave(context)
    return context


def _parent(recorder: Any, context: int) -> int:
    parent: int = recorder.contexts(context, 1)[0][0]
    return parent


def test_python_that_an_operation_calls_is_on_the_path_of_what_that_begins(recording: Any) -> None:
    """Before and after it, an operation is right in the one around."""
    outer = recording.enter_op("outer", -1, 0)
    contexts = []
    for _ in range(2):
        contexts.append(recording.enter_op("inner", -1, 0))
        recording.leave(contexts[-1])
        contexts.append(_inner(recording))
    recording.leave(outer)
    before, called, after, called_again = contexts
    assert (before, called) == (after, called_again)
    assert _parent(recording, before) == outer
    frame = _parent(recording, called)
    parent, kind, code, _ = recording.contexts(frame, 1)[0]
    assert (parent, kind, code) == (outer, FRAME, _inner.__code__)


def _launch(recorder: Any) -> int:
    return _inner(recorder)


def test_same_function_called_from_two_lines_has_two_paths(recording: Any) -> None:
    """The innermost frame stands at the same place each time; only its caller's line differs."""
    seen = []
    for _ in range(3):
        first = _launch(recording)
        second = _launch(recording)
        seen.append((first, second))
    assert len(set(seen)) == 1
    assert seen[0][0] != seen[0][1]


class _Table(C.Structure):
    """The beginning of the table that an observer calls (observer_api.h)."""

    _fields_ = (
        ("version", C.c_uint32),
        ("name", C.CFUNCTYPE(C.c_uint32, C.c_char_p)),
        ("thread", C.CFUNCTYPE(_PLACE)),
        ("forks", C.POINTER(C.c_uint32)),
        ("enter", C.CFUNCTYPE(C.c_uint32, _PLACE, C.c_uint32, C.c_int64, C.c_uint64, _PLACE)),
        ("enter_backward", _PLACE),
        ("find_backward", _PLACE),
        ("leave", C.CFUNCTYPE(C.c_uint32, _PLACE, _PLACE)),
    )  # fmt: skip


def test_an_operation_ends_by_the_object_that_stands_for_it(recording: Any) -> None:
    """An object that nothing open has ends nothing; an operation ends with what is open in it."""
    table = _Table.from_address(recording.observer_table())
    assert table.version == 8
    thread = table.thread()

    def enter(name: bytes, function: int) -> int:
        context: int = table.enter(thread, table.name(name), -1, 0, function)
        return context

    outer = enter(b"outer", 16)
    inner = enter(b"inner", 32)
    assert table.leave(thread, 48) == inner
    assert table.leave(thread, 32) == outer
    assert table.leave(thread, 32) == outer
    assert enter(b"inner", 32) == inner
    assert table.leave(thread, 16) == 0
    assert table.leave(thread, 32) == 0


def test_a_range_that_ends_within_an_operation_leaves_the_operation_innermost(
    recording: Any,
) -> None:
    """So does one that outlasts an operation: what is innermost is always an open operation."""
    table = _Table.from_address(recording.observer_table())
    thread = table.thread()
    names = [table.name(each) for each in (b"outer", b"inner")]
    outer = table.enter(thread, names[0], -1, 0, 16)
    recording.push_range("range", "mine")
    inner = table.enter(thread, names[1], -1, 0, 32)
    recording.pop_range("mine")
    assert table.leave(thread, 48) == inner
    assert table.leave(thread, 32) == outer
    recording.push_range("range", "mine")
    assert table.leave(thread, 16) == 0
    recording.pop_range("mine")
    assert table.leave(thread, 48) == 0
