"""Bytes and flops that a program's kernels have to move and compute, as the operations say.

In: a profile. Out: a column with one entry per node, of kernels alone. Kernels that one operation
launches share its work in proportion to their time: all of them together do it.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.program.masks import Column, Ids, Mask, backward, kind, nearest, own
from tileprof.once import cached_property
from tileprof.profile import Profile, whole_kernels


class WorkOfOps:
    """Work of kernels by the framework's operations around them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @cached_property
    def bytes(self) -> Column:
        """Least bytes that each kernel node has to move, over all its launches; 0 if not known.

        The kernel's own `bytes` come first, then the exact `bytes` of the innermost operation
        around it that has any, then the estimate of the innermost operation, `op_bytes`.
        """
        exact = self._exact("bytes")
        estimated = self._given(own(self.profile, "op_bytes"), self._op)
        return np.where(exact > 0, exact, estimated)

    @cached_property
    def flops(self) -> Column:
        """Floating-point operations of each kernel node, over all its launches; 0 if not known."""
        return self._exact("flops")

    @cached_property
    def estimated(self) -> Mask:
        """Kernel nodes whose `bytes` are estimated from a sample of the operation's visits."""
        found: Mask = (self.bytes > 0) & (self._exact("bytes") == 0)
        return found

    @cached_property
    def _kernels(self) -> Mask:
        return kind(self.profile, "kernel")

    @cached_property
    def _op(self) -> Ids:
        """By node, the innermost operation that it is or is in; -1 for none."""
        return nearest(self.profile, kind(self.profile, "op"))

    @cached_property
    def _time(self) -> Column:
        if "time" not in self.profile.metrics:
            return np.zeros(len(self.profile))
        return whole_kernels(self.profile, "time").astype(float)

    def _exact(self, metric: str) -> Column:
        """Return what kernels say themselves, else their share of what the innermost operation
        around them says that says anything, if it is of the same pass: forward or backward."""
        said = own(self.profile, metric)
        of_op = nearest(self.profile, kind(self.profile, "op") & (said > 0))
        same = (of_op >= 0) & (self._backward[of_op] == self._backward)
        shared = self._given(said, np.where(same, of_op, -1))
        return np.where(self._kernels & (said > 0), said, shared)

    def _given(self, of_op: Column, op: Ids) -> Column:
        """Return the kernels' shares of what operations say; `op` is each one's, -1 for none."""
        sharing = self._kernels & (op >= 0)
        at, time = op[sharing], self._time[sharing]
        whole = np.bincount(at, time, len(self.profile))[at]
        found = np.zeros(len(self.profile))
        found[sharing] = of_op[at] * np.divide(time, whole, np.zeros_like(time), where=whole > 0)
        return found

    @cached_property
    def _backward(self) -> Mask:
        return backward(self.profile)
