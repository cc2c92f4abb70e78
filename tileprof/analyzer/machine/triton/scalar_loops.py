"""Loops of a Triton kernel that load and compute single numbers only.

In: a module's TTGIR.  Out: such loops, as the lines of what is in them.

    %part = scf.for %each = %c1 to %c65 step %c1 iter_args(%n = %c0) -> (i32) : i32 {
      %p = tt.addptr %starts, %each : !tt.ptr<i32>, i32
      %start = tt.load %p : !tt.ptr<i32>                 a number, which all threads load
      …                                                  no operation here has a tensor

All threads of a program do the same in such a loop. One that has an atomic, or that goes on until
memory changes, is about other programs, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.machine.triton_ops import operations

__all__ = ["scalar_loops"]


def scalar_loops(text: str) -> Iterator[frozenset[int]]:
    """Yield the lines of each loop of a module that loads numbers and has no tensor, without that
    of its head."""
    if "scf.for" not in text:
        return
    for loop in operations(text).walk():
        inside = list(loop.walk()) if loop.name == "scf.for" else []
        loads = [each for each in inside if each.name == "tt.load"]
        apart = any(
            "tensor<" in each.text or each.name.startswith(("tt.atomic", "tt.call"))
            for each in (loop, *inside)
        )  # fmt: skip
        lines = frozenset(each.line for each in inside) - {loop.line, 0}
        if loads and lines and not apart:
            yield lines
