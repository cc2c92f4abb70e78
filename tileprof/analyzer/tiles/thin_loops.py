"""Parallel loops of so few elements that threads of the block have nothing, or little, to do.

In: a kernel.  Out: `Thin` loops: one of fewer elements than the block has threads, or one inside of
a serial loop whose turns could be done side by side, as none reads what another one writes.

    threads = 512:  parallel [128]                               384 threads have nothing to do
    for i: parallel [128] j: scaled[i, j] = key[i, j] * f[i]     turns are independent: 64 in series
    for d: parallel [64, 64] r, c: sums[r, c] += a[r, d] * …     turns add to the same sums

And `SmallChunk`s: loops that reduce a chunk of a tensor across threads in each iteration, of so few
elements that a thread has one or two of them.

    for k in 128: copy X[row, k * 256 …], x; reduce max x, top   256 elements for 256 threads
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.analyzer.numbers.tiles import SMALL_CHUNKS_EACH, SMALL_CHUNKS_TURNS
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel


@dataclass(frozen=True, eq=False)
class Thin:
    """A parallel loop, or a reduction over so few elements."""

    op: Op
    loop: Op | None
    """The serial loop around it whose turns are independent."""
    elements: int
    threads: int
    turns: int
    """Of `loop` that threads, of as many bytes as they move at once, could do together."""

    @property
    def idle(self) -> float:
        """Of the threads, the part that has nothing to do."""
        return max(0.0, 1 - self.elements / self.threads)

    @property
    def lines(self) -> frozenset[int]:
        """In the kernel's source, of the loops."""
        return frozenset(each.line for each in (self.loop or self.op).walk() if each.line)


@lru_cache(maxsize=2)
def thin_loops(kernel: TileKernel) -> tuple[Thin, ...]:
    """All of a kernel."""
    effects, found = effects_of(kernel), list[Thin]()
    for op, around in kernel.nested:
        if op.name == "parallel":
            threads = math.prod(each for launch in around for each in launch.numbers("threads"))
            elements = _elements(effects, op)
            if threads > 1 and elements and (each := _thin(effects, op, around, elements, threads)):
                found.append(each)
        elif op.name == "reduce":
            threads = math.prod(each for launch in around for each in launch.numbers("threads"))
            elements = math.prod(kernel.types[op.source].extents or (threads,))
            if elements < threads:
                found.append(Thin(op, None, elements, threads, 1))
    return tuple(found)


def _thin(
    effects: Effects, op: Op, around: tuple[Op, ...], elements: int, threads: int
) -> Thin | None:
    loop = around[-1] if around else None
    if loop is None or loop.name != "for" or not _independent(effects, loop):
        return Thin(op, None, elements, threads, 1) if elements < threads else None
    bits = max(
        (held.bits for each in op.walk() if each.name == "store"
         if (held := effects.kernel.types.get(each.operands[1])) is not None), default=32,
    )  # fmt: skip
    together = threads * max(1, 8 * WIDEST // bits) // elements
    turns = min(int(effects.turns(loop)), together)
    return Thin(op, loop, elements, threads, turns) if turns > 1 else None


def _elements(effects: Effects, op: Op) -> int:
    sizes = [effects.values.number(name) for name in op.listed]
    known = [each for each in sizes if each is not None]
    return math.prod(known) if known and len(known) == len(sizes) else 0


def _independent(effects: Effects, loop: Op) -> bool:
    """Whether no turn uses, or writes over, what another one writes: all that is stored goes by
    the loop's index, and is loaded at the same place only."""
    if loop.word != "serial" or not loop.arguments or len(loop.operands) > 3:
        return False
    index, inside = loop.arguments[0], list(loop.walk())[1:]
    own = {name for each in inside for name in each.results}
    stored = dict[str, object]()
    for each in inside:
        if each.name in ("parallel", "if", "yield") or (
            not each.blocks and each.name not in _OTHER
        ):
            continue
        if each.name != "store" or each.operands[1] in own:
            return False
        if index not in {name for place in each.listed for name in effects.used(place)}:
            return False
        place = tuple(map(effects.identity, each.listed))
        if stored.setdefault(effects.root(each.operands[1]), place) != place:
            return False
    loads = [each for each in inside if each.name == "load"]
    return bool(stored) and all(
        stored.get(root := effects.root(each.source), root) in (root, _place(effects, each))
        for each in loads
    )


def _place(effects: Effects, load: Op) -> object:
    return tuple(map(effects.identity, load.listed))


_OTHER = frozenset((
    "store", "atomic", "fill", "reduce", "copy", "async_copy", "gemm", "async_gemm", "barrier",
    "arrive", "wait", "call", "scan",
))  # fmt: skip
"""Ops that write, or meet."""


# -- chunks


@dataclass(frozen=True, eq=False)
class SmallChunk:
    """A loop over chunks."""

    loop: Op
    elements: int
    """Elements of a chunk."""
    threads: int
    turns: int

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the loop in the kernel's source."""
        return frozenset(each.line for each in self.loop.walk() if each.line)


@lru_cache(maxsize=2)
def small_chunks(kernel: TileKernel) -> tuple[SmallChunk, ...]:
    """Return all such loops of a kernel, the innermost ones."""
    effects, found = effects_of(kernel), dict[int, SmallChunk]()
    for op, around in kernel.nested:
        loops = [each for each in around if each.name == "for"]
        if op.name != "reduce" or not loops:
            continue
        loop, threads = loops[-1], math.prod(n for each in around for n in each.numbers("threads"))
        elements = math.prod(kernel.types[op.source].extents or (0,))
        turns = int(effects.turns(loop))
        few = threads <= elements <= SMALL_CHUNKS_EACH * threads
        if few and turns >= SMALL_CHUNKS_TURNS and _walks(effects, loop):
            found[id(loop)] = SmallChunk(loop, elements, threads, turns)
    return tuple(found.values())


def _walks(effects: Effects, loop: Op) -> bool:
    """Whether each iteration reads another part of a tensor that does not change."""
    index = loop.arguments[0]
    places = (
        (each.source, (each.source,) if each.name in COPIES else each.listed)
        for each in loop.walk() if each.name in (*COPIES, "load")
    )  # fmt: skip
    return any(
        effects.root(source) in effects.constant and any(index in effects.used(n) for n in names)
        for source, names in places
    )
