"""Notes of ptxas about lost speed, in the author's terms; `number` is its own name of the note."""

from __future__ import annotations

from typing import ClassVar

from .statement import Bytes, Candidate, Decision, Reason

# -- what happens


class Serialized(Decision, text="each wgmma waits for the one before it"): ...


class MovedWait(Decision, text="ptxas put in a wait for all matrix products"): ...


class SameRegisters(Decision, text="every role has the same registers"): ...


class Spilled(Decision):
    text = (
        "{stores} bytes of registers are spilled to local memory and {loads}"
        " bytes read back by each thread"
    )
    stores: Bytes
    loads: Bytes
    function: str


class LocalMemory(Decision, text="{size} bytes of each thread are in local memory"):
    size: Bytes


class SlowerCode(Decision, text="slower code than possible"): ...


# -- what was wanted


class OverlappingProducts(Candidate, text="overlapping matrix products"): ...


class LaterWait(Candidate, text="a later wait"): ...


class MoreRegisters(Candidate, text="more registers for the consumers"): ...


class InRegisters(Candidate, text="everything in registers"): ...


class FastForm(Candidate, text="the fast form"): ...


# -- why


class PtxasReason(Reason):
    """A cause, and a way out of it."""

    cause: ClassVar[str]
    way: ClassVar[str]
    number: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(text="{cause}; {way}[[ [ptxas {number}]]]")


class PtxasSaid(Reason, text="{words}[[ [ptxas {number}]]]"):
    # A message of a later version, in its own words.
    words: str
    number: str = ""


class AccumulatorsTooLarge(PtxasReason):
    cause = "the accumulators do not fit beside what else is alive"
    way = "use a smaller tile, more threads, or keep fewer fragments across the product"


class AccumulatorWritten(PtxasReason):
    cause = "an accumulator is written while the product runs"
    way = "write it before the product starts or after its first use"


class AccumulatorRead(PtxasReason):
    cause = "an accumulator is read while the product runs"
    way = "read it after everything that should overlap with the product"


class InputWritten(PtxasReason):
    cause = "a register operand is written while the product reads it"
    way = "give the next product a fragment of its own, or put the operand in shared memory"


class FunctionBoundary(PtxasReason):
    cause = "a function is called while the product runs"
    way = "move the call out of the overlapped part"


class NotInlined(PtxasReason):
    cause = "the kernel calls a function that is not inlined"
    way = "print and assert belong outside of the loop with the products"


class DivergentPath(PtxasReason):
    cause = "the product runs under a condition that differs between threads"
    way = "make the condition the same for each group of 128 threads"


class IllFormed(PtxasReason):
    cause = "the products and their waits do not pair up on every path"
    way = "keep `if`, `break` and `continue` out of the overlapped part"


class UsedTooEarly(PtxasReason):
    cause = "what a running product writes is used before the program waits for it"
    way = "move the use down, or the next product up"


class ThreadsOpen(PtxasReason):
    cause = "the number of threads is not fixed when the kernel is assembled"
    way = "give the launch constant threads"


class AnotherUnit(PtxasReason):
    cause = "a function is called that is not in this text"
    way = "leave it out of the kernel or let it be inlined"


class RoleRegisters(PtxasReason):
    cause = "a role needs more registers than it would be left with"
    way = "use a smaller tile or fewer values that are alive at once"


class Debugger(PtxasReason):
    cause = "the text is assembled for a debugger"
    way = "leave `-G` out"


class ThreadRegisters(PtxasReason):
    cause = "the kernel needs more registers than a thread has"
    way = "use a smaller tile, more threads, or allow more registers"


class IndexedArray(PtxasReason):
    cause = "an array is indexed by a value that is not known at compile time"
    way = "index fragments by constants or loop variables, or use shared memory"
