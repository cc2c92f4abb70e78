"""Fixtures of tests that record PyTorch's operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.profiler.torch_observed import Seen


@pytest.fixture
def observed() -> Iterator[None]:
    """PyTorch's observer is attached, for all operations; compiled by the first that wants it."""
    from tileprof.profiler import observer

    observer.attach(tell=lambda line: None, backward_ops=True)
    assert observer.why_not() == ""
    yield
    observer.detach()


@pytest.fixture
def seen(observed: None) -> Iterator[Seen]:
    """Recording is on: what was recorded since the test began."""
    from tests.profiler.torch_observed import Seen
    from tileprof.native import _recorder

    _recorder.set_frames(True)  # another test's recording may have been without
    _recorder.set_epoch(1)
    yield Seen()
    _recorder.set_epoch(0)
