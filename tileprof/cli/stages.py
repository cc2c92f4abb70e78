"""The time of each stage of a compilation, for `tileprof compile --timing`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

_Result = TypeVar("_Result")


@dataclass
class Stages:
    """Names and times in ns, in order."""

    held: list[tuple[str, int]] = field(default_factory=list)

    def add(self, name: str, ns: int) -> None:
        """Note a stage that was timed elsewhere."""
        self.held.append((name, ns))

    def timed(self, name: str, step: Callable[[], _Result]) -> _Result:
        """Do a step and note its time."""
        start = time.perf_counter_ns()
        result = step()
        self.add(name, time.perf_counter_ns() - start)
        return result

    def __str__(self) -> str:
        total = ("total", sum(ns for _, ns in self.held))
        return "".join(f"{name:<12}{ns / 1e6:10.2f} ms\n" for name, ns in [*self.held, total])


@contextmanager
def empty_cache() -> Iterator[None]:
    """Compile as on the first day: with a cache that is empty, and gone afterwards."""
    kept = os.environ.get("TILEPROF_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEPROF_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["TILEPROF_CACHE"]
            if kept is not None:
                os.environ["TILEPROF_CACHE"] = kept
