"""Products of matrices that a tile program writes as loops of multiplications and additions.

In: a kernel.  Out: `Contraction`: sums over an index of what is multiplied, where one factor goes
with some indices of the result and the other one with others, so each element is used many times.

    for d:  parallel (r, c):  sums[r, c] += a[r, d] * b[d, c]      rows r, columns c, summed over d
    parallel (r, c):  sum = 0;  for d:  sum += a[r, d] * b[d, c]     the same, with a sum for each

A dot product of two rows, or a product of a matrix and a vector, uses each element of the matrix
once: these are none. Nor is a sum that is scaled, or read, between two additions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import CONTRACTIONS_SIDE
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op, TileKernel

_TYPES = {
    "float16": "float16", "bfloat16": "bfloat16", "float32": "tf32", "int8": "int8",
    "uint8": "int8", "float8_e4m3": "float8_e4m3", "float8_e5m2": "float8_e5m2",
}  # fmt: skip
_SAME = ("cast", "bitcast")


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product of matrices that is written by hand."""

    op: Op
    """The store of a sum."""
    loop: Op
    """The outermost loop that it sums over."""
    lines: frozenset[int]
    """In the kernel's source."""
    flops: float
    """Of a launch, if nothing that it is inside of is left out; infinite where a loop around it
    turns as often as data say."""
    dtype: str
    """Element type by which tensor cores can do it; `tf32` is less exact than what is written."""
    rows: int
    columns: int
    target: str
    certain: bool
    """Whether it is done in each turn of the loops around it."""


@lru_cache(maxsize=2)
def contractions(kernel: TileKernel) -> tuple[Contraction, ...]:
    """All of a kernel."""
    effects = effects_of(kernel)
    return tuple(
        found for op, around in kernel.nested if op.name == "store"
        if (found := _of_store(effects, op, around)) is not None
    )  # fmt: skip


def _of_store(effects: Effects, op: Op, around: tuple[Op, ...]) -> Contraction | None:
    target = op.operands[1]
    factors = _added(effects, op)
    if not factors:
        return None
    loops = [each for each in around if each.name in ("for", "parallel")]
    indices = {name for each in loops for name in each.arguments}
    kept = frozenset().union(*(effects.used(name) for name in op.listed)) & indices
    kept |= _own_indices(effects, target) & indices
    depends = [effects.used(name) & indices for name in factors]
    summed = [
        each for each in loops if each.name == "for"
        and not set(each.arguments) & kept and any(set(each.arguments) & d for d in depends)
    ]  # fmt: skip
    over = {name for each in summed for name in each.arguments}
    sides = [d & kept for d in depends if d & over]
    if len(sides) != 2 or not summed:
        return None
    rows, columns = (math.prod(_extent(effects, n) for n in side)
                     for side in (sides[0] - sides[1], sides[1] - sides[0]))  # fmt: skip
    depth = math.prod(_extent(effects, name) for name in over)
    if min(rows, columns, depth) < CONTRACTIONS_SIDE or _is_read(effects, summed[0], target, op):
        return None
    dtype = _dtype(effects, factors)
    if not dtype:
        return None
    whole = float(math.prod(effects.values.grid)) if effects.values.grid else 0.0
    for each in loops:
        whole *= math.prod(
            _extent(effects, name) or _by_data(each, summed[0]) for name in each.arguments
        )
    certain = not any(each.name == "if" for each in around) and math.isfinite(whole)
    lines = frozenset(each.line for each in summed[-1].walk() if each.line)
    return Contraction(
        op, summed[0], lines, 2.0 * whole, dtype, round(rows), round(columns),
        effects.root(target).removeprefix("%"), certain,
    ) if whole else None  # fmt: skip


def _own_indices(effects: Effects, target: str) -> frozenset[str]:
    """Indices of the loops that a buffer is made in: each of their turns has one of its own."""
    made = effects.made.get(target)
    around = next((held for op, held in effects.kernel.nested if op is made), ())
    return frozenset(name for each in around for name in each.arguments)


def _extent(effects: Effects, index: str) -> float:
    turns = effects.values.turns.get(index)
    return float(turns.mean()) if turns is not None else 0.0


def _by_data(loop: Op, summed: Op) -> float:
    """How often a loop turns that does not say so: any number around the sum, no sum otherwise."""
    return math.inf if loop is not summed and summed in loop.walk() else 0.0


def _added(effects: Effects, op: Op) -> list[str]:
    """The factors of what a store adds to the element that it writes; none where it does not."""
    added = effects.made.get(op.source)
    if added is not None and added.name == "fma":
        return _factors(effects, added.operands[:2]) if _own(effects, op, added.operands[2]) else []
    if added is None or added.name != "add" or len(added.operands) != 2:
        return []
    for one, other in (added.operands, added.operands[::-1]):
        product = effects.made.get(_bare(effects, other))
        if _own(effects, op, one) and product is not None and product.name == "mul":
            return _factors(effects, product.operands)
    return []


def _bare(effects: Effects, name: str) -> str:
    while (op := effects.made.get(name)) is not None and op.name in _SAME:
        name = op.source
    return name


def _own(effects: Effects, op: Op, name: str) -> bool:
    """Whether a value is the element that a store writes, as it was."""
    load = effects.made.get(_bare(effects, name))
    return (
        load is not None and load.name == "load" and load.source == op.operands[1]
        and tuple(map(effects.identity, load.listed)) == tuple(map(effects.identity, op.listed))
    )  # fmt: skip


def _factors(effects: Effects, names: tuple[str, ...]) -> list[str]:
    """All factors of a product, also of products in it."""
    found = list[str]()
    for name in map(lambda each: _bare(effects, each), names):
        op = effects.made.get(name)
        nested = op is not None and op.name == "mul"
        found += _factors(effects, op.operands) if nested and op is not None else [name]
    return found


def _is_read(effects: Effects, loop: Op, target: str, store: Op) -> bool:
    """Whether sums are used, or written in another way, before all of them are complete."""
    own = effects.made.get(store.source)
    inside = {name for name in own.operands} if own is not None else set()
    root = effects.root(target)
    for each in loop.walk():
        if each.name == "load" and effects.root(each.source) == root:
            if not inside & set(each.results):
                return True
        elif (
            each is not store and each.name not in ("load", "view", "reinterpret")
            and any(effects.root(name) == root for name in each.operands if effects.is_buffer(name))
        ):  # fmt: skip
            return True
    return False


def _dtype(effects: Effects, factors: list[str]) -> str:
    """The type by which tensor cores multiply the factors, the wider one of them."""
    held = [_loaded(effects, name) for name in factors]
    known = [_TYPES.get(each, "") for each in held if each]
    if not known or not all(known):
        return ""
    order = ("tf32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int8")
    return min(known, key=order.index)


def _loaded(effects: Effects, name: str) -> str:
    """The element type of what a factor is loaded from, through conversions; its own otherwise."""
    op = effects.made.get(name)
    return op.type.dtype if op is not None else ""
