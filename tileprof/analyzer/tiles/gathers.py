"""What a kernel takes of a tensor by numbers that it loads, as rows of a table by an index.

In: a kernel.  Out: whether it does; bytes that it asks for so. The bytes of its
tensors do not say then what it moves: it leaves out rows that no number names, and takes others
once more, or has them in a cache.

    %3 = load %Items, [%2, %item] : int32
    %7 = load %Table, [%3, %6] : bfloat16             by a number that was loaded
"""

from __future__ import annotations

import math

import numpy as np

from tileprof.analyzer.tiles.effects import effects_of
from tileprof.analyzer.tiles.values import values_of
from tileprof.kernel_ir import Op, TileKernel

_FROM = ("load", "view")
_REPEATED = ("for", "parallel")


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
