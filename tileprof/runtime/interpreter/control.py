"""Blocks of ops, loops, branches and parallel boxes, in all lanes at once.

Lanes that do not take part are masked.  A `break` or `continue` takes its lanes out of the mask;
the loop around puts them back.  A block of ops ends early where no lane is left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof import ir
from tileprof.errors import ExecutionError

from .buffers import Buffer, Cell
from .lanes import Mask, Scalar, as_mask, both, either, some, uniform, without
from .state import Loop, State


def run(state: State, block: ir.Block) -> None:
    """Run the ops of a block; there is an active lane."""
    env, tick = state.env, state.tick
    for handler, op, released in state.code[block]:
        state.op = op
        handler(state, op)
        if tick is not None:
            tick(op, state.count)
        for value in released:
            env.pop(value, None)
        if state.mask is False or not some(state.mask):
            return


def loop(state: State, op: ir.For) -> None:
    """`ir.For`: to the last iteration of any lane; lanes whose own is past are masked."""
    entry, outer = state.mask, state.loop
    state.loop = frame = Loop()
    ring, around = (state.trip, state.stages), state.iterations
    for trip, (index, takes_part) in enumerate(_iterations(state, op)):
        active = both(without(entry, frame.broken), takes_part)
        if not some(active):
            break
        state.mask = active
        state.env[op.body.args[0]] = index
        state.iterations = (*around, trip)
        if op.kind == "pipelined":
            state.trip, state.stages = trip, op.num_stages
        run(state, op.body)
    state.mask, state.loop = entry, outer
    (state.trip, state.stages), state.iterations = ring, around


def _iterations(state: State, op: ir.For) -> Iterator[tuple[Scalar, Mask]]:
    """Yield the loop variable of each iteration, and which lanes have that iteration."""
    start, stop, step = (state.env[v] for v in (op.start, op.stop, op.step))
    zero = both(state.mask, as_mask(np.equal(step, 0)))
    if some(zero):
        raise ExecutionError(
            f"the step of a loop is 0, in {state.where(state.first(zero))}",
            location=op.span,
            hint="A loop with step 0 never ends.",
        )
    if uniform(start) and uniform(stop) and uniform(step):
        for index in range(int(start), int(stop), int(step)):
            yield index, True
        return
    # Lanes that take no part may have any numbers, 0 for a step included.
    safe = np.where(np.equal(step, 0), 1, step)
    counts = np.where(state.mask, -((np.asarray(start) - stop) // safe), 0)
    for turn in range(int(counts.max())):
        yield start + turn * safe, turn < counts


def loop_while(state: State, op: ir.While) -> None:
    """`ir.While`: until it holds in no lane."""
    running, outer = state.mask, state.loop
    entry = running
    state.loop = frame = Loop()
    turns = 0
    while some(running):
        state.mask = running
        run(state, op.condition)
        running = both(running, as_mask(state.yielded[0]))
        if not some(running):
            break
        if turns >= state.options.while_limit:
            _endless(state, op, running)
        turns += 1
        state.mask = running
        run(state, op.body)
        running = without(running, frame.broken)
    state.mask, state.loop = entry, outer


def _endless(state: State, op: ir.While, running: Mask) -> None:
    raise ExecutionError(
        f"a `while` still runs after {state.options.while_limit:,} iterations,"
        f" in {state.where(state.first(running))}",
        location=op.span,
        hint="Where it does end, set TILEPROF_WHILE_LIMIT to a larger number.",
    )


def take_break(state: State, op: ir.Break) -> None:
    """`ir.Break`."""
    state.loop.broken = either(state.loop.broken, state.mask)
    state.mask = False


def take_continue(state: State, op: ir.Continue) -> None:
    """`ir.Continue`: whatever holds the rest of this iteration takes the lanes back."""
    state.mask = False


def give(state: State, op: ir.Yield) -> None:
    """`ir.Yield`."""
    state.yielded = [state.env[v] for v in op.values]


def branch(state: State, op: ir.If) -> None:
    """`ir.If`: a block runs only where some lane takes it."""
    entry, condition = state.mask, as_mask(state.env[op.condition])
    results: list[tuple[Mask, list[Scalar]]] = []
    left: Mask = False
    unchanged = True
    for taken, block in (
        (both(entry, condition), op.then),
        (without(entry, condition), op.otherwise),
    ):
        if some(taken):
            state.mask = taken
            run(state, block)
            results.append((condition, state.yielded))
            left = either(left, state.mask)
            unchanged = unchanged and state.mask is taken
    # The same object again keeps a uniform mask uniform.
    state.mask = entry if unchanged else left
    if op.results:
        _, chosen = results[0]
        if len(results) == 2:
            chosen = [np.where(condition, a, b) for a, b in zip(chosen, results[1][1])]
        state.env.update(zip(op.results, chosen))


def parallel(state: State, op: ir.Parallel) -> None:
    """`ir.Parallel`: each point is a lane; `local` buffers from outside are copied for each."""
    entry = state.mask
    asked = [state.env[e] for e in op.extents]
    extents = [int(np.max(np.where(entry, e, 0))) for e in asked]
    if min(extents) <= 0:
        return
    with state.inside(op, extents):
        for arg, extent in zip(op.body.args, asked):
            if not uniform(extent):
                state.mask = both(state.mask, state.env[arg] < extent)
        if some(state.mask):
            kept = [_privatise(state, state.env[v]) for v in state.facts.outside[op]]
            run(state, op.body)
            for value, held in zip(state.facts.outside[op], kept):
                _forget(state.env[value], held, entry)
    state.mask = entry


def _privatise(state: State, held: Buffer | Cell) -> Cell | Buffer:
    """Give each lane its own copy of a local buffer; what it was before."""
    if isinstance(held, Cell):
        return Cell(held.name, held.value, held.written)
    memory = held.memory
    before = Buffer(held.name, held.type, held.shape, memory.copy(), held.lead)
    shape = (*state.lanes, *held.shape)
    memory.data = np.broadcast_to(memory.data, shape).copy()
    if memory.shadow is not None:
        memory.shadow = np.broadcast_to(memory.shadow, shape).copy()
    return before


def _forget(held: Buffer | Cell, before: Buffer | Cell, entry: Mask) -> None:
    """Take the copies away again: what lanes wrote is undefined from now on."""
    if isinstance(held, Cell):
        assert isinstance(before, Cell)
        held.value, held.written = before.value, without(before.written, entry)
        return
    assert isinstance(before, Buffer)
    held.memory.data, held.memory.shadow = before.memory.data, before.memory.shadow
    held.memory.blank = before.memory.blank
    if entry is True:
        held.memory.clear_shadow()
    else:
        lead = held.data.shape[: held.lead]
        held.memory.open_shadow()[np.broadcast_to(np.asarray(entry), lead)] = 0
