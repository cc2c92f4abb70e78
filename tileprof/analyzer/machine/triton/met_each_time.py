"""Atomics of a Triton loop that take what all threads of a program reduced in that iteration.

In: a module's TTGIR.  Out: lines of such atomics with those of their reductions.

    scf.for … {
      %most = "tt.reduce"(%x) … -> f32
      %bits = tt.bitcast %most : f32 -> i32
      %_ = tt.atomic_rmw max, acq_rel, gpu, %all, %bits, %true …        %all is the same each time
    }

Maxima of maxima, and sums of sums, come to the same if each thread keeps its own over all
iterations, and threads meet once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.machine.triton_ops import Op, operations

__all__ = ["MetEachTime", "met_each_time"]

_KINDS = re.compile(r"tt\.atomic_rmw (?:u?max|u?min|f?add|and|or|xor)\b")
_PASSED_ON = ("tt.bitcast", "arith.bitcast", "arith.ext", "arith.trunc", "arith.sitofp",
              "arith.fptosi", "math.absf", "arith.select", "arith.cmp")  # fmt: skip
_REDUCE = "tt.reduce"


@dataclass(frozen=True, slots=True)
class MetEachTime:
    """An atomic in a loop."""

    line: int
    lines: frozenset[int]
    """Lines of it and of its reductions."""
    alone: bool
    """Whether the loop reduces nothing else."""


def met_each_time(text: str) -> Iterator[MetEachTime]:
    """Yield atomics that could be one after their loop."""
    if "tt.atomic_rmw" not in text or "scf.for" not in text:
        return
    root = operations(text)
    used = [name for op in root.walk() for name in op.operands]
    for loop in root.walk():
        if loop.name != "scf.for":
            continue
        inside = list(loop.walk())
        made = {name: op for op in inside for name in op.results}
        own = {
            *made,
            *(name for each in (loop, *inside) for r in each.regions for name in r.arguments),
        }
        for op in loop.regions[0].ops:
            if not _KINDS.match(op.text) or any(name in used for name in op.results):
                continue
            pointer, value = op.operands[:2]
            sums = _reductions(value, made)
            if pointer in own or not sums or not op.line:
                continue
            every = [each for each in inside if each.name == _REDUCE]
            lines = frozenset((op.line, *(each.line for each in sums)))
            yield MetEachTime(op.line, lines - {0}, len(every) == len(sums))


def _reductions(value: str, made: dict[str, Op]) -> list[Op]:
    """Return the reductions that a number is made of alone; nothing where it is of others too."""
    op = made.get(value)
    if op is None:
        return []
    if op.name == _REDUCE:
        return [op] if "-> tensor" not in op.text else []
    return _reductions(op.operands[0], made) if op.name.startswith(_PASSED_ON) else []
