"""Remarks about loops: their order, their masks, and warp groups that take turns in them."""

from __future__ import annotations

from typing import Literal

from .statement import Candidate, Decision, Line, Reason, Registers, Share

# -- loads that run ahead


class RunsAhead(Decision):
    text = "cp.async, {stages} stages[[refilled?, each refilled as soon as it was used]]"
    stages: int
    refilled: bool = False
    """Whether a slot is loaded again behind its last use, not an iteration later."""


class WaitedAtOnce(Decision, text="cp.async, waited for immediately"): ...


# -- loops that need not run


class SkipsIdle(Decision, text="no iterations in blocks that store nothing of it"): ...


# -- products of two iterations at once


class InOrder(Decision, text="one iteration after the other"): ...


class Overlap(Candidate, text="overlap"): ...


class KeepsOrder(Reason, text="`{op}`[[ of line {line}]]: {why}"):
    op: str
    line: Line
    why: Reason


class MustStay(Reason, text="it must stay where it is"): ...


class NeedsSums(Reason, text="it needs `{buffer}` in the same iteration"):
    buffer: str


class RunsBeside(Reason, text="the last product runs beside it as it is written"): ...


class SharedBuffer(Reason):
    text = "it and the last product of the iteration before both use `{buffer}`"
    buffer: str


class NothingBeside(Reason, text="nothing is computed that it could run beside"): ...


class NeedsValue(Reason, text="the last product's part of the iteration needs its value"): ...


class FragmentRegisters(Reason):
    text = "fragments would take {registers} registers of a thread at once"
    registers: Registers


# -- masks; `lines`: where they stand


class FirstHasMask(Decision, text="the first iteration has the mask[[ of {lines:line &}]]"):
    lines: tuple[int, ...]


class EveryHasMask(Decision, text="every iteration has the mask[[ of {lines:line &}]]"):
    lines: tuple[int, ...]


class MaskPeeled(Decision):
    text = (
        "the {where} iterations have the mask[[ of {lines:line &}]], the others run without it"
        "[[by_branch?, by a branch]]"
    )
    where: Literal["first", "last", "first and last"]
    lines: tuple[int, ...]
    by_branch: bool


class MaskFrom(Decision):
    text = (
        "iterations from {first} on have the mask[[ of {lines:line &}]], those before without it"
        "[[by_branch?, by a branch]]"
    )
    first: int
    lines: tuple[int, ...]
    by_branch: bool


class NoMaskNeeded(Decision):
    text = "no iteration needs the mask[[ of {lines:line &}]][[by_branch?, by a branch]]"
    lines: tuple[int, ...]
    by_branch: bool


class WithoutMask(Candidate, text="iterations without"): ...


class WithoutMaskOf(Candidate, text="without the mask[[ of line {line}]]"):
    line: Line


class LoopsInTurn(Candidate, text="loops in turn"): ...


class ChangesEvery(Reason, text="it changes elements in every iteration"): ...


class NotAboutIndices(Reason, text="its condition is not about indices"): ...


class ConditionLong(Reason, text="its condition is too long"): ...


class ConditionNumber(Reason, text="a number in its condition is not known before the loop"): ...


class ConditionComputed(Reason, text="its condition depends on what the block computes"): ...


class MayWrap(Reason, text="its condition may wrap around"): ...


class OneIterationAtMost(Reason, text="the loop has one iteration at most"): ...


class FewIterations(Reason, text="the loop has {count} iterations, and the text would be longer"):
    count: int


class OneIteration(Reason, text="it is one iteration"): ...


class CopiesAhead(Reason, text="its copies by cp.async run ahead in one loop only"): ...


class BoundsComputed(Reason, text="the loop's bounds depend on what the block computes"): ...


class NeedsAllRegisters(Reason, text="fragments need all registers of a thread"): ...


# -- warp groups that multiply by turns


class AtWill(Decision, text="each warp group multiplies as soon as it can"): ...


class TakeTurns(Decision):
    text = (
        "consumer warp groups take turns: products of one run under the {under} of the others"
        "[[complete?, and the next one begins when what they wait for is complete]]"
    )
    groups: int
    under: Literal["exponentials", "arithmetic"] = "exponentials"
    complete: bool = False


class InTurns(Candidate, text="in turns"): ...


class IterationEnds(Reason, text="an iteration may end early"): ...


class ThreadsDecide(Reason):
    text = "the `{op}`[[ in line {line}]] depends on what threads compute"
    op: str
    line: Line


class FewExponentials(Reason):
    text = "exponentials take {share:.0%} of the time that products take"
    share: Share


class HandsOver(Reason):
    text = (
        "exponentials take {share:.0%} of the time that products take: those of one warp group run"
        " beside the products of another"
    )
    share: Share


class ExponentialsBetween(Reason):
    text = "exponentials stand between its products; `ping_pong=True` takes turns anyway"


class ArithmeticApart(Reason, text="its arithmetic stands at several places between products"): ...


class ProductsInside(Reason, text="some of its products stand in a loop or branch inside"): ...


class SharesRows(Reason, text="warp groups share rows of the product[[ in line {line}]]"):
    line: Line


class GroupsMeet(Reason, text="all warp groups meet at a barrier[[ in line {line}]]"):
    line: Line


class KeepsTurn(Reason):
    text = "a group would keep its turn for the `{op}`[[ in line {line}]], which waits"
    op: str
    line: Line


class KeepsTurnForProducts(Reason):
    text = "a group would keep its turn while it waits for products: {wait}"
    wait: str


class MayWaitForSlot(Reason):
    text = "the tile[[ in line {line}]] may wait for a slot that is freed in a turn"
    line: Line
