"""Work of a tile kernel that data may make needless.

In: a kernel.  Out: whether data leave products out, as tiles that a mask says are zero: what loops
and extents say of the work is the most of it then. And `MaskedTail`s: loops to a fixed end whose
elements count up to a length that a block loads.

    for serial %c0, %c64, %c1 body(%k) {           64 iterations in each block
      %n = load %Length, [%b]                      the same in all iterations
      %1 = if lt (%k * 64 + %j), %n …              false in all of those behind the length

Behind it a value is replaced by a constant, or nothing is done. A loop may also go on when its
condition can hold no more:

    for serial %c0, %c64, %c1 body(%k) {
      if %far then { … store %1, %x }                %far depends on %x, which changes here alone
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.analyzer.tiles.places import Accesses
from tileprof.kernel_ir import PRODUCTS, Op, TileKernel

_BELOW, _ABOVE = ("lt", "le"), ("gt", "ge")


@lru_cache(maxsize=2)
def products_by_data(kernel: TileKernel) -> bool:
    """Whether a product of tiles is done or not by what the kernel loads."""
    effects = effects_of(kernel)
    return any(
        effects.is_buffer(name)
        for op, around in kernel.nested if op.name in PRODUCTS
        for each in around if each.name == "if"
        for condition in each.operands for name in effects.used(condition)
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MaskedTail:
    """A loop of which a condition masks all that is behind a length, or once it is false."""

    loop: Op
    lengths: str
    """The tensor that the length is loaded from; empty where a condition stays false."""
    read: tuple[str, ...]
    """Tensors of which each iteration reads another part."""

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the loop in the kernel's source."""
        return frozenset(each.line for each in self.loop.walk() if each.line)


@lru_cache(maxsize=2)
def masked_tails(kernel: TileKernel) -> tuple[MaskedTail, ...]:
    """Return all loops of a kernel that write no tensor, one finding each."""
    found = dict[int, MaskedTail]()
    for op, around in kernel.nested:
        for loop in around if op.name in (*_BELOW, *_ABOVE) else ():
            if loop.name == "for" and id(loop) not in found:
                found |= {id(loop): each for each in _tails(kernel, op, loop)}
    effects = effects_of(kernel)
    spent = (MaskedTail(loop, "", ()) for loop in kernel.named("for") if _is_spent(effects, loop))
    return (*found.values(), *spent)


def masked_bytes(kernel: TileKernel) -> float:
    """Return the bytes of tensors that such loops read, a part of which may be needless."""
    tensors = {name for each in masked_tails(kernel) for name in each.read}
    types = (kernel.parameters[name].type for name in tensors)
    return sum(math.prod(each.extents or ()) * each.bits / 8 for each in types if each.extents)


def _tails(kernel: TileKernel, comparison: Op, loop: Op) -> Iterator[MaskedTail]:
    """The tail of a loop, if a comparison in it masks that."""
    effects, accesses = effects_of(kernel), Accesses(kernel)
    index, limit = comparison.operands
    if comparison.name in _ABOVE:
        index, limit = limit, index
    held, turn = effects.used(limit), loop.arguments[0]
    lengths = [name for name in held if effects.is_buffer(name) and name in kernel.parameters]
    inside = {name for each in loop.walk() for name in each.arguments}
    ends = {name for operand in loop.operands for name in effects.used(operand)}
    if len(lengths) != 1 or held & inside or any(map(effects.is_buffer, ends)):
        return
    used = accesses.inside(loop, (), guarded=True)
    goes_up = dict(accesses.sum_of(index, {})).get(turn, 0) > 0
    only_reads = all(each.kind == "read" for each in used)
    if not goes_up or not only_reads or not _masks(effects, loop, comparison):
        return
    read = sorted({
        each.tensor for each in used
        if each.place and any(turn in dict(terms) for _, terms, _ in each.place)
    })  # fmt: skip
    if read:
        yield MaskedTail(loop, lengths[0], tuple(read))


def _masks(effects: Effects, loop: Op, comparison: Op) -> bool:
    """Whether a comparison chooses between a value and a constant, or decides whether an iteration
    does anything at all."""
    does = [each for each in loop.blocks[0].ops if each.blocks or not each.results]
    if [each.name for each in does] == ["if"] and does[0].operands[0] == comparison.result:
        return not any(block.ops for block in does[0].blocks[1:])
    for each in loop.walk():
        if not each.results or comparison.result not in each.operands[:1]:
            continue
        others = each.operands[2:] if each.name == "select" else ()
        if each.name == "if" and len(each.blocks) > 1 and (ops := each.blocks[1].ops):
            others = (*ops[-1].operands, *ops[-1].listed)
        made = [effects.made.get(name) for name in others]
        if made and all(op is not None and op.name == "constant" for op in made):
            return True
    return False


def _is_spent(effects: Effects, loop: Op) -> bool:
    """Whether a loop does nothing any more once the condition around all that it does is false,
    because only what is under the condition changes what it depends on."""
    does = [each for each in loop.blocks[0].ops if each.blocks or not each.results]
    if [each.name for each in does] != ["if"] or any(e.ops for e in does[0].blocks[1:]):
        return False
    changed = {name for each in does[0].walk() for name in _stored(effects, each)}
    used = effects.used(does[0].operands[0])
    return bool(used & changed) and not used & set(loop.arguments)


def _stored(effects: Effects, op: Op) -> tuple[str, ...]:
    """Return the buffers of one thread that an op stores in."""
    types = effects.kernel.types
    is_own = op.name == "store" and types[op.operands[1]].space == "local"
    return (effects.root(op.operands[1]),) if is_own else ()
