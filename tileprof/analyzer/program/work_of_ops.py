"""Bytes and flops that a program's kernels have to move and compute, as the operations say.

In: a profile. Out: a column with one entry per node, of kernels alone. Kernels that one operation
launches share its work in proportion to their time: all of them together do it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.program.steady import Mask, nearest
from tileprof.once import cached_property
from tileprof.profile import Profile, whole_kernels

Values: TypeAlias = npt.NDArray[np.float64]


class WorkOfOps:
    """Work of kernels by the framework's operations around them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @cached_property
    def bytes(self) -> Values:
        """Least bytes that each kernel node has to move, over all its launches; 0 if not known.

        The kernel's own `bytes` come first, then the exact `bytes` of the innermost operation
        around it that has any, then the estimate of the innermost operation, `op_bytes`.
        """
        exact = self._exact("bytes")
        estimated = self._given(self._own("op_bytes"), self._op)
        return np.where(exact > 0, exact, estimated)

    @cached_property
    def flops(self) -> Values:
        """Floating-point operations of each kernel node, over all its launches; 0 if not known."""
        return self._exact("flops")

    @cached_property
    def estimated(self) -> Mask:
        """Kernel nodes whose `bytes` are estimated from a sample of the operation's visits."""
        found: Mask = (self.bytes > 0) & (self._exact("bytes") == 0)
        return found

    def bytes_needed(self, node: int) -> float:
        """Least bytes that a kernel node has to move, over all its launches; 0 if not known."""
        return float(self.bytes[node])

    @cached_property
    def _kernels(self) -> Mask:
        return self._where("kernel")

    @cached_property
    def _op(self) -> npt.NDArray[np.int64]:
        """By node, the innermost operation that it is or is in; -1 for none."""
        return nearest(self.profile, self._where("op"))

    @cached_property
    def _time(self) -> Values:
        if "time" not in self.profile.metrics:
            return np.zeros(len(self.profile))
        return whole_kernels(self.profile, "time").astype(float)

    def _exact(self, metric: str) -> Values:
        """Return what kernels say themselves, else their share of what the innermost operation
        around them says that says anything, if it is of the same pass: forward or backward."""
        own = self._own(metric)
        of_op = nearest(self.profile, self._where("op") & (own > 0))
        same = (of_op >= 0) & (self._backward[of_op] == self._backward)
        shared = self._given(own, np.where(same, of_op, -1))
        return np.where(self._kernels & (own > 0), own, shared)

    def _given(self, of_op: Values, op: npt.NDArray[np.int64]) -> Values:
        """Return the kernels' shares of what operations say; `op` is each one's, -1 for none."""
        sharing = self._kernels & (op >= 0)
        at, time = op[sharing], self._time[sharing]
        whole = np.bincount(at, time, len(self.profile))[at]
        found = np.zeros(len(self.profile))
        found[sharing] = of_op[at] * np.divide(time, whole, np.zeros_like(time), where=whole > 0)
        return found

    @cached_property
    def _backward(self) -> Mask:
        held = np.array([each.phase.endswith("backward") for each in self.profile.symbols], bool)
        mask: Mask = held[self.profile.symbol]
        return mask

    def _own(self, metric: str) -> Values:
        if metric not in self.profile.metrics:
            return np.zeros(len(self.profile))
        return np.nan_to_num(self.profile.own[metric].astype(np.float64))

    def _where(self, kind: str) -> Mask:
        held = np.array([each.kind == kind for each in self.profile.symbols], bool)
        mask: Mask = held[self.profile.symbol]
        return mask
