"""Statements of a tile kernel that are done again, though nothing has changed since the last time.

In: a kernel.  Out: statements that a loop repeats with the same result, that stand twice, or whose
results are written over before anyone reads them; how much of them goes.

    for k:  copy %Q_tile, %Q_shared          in each turn the same: once before the loop is enough
    for k:  copy %sums, %C_tile              only the last turn's stays: once after the loop
    copy %K_tile, %K_shared                  twice in a row

What is done again is told by dependences alone: a statement gives the same if it depends on no
index of the loop, and on no buffer that the loop changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from tileprof.analyzer.tiles.effects import Effect, Effects, effects_of
from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel

How: TypeAlias = Literal["each turn", "whole loop", "twice", "overwritten", "unread"]
_STATEMENTS = ("parallel", "for", "scope", "if", "reduce", "scan", "store", *COPIES, *PRODUCTS)
"""Ops that take time by themselves; `fill` writes registers, or what a product clears anyway."""


@dataclass(frozen=True, eq=False)
class Again:
    """Work that is done again."""

    how: How
    op: Op
    loop: Op | None
    """That repeats it."""
    lines: frozenset[int]
    part: float
    """Of what is done at its lines, what goes, 0 to 1."""
    moves: bool
    """Whether it reads, or writes, tensors in global memory."""
    buffers: tuple[str, ...]
    """What it writes."""
    turns: float = 0.0


@lru_cache(maxsize=2)
def repeated(kernel: TileKernel) -> tuple[Again, ...]:
    """All such work; of statements in each other the outermost."""
    effects = effects_of(kernel)
    return tuple(found for launch in kernel.named("launch")
                 for block in launch.blocks for found in _in(effects, block.ops))  # fmt: skip


def _in(effects: Effects, ops: Sequence[Op]) -> Iterator[Again]:
    held = [effects.of(op) for op in ops]
    yield from _twice(effects, held)
    yield from _unread(effects, held)
    for effect in held:
        op = effect.op
        if op.name == "for" and (again := _whole_loop(effects, effect)):
            yield again
            continue
        if op.name == "for" and effects.turns(op) > 1:
            yield from _each_turn(effects, op)
        for block in op.blocks:
            if op.name in ("for", "scope", "if", "roles"):
                yield from _in(effects, block.ops)


def _twice(effects: Effects, held: Sequence[Effect]) -> Iterator[Again]:
    """Statements whose results are there already, or are written over before they are read."""
    for place, later in enumerate(held):
        if not later.known or later.op.name not in _STATEMENTS or not later.written:
            continue
        if later.written != later.whole:
            continue
        for before in reversed(held[:place]):
            same = before.op.name == later.op.name and _same(effects, before.op, later.op)
            if same and not before.read & later.written:
                yield _again(effects, "twice", later, None, 1.0, before)
                break
            if not before.known or before.written & (later.read | later.written):
                break


def _unread(effects: Effects, held: Sequence[Effect]) -> Iterator[Again]:
    """Statements all of whose results, on the chip, are written over before anything reads them."""
    for place, effect in enumerate(held):
        left = set(effect.written)
        if not effect.known or effect.op.name not in _STATEMENTS or not left:
            continue
        types = [effects.kernel.types.get(name) for name in left]
        if any(each is None or each.space == "global" for each in types):
            continue
        for later in held[place + 1 :]:
            if not later.known or left & later.read or _same(effects, effect.op, later.op):
                break
            left -= later.whole
            if not left:
                yield _again(effects, "unread", effect, None, 1.0)
                break


def _same(effects: Effects, a: Op, b: Op) -> bool:
    """Whether two statements without blocks do the same to the same buffer."""
    if a.blocks or b.blocks or a.words != b.words or dict(a.attributes) != dict(b.attributes):
        return False
    one, other = (tuple(map(effects.identity, op.operands)) for op in (a, b))
    return one == other


def _whole_loop(effects: Effects, effect: Effect) -> Again | None:
    """A loop all of whose turns do the same."""
    op, turns = effect.op, effects.turns(effect.op)
    if turns <= 1 or not effect.known or effect.read & effect.written or not effect.written:
        return None
    body = [effects.of(each) for block in op.blocks for each in block.ops]
    if any(set(op.arguments) & each.depends for each in body):
        return None
    return _again(effects, "whole loop", effect, op, 1 - 1 / turns)


def _each_turn(effects: Effects, loop: Op) -> Iterator[Again]:
    """Statements of a loop that could stand before it, or after it."""
    body = [effects.of(each) for block in loop.blocks for each in block.ops]
    turns, indices = effects.turns(loop), set(loop.arguments)
    changed = frozenset().union(*(each.written for each in body))
    if not all(each.known for each in body):
        return
    kept = set[str]()
    """Buffers that hold the same in each turn."""
    for effect in body:
        others = frozenset().union(*(each.written for each in body if each is not effect))
        alone = not effect.written & others and effect.written == effect.whole
        if effect.op.name not in _STATEMENTS or not effect.written or not alone:
            continue
        if effect.read & effect.written:
            continue
        if not effect.depends & indices and not effect.read & (changed - kept):
            kept |= effect.written
            yield _again(effects, "each turn", effect, loop, 1 - 1 / turns)
        elif _overwritten(effects, effect, body, indices):
            yield _again(effects, "overwritten", effect, loop, 1 - 1 / turns)


def _overwritten(
    effects: Effects, effect: Effect, body: Sequence[Effect], indices: set[str]
) -> bool:
    """Whether each turn writes the same place, and no turn reads it."""
    if any(each.read & effect.written for each in body):
        return False
    targets = [
        name
        for op in effect.op.walk()
        for name in (*op.operands, *(each for names in op.lists for each in names))
        if op.name in ("store", *COPIES) and effects.root(op.operands[1]) in effect.written
        and (name == op.operands[1] or (op.name == "store" and name in op.listed))
    ]  # fmt: skip
    if effect.op.name not in ("store", "parallel", *COPIES) or not targets:
        return False
    return not any(effects.used(name) & indices for name in targets)


def _again(
    effects: Effects, how: How, effect: Effect, loop: Op | None, part: float,
    other: Effect | None = None,
) -> Again:  # fmt: skip
    spaces = [effects.kernel.types.get(name) for name in effect.read | effect.written]
    if other is not None and other.lines & effect.lines:
        part /= 2
    return Again(
        how, effect.op, loop, effect.lines, part,
        any(each is not None and each.space == "global" for each in spaces),
        tuple(sorted(effect.written)), effects.turns(loop) if loop else 0.0,
    )  # fmt: skip
