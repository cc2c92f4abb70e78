"""Products whose A is computed into registers, in slices along K.

    parallel [64, 256] { store f(i, j), %w }       parallel [64, 64] { store f(i, j), %w0 }
    gemm %w, %x, %c                            ⇒   gemm %w0, %x[:, 0:64], %c
                                                   parallel [64, 64] { store f(i, j + 64), %w1 }
                                                   gemm %w1, %x[:, 64:128], %c   …

Tensor cores multiply one slice while ordinary instructions compute the next: in one piece, the
registers could be written only when the whole product of the iteration before is done.
In: a kernel whose products have instructions, elementwise ops as `parallel`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.matrix import matrix_dims
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import OPERAND_SLICES
from tileprof.compiler.passes.identities import folded
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Wgmma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, rewrite_block, with_originals
from tileprof.remarks.products import SlicedProduct

from .layout.once import fills


def slice_operands(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such products in slices, where they stand in loops."""
    return per_launch(kernel, lambda launch: _sliced(launch, lowering))


@dataclass(frozen=True)
class _Computed:
    """A product, and the loop before it that computes its A."""

    loop: ir.Parallel
    product: ir.Gemm
    count: int
    """Slices."""

    @property
    def width(self) -> int:
        """Elements of K in a slice."""
        return self.product.mnk[2] // self.count


def _sliced(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    uses = Counter(base(t.value) for o in ir.walk(launch.body) for t in o.accesses())
    loops = [o for o in ir.walk(launch.body) if isinstance(o, ir.For)]
    found = [c for loop in loops for c in _computed(loop.body, uses)]
    if not found:
        return launch
    for each in found:
        decision = SlicedProduct(each.count, buffer_name(each.product.a))
        lowering.remarks.add("gemm", "", each.product.span, decision)
    return with_originals(launch, _Rewrite(found).rule)


def _computed(block: ir.Block, uses: Counter[ir.Value]) -> Iterator[_Computed]:
    """The products of a block that can be sliced."""
    last: ir.Parallel | None = None
    for op in block.ops:
        match op:
            case ir.Parallel():
                last = op
            case ir.Gemm() if last is not None and (count := _slices(last, op, uses)) > 1:
                yield _Computed(last, op, count)
                last = None
            case ir.View():
                pass
            case _ if not is_pure(op):
                last = None


def _slices(loop: ir.Parallel, op: ir.Gemm, uses: Counter[ir.Value]) -> int:
    """Into how many slices a product is divided; 1 where it stays whole."""
    instruction = op.lowering
    if not isinstance(instruction, Wgmma) or not instruction.a_in_registers:
        return 1
    if not isinstance(op.a.owner, ir.Alloc) or op.transpose_a or uses[op.a] != 2:
        return 1
    if base(op.b).buffer.space != "shared" or not _fills(loop, op.a):
        return 1
    whole = (
        n for n in (OPERAND_SLICES, OPERAND_SLICES // 2) if op.mnk[2] % (n * instruction.k) == 0
    )
    return next(whole, 1)


def _fills(loop: ir.Parallel, fragment: ir.Value) -> bool:
    """Whether each point of a loop computes its element of the fragment, from memory."""
    *rest, store = loop.body.ops
    return (
        isinstance(store, ir.Store)
        and store.buffer is fragment
        and list(store.indices) == loop.body.args
        and fills(loop, store)
        and all(is_pure(o) or _reads_memory(o) for o in rest)
    )


def _reads_memory(op: ir.OpBase) -> bool:
    return isinstance(op, ir.Load) and base(op.buffer).buffer.space in ("shared", "global")


class _Rewrite:
    def __init__(self, found: list[_Computed]) -> None:
        self.products = {c.product: c for c in found}
        self.loops = {c.loop for c in found}
        self.fragments = {c.product.a: c for c in found}
        self.copies: dict[ir.OpBase, ir.Parallel] = {}
        """The loops among the new ops, not yet placed."""
        self.slices: dict[ir.Value, list[ir.Value]] = {}
        """Slices by fragment."""

    def rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(op, ir.Alloc) and before.results[0] in self.fragments:
            self._allocate(before.results[0], op, builder)
            return [op.result]  # its two uses are replaced
        if before in self.loops:
            assert isinstance(op, ir.Parallel)
            self.copies[before] = op
            return []
        if before in self.products:
            assert isinstance(op, ir.Gemm)
            self._multiply(self.products[before], op, builder)
            return []
        return None

    def _allocate(self, old: ir.Value, op: ir.Alloc, builder: ir.Builder) -> None:
        found = self.fragments[old]
        shape = (*op.shape[:-1], found.width)
        self.slices[old] = [
            builder.emit(ir.Alloc("fragment", shape, op.dtype, hint=f"{old.name}_{n}")).result
            for n in range(found.count)
        ]

    def _multiply(self, found: _Computed, op: ir.Gemm, builder: ir.Builder) -> None:
        loop = self.copies[found.loop]
        for number, fragment in enumerate(self.slices[found.product.a]):
            start = number * found.width
            _compute(loop, fragment, start, builder)
            part = _part(op, start, found.width, builder)
            clear = op.clear and number == 0
            made = ir.Gemm(fragment, part, op.c, False, op.transpose_b, clear, op.policy)
            made.hints, made.lowering = op.hints, op.lowering
            builder.emit(made)


def _compute(loop: ir.Parallel, fragment: ir.Value, start: int, builder: ir.Builder) -> None:
    """The points of a loop whose last index begins at `start`, stored into a slice."""
    args = [ir.Value(a.type, a.name) for a in loop.body.args]
    body = ir.Block(args)
    inner = ir.Builder(body, loop.span)
    last = folded(ir.Binary("add", args[-1], inner.constant(start)), inner)

    def rule(op: ir.OpBase, made: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Store):
            return None
        made.emit(ir.Store(op.value, fragment, args, op.in_bounds))
        return []

    mapping = dict(zip(loop.body.args, [*args[:-1], last]))
    body.ops += rewrite_block(ir.Block([], loop.body.ops), mapping, rule).ops
    extents = [builder.constant(e) for e in fragment.buffer.static_shape]
    held = loop.hints, loop.layout, loop.origin
    builder.emit(ir.Parallel(extents, body, *held, span=loop.span))


def _part(op: ir.Gemm, start: int, width: int, builder: ir.Builder) -> ir.Value:
    """The rows or columns of B that a slice meets."""
    rows, columns = matrix_dims(op.b)
    along = columns if op.transpose_b else rows
    sizes = list(op.b.buffer.static_shape)
    sizes[along] = width
    view = op.b.owner if isinstance(op.b.owner, ir.View) else None
    offsets = list(view.offsets) if view else [builder.constant(0) for _ in sizes]
    offsets[along] = folded(ir.Binary("add", offsets[along], builder.constant(start)), builder)
    held = view.base if view else op.b
    return builder.emit(ir.View(held, offsets, tuple(sizes), in_bounds=True)).result
