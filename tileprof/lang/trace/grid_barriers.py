"""Barriers over the grid of a launch: it becomes one launch for each part between them.

    with T.Kernel(n) as b:          with T.Kernel(n) as b:
        first(b)                        first(b)
        T.sync_grid()          ⇒    with T.Kernel(n) as b:
        second(b)                       second(b)

A launch begins when all blocks of the one before it have ended, which is what the barrier says, for
grids of any size.  Scalars are computed again; what lies in memory of the block ends with the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone_block

BARRIER = "sync_grid"
Refuse = Callable[[str, str, Location | None], NoReturn]
"""Raises an error from its sentence, its hint and its place."""


def is_barrier(op: ir.OpBase) -> bool:
    """Return whether an op marks a barrier over the grid."""
    return isinstance(op, ir.Annotate) and op.name == BARRIER


def parts(body: ir.Block, refuse: Refuse) -> list[ir.Block]:
    """Return the body of a launch for each part between barriers; the whole body without one."""
    at = [number for number, op in enumerate(body.ops) if is_barrier(op)]
    if not at:
        return [body]
    starts, ends = [0, *(n + 1 for n in at)], [*at, len(body.ops)]
    found = []
    for number, (start, end) in enumerate(zip(starts, ends)):
        earlier = [op for op in body.ops[:start] if not is_barrier(op)]
        barrier = body.ops[at[number - 1]].span if number else None
        needed = _Needed(earlier, body.ops, refuse, barrier)
        own = body.ops[start:end]
        found.append(clone_block(ir.Block(body.args, [*needed.by(own), *own]), {}))
    return found


class _Needed:
    """Ops before a barrier whose values are used behind it."""

    def __init__(
        self,
        earlier: Sequence[ir.OpBase],
        body: Sequence[ir.OpBase],
        refuse: Refuse,
        barrier: Location | None,
    ) -> None:
        self._owners = {v: op for op in earlier for v in op.results}
        self._order = {op: n for n, op in enumerate(earlier)}
        self._refuse = refuse
        self._barrier = barrier
        touched = (t for op in _all(earlier) for t in op.accesses())
        self._touched = {base(t.value) for t in touched}
        written = (t for op in _all(body) for t in op.accesses() if t.writes)
        self._written = {base(t.value) for t in written}

    def by(self, ops: Sequence[ir.OpBase]) -> list[ir.OpBase]:
        """Return those that ops need, in order."""
        found: dict[ir.OpBase, None] = {}
        wanted = [v for op in _all(ops) for v in op.operand_values()]
        while wanted:
            op = self._owners.get(wanted.pop())
            if op is None or op in found:
                continue
            found[op] = None
            for each in _all([op]):
                self._check(each)
                wanted += each.operand_values()
        return sorted(found, key=self._order.__getitem__)

    def _check(self, op: ir.OpBase) -> None:
        match op:
            case ir.Alloc():
                if op.result in self._touched:
                    self._refuse(
                        f"`{op.result.name}` is used before and after `T.sync_grid`, and a block "
                        "does not keep what is on the chip",
                        "Use a buffer of its own on each side, and hand data over in a tensor: "
                        "`T.alloc_global`.",
                        self._barrier,
                    )
            case ir.Load(buffer=buffer):
                held = base(buffer)
                if held.buffer.space != "global" or held in self._written:
                    self._refuse_value(op, "read from memory that the kernel writes")
            case ir.If() if op.results:
                pass
            case ir.View() | ir.Reinterpret() | ir.Yield():
                pass
            case _ if not isinstance(op, ir.ScalarOp):
                self._refuse_value(op, f"computed by `{op.mnemonic}`")

    def _refuse_value(self, op: ir.OpBase, why: str) -> None:
        name = next((f"`{v.name}`" for v in op.results if v.name), "a value")
        self._refuse(
            f"{name} is {why} before `T.sync_grid`, and used after it",
            "Compute it again after the barrier, or hand it over in a tensor.",
            self._barrier,
        )


def _all(ops: Sequence[ir.OpBase]) -> Iterator[ir.OpBase]:
    """Yield ops and those inside of them."""
    for op in ops:
        yield op
        for block in op.blocks():
            yield from ir.walk(block)
