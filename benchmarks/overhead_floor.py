"""The least that a profiler pays which sees both kernels and operations: neither does anything.

Records of kernels are dropped, and an observer of operations (overhead_floor.cpp) returns at once.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from overhead_peers import CuptiRecords

_SOURCE = Path(__file__).parent / "overhead_floor.cpp"


class Floor(CuptiRecords):
    """Kernel records and an observer, of operations outside and nodes inside backward passes."""

    _observer: Any = None
    _handle = 0

    def start(self) -> None:
        """Once: both stay until the end."""
        if not self.cpu:
            super().start()
        if self._observer is None:
            self._observer = _built()
            self._observer.floor_observe_nodes()
            self._handle = self._observer.floor_observe_operations()
            self._surround_engine()

    def finish(self) -> None:
        """The records that are left."""
        if not self.cpu:
            super().finish()

    def _surround_engine(self) -> None:
        """The engine's threads observe what the caller's does, so it stops for that long."""
        engine = torch.autograd.graph._engine_run_backward

        def run(*arguments: Any, **named: Any) -> Any:
            self._observer.floor_ignore_operations(self._handle)
            try:
                return engine(*arguments, **named)
            finally:
                self._handle = self._observer.floor_observe_operations()

        for module in (torch.autograd, torch.autograd.graph):
            vars(module)["_engine_run_backward"] = run


def _built() -> Any:
    """The observer's library, compiled once on a machine."""
    # Here: the plain program is to run without any of it.
    from tileprof.native.building import build_library, find_compiler, one_at_a_time
    from tileprof.profiler.frameworks.observer_library import extension

    compiler = find_compiler()
    assert compiler is not None, "there is no C++ compiler"
    order = extension(torch, compiler, _SOURCE, "the empty observer")
    with one_at_a_time(order):
        found = ctypes.CDLL(str(build_library(order)))
    found.floor_observe_operations.restype = ctypes.c_uint64
    found.floor_ignore_operations.argtypes = (ctypes.c_uint64,)
    return found
