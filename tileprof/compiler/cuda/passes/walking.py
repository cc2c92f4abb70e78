"""What the passes ask of ops: which buffers they touch, and bodies rebuilt launch by launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_shared
from tileprof.compiler.passes.folding import fold
from tileprof.compiler.passes.identities import identity, number_of
from tileprof.ir.rewrite import clone, rewrite_block

__all__ = ["REDUCE", "REPORTS", "Touch", "accesses", "base", "inline_scopes", "is_atomic"]
__all__ += [
    "is_of_warp_groups",
    "per_launch",
    "rebuilt",
    "reports",
    "threads_of",
    "tile_bytes",
    "touches",
]
__all__ += ["with_originals", "with_rule"]

_REGISTER = 4
"""Bytes."""
REDUCE = "reduce"
"""The hint of a copy by TMA that is joined with what is there, each element at once."""


class Touch(NamedTuple):
    """One operand that an op reads or writes: the buffer or view that it names."""

    value: ir.Value
    reads: bool
    writes: bool


def base(value: ir.Value) -> ir.Value:
    """The allocation or parameter behind views."""
    while isinstance(value.owner, ir.View | ir.Reinterpret):
        value = value.owner.base
    return value


def tile_bytes(value: ir.Value) -> int:
    """Of a tile in shared memory, or of a slot of its ring, in its layout."""
    alloc = base(value).owner
    assert isinstance(alloc, ir.Alloc)
    return parse_shared(alloc.layout, alloc.shape, alloc.dtype).tile_bytes


def is_of_warp_groups(op: ir.OpBase) -> TypeGuard[ir.Gemm]:
    """Whether an op is a product that tensor cores do for whole warp groups, by themselves."""
    return isinstance(op, ir.Gemm) and op.lowering.startswith("wgmma")


def is_atomic(op: ir.OpBase) -> bool:
    """Whether an op joins what it has with what is in memory, in any order."""
    if isinstance(op, ir.Copy | ir.AsyncCopy):
        return any(name == REDUCE for name, _ in op.hints)
    return isinstance(op, ir.Atomic | ir.TileAtomic)


def touches(op: ir.OpBase) -> Iterator[Touch]:
    """The buffers that an op itself reads or writes, as its operands name them."""
    match op:
        case ir.Load(buffer=buffer):
            yield Touch(buffer, True, False)
        case ir.Store(buffer=buffer):
            yield Touch(buffer, False, True)
        case ir.Atomic(buffer=buffer):
            yield Touch(buffer, True, True)
        case ir.Copy(source=source, target=target):
            yield Touch(source, True, False)
            yield Touch(target, False, True)
        case ir.Scan(source=source, target=target, scratch=scratch):
            yield Touch(source, True, False)
            yield Touch(target, False, True)
            if scratch is not None:
                yield Touch(scratch, True, True)
        case ir.AsyncCopy(source=source, target=target):
            yield Touch(source, True, False)
            yield Touch(target, False, True)
        case ir.ConvertLayout(source=source, target=target, scratch=scratch):
            yield Touch(source, True, False)
            yield Touch(target, False, True)
            if scratch is not None:
                yield Touch(scratch, True, True)
        case ir.Fill(target=target):
            yield Touch(target, False, True)
        case ir.Gemm(a=a, b=b, c=c, clear=clear) | ir.AsyncGemm(a=a, b=b, c=c, clear=clear):
            yield Touch(a, True, False)
            yield Touch(b, True, False)
            yield Touch(c, not clear, True)
        case ir.Reduce(source=source, target=target, clear=clear):
            yield Touch(source, True, False)
            yield Touch(target, not clear, True)
            scratch = getattr(op, "scratch", None)
            if scratch is not None:
                yield Touch(scratch, True, True)
        case ir.AllReduce(target=target, scratch=scratch):
            yield Touch(target, True, True)
            if scratch is not None:
                yield Touch(scratch, True, True)
        case ir.TileAtomic(source=source, target=target):
            yield Touch(source, True, False)
            yield Touch(target, True, True)
        case ir.Print(value=value) if value is not None and isinstance(value.type, ir.BufferType):
            yield Touch(value, True, False)
        case _:
            pass


def accesses(op: ir.OpBase) -> Iterator[Touch]:
    """The buffers that an op and everything inside of it reads or writes."""
    yield from touches(op)
    for block in op.blocks():
        for inner in ir.walk(block):
            yield from touches(inner)


def taken(op: ir.OpBase) -> Iterator[ir.Value]:
    """Values that an op and everything inside of it take."""
    yield from op.operand_values()
    for block in op.blocks():
        for inner in ir.walk(block):
            yield from inner.operand_values()


def fragment_registers(buffers: Iterable[ir.Value], threads: int) -> float:
    """Registers of a thread for those of some buffers that are tiles in fragments, of two axes or
    more; `threads` hold them together."""
    held = [v.buffer for v in buffers if v.buffer.space == "fragment" and v.buffer.rank > 1]
    return sum(math.prod(b.static_shape) * b.dtype.bytes for b in held) / _REGISTER / threads


def folded(op: ir.Binary | ir.Compare, builder: ir.Builder) -> ir.Value:
    """The result of a scalar op: a constant or an operand where it is one, else computed."""
    numbers = [n for n in map(number_of, op.operand_values()) if n is not None]
    if len(numbers) == 2 and (known := fold(op, numbers)) is not None:
        return builder.constant(known, op.result.dtype)
    equal = identity(op, builder)
    return builder.emit(op).result if equal is None else equal


def threads_of(launch: ir.Launch) -> int:
    """Threads of a block, as the author asked for."""
    total = 1
    for extent in launch.threads:
        total *= extent
    return total


REPORTS = "prints and asserts name their block by its number"
"""Why blocks are not renumbered."""


def reports(launch: ir.Launch) -> bool:
    """Whether blocks print or assert something."""
    return any(isinstance(o, ir.Print | ir.Assert) for o in ir.walk(launch.body))


def per_launch(kernel: ir.Kernel, change: Callable[[ir.Launch], ir.Launch]) -> ir.Kernel:
    """The kernel with every launch changed; what the host computes stays."""
    ops = [change(op) if isinstance(op, ir.Launch) else op for op in kernel.body.ops]
    return kernel.with_body(ir.Block(kernel.body.args, ops))


def with_rule(launch: ir.Launch, rule: ir.Rule) -> ir.Launch:
    """The launch with a rewriting rule applied to its body."""
    body = rewrite_block(launch.body, {}, rule)
    made = clone(launch, {}, {"body": body})
    assert isinstance(made, ir.Launch)
    return made


PairRule = Callable[[ir.OpBase, ir.OpBase, ir.Builder], Sequence[ir.Value] | None]
"""As `ir.Rule`, and sees the op as it was before the op with its operands replaced."""


def with_originals(launch: ir.Launch, rule: PairRule) -> ir.Launch:
    """The launch with a rule applied that looks its decisions up by the ops of `launch`."""
    made = clone(launch, {}, {"body": rebuilt(launch.body, {}, rule)})
    assert isinstance(made, ir.Launch)
    return made


def rebuilt(block: ir.Block, mapping: dict[ir.Value, ir.Value], rule: PairRule) -> ir.Block:
    """A copy of a block with the rule applied; values are replaced by `mapping`, which is
    extended."""
    args = [ir.Value(a.type, a.name) for a in block.args]
    mapping.update(zip(block.args, args))
    made = ir.Block(args)
    builder = ir.Builder(made)
    for op in block.ops:
        regions = {n: rebuilt(getattr(op, n), mapping, rule) for n in op.SPEC.regions}
        new = clone(op, mapping, regions)
        builder.span = op.span
        replaced = rule(op, new, builder)
        if replaced is None:
            builder.emit(new)
            replaced = new.results
        mapping.update(zip(op.results, replaced, strict=True))
    return made


def inline_scopes(launch: ir.Launch) -> ir.Launch:
    """The launch with the ops of scopes in their place."""

    def rule(op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Scope):
            return None
        builder.block.ops += op.body.ops
        return []

    return with_rule(launch, rule)
