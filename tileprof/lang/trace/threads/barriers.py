"""Barriers between roles of warps, checked against the order of the program and then left out.

    for k in range(n):                          for k in T.Pipelined(n, num_stages=2):
        with T.ws(1):                               T.copy(A[k], A_shared)
            T.barrier_wait(done, (k + 1) % 2)       T.gemm(A_shared, B, C)
            T.tma_copy(A[k], A_shared, …)   ⇒
            T.barrier_arrive(ready)
        with T.ws(0):
            T.barrier_wait(ready, k % 2)
            T.gemm(A_shared, B, C)
            T.barrier_arrive(done)

Statements run in the order in which they are written.  That is one of the orders that the barriers
allow if no wait comes before what it waits for, so the program is run here for its barriers alone:
phases and arrivals are counted, for every iteration.  If a wait would not be over, or cannot be
computed now, the kernel is refused, because its text is in another order than its work.

In: the traced body of a launch, and what its marks stand for.  Out: a body without marks, whose
loops around loads of a role run them ahead (`slots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from tileprof import ir
from tileprof.compiler.passes.folding import Number, fold
from tileprof.ir.memory import base

from .known import KnownValues
from .postponed import Refuse

MARK = "barrier"
"""Name of the op that marks an operation on a barrier."""
_MOST_STEPS = 500_000
"""Ops that are run at most to check a launch, about a second; beyond, the kernel is refused."""
_REFUSED = "the barriers of a kernel cannot be checked"


class Barrier:
    """Result of `T.alloc_barrier`: one barrier for each count of arrivals."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = tuple(counts)

    def __getitem__(self, index: object) -> BarrierElement:
        return BarrierElement(self, index)

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, slots=True)
class BarrierElement:
    """One barrier of several, `mbars[k % 2]`."""

    barrier: Barrier
    index: object


@dataclass(frozen=True, slots=True)
class BarrierUse:
    """An operation on a barrier: threads arrive, or wait for a phase to end."""

    kind: Literal["arrive", "wait"]
    barrier: Barrier
    index: ir.Value
    parity: ir.Value | None = None


Uses = Mapping[ir.OpBase, BarrierUse]
"""Operation on a barrier that each mark stands for."""


def is_mark(op: ir.OpBase) -> bool:
    """Return whether an op marks an operation on a barrier."""
    return isinstance(op, ir.Annotate) and op.name == MARK


def check(
    body: ir.Block, uses: Uses, numbers: Mapping[ir.Value, int], threads: Sequence[int],
    refuse: Refuse,
) -> None:  # fmt: skip
    """Raise an error unless every wait of a launch is over where it stands in the program."""
    known = KnownValues(numbers, threads)
    _Run(uses, known, refuse).block(body, (True,) * known.count)


def without_marks(block: ir.Block) -> None:
    """Take the marks out of a block and of those inside of it."""
    block.ops[:] = [op for op in block.ops if not is_mark(op)]
    for op in block.ops:
        for inner in op.blocks():
            without_marks(inner)


@dataclass(slots=True)
class _Phase:
    """State of one barrier."""

    missing: int
    """Arrivals that the current phase still needs."""
    parity: int = 0
    """Parity of the current phase, which is not over."""


Active = tuple[bool, ...]
"""Whether each thread runs a statement."""
_Cell = tuple[ir.Value, tuple[Number, ...]]


