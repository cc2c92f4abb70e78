"""The least that a profiler pays which sees both kernels and operations: neither does anything.

Records of kernels are dropped, and an observer of operations (overhead_floor.cpp) returns at once.
"""

from __future__ import annotations

import ctypes
import subprocess
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
            self._observer = _built(Path(self.output).parent)
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


def _built(folder: Path) -> Any:
    """The observer's library, compiled once in a folder."""
    library, place = folder / "overhead_floor.so", Path(torch.__file__).parent
    if not library.exists():
        includes = (place / "include", place / "include" / "torch" / "csrc" / "api" / "include")
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        command = ["g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-w", abi]
        command += [f"-isystem{each}" for each in includes]
        command += [str(_SOURCE), f"-L{place / 'lib'}", "-ltorch_cpu", "-lc10"]
        fresh = library.with_suffix(".new")
        subprocess.run([*command, "-o", str(fresh)], check=True)
        fresh.rename(library)
    found = ctypes.CDLL(str(library))
    found.floor_observe_operations.restype = ctypes.c_uint64
    found.floor_ignore_operations.argtypes = (ctypes.c_uint64,)
    return found
