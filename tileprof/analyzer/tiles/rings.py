"""Pipelined loops of a tile kernel: stages, and bytes that a stage takes.

In: a kernel.  Out: `Ring`, one for the loops in turn that load the same tiles.

A loop that was rotated stands as three, the first and the last of which have one turn and some of
the tiles; one whose last turns are masked as two. They fill the same buffers, so they are one
pipeline. What it is like, its steady loop says: the one with the most turns.

    for pipelined 0 … 1    K          a prologue
    for pipelined 0 … 31   K, V       the steady loop: Ring("k_1", 2 stages, K and V)
    for pipelined 0 … 1    V          an epilogue
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod

from tileprof.analyzer.tiles.values import turns_of, values_of
from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel, Type


@dataclass(frozen=True, slots=True)
class Ring:
    """A loop whose loads run ahead."""

    variable: str
    """Of the loop; nothing where only its code is known."""
    stages: int
    stage_bytes: int
    """Of shared memory, that one more stage takes."""


@dataclass(frozen=True, eq=False)
class _Loop:
    """One that loads tiles ahead."""

    op: Op
    stages: int
    tiles: Mapping[str, int]
    """By buffer, or by ring where there is one, the bytes of a stage."""

    @property
    def bytes(self) -> int:
        """Of a stage of all tiles."""
        return sum(self.tiles.values())


def rings_of(kernel: TileKernel) -> tuple[Ring, ...]:
    """The pipelines that load tiles into shared memory, those of the fewest stages first."""
    values = values_of(kernel)

    def turns(loop: _Loop) -> tuple[float, int, int]:
        known = values.mean_turns(loop.op)
        # A piece that was taken out has a few turns, so those of the rest are what is not known.
        return inf if known is None else known, loop.bytes, -loop.stages

    steady = (max(loops, key=turns) for loops in _pipelines(kernel))
    found = [Ring(each.op.arguments[0][1:], each.stages, each.bytes) for each in steady]
    return tuple(sorted(found, key=lambda ring: ring.stages))


def _pipelines(kernel: TileKernel) -> list[list[_Loop]]:
    """Loops that share a buffer, together, in their order."""
    found = list[list[_Loop]]()
    for loop in _loops(kernel):
        same = [each for each in found if any(loop.tiles.keys() & one.tiles.keys() for one in each)]
        joined = [one for each in same for one in each]
        found = [each for each in found if each not in same] + [[*joined, loop]]
    return found


def _loops(kernel: TileKernel) -> Iterator[_Loop]:
    """Those that the author wrote as pipelines; those of a role that fills rings."""
    rings = {op.result: op for op in kernel.named("ring")}
    for op in kernel.named("for"):
        copies = [each for each in op.walk() if each.name in COPIES and len(each.operands) > 1]
        if op.word == "pipelined" and op.number("num_stages"):
            targets = {each.operands[1] for each in copies}
            types = {name: kernel.types[name] for name in targets & kernel.types.keys()}
            tiles = {name: size for name, type in types.items() if (size := _bytes(type))}
            stages = op.number("num_stages")
        elif sum(each.name == "for" for each in op.walk()) == 1:
            filled = [ring for each in copies for ring in each.operands[2:3] if ring in rings]
            tiles = {ring: rings[ring].number("bytes") for ring in filled}
            stages = min((rings[ring].number("stages") for ring in tiles), default=0)
        else:
            continue
        if tiles and op.arguments:
            yield _Loop(op, stages, tiles)


def _bytes(type: Type) -> int:
    """Of a tile in shared memory; elements of less than a byte take one."""
    known = type.extents if type.space == "shared" else None
    return prod(known) * max(type.bits, 8) // 8 if known else 0


def begun_again(kernel: TileKernel) -> tuple[tuple[Op, float], ...]:
    """Return pipelined loops that are all that a serial loop around them does, each with how often
    a block begins it: both together are one loop, whose loads never stop."""
    values, found = values_of(kernel), list[tuple[Op, float]]()
    for op, around in kernel.nested:
        outer = around[-1] if around else op
        if op.name != "for" or op.word != "pipelined" or outer.name != "for":
            continue
        others = [each for block in outer.blocks for each in block.ops if each is not op]
        alone = not any(each.blocks or each.type.space or each.name in _DOES for each in others)
        times = turns_of(values, [each for each in around if each.name == "for"])
        if alone and outer.word == "serial" and times > 1:
            found.append((op, times))
    return tuple(found)


_DOES = (*COPIES, *PRODUCTS, "load", "store", "atomic", "fill", "reduce", "scan")
"""Ops that do something beside working out indices."""
