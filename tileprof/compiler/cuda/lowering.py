"""What the passes of one lowering share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.instrument import Mode

from .controls import Controls
from .remarks import Remarks
from .target import Target

__all__ = ["Lowering", "line_of"]


@dataclass(frozen=True, slots=True)
class Lowering:
    """What a pass may read besides the kernel, and where it notes what it decides."""

    target: Target
    controls: Controls
    remarks: Remarks = field(default_factory=Remarks)
    unaligned: frozenset[int] = frozenset()
    """Positions of parameters whose address is a multiple of the element's size only."""
    aliased: bool = False
    """Whether a tensor that is written may overlap another."""
    instrument: Mode = "off"
    """What is measured inside of the kernel."""

    def stages(self, loop: ir.For) -> int:
        """Return how many iterations of a loop are loaded ahead, the current one included."""
        asked = self.controls.stages
        return loop.num_stages if asked is None else asked


def line_of(op: ir.OpBase) -> int:
    """Return the line of the author's file that an op stands in; 0 where it is not known."""
    return 0 if op.span is None else op.span.line
