"""The blocks that are open while a kernel is traced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tileprof import ir
from tileprof.errors import Location

Kind = Literal["kernel", "launch", "scope", "for", "parallel", "while", "if", "value"]


@dataclass(slots=True, eq=False)
class Region:
    """A block of the program and what is known about it while it is filled."""

    kind: Kind
    block: ir.Block = field(default_factory=ir.Block)
    location: Location | None = None
    open: bool = True
    ended: bool = False
    """Whether a `break`, a `continue` or a return of the thread ends it: ops traced after that
    never run."""
    rest: ir.Block | None = None
    """The block inside of it for ops that only threads run which have not returned."""
    returns: list[ir.Block] = field(default_factory=list)
    """Blocks inside of it at whose end a thread returns."""
    merged: Region | None = None
    """The region into which its ops were moved when it closed."""
    constants: dict[tuple[str, ir.DType], ir.Value] = field(default_factory=dict)
    """Constants that its block defines, to be used again."""
    _scratch: ir.Block | None = None

    @property
    def cursor(self) -> ir.Block:
        """Block that the next op is added to; it is thrown away once the region has ended."""
        if not self.ended:
            return self.block if self.rest is None else self.rest
        if self._scratch is None:
            self._scratch = ir.Block()
        return self._scratch

    @property
    def visible(self) -> bool:
        """Whether values made in the region can still be used."""
        region: Region | None = self
        while region is not None:
            if region.open:
                return True
            region = region.merged
        return False
