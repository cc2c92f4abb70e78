"""What a loop of products and exponentials takes once its warp groups take turns.

In: a kernel, and what its compiler says of turns of its warp groups.  Out: how much of the time is
left to gain where they take them.

    at will     A  product ······ softmax  product ······ softmax
                B  product ······ softmax  product ······ softmax
    in turns    A  product softmax product softmax product
                B          product softmax product softmax

A group in its turn has the tensor cores alone, and its exponentials run under the products of the
other, so the two no longer follow each other: together they take more than the time there is. On an
H200 attention in turns had, as parts of its time, products at their roof and special functions of
1.10 to 1.32 in all (0.70 and 0.60 in heads of 128 columns, 0.47 and 0.65 of 64), and without turns
0.94 to 1.0. No kernel takes less than its products do at what is reached of their roof, or than
schedulers need to issue.

The compiler takes turns by itself, and says what is against it:

    loop k: each warp group multiplies as soon as it can, not in turns: no producer warp group …
"""

from __future__ import annotations

from collections.abc import Collection

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.kernels import BY_TURNS_BOTH, BY_TURNS_LEAST
from tileprof.analyzer.numbers.shared import ISSUE_REACHED, PRODUCTS_REACHED, SPECIAL_CYCLES
from tileprof.remarks import Reason
from tileprof.remarks.common import NoProducer
from tileprof.remarks.loops import GroupsMeet, InTurns, SharesRows, TakeTurns

ALONE: tuple[type[Reason], ...] = (NoProducer,)
"""Reasons against hand-overs between warp groups where all warps load their tiles themselves."""
SHARED: tuple[type[Reason], ...] = (SharesRows, GroupsMeet)
"""Reasons against them where warp groups exchange what they computed."""


def kept_from(case: KernelCase, against: tuple[type[Reason], ...]) -> bool:
    """Whether such a reason is what the compiler has against turns."""
    rejected = (each for remark in case.remarks for each in remark.rejected)
    return any(
        isinstance(each.candidate, InTurns) and isinstance(each.reason, against)
        for each in rejected
    )


def takes_turns(case: KernelCase) -> bool:
    """Whether warp groups do."""
    return any(case.decided(TakeTurns))


def left_in_turns(case: KernelCase, code: KernelCode, gone: Collection[int] = ()) -> Saving | None:
    """The share of a kernel's time beyond what it takes in turns, without the instructions `gone`;
    None where its work is not known, or has too few exponentials for turns.

    All of the loop is told by that, so no samples are named whose part of it would be taken.
    """
    products = case.roofs.tensor_floor / case.time if case.time else 0.0
    if not products or not code.issued:
        return None
    each = busy_share(code) / code.issued
    special = each * code.n(code.named("MUFU"), (ISSUED,)) * SPECIAL_CYCLES
    issued = each * (code.issued - code.n(gone, (ISSUED,)))
    if special < BY_TURNS_LEAST * products:
        return None
    rests = [
        max((products + special) / both, issued / slots, at_roof(case, reached=reached))
        for both, slots, reached in zip(BY_TURNS_BOTH, ISSUE_REACHED, PRODUCTS_REACHED)
    ]
    high, mid, low = (max(0.0, 1 - rest) for rest in rests)
    return Saving(low / 2, mid, high, samples=code.whole)
