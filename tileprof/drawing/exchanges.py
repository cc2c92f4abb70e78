"""Requests with which threads exchange values: sums over warps, scans, changes of layout, shuffles.

In: an op whose operands have layouts.  Out: what one block asks of shared memory, as bytes of the
lanes of each instruction, and how many shuffles its warps make.  The rules are those of
`emit.reduce`, `emit.scan` and `emit.convert`; NVRTC joins loads of neighbouring parts.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout, parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.exchange import (
    Reduction,
    convert_scratch,
    has_thread_lines,
    is_within_threads,
    plan_all_reduce,
    plan_reduce,
    scan_scratch,
    staged_row,
    staged_shape,
    staged_strides,
    staged_width,
    working_type,
)
from tileprof.compiler.cuda.layouts.shuffles import Shuffles, plan_shuffles
from tileprof.compiler.cuda.target import WIDEST_ACCESS, WORD
from tileprof.ir.memory import base

from .points import Ints, first_of_each

_WARP = 32


@dataclass(frozen=True, eq=False)
class SharedRequests:
    """Instructions of one width on shared memory, of all warps of a block."""

    access: Literal["read", "write"]
    lanes: Ints
    """Byte that each lane names: int64[instructions, 32], -1 for a lane that takes no part."""
    width: int
    """Bytes of a lane."""


@dataclass(frozen=True)
class Exchange:
    """Work of one block at an op, each time that it runs."""

    requests: tuple[SharedRequests, ...] = ()
    shuffles: int = 0
    """Instructions of warps that pass a word of each lane to another one."""


def exchange_of(op: ir.OpBase, threads: int) -> Exchange | None:
    """Return how the threads of a block exchange values at an op; None for an op that is none.

    threads: of the block that take part, where the operands' layouts do not say it.
    """
    match op:
        case ir.Reduce():
            source = _fragment(op.source)
            if source is None or op.partial:
                return None
            working = working_type(op.source.dtype, op.target.dtype)
            return _reduction(plan_reduce(source, op.dim), source.threads, working)
        case ir.AllReduce():
            held = _fragment(op.target)
            if held is None:
                return None
            plan = plan_all_reduce(held, op.lanes, op.warps)
            return _reduction(plan, held.threads, op.target.dtype)
        case ir.Scan():
            return _scan(op, threads)
        case ir.Copy() if op.source.buffer.space == op.target.buffer.space == "fragment":
            first, second = _fragment(op.source), _fragment(op.target)
            if first is None or second is None or op.source.dtype != op.target.dtype:
                return None
            return _conversion(first, second, op.source.dtype)
        case _:
            return None


def sunk_loads(launch: ir.Launch, alone: Container[ir.OpBase]) -> dict[ir.Reduce, ir.Store]:
    """Return the sums over warps that only one store to global memory needs, with that store.
    alone: what one thread does outside of loops over points.

    NVRTC moves the loads of the warps' parts into the branch around such a store, where nothing
    between them changes shared memory: warps that store nothing load nothing.
    """
    readers: dict[ir.Value, set[ir.OpBase]] = {}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Load):
            readers.setdefault(op.buffer, set()).add(op)
        else:
            for access in op.accesses():
                if access.reads:
                    readers.setdefault(base(access.value), set()).add(op)
    users = ir.users(ir.walk(launch.body))
    found: dict[ir.Reduce, ir.Store] = {}
    for block in _blocks(launch.body):
        for at, op in enumerate(block.ops):
            if isinstance(op, ir.Reduce) and op.scratch is not None and op.clear:
                behind = block.ops[at + 1 :]
                one = {each: _needs(each, users) for each in behind if each in alone}
                store = _only_store(op.target, behind, readers, one)
                if store is not None:
                    found[op] = store
    return found


def _blocks(block: ir.Block) -> Iterator[ir.Block]:
    """Yield a block and those inside it, but for the points of loops."""
    yield block
    for op in block.ops:
        if not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _blocks(inner)


def _needs(op: ir.OpBase, users: Mapping[ir.Value, Sequence[ir.OpBase]]) -> set[ir.OpBase]:
    """Return the ops that are no computations and need what an op gives."""
    needed = {each for value in op.results for each in users.get(value, ())}
    return set[ir.OpBase]().union(*(_needs(n, users) if is_pure(n) else {n} for n in needed))


def _only_store(
    value: ir.Value,
    following: Sequence[ir.OpBase],
    readers: Mapping[ir.Value, set[ir.OpBase]],
    alone: Mapping[ir.OpBase, set[ir.OpBase]],
) -> ir.Store | None:
    """Return the store to global memory that alone needs a fragment, perhaps through others.
    alone: what one thread does, with the ops that need it."""
    asked, seen = {value}, set[ir.OpBase]()
    for op in following:
        inside = set(ir.walk(op.body)) if isinstance(op, ir.Parallel) else {op}
        needed = set[ir.OpBase]().union(*(readers.get(each, ()) for each in asked))
        stores = [each for each in inside if isinstance(each, ir.Store | ir.Atomic)]
        spaces = {each.buffer.buffer.space for each in stores}
        if not needed & inside:
            passive = isinstance(op, ir.Parallel | ir.Alloc | ir.View) or is_pure(op)
            if "shared" in spaces or not passive:
                return None
            continue
        seen |= inside
        if isinstance(op, ir.Load) and needed <= seen:
            # Numbers for the store of one thread.
            stores = [each for each in alone.get(op, ()) if isinstance(each, ir.Store)]
            spaces = {each.buffer.buffer.space for each in stores}
        if spaces == {"fragment"}:
            asked |= {each.buffer for each in stores}
            continue
        (store,) = stores if len(stores) == 1 else (None,)
        is_only = spaces == {"global"} and needed <= seen
        return store if is_only and isinstance(store, ir.Store) else None
    return None


def _fragment(value: ir.Value) -> RegisterLayout | None:
    """Return the layout of a whole fragment."""
    owner = value.owner
    if not isinstance(owner, ir.Alloc) or not owner.layout or value.buffer.space != "fragment":
        return None
    return parse_layout(owner.layout, owner.shape)


def _words(dtype: ir.DType) -> int:
    """Return how many words of 32 bits hold an element."""
    return -(-dtype.bytes // WORD)


# -- reductions


def _reduction(plan: Reduction, threads: int, working: ir.DType) -> Exchange:
    """Return the butterflies of lanes, and the parts of warps that meet in shared memory."""
    warps, results = threads // _WARP, len(plan.groups)
    shuffles = results * len(plan.masks) * warps * _words(working)
    if len(plan.warps) < 2:
        return Exchange((), shuffles)
    lane, warp = np.arange(_WARP), np.arange(warps)[:, None]
    slot, idle = np.zeros(_WARP, np.int64), 31
    for position, bit in enumerate(plan.kept):
        slot |= (lane >> bit & 1) << position
        idle &= ~(1 << bit)
    stores = [
        np.where(lane & idle, -1, ((r * warps + warp) * plan.slots + slot) * working.bytes)
        for r in range(results)
    ]
    away = sum(np.arange(warps) // weight % radix * weight for weight, radix in plan.radices)
    first = (np.arange(warps) - away)[:, None]
    loads: dict[int, list[Ints]] = {}
    for r in range(results):
        for distance, count in _joined(plan, r * warps, working.bytes):
            row = (r * warps + first + distance) * plan.slots + slot
            loads.setdefault(count, []).append(row * working.bytes)
    return Exchange(
        (
            SharedRequests("write", np.concatenate(stores), working.bytes),
            *(
                SharedRequests("read", np.concatenate(each), working.bytes * count)
                for count, each in loads.items()
            ),
        ),
        shuffles,
    )


def _joined(plan: Reduction, row: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the loads of a result's parts: the distance in warps of the first part, and how many
    neighbours one load has, as far as their address is known to be a multiple of its width.

    row: number of the part of warp 0.
    """
    distances = sorted(plan.warps)
    known = all(n & (n - 1) == 0 for each in plan.radices for n in each)
    # The number of the first warp has zeros where the digits are: `tp_warp & ~mask`.
    aligned = _zeros(sum(weight * (radix - 1) for weight, radix in plan.radices))

    def fits(at: int, count: int) -> bool:
        begin = distances[at]
        return (
            distances[at : at + count] == list(range(begin, begin + count))
            and count * size <= WIDEST_ACCESS
            and aligned % count == 0
            and (row + begin) % count == 0
        )

    at = 0
    while at < len(distances):
        count = 1
        while known and plan.slots == 1 and fits(at, count * 2):
            count *= 2
        yield distances[at], count
        at += count


