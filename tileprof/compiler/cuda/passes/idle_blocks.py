"""Loops that run no iteration in blocks that store nothing of what they compute.

    for pipelined k below 128              stop = select (0 < rows), 128, 0
      copy …                               for pipelined k below stop
      gemm A, B, sums                ⇒       copy …
    parallel [64, 128] body(i, j)            gemm A, B, sums
      if i < rows                          parallel [64, 128] body(i, j)
        store sums[i, j], C                  if i < rows …

A grid over groups or sequences of different lengths has blocks behind the end of each, and only
their stores ask whether there are rows.  Their loads and products cost what those of others do.
In: a launch as its author wrote it.  Out: the launch; such a loop asks first what the stores ask,
for the point at which the answer is yes if it is yes at any.

The answer has to follow from what is known before the loop, and from elements of a tensor: where
it follows from the grid alone, the author has no blocks for which it is no.  A loop that reports
indices out of bounds stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import BOUND_STEPS
from tileprof.ir.memory import base
from tileprof.ir.rewriter import inline_scopes, per_launch, with_originals, with_rule
from tileprof.ir.scalar import BinaryKind, CompareKind
from tileprof.remarks.loops import SkipsIdle

_TAKEN = ir.Alloc, ir.Copy, ir.Fill, ir.For, ir.Gemm, ir.If, ir.Load, ir.Parallel, ir.Reduce
_TAKEN_TOO = ir.Reinterpret, ir.Scan, ir.Store, ir.View, ir.Yield
"""Ops besides arithmetic that act on nothing but the memory that they name, and always end."""


def skip_idle(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Let loops run no iteration in blocks that store nothing of what they compute."""
    return per_launch(kernel, lambda launch: _skipped(launch, lowering))


def _skipped(original: ir.Launch, lowering: Lowering) -> ir.Launch:
    launch = with_rule(original, inline_scopes)
    ops = launch.body.ops
    found: dict[ir.OpBase, _Answer] = {}
    for at, op in enumerate(ops):
        if isinstance(op, ir.For) and _is_work(op):
            answer = _Answer(ops[at:])
            if answer.holds_for(op, ops[at + 1 :]):
                found[op] = answer
                lowering.remarks.add("loop", op.body.args[0].name, op.span, SkipsIdle())
    if not found:
        return original
    mapping: dict[ir.Value, ir.Value] = {}

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in found or not isinstance(new, ir.For):
            return None
        stop = builder.emit(ir.Select(found[old].put(builder, mapping), new.stop, new.start)).result
        held = new.kind, new.start, stop, new.step, new.body
        builder.emit(ir.For(*held, new.num_stages, new.hints, new.schedule, span=new.span))
        return []

    return with_originals(launch, rule, mapping)


def _is_work(loop: ir.For) -> bool:
    """Whether a loop loads or multiplies tiles, and does nothing that shows but fill buffers of
    the block."""
    inside = list(ir.walk(loop.body))
    if not all(isinstance(o, (*_TAKEN, *_TAKEN_TOO)) or is_pure(o) for o in inside):
        return False
    if any(_is_shown(o) or _may_report(o) for o in inside):
        return False
    return any(isinstance(o, ir.Gemm) or _reads_tile(o) for o in inside)


def _reads_tile(op: ir.OpBase) -> bool:
    return isinstance(op, ir.Copy) and base(op.source).buffer.space == "global"


def _may_report(op: ir.OpBase) -> bool:
    """Whether an op reads an element of a tensor whose index is not proved to be right."""
    if not isinstance(op, ir.Load):
        return False
    return not op.in_bounds and base(op.buffer).buffer.space == "global"


def _is_shown(op: ir.OpBase) -> bool:
    """Whether others see what an op itself does: it writes a tensor, prints, or asserts."""
    if op.SPEC.resource in ("host", "queue", "turns", "tiles"):
        return True
    return any(t.writes and base(t.value).buffer.space == "global" for t in op.accesses())


@dataclass(frozen=True, slots=True)
class _Shown:
    """An op that others see, with the conditions around it that have to hold."""

    op: ir.OpBase
    conditions: tuple[ir.Value, ...]


