"""Results of an example on one side: launches, comparisons, and how far two results are apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from examples_cases.form import Verdict

__all__ = ["AGREES", "Check", "Launch", "Side", "compared", "difference", "flat"]

AGREES = 2e-2
"""Largest relative difference of two results that agree, in the Frobenius norm."""
_MAX_KERNELS = 12
"""Kernels of one run whose launches are kept."""
PARTS = 64
"""Parts of a result along its second dimension, each compared on its own: one of many chunks
that is wrong shows too."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison of the example."""

    passed: bool
    detail: str = ""


@dataclass(slots=True)
class Launch:
    """The first launch of one kernel."""

    kernel: str
    again: Callable[[], Any]
    """Launches it again, on the same arguments."""
    results: tuple[Any, ...]
    """Copies of what it returned and of what it wrote, made right after it."""
    variant: Any = None
    """tileprof's variant; None for TileLang."""


@dataclass(slots=True)
class Side:
    """Launches, comparisons and errors of an example on one side."""

    name: str
    launches: list[Launch] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    error: str = ""
    """Why the example ended before its end, '' where it did not."""
    written: list[tuple[int, ...]] = field(default_factory=list)
    """For each kernel, the tensor arguments that it writes."""
    seen: set[int] = field(default_factory=set)
    dry: bool = False
    """Whether nothing is launched, so that there is nothing to compare."""

    def verdict(self, asserts: bool) -> Verdict:
        """Return what the comparisons say; `asserts`: the example compares by `assert`."""
        if not all(check.passed for check in self.checks):
            return Verdict.WRONG
        compared = bool(self.checks) or asserts
        return Verdict.RIGHT if compared and not self.error else Verdict.UNKNOWN

    def saw(
        self,
        identity: Any,
        kernel: str,
        args: Sequence[Any],
        written: Sequence[int] | None,
        launch: Callable[[], Any],
    ) -> Any:
        """Launch, and keep the launch where it is the first of its kernel."""
        if id(identity) in self.seen or len(self.launches) >= _MAX_KERNELS:
            return launch()
        self.seen.add(id(identity))
        if written is not None:
            self.written.append(tuple(written))
        made = launch()
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        changed = dict(enumerate(self.written)).get(len(self.launches), ())
        out = [*flat(made), *(tensors[at] for at in changed if at < len(tensors))]
        copies = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in out)
        self.launches.append(Launch(kernel, launch, copies, identity))
        return made


def flat(made: Any) -> list[Any]:
    """Return what a kernel returned as a list: empty for None."""
    if isinstance(made, (tuple, list)):
        return list(made)
    return [] if made is None else [made]


def compared(results: Sequence[Any], wanted: Sequence[torch.Tensor], name: str) -> Check:
    """Compare all results with those of a reference, which have to be finite."""
    if not all(bool(torch.isfinite(each).all()) for each in wanted):
        return Check(False, f"`{name}` overflows on these inputs")
    apart = [_worst_part(got, want) for got, want in zip(results, wanted, strict=True)]
    text = ", ".join(f"{each:.2g}" for each in apart)
    return Check(max(apart) <= AGREES, f"differs from `{name}` by {text}")


def difference(ours: Launch, theirs: Launch) -> float:
    """Return the largest relative difference of two launches' results, in the Frobenius norm.

    For integers it is the share of elements that differ.  Infinities and NaNs have to be in the
    same places, or the difference is infinite, as it is where there is nothing to compare.
    """
    pairs = [
        _apart(got, want)
        for got, want in zip(ours.results, theirs.results)
        if isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)
    ]
    return max(pairs, default=math.inf)


def _worst_part(got: torch.Tensor, want: torch.Tensor) -> float:
    if got.shape != want.shape or got.dim() < 2:
        return _apart(got, want)
    count = min(got.shape[1], PARTS)
    return max(map(_apart, got.tensor_split(count, 1), want.tensor_split(count, 1)))


def _apart(got: torch.Tensor, want: torch.Tensor) -> float:
    if got.shape != want.shape:
        return math.inf
    if not got.dtype.is_floating_point:
        return float((got != want).float().mean()) if got.numel() else 0.0
    got, want = got.float(), want.float()
    known = torch.isfinite(want)
    if bool((torch.isfinite(got) != known).any()):
        share = float((torch.isfinite(got) != known).float().mean())
        return math.inf if share > 1e-4 else share
    zero = torch.zeros((), device=got.device)
    got, want = torch.where(known, got, zero), torch.where(known, want, zero)
    size = float(torch.linalg.vector_norm(want, dtype=torch.float64))
    apart = float(torch.linalg.vector_norm(got - want, dtype=torch.float64))
    return apart / size if size else apart
