"""What a kernel takes of a tensor by numbers that it loads, as rows of a table by an index.

In: a kernel.  Out: whether it does; bytes that it asks for so; accesses whose place in the row is
made of loaded values. The bytes of its tensors do not say then what it moves: it leaves out rows
that no number names, and takes others once more, or has them in a cache. And lines of accesses
whose places are counted in more bits than they need.

    %3 = load %Items, [%2, %item] : int32
    %7 = load %Table, [%3, %6] : bfloat16             by a number that was loaded
    %9 = load %Table, [%2, %3] : bfloat16             the place in the row is such a number
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from tileprof.analyzer.tiles.effects import effects_of
from tileprof.analyzer.tiles.values import values_of
from tileprof.kernel_ir import Op, TileKernel

_FROM = ("load", "view")
_REPEATED = ("for", "parallel")
_SCALES = ("mul", "shl")
_Access: TypeAlias = tuple[str, str, int]
"""Kind of an access (`load`, `store`), its tensor without `%`, and its line."""


def takes_by_number(kernel: TileKernel) -> bool:
    """Whether a tensor is only read at places that depend on values that the kernel loads."""
    return bool(_taken(kernel))


def lines_by_number(kernel: TileKernel) -> frozenset[int]:
    """Lines of the loads of tensors that are only read by numbers that the kernel loads; not of
    those whose lanes are in different rows anyway, as of `X[j, number[i]]` with `j` innermost."""
    effects = effects_of(kernel)

    def is_across(op: Op, around: tuple[Op, ...]) -> bool:
        axes = [each.arguments[-1] for each in around if each.name == "parallel"]
        going = [used for used in map(effects.used, op.listed) if axes and axes[-1] in used]
        by_number = any(effects.is_buffer(name) for used in going for name in used)
        return bool(going) and not by_number and axes[-1] not in effects.used(op.listed[-1])

    return frozenset(op.line for op, around in _taken(kernel) if not is_across(op, around))


def asked_by_number(kernel: TileKernel) -> dict[str, float]:
    """By tensor, bytes that a launch asks for so, each as often; nothing where one is not known."""
    values, found = values_of(kernel), dict[str, float]()
    for op, around in _taken(kernel):
        names = [name for each in around if each.name in _REPEATED for name in each.arguments]
        if op.name != "load" or not values.grid or any(n not in values.turns for n in names):
            return {}
        times = math.prod(values.grid) * math.prod(float(np.mean(values.turns[n])) for n in names)
        found[op.source] = found.get(op.source, 0.0) + times * kernel.types[op.source].bits / 8
    return found


@lru_cache(maxsize=4)
def widened_lines(kernel: TileKernel) -> frozenset[int]:
    """Return lines of accesses of tensors whose place is counted in 64 bits, although it is made of
    an index, and no tensor of the kernel has more elements than 31 bits can number."""
    sizes = [math.prod(each) for each in kernel.extents.values()]
    if len(sizes) < len(kernel.parameters) or max(sizes, default=0) >= 1 << 31:
        return frozenset()
    wide, found = set[str](), set[int]()
    for op, _ in kernel.nested:
        held = kernel.types.get(op.source)
        if op.name == "cast" and op.type.dtype == "int64" and held and held.dtype == "index":
            wide.add(op.result)
        elif op.name in ("load", "store") and op.operands[-1] in kernel.parameters:
            found |= set() if wide.isdisjoint(op.listed) else {op.line}
        elif op.type.dtype == "int64" and not wide.isdisjoint(op.operands):
            wide.add(op.result)
    return frozenset(found - {0})


@dataclass(frozen=True, slots=True)
class _Made:
    """What a value is made of."""

    variables: frozenset[str] = frozenset()
    """Loop variables that it counts with by itself."""
    loaded_by: frozenset[str] = frozenset()
    """Loop variables in the places of the values that it loaded."""
    begins: bool = False
    """Whether a loaded value is a term of it, as it is."""


def placed_by_data(kernel: TileKernel) -> frozenset[_Access]:
    """Return accesses whose place in a row another loaded value gives for each point of their
    loop. Only data tell which sectors lanes need then: no layout and no order of loops does."""
    return frozenset(access for access, (by_point, _) in _by_data(kernel).items() if by_point)


def begun_by_data(kernel: TileKernel) -> frozenset[_Access]:
    """Return accesses whose place in a row is counted from a loaded value, as that of a segment
    from where it begins. Nothing tells that it is a multiple of 16 bytes."""
    return frozenset(access for access, (_, begins) in _by_data(kernel).items() if begins)


@lru_cache(maxsize=2)
def _by_data(kernel: TileKernel) -> dict[_Access, tuple[bool, bool]]:
    """By access of global memory, whether its place in the row is of another loaded value for each
    point, and whether a loaded value is a term of that place."""
    made, found = dict[str, _Made](), dict[_Access, tuple[bool, bool]]()

    def of(names: tuple[str, ...]) -> _Made:
        parts = [made[name] for name in names if name in made]
        return _Made(
            frozenset().union(*(each.variables for each in parts)),
            frozenset().union(*(each.loaded_by for each in parts)),
            any(each.begins for each in parts),
        )

    for op, around in kernel.nested:
        inside = [name for block in op.blocks for name in block.arguments]
        made |= {name: _Made(frozenset((name,))) for name in inside}
        tensor = op.operands[-1] if op.name == "store" else op.source
        kind = kernel.types.get(tensor)
        if op.name in ("load", "store") and kind and kind.space == "global" and op.listed:
            points = next((e for e in reversed(around) if e.name == "parallel"), None)
            last, variables = of(op.listed[-1:]), points.arguments if points else ()
            by_point = bool(variables) and variables[-1] in last.loaded_by
            found[op.name, tensor.removeprefix("%"), op.line] = by_point, last.begins
        if op.name == "load":
            place = of(op.listed)
            value = _Made(frozenset(), place.variables | place.loaded_by, True)
        else:
            value = of(op.operands)
            if op.name in _SCALES:
                value = _Made(value.variables, value.loaded_by, False)
        for name in op.results:
            made[name] = value
        if op.name == "yield" and around:  # a branch's value is that of either way
            made |= {name: of((name, *op.operands, *op.listed)) for name in around[-1].results}
    return found


def _taken(kernel: TileKernel) -> list[tuple[Op, tuple[Op, ...]]]:
    """Such loads and views, with what is around them; not of tensors that are read elsewhere too,
    as rows of scores whose label is picked out."""
    loaded, plain, found = set[str](), set[str](), list[tuple[Op, tuple[Op, ...]]]()
    for op, around in kernel.nested:
        source = kernel.types.get(op.source)
        if op.name in _FROM and source is not None and source.space == "global":
            if loaded.isdisjoint(op.listed):
                plain.add(op.source)
            else:
                found.append((op, around))
        if op.name == "load" or not loaded.isdisjoint(op.operands):
            loaded.update(op.results)
    return [(op, around) for op, around in found if op.source not in plain]
