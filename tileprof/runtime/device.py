"""Interface of a device: a compiled kernel that can be run on arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from tileprof import ir
from tileprof.errors import Location
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode.samples import SampleTotals
from tileprof.ir.memory import base

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A copy between the host and the device that a launch on host arrays needs."""

    direction: Literal["in", "out"]
    bytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of one run of a kernel: its cost, and what it observed."""

    time_ns: int
    """Time of the work on the device, without argument checks; -1 where nobody listens to a launch
    that is still under way."""
    grid: tuple[int, ...]
    blocks: int
    guarded: int = 0
    """Elements outside their global buffer that were read as the safe value or not written."""
    guarded_by_line: Mapping[Location, int] = field(default_factory=dict)
    sites: SiteTimes | None = None
    samples: SampleTotals | None = None
    copies: tuple[HostCopy, ...] = ()
    """Copies for host arrays on a GPU; their time is not in `time_ns`."""


class Executable(Protocol):
    """One variant of a kernel, ready on one device."""

    def run(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
        """Run to the end.

        `values`: one for each parameter in order (outputs too, allocated by the caller): tensors
        that were checked against the parameter's type, or Python scalars.  `symbols`: the value of
        each symbol in order.
        """
        ...


def taken(free: list[T]) -> T | None:
    """Take the last item of a list that threads share; None where it is empty.

    To look first and pop then would fail where another thread takes the last one in between.
    """
    try:
        return free.pop()
    except IndexError:
        return None


def written_params(kernel: ir.Kernel) -> list[int]:
    """Return the indices of the parameters that the kernel writes."""
    places = {v: at for at, v in enumerate(kernel.param_values())}
    written = {base(t.value) for op in kernel.ops() for t in op.accesses() if t.writes}
    return sorted(places[value] for value in written if value in places)


def used_params(kernel: ir.Kernel) -> set[int]:
    """Return the indices of the parameters that any op of the kernel names."""
    used = {v for op in kernel.ops() for v in op.operand_values()}
    return {at for at, value in enumerate(kernel.param_values()) if value in used}


def widest_elements(kernel: ir.Kernel) -> dict[int, ir.DType]:
    """Return the widest type that elements of each tensor are accessed as, by its position."""
    places = {v: at for at, v in enumerate(kernel.param_values())}
    found = {at: p.type.dtype for at, p in enumerate(kernel.params)
             if isinstance(p.type, ir.BufferType)}  # fmt: skip
    for op in kernel.ops():
        if isinstance(op, ir.Reinterpret) and (at := places.get(base(op.base))) is not None:
            found[at] = max(found[at], op.dtype, key=lambda kind: kind.bytes)
    return found
