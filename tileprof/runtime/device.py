"""What a device offers: a compiled kernel that can be run on arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tileprof.errors import Location
from tileprof.instrument import SiteTimes

__all__ = ["Executable", "RunResult"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run of a kernel cost and saw."""

    time_ns: int
    """Time of the work on the device, without argument checks."""
    grid: tuple[int, ...]
    blocks: int
    guarded: int = 0
    """Elements outside their global buffer that were read as the safe value or not written."""
    guarded_by_line: Mapping[Location, int] = field(default_factory=dict)
    sites: SiteTimes | None = None


class Executable(Protocol):
    """One variant of a kernel, ready on one device."""

    def run(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
        """Run to the end.

        `values`: one for each parameter in order (outputs too, allocated by the caller): tensors
        that were checked against the parameter's type, or Python scalars.  `symbols`: the value of
        each symbol in order.
        """
        ...
