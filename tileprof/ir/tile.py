"""Ops on whole tiles.  Operands are buffers or views; extents of 1 are skipped when shapes are
matched, so that `Q[b, i:i+64, h, :]` fits a buffer of 64 × d."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from .core import OpBase, Value, attribute, op, operand
from .effects import Effect
from .instructions import (
    CopyInstruction,
    ProductInstruction,
    copy_instruction,
    product_instruction,
)
from .types import BufferType, bool_

ReduceKind = Literal["sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"]
ScanKind = Literal["sum", "max"]
Policy = Literal["square", "full_row", "full_col"]
TileAtomicKind = Literal["add", "max", "min"]
Hints = tuple[tuple[str, bool | int | float | str], ...]
"""Hints of the author for the lowering, by name."""


def squeeze(value: Value) -> tuple[int | str, ...]:
    """Return the shape without extents of 1."""
    return tuple(d for d in value.buffer.shape if d != 1)


@op("copy")
class Copy(OpBase):
    """Copy a tile, converting elements where the types differ."""

    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.WRITE)
    hints: Hints = attribute(default=())
    lowering: CopyInstruction | None = attribute(default=None, read=copy_instruction)
    """The instruction that a GPU backend chose; None before it chose, and for loads and stores."""

    def verify(self) -> Iterator[str]:
        """Shapes agree."""
        if squeeze(self.source) != squeeze(self.target):
            yield f"copies {self.source.type} to {self.target.type}: shapes differ"


@op("fill")
class Fill(OpBase):
    """Write one value to every element of a tile."""

    target: Value = operand(Effect.WRITE)
    value: Value = operand()

    def verify(self) -> Iterator[str]:
        """The value has the element type."""
        if self.value.type != self.target.dtype:
            yield f"fills {self.target.type} with {self.value.type}"


@op("gemm")
class Gemm(OpBase):
    """`c += a @ b` (or `c = a @ b` with `clear`), products and sums in the element type of `c`; for
    floats of 16 and 8 bits in float32, rounded once at the end.  Integers wrap around.

    a: M×K (K×M where `transpose_a`), b: K×N (N×K where `transpose_b`), c: M×N.
    float32 operands are multiplied as float32 by `cpu` and the interpreter.
    """

    a: Value = operand(Effect.READ)
    b: Value = operand(Effect.READ)
    c: Value = operand(Effect.READ | Effect.WRITE, unless="clear")
    transpose_a: bool = attribute(default=False)
    transpose_b: bool = attribute(default=False)
    clear: bool = attribute(default=False)
    policy: Policy = attribute(default="square")
    hints: Hints = attribute(default=())
    lowering: ProductInstruction | None = attribute(default=None, read=product_instruction)
    """The instruction that a GPU backend chose; None before it chose."""

    @property
    def mnk(self) -> tuple[int, int, int]:
        """M, N and K in elements."""
        m, n = self.matrix(self.c)
        rows, columns = self.matrix(self.a)
        return m, n, rows if self.transpose_a else columns

    @staticmethod
    def matrix(value: Value) -> tuple[int, int]:
        """Return the two extents of an operand: leading extents of 1 are dropped."""
        shape = value.buffer.static_shape
        lead, (rows, columns) = shape[:-2], shape[-2:]
        if any(d != 1 for d in lead):
            kept = [d for d in shape if d != 1]
            rows, columns = kept if len(kept) == 2 else (0, 0)
        return rows, columns

    def verify(self) -> Iterator[str]:
        """M, N and K agree."""
        m, n = self.matrix(self.c)
        a = self.matrix(self.a)[:: -1 if self.transpose_a else 1]
        b = self.matrix(self.b)[:: -1 if self.transpose_b else 1]
        if a[0] != m or b[1] != n or a[1] != b[0]:
            yield f"{a[0]}×{a[1]} times {b[0]}×{b[1]} into {m}×{n}"


@op("reduce")
class Reduce(OpBase):
    """Reduce dimension `dim` of a tile; `target` has it left out or as 1.
    Without `clear` the result is combined with what is in `target`.

    Elements are converted to the type of `target` and combined there; for floats of 16 and 8 bits
    in float32, rounded once at the end.  `max`, `min` and `absmax` join elements as the scalar ops
    do: a NaN loses against every number, and elements that are all NaN give NaN.
    """

    kind: ReduceKind = attribute(positional=True)
    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.READ | Effect.WRITE, unless="clear")
    dim: int = attribute()
    clear: bool = attribute(default=True)
    scratch: Value | None = operand(Effect.READ | Effect.WRITE, default=None)
    """Shared memory through which a GPU's warps combine their parts; None where none is needed."""
    partial: bool = attribute(default=False)
    """Whether each thread of a GPU combines only what it holds; an `all_reduce` does the rest."""

    def verify(self) -> Iterator[str]:
        """The target has the source's shape without `dim`; parts are of sums."""
        if self.partial and (self.kind not in ("sum", "abssum") or self.scratch is not None):
            yield f"a partial {self.kind}{' through shared memory' if self.scratch else ''}"
        shape = self.source.buffer.shape
        if not 0 <= self.dim < len(shape):
            yield f"dim {self.dim} of {self.source.type}"
        elif tuple(d for d in shape[: self.dim] + shape[self.dim + 1 :] if d != 1) != squeeze(
            self.target
        ):
            yield f"reduces {self.source.type} over dim {self.dim} into {self.target.type}"