@dataclass
class _Run:
    """A run of a launch's body that computes what its barriers depend on."""

    uses: Uses
    known: KnownValues
    refuse: Refuse
    values: dict[ir.Value, Number] = field(default_factory=dict)
    """Values that are equal for all threads that compute them."""
    cells: dict[_Cell, Sequence[Number | None]] = field(default_factory=dict)
    """Content of variables, for each thread; None where it is not known."""
    phases: dict[tuple[Barrier, int], _Phase] = field(default_factory=dict)
    steps: int = 0

    def block(self, block: ir.Block, active: Active) -> None:
        """Run the statements of a block for the active threads."""
        for op in block.ops:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                self._fail(op, "there are too many iterations around them", "Take fewer.")
            self._one(op, active)

    def _one(self, op: ir.OpBase, active: Active) -> None:
        match op:
            case ir.Annotate() if op in self.uses:
                self._use(self.uses[op], op, active)
            case ir.Load():
                self._load(op, active)
            case ir.Store() if op.buffer.buffer.space == "local":
                self._store(op, active)
            case ir.If():
                self._branch(op, active)
            case ir.For():
                self._loop(op, active)
            case ir.Scope():
                self.block(op.body, active)
            case _ if isinstance(op, ir.ScalarOp):
                self._scalar(op)
            case _:
                if self._has_uses(op):
                    self._fail(
                        op, f"they stand in a `{op.mnemonic}`",
                        "Write a loop with a number of iterations.",
                    )  # fmt: skip
                self._forget(op)

    # -- values

    def _number(self, value: ir.Value) -> Number | None:
        """Return what a value is for the active threads; None where it is not known."""
        if isinstance(value.owner, ir.Constant):
            return value.owner.value
        return self.values.get(value)

    def _set(self, value: ir.Value, number: Number | None) -> None:
        if number is None:
            self.values.pop(value, None)
        else:
            self.values[value] = number

    def _scalar(self, op: ir.OpBase) -> None:
        operands = [self._number(v) for v in op.operand_values()]
        numbers = [n for n in operands if n is not None]
        self._set(op.results[0], fold(op, numbers) if len(numbers) == len(operands) else None)

    def _cell(self, buffer: ir.Value, indices: Sequence[ir.Value]) -> _Cell | None:
        numbers = [self._number(v) for v in indices]
        found = tuple(n for n in numbers if n is not None)
        return (buffer, found) if len(found) == len(numbers) else None

    def _load(self, op: ir.Load, active: Active) -> None:
        cell = self._cell(op.buffer, op.indices)
        held = self.cells.get(cell, ()) if cell is not None else ()
        found = {number for number, runs in zip(held, active) if runs}
        self._set(op.result, found.pop() if len(found) == 1 else None)

    def _store(self, op: ir.Store, active: Active) -> None:
        cell, value = self._cell(op.buffer, op.indices), self._number(op.value)
        if cell is None:
            self._forget(op)
            return
        before = self.cells.get(cell, (None,) * len(active))
        self.cells[cell] = [value if runs else old for runs, old in zip(active, before)]

    def _forget(self, op: ir.OpBase) -> None:
        """Drop what an op that is not run may change."""
        written = {base(a.value) for a in op.all_accesses() if a.writes}
        for cell in [c for c in self.cells if c[0] in written]:
            del self.cells[cell]
        for value in op.results:
            self.values.pop(value, None)

    # -- branches and loops

    def _branch(self, op: ir.If, active: Active) -> None:
        number = self._number(op.condition)
        each = (number,) * len(active) if number is not None else self.known.of(op.condition)
        if each is None:
            if self._has_uses(op):
                self._fail(
                    op, "a branch around them depends on more than loops and numbers of threads",
                    "Let all threads of a role use them in each iteration.",
                )  # fmt: skip
            self._forget(op)
            return
        sides = (
            (op.then, tuple(a and bool(c) for a, c in zip(active, each))),
            (op.otherwise, tuple(a and not c for a, c in zip(active, each))),
        )
        for value in op.results:
            self._set(value, None)
        for block, those in sides:
            if any(those):
                self.block(block, those)
                if those == active:
                    self._yield(op, block)

    def _yield(self, op: ir.If, block: ir.Block) -> None:
        last = block.ops[-1] if op.results and block.ops else None
        if isinstance(last, ir.Yield):
            for value, held in zip(op.results, last.values):
                self._set(value, self._number(held))

    def _loop(self, op: ir.For, active: Active) -> None:
        if not self._has_uses(op):
            self._forget(op)
            return
        if any(isinstance(inner, ir.Break | ir.Continue) for inner in ir.walk(op.body)):
            self._fail(op, "a loop around them may be left early", "Let it run to its end.")
        bounds = [self._number(v) for v in (op.start, op.stop, op.step)]
        numbers = [int(n) for n in bounds if n is not None]
        if len(numbers) < len(bounds):
            self._fail(
                op, "the number of iterations of a loop around them is known only at launch",
                "Make its extent a `T.const`, or leave barriers to the compiler: `T.Pipelined`.",
            )  # fmt: skip
        for number in range(*numbers):
            self.values[op.body.args[0]] = number
            self.block(op.body, active)

    def _has_uses(self, op: ir.OpBase) -> bool:
        return any(inner in self.uses for block in op.blocks() for inner in ir.walk(block))

    # -- barriers

    def _use(self, use: BarrierUse, op: ir.OpBase, active: Active) -> None:
        index = self._number(use.index)
        if index is None:
            self._fail(
                op, "which one is meant depends on data, or differs between threads",
                "Compute it from loops around: `barriers[k % 2]`.",
            )  # fmt: skip
        counts = use.barrier.counts
        if not 0 <= index < len(counts):
            self.refuse(
                f"barrier {int(index)} of {len(counts)}",
                f"`T.alloc_barrier` with {len(counts)} counts has the barriers 0 to "
                f"{len(counts) - 1}.",
                op.span,
            )
        count = counts[int(index)]
        phase = self.phases.setdefault((use.barrier, int(index)), _Phase(count))
        if use.kind == "arrive":
            _arrive(phase, count, sum(active))
            return
        assert use.parity is not None
        parity = self._number(use.parity)
        if parity is None:
            self._fail(
                op, "the parity that is waited for depends on data, or differs between threads",
                "Compute it from loops around: `k // 2 % 2`.",
            )  # fmt: skip
        if phase.parity == int(parity) % 2:
            self.refuse(
                f"a wait for a phase that is not over in the order of the program: "
                f"{phase.missing} of {count} arrivals are missing",
                "Roles run in the order in which they are written: put the role that arrives "
                "before the one that waits, both in one loop, or leave barriers to the compiler: "
                "`T.Pipelined`.",
                op.span,
            )

    def _fail(self, op: ir.OpBase, why: str, hint: str) -> NoReturn:
        self.refuse(f"{_REFUSED}: {why}", hint, op.span)


def _arrive(phase: _Phase, count: int, threads: int) -> None:
    while threads:
        now = min(threads, phase.missing)
        phase.missing -= now
        threads -= now
        if not phase.missing:
            phase.missing, phase.parity = count, 1 - phase.parity