def _shown(op: ir.OpBase, around: tuple[ir.Value, ...]) -> Iterator[_Shown]:
    """Yield what others see of an op and of everything inside of it."""
    if _is_shown(op):
        yield _Shown(op, around)
    for name in op.SPEC.regions:
        asked = isinstance(op, ir.If) and name == "then"
        held = (*around, op.condition) if asked and isinstance(op, ir.If) else around
        for inner in getattr(op, name).ops:
            yield from _shown(inner, held)


class _Answer:
    """Whether anything that a loop computes is stored, as arithmetic on values before the loop."""

    def __init__(self, later: Sequence[ir.OpBase]) -> None:
        """`later`: the loop, and all ops behind it."""
        every = list(ir.walk(ir.Block([], list(later))))
        self._later = {
            v for o in every for v in (*o.results, *(a for b in o.blocks() for a in b.args))
        }
        self._stored = {base(t.value) for o in every for t in o.accesses() if t.writes}
        self._points = {
            arg: extent
            for o in every
            if isinstance(o, ir.Parallel)
            for arg, extent in zip(o.body.args, o.extents, strict=True)
        }
        self._block = ir.Block()
        self._builder = ir.Builder(self._block)
        self._made: dict[tuple[object, ...], ir.Value] = {}
        self._value: ir.Value | None = None
        self._steps = 0

    def put(self, builder: ir.Builder, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
        """Append the arithmetic to a copy of the launch; return the answer there."""
        assert self._value is not None
        needed: set[ir.Value] = {self._value}
        for op in reversed(self._block.ops):
            if not needed.isdisjoint(op.results):
                needed.update(op.operand_values())
        kept = [o for o in self._block.ops if not needed.isdisjoint(o.results)]
        builder.block.ops += ir.clone_block(ir.Block([], kept), mapping).ops
        return mapping.get(self._value, self._value)

    def holds_for(self, loop: ir.For, behind: Sequence[ir.OpBase]) -> bool:
        """Whether there is an answer that says no for some blocks; it is then known."""
        made = {base(t.value) for o in ir.walk(loop.body) for t in o.accesses() if t.writes}
        for op in behind:
            touched = list(op.all_accesses())
            if not any(t.reads and base(t.value) in made for t in touched):
                continue
            if op.results or not _is_plain(op, made) or not self._covers(op):
                return False
            written = {base(t.value) for t in touched if t.writes}
            made |= {v for v in written if v.buffer.space != "global"}
        return self._value is not None and _follows_from_elements(self._value)

    def _covers(self, op: ir.OpBase) -> bool:
        """Add what has to hold for an op to show anything; False where that is not known."""
        for each in _shown(op, ()):
            asked = [c for c in map(self._condition, each.conditions) if c is not None]
            if not asked:
                return False
            # One that is needed is enough, and the outermost is about the most points.
            self._value = self._either(self._value, asked[0])
        return True

    def _either(self, one: ir.Value | None, other: ir.Value) -> ir.Value:
        if one is None or one is other:
            return other
        return self._emit(ir.Binary("or", one, other))

    def _emit(self, op: ir.OpBase) -> ir.Value:
        """Append an op, or find the same one: several stores often ask the same."""
        (result,) = op.results
        detail = op.value if isinstance(op, ir.Constant) else None
        key = (op.mnemonic, detail, result.type, *op.operand_values())
        if key not in self._made:
            self._builder.emit(op)
            self._made[key] = result
        return self._made[key]

    # -- conditions of points as conditions of the block

    def _condition(self, asked: ir.Value) -> ir.Value | None:
        """Return what holds before the loop if `asked` holds at any point; None if not known."""
        self._steps = 0
        if asked not in self._later:
            return asked
        match asked.owner:
            case ir.Compare(kind="lt" | "le" as kind, left=left, right=right):
                return self._compared(kind, left, right)
            case ir.Compare(kind="gt", left=left, right=right):
                return self._compared("lt", right, left)
            case ir.Compare(kind="ge", left=left, right=right):
                return self._compared("le", right, left)
            case ir.Binary(kind="and", left=left, right=right):
                found = [c for c in map(self._condition, (left, right)) if c is not None]
                return found[0] if found else None
            case _:
                return None

    def _compared(self, kind: CompareKind, small: ir.Value, large: ir.Value) -> ir.Value | None:
        least, most = self._bound(small, largest=False), self._bound(large, largest=True)
        if least is None or most is None:
            return None
        return self._emit(ir.Compare(kind, least, most))

    def _bound(self, value: ir.Value, *, largest: bool) -> ir.Value | None:
        """Return the least or the largest of a value over the points of a loop."""
        if (fixed := self._fixed(value)) is not None:
            return fixed
        self._steps += 1
        if self._steps > BOUND_STEPS or not _is_long(value):
            # In 64 bits, no sum of lengths and indices wraps around.
            return None
        if value in self._points:
            if not largest:
                return self._emit(ir.Constant(0, value.dtype))
            extent = self._points[value]
            one = self._emit(ir.Constant(1, value.dtype))
            known = extent not in self._later
            return self._emit(ir.Binary("sub", extent, one)) if known else None
        match value.owner:
            case ir.Binary(kind="add" | "min" | "max" as kind, left=left, right=right):
                return self._joined(kind, left, right, largest, largest)
            case ir.Binary(kind="sub", left=left, right=right):
                return self._joined("sub", left, right, largest, not largest)
            case ir.Binary(kind="mul", left=left, right=right) if _is_positive(right):
                return self._joined("mul", left, right, largest, largest)
            case _:
                return None

    def _fixed(self, value: ir.Value) -> ir.Value | None:
        """Return a value that is the same at all points, and before the loop; None for others."""
        if value not in self._later:
            return value
        self._steps += 1
        owner = value.owner
        if owner is None or self._steps > BOUND_STEPS or not value.dtype.is_integer:
            return None
        if isinstance(owner, ir.Load):
            quiet = not owner.indices and owner.buffer not in self._later | self._stored
            return self._emit(ir.Load(owner.buffer, [])) if quiet else None
        if not isinstance(owner, ir.Constant | ir.Cast | ir.Binary):
            return None
        operands = {v: self._fixed(v) for v in owner.operand_values()}
        held = {v: x for v, x in operands.items() if x is not None}
        return self._emit(ir.clone(owner, held, {})) if len(held) == len(operands) else None

    def _joined(
        self, kind: BinaryKind, left: ir.Value, right: ir.Value, first: bool, second: bool
    ) -> ir.Value | None:
        one, other = self._bound(left, largest=first), self._bound(right, largest=second)
        if one is None or other is None:
            return None
        return self._emit(ir.Binary(kind, one, other))


def _is_long(value: ir.Value) -> bool:
    return value.dtype.name in ("index", "int64")


def _is_positive(value: ir.Value) -> bool:
    return isinstance(value.owner, ir.Constant) and value.owner.value >= 0


def _is_plain(op: ir.OpBase, made: set[ir.Value]) -> bool:
    """Whether an op that reads what a loop made may find anything there: it ends, and no index, no
    loop and no branch depends on it."""
    inside = [*op.with_inner_ops()]
    taken = (*_TAKEN, *_TAKEN_TOO, ir.Atomic, ir.TileAtomic)
    if not all(isinstance(o, taken) or is_pure(o) for o in inside):
        return False
    found = {o.result for o in inside if isinstance(o, ir.Load) and base(o.buffer) in made}
    for each in inside:
        if not found.isdisjoint(each.operand_values()):
            found.update(each.results)
    asked = {
        v
        for o in inside
        for v in (*_controls(o), *(i for t in o.accesses() for i in t.indices or ()))
    }
    return found.isdisjoint(asked)


def _controls(op: ir.OpBase) -> Sequence[ir.Value]:
    match op:
        case ir.For(start=start, stop=stop, step=step):
            return start, stop, step
        case ir.If(condition=condition):
            return (condition,)
        case ir.View(offsets=offsets):
            return offsets
        case _:
            return ()


def _follows_from_elements(value: ir.Value) -> bool:
    """Whether a value is made of anything that is loaded."""
    seen: set[ir.Value] = set()
    left = [value]
    while left:
        each = left.pop()
        if each in seen or each.owner is None:
            continue
        seen.add(each)
        every = [*each.owner.with_inner_ops()]
        if any(isinstance(o, ir.Load) for o in every):
            return True
        left += [v for o in every for v in o.operand_values()]
    return False
