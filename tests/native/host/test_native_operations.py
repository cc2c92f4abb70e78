"""Operations within others, and what Python does in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_recorder: Any = pytest.importorskip("tileprof.native._recorder")

FRAME = 1


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
