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

import math
import operator
import random
from collections.abc import Collection, Hashable, Mapping, Sequence
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
_CHOICES = 8
"""Ways in which branches that depend on data are taken: all, none, in turns, and at random."""
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
    role: Active | None = None
    """Whether each thread comes there; None where branches around it say so."""


Active = tuple[bool, ...]
"""Whether each thread runs a statement."""
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


def check_merged(
    body: ir.Block, uses: Uses, loops: Collection[ir.Block], numbers: Mapping[ir.Value, int],
    threads: Sequence[int], refuse: Refuse,
) -> dict[ir.Block, set[ir.Value]]:  # fmt: skip
    """Raise an error unless every wait of merged roles is over where it stands in the program.

    What depends on data is chosen, alike wherever it is computed alike, and in several ways.  Long
    loops are run for as many iterations as phases need to come back to where they were.  Returns
    for each loop around loads of a role the buffers of which an iteration fills one slot, and uses
    no other.
    """
    known = KnownValues(numbers, threads)
    counts = {len(use.barrier.counts) for use in uses.values()}
    period = 2 * math.lcm(*counts)
    found: dict[ir.Block, dict[ir.Value, bool]] = {}
    for choice in range(_CHOICES):
        run = _ChosenRun(uses, known, refuse, choice=choice, period=period, loops=loops)
        run.block(body, (True,) * known.count)
        for loop, slots in run.slots.items():
            held = found.setdefault(loop, {})
            held.update((b, held.get(b, True) and one) for b, one in slots.items())
    return {loop: {b for b, one in slots.items() if one} for loop, slots in found.items()}


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
            _arrive(phase, count, sum(map(operator.and_, active, use.role or active)))
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


@dataclass
class _ChosenRun(_Run):
    """A run of merged roles in which what depends on data is chosen."""

    choice: int = 0
    period: int = 2
    loops: Collection[ir.Block] = ()
    symbols: dict[ir.Value, Hashable] = field(default_factory=dict)
    """Computations of the values that are not known."""
    kept: dict[_Cell, Hashable] = field(default_factory=dict)
    """Computations of what is in variables."""
    versions: dict[ir.Value, int] = field(default_factory=dict)
    """Number of writes of each buffer."""
    chosen: dict[Hashable, int] = field(default_factory=dict)
    slots: dict[ir.Block, dict[ir.Value, bool]] = field(default_factory=dict)
    """Whether each iteration so far filled one slot of a buffer and used no other."""
    seen: list[dict[ir.Value, int | None]] = field(default_factory=list)
    """Slot of each buffer in the iterations that are being run; None for more than one."""

    def _one(self, op: ir.OpBase, active: Active) -> None:
        self._touch(op)
        super()._one(op, active)

    # -- values

    def _symbol(self, value: ir.Value) -> Hashable:
        number = self._number(value)
        return self.symbols.get(value, value) if number is None else number

    def _scalar(self, op: ir.OpBase) -> None:
        super()._scalar(op)
        operands = tuple(self._symbol(v) for v in op.operand_values())
        (result,) = op.results
        self.symbols[result] = (op.mnemonic, str(result.dtype), operands)

    def _load(self, op: ir.Load, active: Active) -> None:
        super()._load(op, active)
        at = tuple(self._symbol(v) for v in op.indices)
        cell = self._cell(op.buffer, op.indices)
        held = self.kept.get(cell) if cell is not None else None
        version = self.versions.get(base(op.buffer), 0)
        self.symbols[op.result] = (op.buffer, at, version) if held is None else held

    def _store(self, op: ir.Store, active: Active) -> None:
        super()._store(op, active)
        self._written(op)
        cell = self._cell(op.buffer, op.indices)
        if cell is not None and all(active):
            self.kept[cell] = self._symbol(op.value)

    def _forget(self, op: ir.OpBase) -> None:
        super()._forget(op)
        self._written(op)
        for value in op.results:
            self.symbols.pop(value, None)

    def _written(self, op: ir.OpBase) -> None:
        written = {base(a.value) for a in op.all_accesses() if a.writes}
        for buffer in written:
            self.versions[buffer] = self.versions.get(buffer, 0) + 1
        for cell in [c for c in self.kept if c[0] in written]:
            del self.kept[cell]

    # -- choices

    def _choose(self, symbol: Hashable, most: int) -> int:
        if symbol not in self.chosen:
            count = len(self.chosen)
            rng = random.Random(f"{self.choice} {count}")
            several = (most - 1, 0, count % most, (count + 1) % most)
            free = self.choice >= len(several)
            self.chosen[symbol] = rng.randrange(most) if free else several[self.choice]
        return self.chosen[symbol]

    def _branch(self, op: ir.If, active: Active) -> None:
        condition = op.condition
        if self._number(condition) is not None or self.known.of(condition) is not None:
            super()._branch(op, active)
            return
        taken = self._choose(self._symbol(condition), 2)
        self.block(op.then if taken else op.otherwise, active)
        self._yield(op, op.then if taken else op.otherwise)

    def _loop(self, op: ir.For, active: Active) -> None:
        inner = op.body in self.loops
        if not inner and not self._has_uses(op):
            self._forget(op)
            return
        if any(isinstance(each, ir.Break | ir.Continue) for each in ir.walk(op.body)):
            self._fail(op, "a loop around them may be left early", "Let it run to its end.")
        start, stop, step = (self._number(v) for v in (op.start, op.stop, op.step))
        if step is None or (start is None and stop is None):
            start, stop, step = 0, None, step or 1
        start = 0 if start is None else start
        if stop is None:
            stop = start + step * self._choose(self._symbol(op.stop), 2 * self.period)
        for number in _shortened(range(int(start), int(stop), int(step)), self.period):
            self.values[op.body.args[0]] = number
            if inner:
                self.seen.append({})
            self.block(op.body, active)
            if inner:
                for buffer, slot in self.seen.pop().items():
                    known = self.slots.setdefault(op.body, {})
                    known[buffer] = known.get(buffer, True) and slot is not None

    # -- slots

    def _touch(self, op: ir.OpBase) -> None:
        """Note which slots an op uses."""
        if not self.seen or isinstance(op, ir.If | ir.Scope | ir.View | ir.Annotate):
            return
        if isinstance(op, ir.For) and (op.body in self.loops or self._has_uses(op)):
            return
        for access in op.all_accesses():
            buffer = base(access.value)
            if buffer.buffer.space != "shared" or buffer.buffer.rank < 2:
                continue
            view = access.value.owner
            whole = isinstance(view, ir.View) and view.base is buffer and view.sizes == (
                1, *buffer.buffer.shape[1:]
            )  # fmt: skip
            slot = self._number(view.offsets[0]) if whole and isinstance(view, ir.View) else None
            for seen in self.seen:
                first = buffer not in seen
                fills = isinstance(op, ir.Copy) and access.writes
                same = seen.get(buffer, slot) == slot and slot is not None and (not first or fills)
                seen[buffer] = int(slot) if same and slot is not None else None


def _shortened(numbers: range, most: int) -> Sequence[int]:
    """Return the first numbers of a long range and the last one, so many that as many are left out
    as make whole periods."""
    if len(numbers) <= 2 * most:
        return numbers
    count = most + len(numbers) % most
    return [*numbers[: count - 1], numbers[-1]]


def _arrive(phase: _Phase, count: int, threads: int) -> None:
    while threads:
        now = min(threads, phase.missing)
        phase.missing -= now
        threads -= now
        if not phase.missing:
            phase.missing, phase.parity = count, 1 - phase.parity
