"""Fixtures: the played CUPTI, and what records PyTorch's operations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.profiler.frameworks.torch_observed import Seen


@pytest.fixture(scope="module")
def library() -> Path:
    """The played CUPTI."""
    from tests.native.cupti_programs import build_fake

    return build_fake()


@pytest.fixture
def names(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Calls of the played driver by their names, for programs of tests; no Python of them shows."""
    from tests.profiler.played_calls import played_calls

    calls = ("kernel", "copy", "call", "node", "wait", "memory", "deliver", "option",
             "capture")  # fmt: skip
    with played_calls(library, monkeypatch, *calls) as held:
        yield held


@pytest.fixture
def observed() -> Iterator[None]:
    """PyTorch's observer is attached, for all operations; compiled by the first that wants it."""
    from tests.profiler.frameworks.torch_observed import attached

    with attached(backward_ops=True):
        yield


@pytest.fixture
def seen(observed: None) -> Iterator[Seen]:
    """Recording is on: what was recorded since the test began."""
    from tests.profiler.frameworks.torch_observed import Seen, recorded

    with recorded():
        yield Seen()
