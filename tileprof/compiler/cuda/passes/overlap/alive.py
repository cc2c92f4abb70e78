"""Registers that the fragments of a loop take where most of them hold something at once.

In: the ops of an iteration in the order in which they run, each with the iterations by which it is
later than the first of them.  Out: registers of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.compiler.cuda.resources import fragment_registers
from tileprof.ir.memory import base

Order = Sequence[tuple[ir.OpBase, int]]
"""Ops, and by how many iterations each is late."""


def most_registers(launch: ir.Launch, loop: ir.For, order: Order) -> float:
    """Registers of a thread where most fragments are alive: each from its first write in an
    iteration to its last access, and always if other iterations or other ops use it."""
    spans: dict[ir.Value, range] = {}
    always = _outside(launch, loop)
    timed = [(late * len(order) + at, op) for at, (op, late) in enumerate(order)]
    for at, op in sorted(timed, key=lambda each: each[0]):
        for touch in op.all_accesses():
            held = base(touch.value)
            if held.buffer.space != "fragment":
                continue
            if held not in spans and touch.reads:
                always.add(held)
            spans[held] = range(spans[held].start if held in spans else at, at + 1)
    alive = [[v for v in spans if v in always] for _ in order]
    for held, span in spans.items():
        if held not in always:
            for at in span:
                alive[at % len(order)].append(held)
    return max((fragment_registers(held, launch.block_threads) for held in alive), default=0)


def _outside(launch: ir.Launch, loop: ir.For) -> set[ir.Value]:
    """The buffers that ops outside of a loop read."""
    inside = set(ir.walk(loop.body))
    others = (o for o in ir.walk(launch.body) if o not in inside and o is not loop)
    return {base(t.value) for o in others for t in o.accesses() if t.reads}