def _zeros(mask: int) -> int:
    """Return the power of two that a number is a multiple of in which these bits are 0."""
    return ~mask & (mask + 1)


# -- scans


def _scan(op: ir.Scan, threads: int) -> Exchange | None:
    """Return the loads and stores of the lines of a scan."""
    shape = op.target.buffer.static_shape
    source, target = _shared(op.source), _shared(op.target)
    if source is None or target is None:
        return None
    length = shape[op.dim]
    lines = math.prod(shape) // length
    working = working_type(op.source.dtype, op.target.dtype)
    order = np.arange(length)[::-1] if op.reverse else np.arange(length)

    def bytes_of(layout: SharedLayout, line: Ints, at: Ints) -> Ints:
        """Return the byte of elements of lines; -1 behind the end of either."""
        inside = (line >= 0) & (line < lines) & (at >= 0) & (at < length)
        rest = np.unravel_index(
            np.where(inside, line, 0), [e for d, e in enumerate(shape) if d != op.dim] or [1]
        )
        places = list(rest) if len(shape) > 1 else []
        places.insert(op.dim, order[np.where(inside, at, 0)])
        index = np.stack(np.broadcast_arrays(*places), axis=-1)
        pad = [np.zeros(index.shape[:-1], np.int64)] * (len(layout.shape) - len(shape))
        index = np.concatenate([np.stack(pad, axis=-1), index], axis=-1) if pad else index
        return np.where(inside, layout.address(index), -1)

    size = op.source.dtype.bytes, op.target.dtype.bytes
    if has_thread_lines(lines, length, threads):
        line = np.arange(-(-lines // threads) * threads).reshape(-1, 1, _WARP)
        line, at = np.broadcast_arrays(line, np.arange(length).reshape(1, -1, 1))
        read, write = bytes_of(source, line, at), bytes_of(target, line, at)
        if op.source is op.target and op.source.dtype == working:
            # The first element of a line is there already.
            write = write[:, 1:]
        return Exchange((_request("read", read, size[0]), _request("write", write, size[1])))
    whole = np.arange(-(-length // _WARP) * _WARP).reshape(1, -1, _WARP)
    line, at = np.broadcast_arrays(np.arange(lines).reshape(-1, 1, 1), whole)
    requests = [
        _request("read", bytes_of(source, line, at), size[0]),
        _request("write", bytes_of(target, line, at), size[1]),
    ]
    shuffles = lines * whole.shape[1] * 6
    if scan_scratch(shape, op.dim, threads, op.source.dtype, op.target.dtype):
        # Warps share a line: each but the last adds up its part, and reads those before its own.
        warps = threads // _WARP
        part = -(-length // (_WARP * warps)) * _WARP
        first = [w for w in range(warps) if (w + 1) * part < length]
        ahead = len(first) * part
        requests.append(_request("read", bytes_of(source, line, at)[:, : ahead // _WARP], size[0]))
        sums = sum(w for w in range(warps) if w * part < length)
        requests += [
            _request("read", np.zeros((lines * sums, _WARP), np.int64), working.bytes),
            _request("write", _lone(lines * len(first)), working.bytes),
        ]
        shuffles += lines * len(first) * 5
    return Exchange(tuple(requests), shuffles * _words(working))


def _request(access: Literal["read", "write"], lanes: Ints, width: int) -> SharedRequests:
    return SharedRequests(access, np.ascontiguousarray(lanes).reshape(-1, _WARP), width)


def _lone(count: int) -> Ints:
    """Return requests of which one lane takes part."""
    made = np.full((count, _WARP), -1, np.int64)
    made[:, 0] = 0
    return made


def _shared(value: ir.Value) -> SharedLayout | None:
    owner = base(value).owner
    if not isinstance(owner, ir.Alloc) or value.buffer.space != "shared":
        return None
    return parse_shared(owner.layout, owner.shape, owner.dtype)


# -- changes of layout


def _conversion(source: RegisterLayout, target: RegisterLayout, dtype: ir.DType) -> Exchange | None:
    """Return how a fragment gets another layout."""
    if is_within_threads(source, target):
        return None
    plan = plan_shuffles(source, target, dtype.bytes)
    if plan is not None:
        return Exchange((), _shuffled(plan, source) * (source.threads // _WARP))
    if not convert_scratch(source, target, dtype):
        return None
    shape = staged_shape(source, target)
    strides = np.array(staged_strides(shape, staged_row(shape, dtype)), np.int64)
    return Exchange(
        (
            _staged("write", source, strides, dtype),
            _staged("read", target, strides, dtype),
        )
    )


def _shuffled(plan: Shuffles, source: RegisterLayout) -> int:
    """Return the words of a lane that come from another one."""
    count = source.registers_per_thread // plan.pack
    if not plan.keeps_lanes:
        return count
    return sum(any(i // swap.word & 1 for swap in plan.swaps) for i in range(count))


def _staged(
    access: Literal["read", "write"], layout: RegisterLayout, strides: Ints, dtype: ir.DType
) -> SharedRequests:
    """Return the accesses of all registers; of threads that hold the same the first one stores."""
    width = staged_width(layout, dtype)
    table = layout.table()[:, ::width]
    address = (table * strides).sum(axis=-1) * dtype.bytes
    if access == "write":
        address = np.where(first_of_each(address[:, :1]), address, -1)
    return SharedRequests(
        access, np.ascontiguousarray(address.T).reshape(-1, _WARP), width * dtype.bytes
    )
