"""Work that authors of Triton kernels tell: a played Triton over a played CUPTI."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tileprof.profiler as profiler


class Chain:
    """Triton's chain of hooks."""

    def __init__(self) -> None:
        self.calls: list[Callable[[Any], None]] = []

    def add(self, hook: Callable[[Any], None]) -> None:
        self.calls.append(hook)

    def remove(self, hook: Callable[[Any], None]) -> None:
        self.calls.remove(hook)


class Lazy:
    """Triton's metadata of a launch: worked out when it is asked for, once."""

    def __init__(self, told: dict[str, Any] | None) -> None:
        self.data: dict[str, Any] = {"name": "k", "function": 1, "stream": 0}
        self.extras = [told] if told is not None else []

    def get(self) -> dict[str, Any]:
        for each in self.extras:
            self.data = self.data | each
        self.extras.clear()
        return self.data


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    """The chain of a Triton that is imported."""
    knobs = ModuleType("triton.knobs")
    hooks = Chain()
    knobs.runtime = SimpleNamespace(launch_enter_hook=hooks)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    yield hooks
    assert not hooks.calls


def test_work_belongs_to_the_launch_it_was_told_of(
    chain: Chain,
    names: dict[str, Any],
) -> None:
    """Flops of all widths add up; kernels whose authors tell nothing have none."""

    def launch(name: str, told: dict[str, Any] | None, got: bool = False) -> None:
        metadata = Lazy(told)
        if got:
            metadata.get()  # another tool was first
        for call in chain.calls:
            call(metadata)
        names["kernel"](name, 1000, 2000)

    with profiler.profile(context="scopes") as session:
        with profiler.scope("a"):
            launch("silent", None)
        with profiler.scope("b"):
            launch("told", {"flops16": 100, "flops8": 11, "bytes": 64, "note": "x"})
            launch("told", {"flops": 1000}, got=True)
        with profiler.scope("c"):
            launch("one", {"flops": 5})
            launch("other", {"flops": 6})
        names["deliver"]()
    profile = session.profile
    assert profile is not None

    def work(name: str) -> tuple[float, ...]:
        (at,) = profile.find(name)
        node = profile.node(at)
        return tuple(node.total(m) for m in ("flops", "bytes") if m in profile.metrics)

    assert [work(name) for name in "abc"] == [(0, 0), (1111, 64), (11, 0)]
    assert [work(name) for name in ("silent", "told")] == [(0, 0), (1111, 64)]
    # Which of two kernels a launch was, only the device knows: their work stays with the call.
    assert [work(name) for name in ("one", "other")] == [(0, 0), (0, 0)]