@op("scan")
class Scan(OpBase):
    """Inclusive scan along dimension `dim`, from the end where `reverse`; types and NaN as in
    `reduce`, but the first element stays as it is and each result is rounded."""

    kind: ScanKind = attribute(positional=True)
    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.WRITE)
    dim: int = attribute()
    reverse: bool = attribute(default=False)
    scratch: Value | None = operand(Effect.READ | Effect.WRITE, default=None)
    """Shared memory for the parts of a line where a GPU's warps share it; None elsewhere."""

    def verify(self) -> Iterator[str]:
        """Shapes agree and the dimension exists, which is the target's: a source may be a slot of a
        ring."""
        source, target = self.source.buffer.shape, self.target.buffer.shape
        if source not in (target, (1, *target)):
            yield f"scans {self.source.type} into {self.target.type}: shapes differ"
        if not 0 <= self.dim < len(target):
            yield f"dim {self.dim} of {self.target.type}"


@op("tile_atomic")
class TileAtomic(OpBase):
    """Combine every element of `target` with that of `source`, each at once and rounded each time;
    a source of another type is converted first."""

    kind: TileAtomicKind = attribute(positional=True)
    source: Value = operand(Effect.READ)
    target: Value = operand(Effect.READ | Effect.WRITE)
    hints: Hints = attribute(default=())

    def verify(self) -> Iterator[str]:
        """Shapes agree."""
        if squeeze(self.source) != squeeze(self.target):
            yield f"combines {self.source.type} with {self.target.type}: shapes differ"


TileOp = Copy | Fill | Gemm | Reduce | Scan | TileAtomic
"""Any op that computes on tiles: inside a launch, outside `parallel`, as a site of its own."""
TILE_OPS: tuple[type[TileOp], ...] = get_args(TileOp)


@op("print", effect=Effect.READ | Effect.WRITE, on="host")
class Print(OpBase):
    """Print a scalar, or a whole buffer, with a message."""

    message: str = attribute(positional=True)
    value: Value | None = operand(Effect.READ, optional=True)


@op("assert", effect=Effect.READ | Effect.WRITE, on="host")
class Assert(OpBase):
    """Stop with an error where the condition does not hold."""

    message: str = attribute(positional=True)
    condition: Value = operand()

    def verify(self) -> Iterator[str]:
        """The condition is bool."""
        if isinstance(self.condition.type, BufferType) or self.condition.type != bool_:
            yield f"the condition is {self.condition.type}, not bool"


@op("annotate", effect=Effect.WRITE, on="advice")
class Annotate(OpBase):
    """A wish about the block or about a buffer that changes no result (L2 order, cache use)."""

    name: str = attribute(positional=True)
    target: Value | None = operand(Effect.PURE, optional=True)
    hints: Hints = attribute(default=())
