"""A launch rebuilt in order, with a state of what may hold at each place, by whatever way it was
reached.

In a loop the state at the start of an iteration is that of every one: as the loop was entered, as
an iteration ended, and as a `continue` left it; behind the loop it is also that of every `break`.
Behind a loop that runs once it is that of its iteration.
In: a block and a state.  Out: a copy of the block; the state becomes that at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, Self, TypeVar

from tileprof import ir
from tileprof.ir.rewriter import clone


class _State(Protocol):
    def copy(self) -> Self: ...

    def become(self, *ways: Self) -> None: ...

    def __eq__(self, other: object) -> bool: ...


S = TypeVar("S", bound=_State)


def starts_loads(op: ir.OpBase) -> bool:
    """Whether a branch does nothing but start copies from global memory: it is then as one op."""
    if not isinstance(op, ir.If) or op.results:
        return False
    inside = [o for o in op.inner_ops() if o.SPEC.effect]
    kinds = ir.AsyncCopy | ir.Load | ir.Parallel | ir.Yield
    return any(isinstance(o, ir.AsyncCopy) for o in inside) and all(
        isinstance(o, kinds) for o in inside
    )


class Flow(ABC, Generic[S]):
    """Effect of loops and branches on the state; `block` says what other ops do."""

    def __init__(self) -> None:
        self.mapping: dict[ir.Value, ir.Value] = {}
        """From values before this pass to those after it."""
        self._jumps: tuple[list[S], list[S]] = ([], [])
        """States at each `continue` and each `break` of the loop around."""
        self._trial = False
        """Whether only the state at the end is asked for, and the copy is thrown away."""

    @abstractmethod
    def block(self, block: ir.Block, state: S) -> ir.Block:
        """A copy of a block; `state` becomes that at its end."""

    def copied(self, block: ir.Block) -> ir.Block:
        """A copy of a block in which nothing happens; the block itself where a copy is not kept."""
        return block if self._trial else ir.clone_block(block, self.mapping)

    def emit(
        self, op: ir.OpBase, made: ir.Block, regions: dict[str, ir.Block] | None = None
    ) -> None:
        """Append a copy of an op, with these regions."""
        new = clone(op, self.mapping, regions or {})
        self.mapping.update(zip(op.results, new.results))
        made.ops.append(new)

    def jump(self, op: ir.Break | ir.Continue, made: ir.Block, state: S) -> None:
        """Leave the loop, or go on with its next iteration."""
        self._jumps[isinstance(op, ir.Break)].append(state.copy())
        self.emit(op, made)

    def loop(self, op: ir.OpBase, made: ir.Block, state: S) -> None:
        """`for` and `while`."""
        if isinstance(op, ir.For) and op.static_range is not None and len(op.static_range) == 1:
            # Nothing holds at its start that an iteration before left: peeled ones are such loops.
            regions, again, left = self._iteration(op, state)
            self.emit(op, made, regions)
            state.become(state, *again, *left)
            return
        entry = state.copy()
        # Two iterations show everything that can hold at the start of one, and the first does where
        # it adds nothing.
        outer, self._trial = self._trial, True
        for _ in range(2):
            trial, before = entry.copy(), entry.copy()
            _, again, _ = self._iteration(op, trial)
            entry.become(entry, trial, *again)
            if entry == before:
                break
        self._trial = outer
        final = entry.copy()
        regions, again, left = self._iteration(op, final)
        self.emit(op, made, regions)
        state.become(state, final, *again, *left)

    def _iteration(self, op: ir.OpBase, state: S) -> tuple[dict[str, ir.Block], list[S], list[S]]:
        """One iteration of a loop: its regions, and the states in which it goes on and leaves
        early."""
        outer, self._jumps = self._jumps, ([], [])
        regions = {}
        for name in op.SPEC.regions:
            regions[name] = self.block(getattr(op, name), state)
            if name == "condition":
                self._jumps[1].append(state.copy())
        (again, left), self._jumps = self._jumps, outer
        return regions, again, left

    def branch(self, op: ir.If, made: ir.Block, state: S) -> None:
        """`if`: either way may have been taken."""
        then, otherwise = state.copy(), state.copy()
        regions = {
            "then": self.block(op.then, then),
            "otherwise": self.block(op.otherwise, otherwise),
        }
        self.emit(op, made, regions)
        state.become(then, otherwise)
