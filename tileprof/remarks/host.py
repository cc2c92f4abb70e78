"""Remarks about kernels on the `cpu`, and about bounds that nothing proves."""

from __future__ import annotations

from .statement import Candidate, Decision, Reason


class Guarded(Decision, text="guarded"): ...


class Unguarded(Candidate, text="without a guard"): ...


class MayLeave(Reason, text="in dimension {dimension}, {why}"):
    dimension: int
    why: Reason


class IndexSign(Reason, text="nothing says that the index is not negative"): ...


class IndexBelow(Reason, text="nothing says that the index stays below `{extent}`"):
    extent: str


class IndexUnbounded(Reason, text="nothing bounds the index, and the extent is {extent}"):
    extent: int


class IndexReach(Reason, text="the index may reach {index}, and the extent is {extent}"):
    index: int
    extent: int


class IterationsInOrder(Decision, text="iterations in order"): ...


class CpuCopies(Reason, text="the cpu has no asynchronous copies to overlap"): ...


class RowMajor(Decision, text="row-major"): ...


class NoBanks(Reason, text="memory of the cpu has no banks to spread over"): ...


class BlockThread(Decision, text="one thread a block"): ...


class Policy(Candidate, text="policy {policy}"):
    policy: str


class NoWarps(Reason, text="on the cpu a block has no warps to divide the tile among"): ...


class LeftOut(Decision, text="left out"): ...


class Applied(Candidate, text="applied"): ...


class OwnOrder(Reason):
    text = "the cpu device runs blocks in its own order and leaves caching to the hardware"
