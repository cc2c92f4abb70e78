"""Loops over the registers of a thread: digits that step on in one direction are one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tileprof.compiler.cuda.layouts import Digit


@dataclass(frozen=True, slots=True)
class Run:
    """A loop over `count` registers; each adds `step` to the coordinates, and to the register
    number of the n-th fragment that the points touch `weights[n]`."""

    count: int
    step: tuple[int, ...]
    weights: tuple[int, ...] = ()
    name: str = ""

    def split(self, inner: int) -> tuple[Run, Run]:
        """The same registers as a loop of `inner` in another; the inner one first."""
        return replace(self, count=inner), Run(
            self.count // inner,
            tuple(s * inner for s in self.step),
            tuple(w * inner for w in self.weights),
        )


def runs_of(digits: Sequence[tuple[Digit, tuple[int, ...]]]) -> list[Run]:
    """Register digits as loops, innermost first; those that step on as one.  With each digit comes
    its distance in registers for each fragment."""
    runs: list[Run] = []
    for digit, own in digits:
        if runs:
            last = runs[-1]
            goes_on = digit.step == tuple(s * last.count for s in last.step)
            if goes_on and own == tuple(w * last.count for w in last.weights):
                runs[-1] = replace(last, count=last.count * digit.radix)
                continue
        runs.append(Run(digit.radix, digit.step, own))
    return runs


def points(runs: Iterable[Run]) -> int:
    """Return how many points the loops have together."""
    return math.prod(r.count for r in runs)
