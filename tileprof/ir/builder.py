"""Append ops to blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tileprof.errors import Location

from .core import Block, OpBase, Value
from .scalar import Constant
from .types import DType, index

O = TypeVar("O", bound=OpBase)  # noqa: E741 - the field's letter for an op


class Builder:
    """A cursor at the end of a block; `span` is given to every op that has none."""

    def __init__(self, block: Block, span: Location | None = None) -> None:
        self.block = block
        self.span = span

    def emit(self, op: O) -> O:
        """Append an op and give it back."""
        if op.span is None:
            op.span = self.span
        self.block.ops.append(op)
        return op

    def constant(self, value: bool | int | float, dtype: DType = index) -> Value:
        """Return a constant of the type."""
        return self.emit(Constant(value, dtype)).result

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to `block` for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer
