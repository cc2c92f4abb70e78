"""Kernels whose pipelined loop stands in pieces: rotated by hand, or with masked turns apart."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from tileprof import ir
from tileprof.analyzer.tiles.ops import TileKernel
from tileprof.analyzer.tiles.text import read
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target

__all__ = ["kernel_of", "read_kernel"]

_LONG = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16, "dim": 128}


@cache
def kernel_of(name: str, passes: bool, **more: Any) -> ir.Kernel:
    """A case study as a profile has it, or after all passes for an H200: with rings and roles."""
    made = importlib.import_module(f"case_studies.{name}")
    kernel = getattr(made, name).compile(**{**_LONG, **more}).program.kernel
    return compile_cuda(kernel, find_target("sm_90a")).kernel if passes else kernel


def read_kernel(name: str, passes: bool = False, **more: Any) -> TileKernel:
    """The same, read from its text."""
    return read(ir.print_kernel(kernel_of(name, passes, **more)))
