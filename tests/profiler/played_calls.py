"""The played library's calls as programs of tests make them: none of its Python shows in paths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.native.cupti_programs import Fake
from tests.profiler_programs import as_ours
from tileprof.profiler.tree import paths

recorder = pytest.importorskip("tileprof.native._recorder")


@contextmanager
def played_calls(
    library: Path, monkeypatch: pytest.MonkeyPatch, *names: str
) -> Iterator[dict[str, Any]]:
    """Methods of `Fake` by their names; afterwards nobody records any more."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    recorder.gpu_after_fork()
    fake = Fake(library, recorder)
    for method in (
        Fake.kernel, Fake.call, Fake.copy, Fake.node, Fake.wait, Fake.memory, Fake.capture,
    ):  # fmt: skip
        paths.hide(method.__code__)
    yield {name: _hidden(getattr(fake, name)) for name in names}
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.gpu_drain()


def _hidden(method: Any) -> Any:
    @as_ours
    def call(*arguments: Any, **named: Any) -> Any:
        return method(*arguments, **named)

    return call
