"""Floating-point operations and global accesses of one run of each block of a kernel.

| op                                                      | flops counted                        |
| ------------------------------------------------------- | ------------------------------------ |
| `add sub mul div`, `floordiv floormod` of floats, `pow` | 1                                    |
| `fma`                                                   | 2                                    |
| `exp log sqrt rsqrt sin tanh erf sigmoid …`             | 1                                    |
| `min max abs neg copysign`, comparison, rounding, casts | 0                                    |
| anything on integers                                    | 0                                    |
| `gemm`                                                  | 2·M·N·K, of integers too             |
| `reduce`, `scan`                                        | 1 an element of the source           |
| atomic `add`                                            | 1 an element                         |

A tile at the edge of a tensor computes on all its elements, and all are counted.  Bytes are those
that global buffers are asked for: an atomic asks twice, to read and to write; elements outside the
buffer are not asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tileprof import ir

_FLOPS = {**dict.fromkeys(("add", "sub", "mul", "div", "floordiv", "floormod", "pow", "atan2"), 1)}
_FREE_UNARY = frozenset(
    {"neg", "abs", "not", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite"}
)


@dataclass(frozen=True, slots=True)
class Range:
    """The elements that an access covers in one dimension: `size` from the sum of `starts` on."""

    starts: tuple[ir.Value, ...]
    size: ir.Dim
    extent: ir.Dim
    spread: ir.Value | None = None
    """One of `starts`: a counter of a `parallel` that nothing else in the access depends on, so
    that all its points together cover a range too."""


@dataclass(frozen=True, slots=True)
class Access:
    """A request to a global buffer: `bytes` for each element of a box."""

    bytes: int
    ranges: tuple[Range, ...]
    guarded: bool
    """Whether part of the box may lie outside the buffer."""
    op: ir.OpBase


@dataclass(slots=True)
class Body:
    """A block: its own work, and the ops in it that hold further blocks with work."""

    flops: int = 0
    accesses: list[Access] = field(default_factory=list)
    inner: list[tuple[ir.OpBase, list[Body]]] = field(default_factory=list)
    leaves: bool = False
    """Whether a `break` or `continue` in it may skip part of the loop around."""

    def __bool__(self) -> bool:
        return bool(self.flops or self.accesses or self.inner)


def count_block(block: ir.Block, counters: frozenset[ir.Value] = frozenset()) -> Body:
    """The work of a block; ops without work inside are left out.

    `counters` are the arguments of the `parallel`s around it.
    """
    body = Body()
    for op in block.ops:
        body.flops += _flops(op)
        body.accesses += _accesses(op, counters)
        if op.SPEC.regions:
            points = op.body.args if isinstance(op, ir.Parallel) else []
            held = [count_block(b, counters.union(points)) for b in op.blocks()]
            body.leaves |= any(b.leaves for b in held) and not isinstance(op, _LOOPS)
            if any(held):
                body.inner.append((op, held))
        body.leaves |= isinstance(op, (ir.Break, ir.Continue))
    return body


_LOOPS = (ir.For, ir.While, ir.Parallel)


def _elements(value: ir.Value) -> int:
    return math.prod(value.buffer.static_shape)


def _flops(op: ir.OpBase) -> int:
    match op:
        case ir.Gemm():
            return 2 * math.prod(op.mnk)
        case ir.Binary(kind=kind, left=left):
            return _FLOPS.get(kind, 0) if left.dtype.is_float else 0
        case ir.Unary(kind=kind, operand=operand):
            return int(operand.dtype.is_float and kind not in _FREE_UNARY)
        case ir.Fma():
            return 2
        case ir.Reduce(source=source) | ir.Scan(source=source):
            return _elements(source) if source.dtype.is_float else 0
        case ir.TileAtomic(kind="add", source=source):
            return _elements(source) if source.dtype.is_float else 0
        case ir.Atomic(kind="add", value=value):
            return int(value.dtype.is_float)
        case _:
            return 0


def _accesses(op: ir.OpBase, counters: frozenset[ir.Value]) -> Iterator[Access]:
    if op.SPEC.resource == "host":
        # A message is no work of the kernel.
        return
    for touched in op.accesses():
        value = touched.value
        if value.buffer.space != "global":
            continue
        size = (touched.reads + touched.writes) * value.dtype.bytes
        if touched.indices is None:
            yield _tile(value, size, op)
        else:
            ranges = _element(touched.indices, value.buffer.shape, counters)
            yield Access(size, ranges, not getattr(op, "in_bounds", True), op)


def _tile(value: ir.Value, size: int, op: ir.OpBase) -> Access:
    """The access of a whole buffer or of a view of one; `size`: bytes an element."""
    if not isinstance(value.owner, ir.View):
        return Access(size, tuple(Range((), d, d) for d in value.buffer.shape), False, op)
    views = [value.owner]
    while isinstance(outer := views[-1].base.owner, ir.View):
        views.append(outer)
    starts = zip(*(view.offsets for view in views))
    dims = zip(starts, value.owner.sizes, views[-1].base.buffer.shape, strict=True)
    return Access(size, tuple(Range(*d) for d in dims), not value.owner.in_bounds, op)


def _element(
    indices: Sequence[ir.Value], shape: tuple[ir.Dim, ...], counters: frozenset[ir.Value]
) -> tuple[Range, ...]:
    """The ranges of the access of one element."""
    terms = [tuple(_terms(index)) for index in indices]
    # How many terms of the whole access depend on each counter.
    memo: dict[ir.Value, frozenset[ir.Value]] = {}
    uses = Counter(c for each in terms for term in each for c in _uses(term, counters, memo))
    return tuple(
        Range(each, 1, extent, next((t for t in each if t in counters and uses[t] == 1), None))
        for each, extent in zip(terms, shape, strict=True)
    )


def _terms(value: ir.Value) -> Iterator[ir.Value]:
    """Yield what is added up to give an index."""
    if isinstance(value.owner, ir.Binary) and value.owner.kind == "add":
        yield from _terms(value.owner.left)
        yield from _terms(value.owner.right)
    else:
        yield value


def _uses(
    value: ir.Value,
    counters: frozenset[ir.Value],
    memo: dict[ir.Value, frozenset[ir.Value]],
) -> frozenset[ir.Value]:
    """The counters that a value depends on."""
    if value not in memo:
        op = value.owner
        if op is None:
            memo[value] = counters & {value}
        elif op.SPEC.regions:
            memo[value] = counters
        else:
            inner = (_uses(v, counters, memo) for v in op.operand_values())
            memo[value] = frozenset().union(*inner)
    return memo[value]
