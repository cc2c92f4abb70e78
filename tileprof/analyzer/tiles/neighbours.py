"""Tensors of which an element is loaded with its neighbours in the row, as a stencil does.

In: a kernel.  Out: their names.

    %3 = add %x, %c1
    %4 = load %X, [%y, %x]
    %5 = load %X, [%y, %3]            one element farther in the same row

Such loads lie no whole number of 16 bytes apart, so however threads take elements, no more than one
of them begins where a wide access may. At the ends of a row the neighbour may be another one: the
first after the last (`%3` modulo the extent), or the element itself (at most the extent).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["loaded_with_neighbours"]

_AT_ENDS = ("floormod", "truncmod", "min", "max")
"""Ops that change an index at the ends of a row only, where one operand is a number."""


@lru_cache(maxsize=2)
def loaded_with_neighbours(kernel: TileKernel) -> frozenset[str]:
    """Return names of tensors in global memory that are loaded at both sides of the end of a wide
    access."""
    made = {op.result: op for op, _ in kernel.nested if op.results}
    rows = dict[tuple[str, tuple[str, ...], frozenset[tuple[str, int]]], set[int]]()
    for op in kernel.named("load"):
        held = kernel.types.get(op.source)
        if held is not None and held.space == "global" and op.listed:
            *outer, last = op.listed
            terms, shift = _sum(made, last)
            row = (op.source, tuple(outer), frozenset(terms.items()))
            rows.setdefault(row, set()).add(shift * held.bits // 8 % WIDEST)
    return frozenset(tensor[1:] for (tensor, _, _), shift in rows.items() if len(shift) > 1)


def _is_number(made: Mapping[str, Op], name: str) -> bool:
    op = made.get(name)
    return op is not None and op.index is not None


def _sum(made: Mapping[str, Op], name: str, sign: int = 1) -> tuple[Counter[str], int]:
    """Return the terms of an index, each with how often it is added, and the number among them."""
    op = made.get(name)
    if op is not None and op.index is not None:
        return Counter(), sign * op.index
    if op is not None and op.name in _AT_ENDS:
        counted = [each for each in op.operands if not _is_number(made, each)]
        return _sum(made, counted[0], sign) if len(counted) == 1 else (Counter({name: sign}), 0)
    if op is None or op.name not in ("add", "sub"):
        return Counter({name: sign}), 0
    (left, right), turned = op.operands[:2], -sign if op.name == "sub" else sign
    (terms, number), (more, shift) = _sum(made, left, sign), _sum(made, right, turned)
    for each, times in more.items():
        terms[each] += times
    return terms, number + shift
