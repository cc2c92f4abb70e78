"""Bytes and flops that a program's kernels have to move and compute, as the operations say.

In: a profile. Out: a column with one entry per node, of kernels alone. Kernels that one operation
launches share its work in proportion to their time: all of them together do it. Of a convolution,
kernels that only change a layout do none of it, and those that multiply all of the arithmetic; its
two gradients have as many operations each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tileprof.analyzer.numbers.reports import FLOORS_USUAL
from tileprof.analyzer.program.convolutions import (
    changes_layout,
    gradient_of,
    multiplies,
)
from tileprof.analyzer.program.masks import (
    Column,
    Ids,
    Mask,
    backward,
    kind,
    nearest,
    own,
    where,
)
from tileprof.analyzer.program.types_by_name import roofs_by_name
from tileprof.once import cached_property
from tileprof.profile import Profile, whole_kernels
from tileprof.profile.metrics import BYTES_AT, FLOPS_AT


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
        exact = self._exact("bytes", self._moving)
        estimated = self._given(own(self.profile, "op_bytes"), self._op, self._moving)
        return np.where(exact > 0, exact, estimated)

    @cached_property
    def flops(self) -> Column:
        """Floating-point operations of each kernel node, over all its launches; 0 if not known."""
        return self._exact("flops", self._computing)

    @cached_property
    def kinds(self) -> Mapping[int, tuple[Column, Column]]:
        """Flops and bytes of each kernel node by octave of flops per byte, where its operation says
        them; keys are the least flops per byte of each octave.

        They are parts of `flops` and `bytes`, which hold more where others add to them.
        """
        told = self._kernels & (own(self.profile, "flops") + own(self.profile, "bytes") == 0)
        of_bytes = self._telling(own(self.profile, "bytes"))
        found = {}
        for name in self.profile.metrics:
            if name.startswith(FLOPS_AT):
                least = int(name.removeprefix(FLOPS_AT))
                of_flops, moved = (own(self.profile, f"{at}{least}") for at in (FLOPS_AT, BYTES_AT))
                found[least] = (
                    np.where(told, self._given(of_flops, self._of_flops, self._computing), 0.0),
                    np.where(told, self._given(moved, of_bytes, self._moving), 0.0),
                )
        return found

    @cached_property
    def estimated(self) -> Mask:
        """Kernel nodes whose `bytes` are estimated from a sample of the operation's visits."""
        found: Mask = (self.bytes > 0) & (self._exact("bytes", self._moving) == 0)
        return found

    @cached_property
    def needless(self) -> Mask:
        """Kernels that change a layout for others of the same convolution, whose work is known."""
        found: Mask = (self._time > 0) & (self._moving == 0) & self._kernels
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

    def _exact(self, metric: str, weight: Column) -> Column:
        """Return what kernels say themselves, else their share of what the innermost operation
        around them says that says anything, if it is of the same pass: forward or backward."""
        said = own(self.profile, metric)
        of_op = self._telling(said)
        shared = self._given(said, of_op, weight)
        return np.where(self._kernels & (said > 0), said, shared)

    def _telling(self, said: Column) -> Ids:
        """By node, the innermost operation of the same pass around it that says anything, or -1."""
        of_op = nearest(self.profile, kind(self.profile, "op") & (said > 0))
        same = (of_op >= 0) & (self._backward[of_op] == self._backward)
        return np.where(same, of_op, -1)

    def _given(self, of_op: Column, op: Ids, weight: Column) -> Column:
        """Return the kernels' shares of what operations say; `op` is each one's, -1 for none."""
        sharing = self._kernels & (op >= 0)
        at, part = op[sharing], weight[sharing]
        whole = np.bincount(at, part, len(self.profile))[at]
        found = np.zeros(len(self.profile))
        found[sharing] = of_op[at] * np.divide(part, whole, np.zeros_like(part), where=whole > 0)
        return found

    @cached_property
    def _products(self) -> Mask:
        """Kernels that multiply, by their names."""
        return self._kernels & where(self.profile, lambda symbol: multiplies(symbol.name))

    @cached_property
    def _of_flops(self) -> Ids:
        """By kernel, the operation whose flops it shares; -1 for none."""
        return self._telling(own(self.profile, "flops"))

    def _beside(self, kernels: Mask) -> Mask:
        """Nodes that share the flops of an operation with one of these kernels."""
        held = kernels & (self._of_flops >= 0) & (self._time > 0)
        has = np.zeros(len(self.profile), bool)
        has[self._of_flops[held]] = True
        return (self._of_flops >= 0) & has[self._of_flops]

    @cached_property
    def _moving(self) -> Column:
        """What kernels share bytes by: their time; 0 for those that only change a layout."""
        layouts = self._kernels & where(self.profile, lambda symbol: changes_layout(symbol.name))
        return np.where(layouts & self._beside(self._products), 0.0, self._time)

    @cached_property
    def _computing(self) -> Column:
        """What kernels share flops by: their time at their roof, that of others than products left
        out; each gradient of a convolution is as much as the other."""
        others = self._kernels & ~self._products & self._beside(self._products)
        weight = np.where(others, 0.0, self._time * np.where(self._products, self._rates, 1.0))
        halves = [self._products & self._gradients(which) for which in ("data", "weight")]
        neither = self._beside(self._products & ~halves[0] & ~halves[1])
        both = self._beside(halves[0]) & self._beside(halves[1]) & ~neither
        for half in halves:
            held = half & both
            at = self._of_flops[held]
            weight[held] /= np.bincount(at, weight[held], len(self.profile))[at]
        return weight

    @cached_property
    def _rates(self) -> Column:
        """By node, the roof of the arithmetic that its name tells, relative to the highest one."""
        rates = dict(FLOORS_USUAL["NVIDIA H200"])
        rates.update({peak.name: peak.value for peak in self.profile.tables.device_peaks})
        rates = {name: rates[name] for name in rates if name.startswith(("tensor", "fma_float32"))}
        highest = max(rates.values())

        def relative(name: str) -> float:
            known = [rates[roof] for roof in roofs_by_name(name) if rates.get(roof)]
            return known[0] / highest if known else 1.0

        of_symbol = np.array([relative(each.name) for each in self.profile.symbols], float)
        found: Column = of_symbol[self.profile.symbol]
        return found

    def _gradients(self, which: str) -> Mask:
        return where(self.profile, lambda symbol: gradient_of(symbol.name) == which)

    @cached_property
    def _backward(self) -> Mask:
        return backward(self.profile)
