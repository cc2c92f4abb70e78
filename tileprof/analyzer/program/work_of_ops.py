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
        around it, then the estimate from a sample, `op_bytes`.
        """
        exact, estimated = self._own("bytes"), self._own("op_bytes")
        return self._given(exact, np.where(exact > 0, exact, estimated))

    @cached_property
    def flops(self) -> Values:
        """Floating-point operations of each kernel node, over all its launches; 0 if not known."""
        return self._given(self._own("flops"), self._own("flops"))

    @cached_property
    def estimated(self) -> Mask:
        """Kernel nodes whose `bytes` are estimated from a sample of the operation's visits."""
        op = self._op
        exact = np.append(self._own("bytes"), 0.0)
        unknown = (exact[:-1] == 0) & (exact[op] == 0)
        found: Mask = self._kernels & (self.bytes > 0) & unknown
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

    def _given(self, own: Values, of_op: Values) -> Values:
        """Return what kernels say themselves, else their share of what their operation says."""
        sharing = self._kernels & (own == 0) & (self._op >= 0)
        op = self._op[sharing]
        time = self._time[sharing]
        whole = np.bincount(op, time, len(self.profile))[op]
        share = np.divide(time, whole, out=np.zeros_like(time), where=whole > 0)
        found = np.where(self._kernels, own, 0.0)
        found[sharing] = of_op[op] * share
        return found

    def _own(self, metric: str) -> Values:
        if metric not in self.profile.metrics:
            return np.zeros(len(self.profile))
        return np.nan_to_num(self.profile.own[metric].astype(np.float64))

    def _where(self, kind: str) -> Mask:
        held = np.array([each.kind == kind for each in self.profile.symbols], bool)
        mask: Mask = held[self.profile.symbol]
        return mask
