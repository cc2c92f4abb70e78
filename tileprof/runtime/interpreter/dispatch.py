"""Handlers of ops: one entry per op, complete over `ir.OPS`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import DeviceAssertError, ExecutionError, ShapeError
from tileprof.runtime.interpreter import arithmetic, control, elements, faults, tileops, tiles
from tileprof.runtime.interpreter.buffers import Buffer, Cell, Memory, Tile, reinterpret
from tileprof.runtime.interpreter.convert import bitcast, cast, constant
from tileprof.runtime.interpreter.facts import Facts, evaluate
from tileprof.runtime.interpreter.lanes import Array, Scalar, as_mask, both, some, without
from tileprof.runtime.interpreter.state import MAX_BLOCKS, Code, Handler, State


def prepare(
    kernel: ir.Kernel, facts: Facts
) -> tuple[dict[ir.Block, Code], dict[ir.OpBase, Scalar]]:
    """The ops of every block of the kernel, ready to run, and its constants."""
    code: dict[ir.Block, Code] = {}
    blocks = [kernel.body]
    while blocks:
        block = blocks.pop()
        code[block] = [(HANDLERS[type(op)], op, facts.last_use[op]) for op in block.ops]
        blocks.extend(inner for op in block.ops for inner in op.blocks())
    ops = kernel.ops()
    return code, {o: constant(o.value, o.dtype) for o in ops if isinstance(o, ir.Constant)}


def _constant(state: State, op: ir.Constant) -> None:
    state.env[op.result] = state.constants[op]


def _binary(state: State, op: ir.Binary) -> None:
    left, right, dtype = state.env[op.left], state.env[op.right], op.left.dtype
    if op.kind in arithmetic.DIVISIONS and not dtype.is_float:
        zero = as_mask(np.equal(right, 0))
        if some(zero):
            if some(bad := both(state.mask, zero)):
                faults.zero_divisor(state, op, state.first(bad))
            right = np.where(zero, 1, right)
    state.env[op.result] = arithmetic.binary(op.kind, left, right, dtype)


def _unary(state: State, op: ir.Unary) -> None:
    value = state.env[op.operand]
    state.env[op.result] = arithmetic.unary(op.kind, value, op.operand.dtype)


def _compare(state: State, op: ir.Compare) -> None:
    left, right = state.env[op.left], state.env[op.right]
    state.env[op.result] = arithmetic.compare(op.kind, left, right, op.left.dtype)


def _fma(state: State, op: ir.Fma) -> None:
    a, b, c = (state.env[v] for v in (op.a, op.b, op.c))
    state.env[op.result] = arithmetic.fma(a, b, c, op.a.dtype)


def _select(state: State, op: ir.Select) -> None:
    condition, then = as_mask(state.env[op.condition]), state.env[op.then]
    otherwise = state.env[op.otherwise]
    if isinstance(condition, bool):
        state.env[op.result] = then if condition else otherwise
    else:
        state.env[op.result] = np.where(condition, then, otherwise)


def _cast(state: State, op: ir.Cast) -> None:
    state.env[op.result] = cast(state.env[op.operand], op.operand.dtype, op.dtype)


def _bitcast(state: State, op: ir.Bitcast) -> None:
    state.env[op.result] = bitcast(state.env[op.operand], op.dtype)


def _alloc(state: State, op: ir.Alloc) -> None:
    name = op.result.name or "buffer"
    if op.result in state.facts.cells:
        state.env[op.result] = Cell(name)
        return
    points = state.points if op.space == "local" else [1] * state.facts.depth
    data: Array = np.empty((state.count, *points, *op.shape), op.dtype.to_numpy())
    memory = Memory(data, blank=True, by_bits=op.result in state.facts.by_bits)
    lead = 1 + state.facts.depth
    state.env[op.result] = Buffer(name, op.result.buffer, op.shape, memory, lead)


def _view(state: State, op: ir.View) -> None:
    base, offsets = state.env[op.base], [state.env[o] for o in op.offsets]
    proved = op.in_bounds
    if isinstance(base, Tile):
        offsets = [np.add(a, b) for a, b in zip(base.offsets, offsets)]
        proved = proved and base.proved
        base = base.buffer
    state.env[op.result] = Tile(base, tuple(offsets), op.sizes, proved)


def _reinterpret(state: State, op: ir.Reinterpret) -> None:
    base = state.env[op.base]
    if not isinstance(base, Buffer):
        raise ShapeError(
            "a part of a buffer cannot be seen under another shape",
            location=op.span,
            hint="Reshape the whole buffer, then take the part.",
        )
    symbols = state.kernel.symbol_values()
    shape = tuple(d if isinstance(d, int) else state.env[symbols[d]] for d in op.shape)
    name = op.result.name or base.name
    state.env[op.result] = reinterpret(base, name, op.result.buffer, shape, op.span)


def _load(state: State, op: ir.Load) -> None:
    state.env[op.result] = elements.load(state, op)


def _atomic(state: State, op: ir.Atomic) -> None:
    state.env[op.result] = elements.atomic(state, op)


def _print(state: State, op: ir.Print) -> None:
    if op.value is None or not isinstance(op.value.type, ir.BufferType):
        _print_scalar(state, op)
        return
    tile = tiles.operand(state, op.value)
    if tile.buffer.type.space == "local" and state.parallels:
        raise ShapeError(
            f"`{tile.buffer.name}` is printed as a whole by the points of a T.Parallel",
            location=op.span,
            hint="Each point has its own: print its elements.",
        )
    values = tiles.need(state, op, tile)
    active = state.active_blocks(state.mask)
    for row in range(state.count) if active is None else active.tolist():
        text = np.array2string(values[min(row, len(values) - 1)], separator=", ")
        _say(state, op, (row, *(0,) * state.facts.depth), "\n" + text)


def _print_scalar(state: State, op: ir.Print) -> None:
    lanes = np.argwhere(np.broadcast_to(np.asarray(state.mask), state.lanes))
    value = None if op.value is None else state.env[op.value]
    for lane in map(tuple, lanes.tolist()):
        _say(state, op, lane, "" if value is None else str(state.at(value, lane)))


def _say(state: State, op: ir.Print, lane: tuple[int, ...], text: str) -> None:
    said = op.message + text if text.startswith("\n") else f"{op.message} {text}".strip()
    where = state.where(lane)
    state.output.add(lane[0], f"{where}: {said}" if where else said)


def _assert(state: State, op: ir.Assert) -> None:
    failing = without(state.mask, as_mask(state.env[op.condition]))
    if some(failing):
        where = state.where(state.first(failing))
        raise DeviceAssertError(
            f"the kernel's assertion failed{f': {op.message}' if op.message else ''}"
            f"{f', in {where}' if where else ''}",
            location=op.span,
        )


def _annotate(state: State, op: ir.Annotate) -> None:
    """A wish; it changes nothing."""


def _launch(state: State, op: ir.Launch) -> None:
    state.grid = tuple(int(state.env[g]) for g in op.grid)
    total = math.prod(max(n, 0) for n in state.grid)
    if total > MAX_BLOCKS:
        raise ExecutionError(
            f"a grid of {list(state.grid)} has more blocks than the interpreter can number",
            location=op.span,
            hint=f"It runs up to {MAX_BLOCKS:,}; run this kernel on `cpu`.",
        )
    state.grids.append(state.grid)
    if state.events is not None:
        state.events.launch(op, state.grid)
    for held in state.env.values():
        # Launches run one after another: what an earlier one wrote may be written again.
        if isinstance(held, Buffer):
            held.writers = None
    size = state.options.batch or batch_size(op, state.env)
    for start in range(0, total, size):
        _batch(state, op, np.arange(start, min(start + size, total)))
    state.begin(np.zeros(1, np.int64), launched=False)


def _batch(state: State, op: ir.Launch, blocks: Any) -> None:
    state.begin(blocks, launched=True)
    rest = blocks
    for arg, extent in zip(op.body.args, state.grid):
        index, rest = rest % extent, rest // extent
        same = bool((index == index[0]).all())
        state.env[arg] = int(index[0]) if same else state.per_block(index)
    state.recorder.begin()
    control.run(state, op.body)
    state.recorder.end(blocks)
    state.output.flush()


def _scope(state: State, op: ir.Scope) -> None:
    control.run(state, op.body)


def _record(state: State, op: ir.Record) -> None:
    state.recorder.note(op, state.active_blocks(state.mask))


HANDLERS: Mapping[type[ir.OpBase], Handler] = {
    ir.Constant: _constant,
    ir.Binary: _binary,
    ir.Unary: _unary,
    ir.Compare: _compare,
    ir.Fma: _fma,
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Bitcast: _bitcast,
    ir.Alloc: _alloc,
    ir.View: _view,
    ir.Reinterpret: _reinterpret,
    ir.Load: _load,
    ir.Store: elements.store,
    ir.Atomic: _atomic,
    ir.Copy: tileops.copy,
    ir.Fill: tileops.fill,
    ir.Gemm: tileops.gemm,
    ir.Reduce: tileops.reduce,
    ir.Scan: tileops.scan,
    ir.TileAtomic: tileops.tile_atomic,
    ir.Print: _print,
    ir.Assert: _assert,
    ir.Annotate: _annotate,
    ir.Launch: _launch,
    ir.For: control.loop,
    ir.Parallel: control.parallel,
    ir.While: control.loop_while,
    ir.If: control.branch,
    ir.Yield: control.give,
    ir.Break: control.take_break,
    ir.Continue: control.take_continue,
    ir.Scope: _scope,
    ir.Record: _record,
}

BATCH_BYTES = 2 << 20
"""Bytes of buffers and temporaries of a batch."""
MOST_BLOCKS = 1 << 16
"""Blocks at most."""
_GUESSED_EXTENT = 256
"""The extent of a `parallel` that is not known before its block runs."""


def batch_size(launch: ir.Launch, known: dict[ir.Value, object]) -> int:
    """Blocks of a launch to run at once; `known` are the values outside it."""
    return max(1, min(BATCH_BYTES // max(_bytes(launch.body, known), 1), MOST_BLOCKS))


def _bytes(block: ir.Block, known: dict[ir.Value, object], points: int = 1) -> int:
    """Bytes that a block of ops holds for one block of the grid: its buffers, and one temporary of
    8 bytes for each point of its largest `parallel`."""
    buffers, temporaries = 0, 0
    for op in block.ops:
        match op:
            case ir.Alloc(shape=shape, dtype=dtype):
                buffers += math.prod(shape) * dtype.bytes * points
            case ir.Parallel(extents=extents, body=body):
                sizes = [evaluate(e, known) for e in extents]
                box = points * math.prod(max(_GUESSED_EXTENT if s is None else s, 1) for s in sizes)
                temporaries = max(temporaries, box * 8 + _bytes(body, known, box))
            case _:
                inner = [_bytes(b, known, points) for b in op.blocks()]
                temporaries = max(temporaries, *inner, 0)
    return buffers + temporaries
