"""Ops that somebody needs: those with an effect, and what they use.

Not an effect: reading an element, storing it where it was read, storing into a `local` buffer that
nothing reads, and a wish about a buffer on the chip that nothing accesses.
"""

from __future__ import annotations

from collections.abc import Set

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
    accessed = {base(a.value) for op in ir.walk(body) for a in op.accesses()}
    live = _Live(read, accessed, _written_back(body))
    live.block(body)
    return live.ops


def live_in(block: ir.Block) -> set[ir.OpBase]:
    """The ops of a block that must stay, whatever the rest of the kernel reads."""
    live = _Live({op.buffer for op in ir.walk(block) if isinstance(op, ir.Store)})
    live.block(block)
    return live.ops


def _written_back(block: ir.Block) -> set[ir.OpBase]:
    """The stores of an element that was read there, and that nothing has written in between: what a
    mask leaves that always holds, `s[i, j] = if_then_else(True, s[i, j], …)`."""
    found: set[ir.OpBase] = set()
    loaded: set[ir.Value] = set()
    for op in block.ops:
        match op:
            case ir.Load():
                loaded.add(op.result)
            case ir.Store(value=value) if value in loaded and _is_same_element(op, value.owner):
                found.add(op)
            case _ if op.SPEC.effect or op.blocks():
                loaded.clear()
        for inner in op.blocks():
            found |= _written_back(inner)
    return found


def _is_same_element(store: ir.Store, load: ir.OpBase | None) -> bool:
    return (
        isinstance(load, ir.Load)
        and load.buffer is store.buffer
        and list(load.indices) == list(store.indices)
    )


class _Live:
    def __init__(
        self,
        read: set[ir.Value],
        accessed: set[ir.Value] | None = None,
        idle: Set[ir.OpBase] = frozenset(),
    ) -> None:
        self.ops: set[ir.OpBase] = set()
        self._read = read
        self._accessed = accessed
        """The buffers that are accessed anywhere; None where that is not known."""
        self._idle = idle
        """Stores that change nothing."""
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
            case ir.Store() if op in self._idle:
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
