"""Kernels from their text, as tests of compilers and devices take them."""

from __future__ import annotations

from tileprof import ir


def parse(text: str) -> ir.Kernel:
    """Read a kernel that the verifier has nothing against."""
    kernel = ir.parse(text)
    ir.verify(kernel)
    return kernel
