"""A whole kernel: its parameters, its symbols and its body."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tileprof.errors import Location

from .control import Launch
from .core import Block, OpBase, Value, walk
from .types import BufferType, DType

SiteKind = Literal["scope", "stage", "op"]
Role = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: a global buffer or a scalar.

    An `out` one is not given by the caller but allocated at each call and returned.
    `safe_value` is what a guarded read outside the buffer gives.
    """

    name: str
    type: BufferType | DType
    role: Role = "in"
    safe_value: float | int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the kernel whose time is measured; `parent` is the enclosing site."""

    id: int
    name: str
    kind: SiteKind
    location: Location | None = None
    parent: int | None = None
    issues: str = ""
    """Queue to which this op starts asynchronous work, one group a visit: `wgmma`, `cp.async`,
    `bulk`, or the name of a ring."""
    retires: str = ""
    """Queue for which it waits."""
    pending: int = 0
    """Groups of `retires` that may still run when it ends."""


@dataclass(frozen=True, slots=True)
class State:
    """State that a mark sets: the innermost site that the warp is in, and which visits go on."""

    site: int
    """-1: in the kernel, outside of all sites."""
    fresh: int = 0
    """Sites of the path, counted from the outermost, that go on from before; the others are
    visited anew."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that runs on a device: scalar ops and one or more `launch` ops.

    The arguments of `body` are the parameters in order, then one `index` for each symbol.
    A symbol is an extent or a stride that is known at launch, bound from the arguments' shapes.
    """

    name: str
    params: tuple[Param, ...]
    symbols: tuple[str, ...]
    body: Block
    sites: tuple[Site, ...] = ()
    location: Location | None = None
    states: tuple[State, ...] = ()
    """States that `mark` ops name by position; the first is `State(-1)`."""

    def param_values(self) -> list[Value]:
        """Return the values of the parameters, in order."""
        return self.body.args[: len(self.params)]

    def symbol_values(self) -> dict[str, Value]:
        """Return the values of the symbols by name."""
        return dict(zip(self.symbols, self.body.args[len(self.params) :]))

    def ops(self) -> list[OpBase]:
        """Return every op, outer before inner."""
        return list(walk(self.body))

    def launches(self) -> list[Launch]:
        """Return the launches, in the order in which they run."""
        return [op for op in self.body.ops if isinstance(op, Launch)]

    def with_body(self, body: Block, sites: tuple[Site, ...] | None = None) -> Kernel:
        """Return the same signature with another body; states go with the sites that they name."""
        if sites is None:
            return replace(self, body=body)
        return replace(self, body=body, sites=sites, states=())
