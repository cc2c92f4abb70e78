"""Requests of warps, counted while the interpreter runs a kernel that has layouts.

In: accesses as the interpreter reports them, and how threads make them (`Forms`).  Out: a `Traffic`
for each launch.  Blocks, tiles and matrices that lie alike are counted once, and multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.compiler.cuda.layouts import SharedLayout
from tileprof.compiler.cuda.layouts.matrix import Operand
from tileprof.compiler.cuda.target import SECTOR, WORD
from tileprof.errors import Location
from tileprof.ir.instructions import CpAsync, Fma, Matrices, Mma, Tma
from tileprof.ir.memory import base
from tileprof.runtime.events.access import Access, AccessKind

from .engine import moved_bytes
from .exchanges import Exchange, SharedRequests, exchange_of, sunk_loads
from .forms import Form, Forms
from .moved import Moved, Place, Traffic, Uncounted, Way
from .operands import MatrixAccess, operand_reads
from .roles import ScalarLoad, fixed_buffers, is_scalar_load
from .transactions import (
    Ints,
    copied_sectors,
    different,
    is_split,
    lone_wavefronts,
    parted_wavefronts,
    sectors,
)

_WARP = 32
_SHARED_ROW = 64
"""Bytes that a row of a box takes at least where blocks of a cluster load it together.  Counters of
seven products on an H200, 2026-11-30: rows of 32 bytes take twice their bytes, rows of 64 and 128
bytes their own, and rows of 32 bytes that one block loads for itself, too."""
_APART = 1 << 48
"""Bytes between two buffers: more than either has, and a multiple of a sector."""


class Requests:
    """Adds up what accesses take, while the interpreter runs the lowered kernel."""

    def __init__(self, forms: Forms) -> None:
        self.found: list[Traffic] = []
        self._kernel: ir.Kernel
        self._forms = forms
        self._known: dict[tuple[ir.OpBase, Hashable], tuple[Ints, dict[int, Moved]]] = {}
        """Accesses of loops, by the text that runs: bytes of the points from the first one
        on, and what they take by the place of the first one in its sector."""
        self._chunked: dict[tuple[Any, ...], Moved] = {}
        """Numbers of the tiles of cp.async, by op and by how they lie."""
        self._held: dict[tuple[ir.OpBase, Hashable], tuple[Ints, Ints]] = {}
        """Blocks, and what they asked for last, of loads that a loop around repeats."""
        self.exchanges: dict[ir.OpBase, Exchange | None] = {}
        """Exchanges of values between threads, by op; None for an op without one."""
        self._requests: dict[SharedRequests, Moved] = {}
        self._sunk: dict[ir.OpBase, ir.Store] = {}
        """Sums over warps whose parts are loaded in the branch of a store, with that store."""
        self._waiting: dict[ir.OpBase, list[tuple[ir.OpBase, str]]] = {}
        """The same by their stores, with the buffers of the sums."""
        self._branches: dict[ir.OpBase, tuple[Access, Ints, Moved]] = {}
        """Loads of first branches that share instructions with the second branch's: what was noted
        last, its bytes by block and point, and its numbers."""
        self.multicast: set[tuple[Location | None, str | None]] = set()
        """Copies by TMA that blocks of a cluster make together: place and tensor."""
        self.gathers: set[ir.OpBase] = set()
        """Loads and stores of points that are cp.async together."""
        self.ahead: dict[ir.OpBase, tuple[int, int]] = {}
        """Loads that are made some iterations ahead: the last iteration, and its loads."""
        self._second: set[ir.Gemm] = set()
        """Products of a buffer by itself whose first operand was noted."""
        self.scalars: list[ScalarLoad] | None = None
        """Loads of scalars of the roles of a launch; None where it has no roles."""
        self._by_roles: set[ir.Value] = set()
        """Buffers of which these are all loads outside of loops over points."""

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Note the kernel that starts."""
        self._kernel = kernel

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch."""
        self.found.append(Traffic(uncounted=dict.fromkeys(_uncounted(op, self._forms.matrices))))
        alone = self._forms.by_one_thread
        sunk = sunk_loads(op, alone)
        stores = self._forms.points | alone
        self._sunk = {each: store for each, store in sunk.items() if store in stores}
        for each in self.scalars or ():
            moved = Moved(each.requests, each.requests, each.requests, each.requests * each.bytes)
            self._add(each.op, "read", each.buffer, "global", "threads", moved)
        self._by_roles = set() if self.scalars is None else fixed_buffers(self._kernel, op)

    def note(self, access: Access) -> None:
        """Add an access of global or shared memory."""
        op, space = access.op, access.buffer.type.space
        if access.launch >= 0 and self._exchange(access):
            return
        stored = self._forms.matrices.get(op)
        if access.launch < 0 or space not in ("global", "shared"):
            return
        if stored is None and _by_layout_alone(op):
            return
        if is_scalar_load(op, self._by_roles) and op not in self._forms.points:
            return
        match op:
            case ir.Load() | ir.Store() | ir.Atomic():
                way: Way = "cp.async" if op in self.gathers else "threads"
                moved = self._elements(access)
            case ir.Gemm():
                way, moved = self._operand(access, op)
            case ir.Copy() if stored is not None:
                way = "ldmatrix" if access.kind == "read" else "stmatrix"
                moved = self._matrices(access, stored)
            case ir.Copy(lowering=CpAsync(bytes=width)):
                way, moved = "cp.async", self._chunks(access, width)
            case _:
                way, moved = "TMA", self._boxes(access)
        self._add(op, access.kind, access.buffer.name, space, way, moved)

    def _exchange(self, access: Access) -> bool:
        """Add what an op takes at which threads exchange values, once for each block that runs it;
        False for another op."""
        op = access.op
        if op not in self.exchanges:
            self.exchanges[op] = exchange_of(op, self._forms.warps.get(op, 1) * _WARP)
        exchange = self.exchanges[op]
        if exchange is None:
            return False
        if access.kind == "write":
            blocks = len(_starts(access))
            store = self._sunk.get(op)
            if store is not None:
                self._waiting.setdefault(store, []).append((op, access.buffer.name))
            for each in exchange.requests:
                if store is None or each.access == "write":
                    moved = self._asked(each).times(blocks)
                    self._add(op, each.access, access.buffer.name, "shared", "threads", moved)
            if exchange.shuffles:
                count = exchange.shuffles
                passed = Moved(count, count, count, count * _WARP * WORD).times(blocks)
                self._add(op, "read", access.buffer.name, "fragment", "shuffle", passed)
        return True

    def _load_parts(self, access: Access, form: Form | None, rows: Ints) -> None:
        """Add the loads of sums that lanes make only where they store.  rows: bytes by block and
        point, -1 where nothing is stored; without a form one thread of each block stores."""
        waiting = self._waiting.pop(access.op, [])
        if not waiting:
            return
        whole = np.broadcast_to(rows, (access.lanes[0], rows.shape[1]))
        if form is None:
            points = np.full((1, self._forms.warps.get(access.op, 1), _WARP), -1)
            points[0, 0, 0] = 0
        else:
            points = form.points
        stored = np.where(points >= 0, whole[:, np.maximum(points, 0)], -1) >= 0
        lanes_of = np.asarray(stored.any(axis=1))
        # By warp, the lanes that store, and in how many blocks.
        active = [
            np.unique(lanes_of[:, warp], axis=0, return_counts=True)
            for warp in range(lanes_of.shape[1])
        ]
        for op, buffer in waiting:
            exchange = self.exchanges[op]
            assert exchange is not None
            for each in exchange.requests:
                if each.access == "read":
                    lanes = each.lanes.reshape(-1, len(active), _WARP)
                    for warp, (patterns, counts) in enumerate(active):
                        for pattern, count in zip(patterns, counts.tolist()):
                            if not pattern.any():
                                continue
                            asked = replace(each, lanes=np.where(pattern, lanes[:, warp], -1))
                            moved = self._asked(asked).times(count)
                            self._add(op, "read", buffer, "shared", "threads", moved)

    def _asked(self, each: SharedRequests) -> Moved:
        """Return what one block's requests of an exchange take."""
        held = self._requests.get(each)
        if held is None:
            lanes = each.lanes[(each.lanes >= 0).any(axis=1)]
            taken, needed, parted = _shared(lanes, each.width)
            asked = int(different(lanes).sum()) * each.width
            held = Moved(
                len(lanes), int(taken.sum()), int(needed.sum()), asked, parted=int(parted.sum())
            )
            self._requests[each] = held
        return held

    def _add(
        self, op: ir.OpBase, kind: AccessKind, buffer: str, space: ir.Space, way: Way, moved: Moved
    ) -> None:
        """Add requests of an op to its place."""
        file, line = (op.span.file, op.span.line) if op.span else ("", 0)
        place = Place(file, line, kind, buffer, space, way)
        self.found[-1].places.setdefault(place, Moved()).add(moved)

    def _elements(self, access: Access) -> Moved:
        """Return the numbers of loads and stores of single points."""
        forms = self._forms
        form, text = forms.of(access.op, access.iterations)
        if form is not None and form.unused is not None:
            depth, iteration = form.unused
            if access.iterations[depth] == iteration:
                return Moved()
        address = self._addresses(access)
        rows, blocks = address.reshape(len(address), -1), access.lanes[0] // len(address)
        # Axes of extent 1 stand for loops that are not around this op.
        if form is not None and _long(access.lanes[1:]) == _long(form.shape):
            self._load_parts(access, form, rows)
            last, texts = self.ahead.get(access.op, (-1, 1))
            blocks *= texts if access.trip == last and not form.stays else 1
            if form.stays:
                rows, blocks = np.broadcast_to(rows, (access.lanes[0], rows.shape[1])), 1
                rows = rows[self._is_new(access, text, rows)]
            moved = self._in_form(access, form, text, rows).times(blocks)
            return self._without_branch(access, form, text, rows, moved)
        each = rows.reshape(-1, 1)
        times = math.prod(access.lanes) // len(each)
        if access.op in forms.by_one_thread:
            self._load_parts(access, None, rows)
        if access.op in forms.points or access.op in forms.by_one_thread:
            return self._summed(access, _lone(each), 1).times(times)
        # Outside of a loop every thread loads.
        warps = forms.warps.get(access.op, 1)
        return self._summed(access, np.repeat(each, _WARP, axis=1), 1).times(warps * times)

    def _is_new(self, access: Access, text: Hashable, rows: Ints) -> NDArray[np.bool_]:
        """Return of which blocks the iteration before, that ran the same text, did not ask for the
        same."""
        new = np.ones(len(rows), np.bool_)
        key = access.op, text
        if key in self._held:
            blocks, before = self._held[key]
            at = np.minimum(np.searchsorted(blocks, access.blocks), len(blocks) - 1)
            new = (blocks[at] != access.blocks) | (before[at] != rows).any(axis=1)
        self._held[key] = np.asarray(access.blocks, np.int64), rows
        return new

    def _in_form(self, access: Access, form: Form, text: Hashable, rows: Ints) -> Moved:
        """Return the numbers of an access in a loop with a layout.  rows: bytes by block and point.

        Blocks whose points lie alike, and at the same place in a sector, take the same: one of them
        is counted.
        """

        def count(some: Ints) -> Moved:
            asked = np.where(form.points >= 0, some[:, np.maximum(form.points, 0)], -1)
            if form.together > 1:
                asked = _different(asked, form.together)
            return self._summed(access, asked.reshape(-1, _WARP), form.width)

        if access.buffer.type.space == "shared" or not rows.size:
            return count(rows)
        first = rows[:, :1]
        relative = rows - first
        whole = rows.min(axis=1) >= 0
        pattern = relative[int(whole.argmax())]
        alike = whole & (relative == pattern).all(axis=1)
        made = count(rows[~alike]) if not alike.all() else Moved()
        known = self._known.get((access.op, text))
        if known is None or not np.array_equal(known[0], pattern):
            known = self._known[access.op, text] = pattern, {}
        places, begins, counts = np.unique(
            first[alike] % SECTOR, return_index=True, return_counts=True
        )
        like = rows[alike]
        for place, begin, times in zip(places.tolist(), begins.tolist(), counts.tolist()):
            if place not in known[1]:
                known[1][place] = count(like[begin : begin + 1])
            made.add(known[1][place].times(times))
        return made

    def _without_branch(
        self, access: Access, form: Form, text: Hashable, rows: Ints, moved: Moved
    ) -> Moved:
        """Return the numbers of a load without what the load of the other branch of an `if`, with
        which it shares its instructions, has already counted."""
        op, chosen = access.op, self._forms.chosen
        if op not in chosen and op not in chosen.values():
            return moved
        whole = np.broadcast_to(rows, (access.lanes[0], rows.shape[1]))
        before = self._branches.pop(chosen.get(op, op), None)
        if op not in chosen:
            self._branches[op] = access, whole, moved
        elif before is not None and before[0].iterations == access.iterations:
            other, lanes, counted = before
            if np.array_equal(other.blocks, access.blocks):
                apart = 0 if other.buffer.memory is access.buffer.memory else _APART
                both = np.where(whole >= 0, whole + apart, lanes)
                moved = self._in_form(access, form, text, both)
                moved.add(counted.times(-1))
        return moved

    def _operand(self, access: Access, op: ir.Gemm) -> tuple[Way, Moved]:
        """Return who reads the operand of a product, and its numbers."""
        layout = self._layout(access)
        assert layout is not None
        which: Operand = "a" if base(op.a).name == access.buffer.name else "b"
        if base(op.a) is base(op.b):
            # Reads of both operands are noted in turns.
            which = "b" if op in self._second else "a"
            self._second ^= {op}
        reads = operand_reads(op, which, layout, self._forms.warps[op] * _WARP)
        moved = self._matrices(access, reads, which)
        return "ldmatrix" if reads.by_matrices else "threads", moved

    def _matrices(self, access: Access, made: MatrixAccess, which: str = "") -> Moved:
        """Return the numbers of matrices of one operand, which lie alike in all tiles."""
        starts, counts = np.unique(_starts(access), axis=0, return_counts=True)
        found = Moved()
        for start, times in zip(starts, counts.tolist()):
            held = access.op, which, access.buffer.name, *start.tolist()
            if held not in self._chunked:
                asked = self._bytes(access, made.places + start)
                asked[..., made.lanes :] = -1
                elements = made.bytes // access.buffer.type.dtype.bytes
                self._chunked[held] = self._summed(access, asked.reshape(-1, _WARP), elements)
            found.add(self._chunked[held].times(times))
        return found

    def _boxes(self, access: Access) -> Moved:
        """Return the numbers of tiles that the copy engine moves: bytes alone."""
        if access.buffer.type.space != "global" or access.kind not in ("read", "write"):
            return Moved(bytes=_elements_inside(access))
        size = access.buffer.type.dtype.bytes
        targets = [
            self._forms.layout(base(each.value))
            for each in access.op.accesses()
            if each.value.buffer.space == "shared"
        ]
        panel = next((each.panel for each in targets if each is not None), access.sizes[-1])
        strides = [each * size for each in _strides(access)]
        box = max(panel, 1) * size
        found = moved_bytes(
            _starts(access), access.sizes, access.buffer.shape, strides, box,
            stored=access.kind == "write",
        )  # fmt: skip
        if (access.op.span, access.buffer.name) in self.multicast:
            found *= max(_SHARED_ROW // box, 1)
        return Moved(bytes=found)

    def _chunks(self, access: Access, width: int) -> Moved:
        """Return the numbers of cp.async: each thread copies `width` bytes, one after the other."""
        shape, starts = np.array(access.buffer.shape, np.int64), _starts(access)
        # Tiles take the same where they are cut alike and begin at the same place in a sector.
        keys = starts
        if access.buffer.type.space == "global":
            bytes_ = (starts * _strides(access)).sum(axis=1, keepdims=True)
            place = bytes_ * access.buffer.type.dtype.bytes % SECTOR
            low, high = np.maximum(-starts, 0), np.minimum(shape - starts, access.sizes)
            keys = np.concatenate([place, low, high], axis=1)
        keys, begins, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
        made = Moved()
        for key, begin, times in zip(keys.tolist(), begins.tolist(), counts.tolist()):
            held = access.op, access.kind, *key
            if held not in self._chunked:
                step = width // access.buffer.type.dtype.bytes
                asked = self._bytes(access, starts[begin] + _places(access.sizes, step))
                self._chunked[held] = self._summed(access, asked.reshape(-1, _WARP), step)
            made.add(self._chunked[held].times(times))
        return made

    def _addresses(self, access: Access) -> Ints:
        """Return the byte that each lane asks for, -1 where it takes no part or lies outside:
        int64[blocks, …]; one block where all ask for the same."""
        starts = [np.asarray(each, np.int64) for each in access.starts]
        mask = np.asarray(access.mask)
        alike = all(each.ndim == 0 or each.shape[0] == 1 for each in (*starts, mask))
        lanes = (1 if alike else access.lanes[0], *access.lanes[1:])
        if access.buffer.type.space == "shared":
            places = np.stack([np.broadcast_to(each, lanes) for each in starts], axis=-1)
            return np.where(np.broadcast_to(mask, lanes), self._bytes(access, places), -1)
        held, inside = np.zeros((), np.int64), mask
        for start, stride, extent in zip(starts, _strides(access), access.buffer.shape):
            held = held + start * stride
            inside = inside & (start >= 0) & (start < extent)
        held = held * access.buffer.type.dtype.bytes
        return np.broadcast_to(held if inside.all() else np.where(inside, held, -1), lanes)

    def _bytes(self, access: Access, places: Ints) -> Ints:
        """Return the byte of elements in their buffer, -1 for those outside."""
        shape = np.array(access.buffer.shape, np.int64)
        inside = np.all((places >= 0) & (places < shape), axis=-1)
        layout = self._layout(access)
        if layout is not None:
            held = layout.address(np.where(inside[..., None], places, 0))
        else:
            held = (places * _strides(access)).sum(axis=-1) * access.buffer.type.dtype.bytes
        return np.where(inside, held, -1)

    def _layout(self, access: Access) -> SharedLayout | None:
        """Return the layout of a shared buffer."""
        if access.buffer.type.space != "shared":
            return None
        used = [base(each.value) for each in access.op.accesses()]
        held = [self._forms.layout(each) for each in used if each.buffer.space == "shared"]
        found = next((each for each in held if each and each.shape == access.buffer.shape), None)
        # A buffer under another shape is in rows.
        return found or SharedLayout(access.buffer.shape, access.buffer.type.dtype)

    def _summed(self, access: Access, lanes: Ints, elements: int) -> Moved:
        """Return the sums of requests whose lanes ask for these bytes."""
        width = elements * access.buffer.type.dtype.bytes
        lanes = lanes[(lanes >= 0).any(axis=1)]
        if not len(lanes):
            return Moved()
        is_shared = access.buffer.type.space == "shared"
        if is_shared:
            taken, needed, parted = _shared(lanes, width)
        else:
            taken, needed = sectors(lanes, width)
            parted = np.zeros_like(taken)
        asked, joined = different(lanes), 0
        if isinstance(access.op, ir.Atomic) and is_shared and not _counts_ones(access.op):
            taken = lone_wavefronts(lanes)
        elif not is_shared and self._is_copy(access.op):
            taken, counted_twice = copied_sectors(lanes, width)
            joined = int(counted_twice.sum())
            if (asked != (lanes >= 0).sum(axis=1)).any() or is_split(lanes, width).any():
                line = access.op.span.line if access.op.span else 0
                self.found[-1].uncounted[line, access.op.mnemonic, "split copies"] = None
        total, least = int(taken.sum()), int(needed.sum())
        return Moved(len(lanes), total, least, int(asked.sum()) * width, joined, int(parted.sum()))

    def _is_copy(self, op: ir.OpBase) -> bool:
        """Return whether an op is a copy by cp.async."""
        return op in self.gathers or (isinstance(op, ir.Copy) and isinstance(op.lowering, CpAsync))


def _shared(lanes: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """Return the wavefronts of each request, the fewest, and those between that are no bank
    conflicts; as `transactions.sectors`."""
    taken, apart, least = parted_wavefronts(lanes, width)
    needed = np.minimum(apart, least)
    return taken, needed, apart - needed


def _counts_ones(op: ir.Atomic) -> bool:
    """Return whether an atomic adds 1 to a whole number: shared memory then adds the number of the
    lanes at a word, all at once."""
    value = op.value.owner
    return op.kind == "add" and isinstance(value, ir.Constant) and value.value == 1


def _different(asked: Ints, count: int) -> Ints:
    """Return the requests without those that ask in every lane for what one of the same `count`
    before them does.

    asked: bytes, int64[blocks, instructions, warps, 32], -1 for a lane that takes no part.
    """
    groups = asked.reshape(len(asked), -1, count, *asked.shape[2:])
    kept = [
        at
        for at in range(count)
        if not any(np.array_equal(groups[:, :, at], groups[:, :, before]) for before in range(at))
    ]
    return groups[:, :, kept].reshape(len(asked), -1, *asked.shape[2:])


def _by_layout_alone(op: ir.OpBase) -> bool:
    """Return whether layouts of its operands alone say how threads make an op's accesses."""
    if isinstance(op, ir.Load | ir.Store | ir.Atomic | ir.TileAtomic):
        return False
    if isinstance(op, ir.Gemm):
        return not isinstance(op.lowering, Mma)
    return not (isinstance(op, ir.Copy) and isinstance(op.lowering, CpAsync | Tma))


def _uncounted(
    launch: ir.Launch, counted: Container[ir.OpBase]
) -> Iterator[tuple[int, str, Uncounted]]:
    """Yield what accesses shared memory of a launch beside what is counted."""
    threads = launch.block_threads
    for op in ir.walk(launch.body):
        if op in counted:
            continue
        line = op.span.line if op.span else 0
        shared = any(each.value.buffer.space == "shared" for each in op.accesses())
        match op:
            case ir.Gemm(lowering=Fma()) if shared:
                yield line, op.mnemonic, "products in threads"
            case ir.Gemm(lowering=Mma()):
                pass
            case ir.Gemm() if shared:
                yield line, op.mnemonic, "matrix operands"
            case ir.Reduce() | ir.Scan() if shared and exchange_of(op, threads) is None:
                yield line, op.mnemonic, "exchange of threads"
            case ir.Copy(lowering=Matrices() | None) if shared:
                yield line, op.mnemonic, "copied matrices"
            case ir.Atomic() if shared and not _is_whole_word(op):
                yield line, op.mnemonic, "other"
            case ir.Load() | ir.Store() | ir.Atomic() | ir.Copy() | ir.TileAtomic():
                pass
            case ir.Reduce() | ir.Scan():
                pass
            case _ if shared:
                yield line, op.mnemonic, "other"


def _is_whole_word(op: ir.Atomic) -> bool:
    """Return whether shared memory changes an element by itself: others are changed by threads that
    try again while one was faster."""
    dtype = op.buffer.buffer.dtype
    return dtype.is_integer and dtype.bytes == WORD


def _strides(access: Access) -> tuple[int, ...]:
    """Return how many elements apart neighbours of each dimension are in global memory."""
    given = access.buffer.type.strides
    if given is not None and all(isinstance(each, int) for each in given):
        return tuple(int(each) for each in given)
    return tuple(np.cumprod([1, *access.buffer.shape[:0:-1]])[::-1].tolist())


def _places(sizes: Sequence[int], step: int) -> Ints:
    """Return the index of each chunk of `step` elements in a tile, as threads take them, in whole
    warps: int64[chunks, rank]; what fills up the last warp lies outside of every buffer."""
    axes = [*(np.arange(size) for size in sizes[:-1]), np.arange(0, sizes[-1], step)]
    found = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))
    return np.pad(found, ((0, -len(found) % _WARP), (0, 0)), constant_values=np.iinfo(np.int32).min)


def _starts(access: Access) -> Ints:
    """Return where the tiles of blocks that take part begin: int64[blocks, rank]."""
    count = access.lanes[0]
    starts = np.stack(
        [np.broadcast_to(np.asarray(s, np.int64).reshape(-1), count) for s in access.starts],
        axis=-1,
    )
    if access.mask is not True:
        starts = starts[np.broadcast_to(np.asarray(access.mask).reshape(-1), count)]
    return starts


def _long(extents: Sequence[int]) -> list[int]:
    """Return the extents without those of 1."""
    return [extent for extent in extents if extent != 1]


def _lone(address: Ints) -> Ints:
    """Return requests of one lane each."""
    made = np.full((len(address), _WARP), -1, np.int64)
    made[:, :1] = address
    return made


def _elements_inside(access: Access) -> int:
    """Return the bytes of tiles inside their tensor."""
    elements = np.broadcast_to(np.asarray(access.elements(), np.int64), access.lanes)
    if access.mask is not True:
        elements = np.where(access.mask, elements, 0)
    return int(elements.sum()) * access.buffer.type.dtype.bytes
