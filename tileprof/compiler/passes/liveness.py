"""Which ops somebody needs: those with an effect, and what they use.

Not an effect: reading an element, storing into a `local` buffer that nothing reads, and a wish
about a buffer on the chip that nothing accesses.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.ir.memory import base


def keep_live(block: ir.Block, live: set[ir.OpBase]) -> None:
    """Take all other ops out of a block, which is the caller's own."""
    block.ops = [op for op in block.ops if op in live]
    for op in block.ops:
        for inner in op.blocks():
            keep_live(inner, live)


def live_ops(body: ir.Block) -> set[ir.OpBase]:
    """The ops of a body that must stay."""
    read = {
        value
        for op in ir.walk(body)
        for value in op.operand_values()
        if not (isinstance(op, ir.Store) and value is op.buffer)
    }
    live = _Live(read, {base(a.value) for op in ir.walk(body) for a in op.accesses()})
    live.block(body)
    return live.ops


def live_in(block: ir.Block) -> set[ir.OpBase]:
    """The ops of a block that must stay, whatever the rest of the kernel reads."""
    live = _Live({op.buffer for op in ir.walk(block) if isinstance(op, ir.Store)})
    live.block(block)
    return live.ops


class _Live:
    def __init__(self, read: set[ir.Value], accessed: set[ir.Value] | None = None) -> None:
        self.ops: set[ir.OpBase] = set()
        self._read = read
        self._accessed = accessed
        """The buffers that are accessed anywhere; None where that is not known."""
        self._used: set[ir.Value] = set()

    def block(self, block: ir.Block) -> None:
        """Mark from the end, so that uses are seen before what they use."""
        for op in reversed(block.ops):
            if not self._acts(op) and self._used.isdisjoint(op.results):
                continue
            self.ops.add(op)
            self._used.update(op.operand_values())
            for inner in op.blocks():
                self.block(inner)

    def _acts(self, op: ir.OpBase) -> bool:
        match op:
            case ir.Load():
                return False
            case ir.Store(buffer=buffer):
                variable = isinstance(buffer.owner, ir.Alloc) and buffer.buffer.space == "local"
                return buffer in self._read or not variable
            case ir.Annotate(target=ir.Value() as target) if self._accessed is not None:
                return target.buffer.space == "global" or base(target) in self._accessed
            case ir.For() | ir.Parallel() | ir.If():
                inner = [o for block in op.blocks() for o in block.ops]
                return any(self._acts(o) for o in inner if not isinstance(o, ir.Yield))
            case _:
                return bool(op.SPEC.effect)
