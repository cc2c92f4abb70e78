"""Check that each path through a role passes on every turn that it takes, and takes none twice.

Which ways there are follows from control flow alone: between iterations of a loop a warp group has
its turn always or never, and both ways of a branch end alike.  Then any number of iterations waits
as often as it passes, and no warp group waits for a turn that nobody passes.
"""

from __future__ import annotations

from collections.abc import Iterator

from .control import Break, Continue, For, If, While
from .core import Block, OpBase, walk
from .device import Roles, TurnPass, TurnStart, TurnWait

_TURNS = (TurnPass, TurnStart, TurnWait)


def misplaced_turns(body: Block) -> Iterator[str]:
    """Yield what is wrong with the turns of a kernel, as sentences."""
    seen: set[OpBase] = set()
    for op in walk(body):
        if isinstance(op, Roles):
            role = _Role(op.consumer)
            yield from role.problems
            seen |= role.seen
    for op in walk(body):
        if isinstance(op, _TURNS) and op not in seen:
            yield f"{op!r}: only consumers take turns, outside of `parallel`"


class _Role:
    def __init__(self, body: Block) -> None:
        self.body = body
        self.seen: set[OpBase] = set()
        """Ops about turns that some way reaches."""
        self.started = False
        self.problems: list[str] = []
        if self._block(body, False, None):
            self.problems.append("a role ends with a turn that it did not pass")

    def _block(self, block: Block, has: bool, around: bool | None) -> bool | None:
        """Return whether the group has its turn after a block, from whether it has it before; None
        where the end is not reached. `around`: whether it has it between iterations of the loop.
        """
        for op in block.ops:
            match op:
                case TurnStart() | TurnWait() | TurnPass():
                    has = self._turn(op, has)
                case Break() | Continue():
                    self._expect(op, has == around, "it leaves with a turn, or without, alone")
                    return None
                case For() | While():
                    ends = {self._block(b, has, has) for b in op.blocks()} - {None}
                    self._expect(op, ends <= {has}, "an iteration takes or passes a turn alone")
                case If():
                    ends = {self._block(b, has, around) for b in op.blocks()} - {None}
                    self._expect(op, len(ends) < 2, "one way takes or passes a turn alone")
                    if not ends:
                        return None
                    has = bool(ends.pop())
        return has

    def _turn(self, op: TurnStart | TurnWait | TurnPass, has: bool) -> bool:
        self.seen.add(op)
        match op:
            case TurnStart():
                once = op in self.body.ops and not self.started
                self._expect(op, once, "turns start once, at the top of a role")
                self.started = True
                return has
            case TurnWait():
                self._expect(op, self.started, "no turns have started")
                self._expect(op, not has, "the warp group has its turn")
                return True
            case TurnPass():
                self._expect(op, has, "the warp group has no turn")
                return False

    def _expect(self, op: OpBase, holds: bool, sentence: str) -> None:
        if not holds:
            self.problems.append(f"{op!r}: {sentence}")
