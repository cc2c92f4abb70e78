"""Matrix products of a warp group that wait for one another instead of overlapping.

Static: what ptxas says ("wgmma.mma_async instructions are serialized due to …"), or code in which
each product of a loop is followed by a wait for all of them. Dynamic: samples of warps at these
waits and at what begins a product.

The tensor cores are the roof: a loop in which they multiply for a share u of the time takes no less
than u of it (a wgmma of N columns takes N / 2 cycles). So of the waits no more than 1 - u goes,
and where other warp groups fill the gaps, nothing does. What is waited beyond u is what products
take one by one: that goes. The rest is the products themselves, which go on beside the loop's other
work as far as another warp group does it meanwhile: between none and all of that, likely half. Of
several groups on a multiprocessor one does its other work while another multiplies, without that:
with three, nobody issues only while tensor cores have products of several to do.

Shares are of the time of the warps that multiply: those that load for them have their own.

Where ptxas says nothing, waits behind each product are how a compiler writes a loop whose next
product needs the sums of this one: then no more goes than tensor cores multiply less than in
products that are written well, and nothing with it.

A loop whose products begin at zero in each iteration, and whose sums it adds up by itself
(`machine/added_sums`), waits in the same way: with an accumulator that the products add to, it
would go on while they multiply. Then the additions go as well, and likely half of the waits; the
loop's loads come earlier, too.

Where registers are spilled as well, both are one fault: more is alive than registers hold. Then a
turn waits for all that it does, one after the other, and what spills take and all waits of these
loops go together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Confidence, Evidence, percent
from tileprof.analyzer.kernel.reach import as_told
from tileprof.analyzer.kernel.spilled import spill_samples
from tileprof.analyzer.kernel.tensor_use import groups_of, tensor_use
from tileprof.analyzer.kernel.tile_waits import loading_apart
from tileprof.analyzer.machine.added_sums import added_sums
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.numbers.kernels import PACE_BUSY
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING, SPILLS_COME_BACK
from tileprof.analyzer.rules.numbers.waiting import WGMMA_SERIALISED_FILLING
from tileprof.remarks import Remark
from tileprof.remarks.ptxas import MovedWait, PtxasReason, PtxasSaid, Serialized

_SAID = (Serialized, MovedWait)
"""What ptxas reports, the surest first."""
_WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"
_REASONS = ("barrier", "warpgroup_arrive")
_TITLE = "matrix products wait for one another"
_ADVICE = (
    "Let products follow one another: one `T.gemm` over more of K, or the wait for a product after"
    " the next one has begun; read and write their accumulator outside of the loop."
)
_ACCUMULATE = (
    "Let the product add to its accumulator (Triton: `acc = tl.dot(a, b, acc)`), in the layout in"
    " which the product makes it: transpose operands, or the sum behind the loop, and not each"
    " product's result."
)
_COMPILER = (
    "ptxas waits for each wgmma by itself where registers of a running one are touched: see what"
    " the lowering puts between its fence and its wait."
)


@dataclass(frozen=True)
class _Serial:
    """Loops in which each product is waited for at once, and what they spend."""

    loops: tuple[range, ...]
    """The one with the most samples first."""
    where: tuple[int, ...]
    """Places of products and waits."""
    whole: float = 0.0
    """Samples of the warps that run these loops, and of all but those that load for them."""
    waiting: float = 0.0
    """Of these, the share that waits there while nobody issues."""
    busy: float = 0.0
    """Of these warps' time, the share that tensor cores multiply in these loops."""
    most: float = 0.0
    """The share that they are idle there."""
    groups: float = 1.0
    """Warp groups of a multiprocessor that run the first loop."""
    sums: tuple[int, ...] = ()
    """Places of additions that products could do."""

    @property
    def saved(self) -> float:
        """Estimate the share of these warps' time that the change saves."""
        lag = max(0.0, self.waiting - self.busy)
        alone = max(0.0, 1 - (self.groups - 1) / WGMMA_SERIALISED_FILLING)
        return min(lag + HALFWAY * alone * (self.waiting - lag), self.most)

    @property
    def usual(self) -> float:
        """What they save at most if tensor cores are as busy as in products written well."""
        return max(0.0, 1 - self.busy / PACE_BUSY)


def find(case: KernelCase) -> Iterator[Draft]:
    """Serial products that ptxas, or the code, tells of."""
    said = next((each for kind in _SAID for each, _ in case.decided(kind, "ptxas")), None)
    code = case.code
    serial = _serial(case, code) if code else None
    if said is None and (serial is None or not serial.where):
        return
    hot = code.hottest(serial.where) if code and serial else None
    line = said.location if said else case.user_line(hot.place if hot else None)
    sass = (hot.offset, hot.offset) if hot else None
    place = case.place(line, case.op_at(line), sass)
    static = Evidence("static", _static(said, serial), remark=said)
    advice = _ACCUMULATE if said is None and serial and serial.sums else _advice(said)
    cause = Cause(_TITLE, place, (static,), advice, _COMPILER)
    if code is None or serial is None or not code.whole or not serial.where:
        yield cause.warning()
        return
    waits = code.taken(code.rows(serial.where, _REASONS))
    seen = Evidence("samples", _dynamic(serial), int(waits.sum()))
    saved = serial.saved if said else min(serial.saved, serial.usual)
    if saved < COLD and not serial.sums:
        leave = "Leave it: other warp groups keep the tensor cores busy, or it rarely runs."
        yield cause.ignored(", off the critical path", leave, seen, confidence="medium")
        return
    if serial.sums and not said:
        gone = HALFWAY * waits + code.taken(code.rows(serial.sums))
        yield cause.costs(eliminated(gone, code.whole), seen, most=1 / (1 - serial.most))
        return
    part = saved * serial.whole / float(waits.sum())
    saving = eliminated(waits * (code.whole / serial.whole), code.whole, part)
    if not said:
        saving = as_told(case, saving)
    confidence: Confidence = "high" if said else "medium"
    draft = cause.costs(saving, seen, most=1 / (1 - serial.most), confidence=confidence)
    yield _with_spills(code, serial, draft, saving)


def _with_spills(code: KernelCode, serial: _Serial, draft: Draft, saving: Saving) -> Draft:
    """With what spills take, where they do."""
    spilled = spill_samples(code)
    share = float(spilled.sum()) / code.whole
    if share < COLD:
        return draft
    text = f"registers are spilled as well: {percent(share)} of the samples"
    taken = np.maximum(spilled, _loops_waits(code, serial)) * (code.whole / serial.whole)
    both = eliminated(taken, code.whole, SPILLS_COME_BACK)
    alone = eliminated(spilled * (code.whole / serial.whole), code.whole, SPILLS_COME_BACK)
    both = replace(both, low=min(max(saving.low, alone.low), both.mid))
    evidence = (*draft.evidence, Evidence("samples", text, int(spilled.sum())))
    return replace(draft, evidence=evidence, saving=both, most=float("inf"))


def _loops_waits(code: KernelCode, serial: _Serial) -> Weights:
    """All waits in these loops."""
    where = [index for loop in serial.loops for index in loop]
    rows = code.rows(where)
    return code.taken(rows & ~code.rows(reasons=(ISSUED,)))


def _serial(case: KernelCase, code: KernelCode) -> _Serial:
    added = added_sums(code)
    found = (each for each in loops_with(code, PRODUCTS) if each in added or _is_serial(code, each))
    loops = tuple(sorted(found, key=lambda loop: -code.n(loop)))
    where = tuple(index for loop in loops for index in loop if _takes_part(code, index))
    if not code.whole or not loops:
        return _Serial(loops, where)
    whole = max(code.whole - loading_apart(code, loops[0]), 1.0)
    waiting = code.n(where, _REASONS, idle=True) / whole
    busy = sum(tensor_use(case, code, loop) * code.n(loop) for loop in loops) / whole
    idle = sum(code.n(loop) for loop in loops) / whole - busy
    most, groups = min(idle, LONGEST_SAVING), groups_of(case, code, loops[0])
    sums = tuple(index for loop in loops for index in added.get(loop, ()))
    return _Serial(loops, where, whole, waiting, busy, most, groups, sums)


def _is_serial(code: KernelCode, loop: range) -> bool:
    """Whether a wait for all products comes after each."""
    order = [code.instructions[index] for index in loop if _takes_part(code, index)]
    pairs = zip(order, [*order[1:], None])
    after = [b for a, b in pairs if a.name in PRODUCTS]
    return all(each is not None and each.text.startswith(_WAIT) for each in after)


def _takes_part(code: KernelCode, index: int) -> bool:
    each = code.instructions[index]
    return each.name in PRODUCTS or each.opcode.startswith("WARPGROUP.DEPBAR")


def _static(said: Remark | None, serial: _Serial | None) -> str:
    if said is not None:
        reasons = "; ".join(str(each.reason) for each in said.rejected)
        return f"ptxas: {said.decision}: {reasons}"
    assert serial is not None
    if serial.sums:
        return (
            f"the products of a loop of {len(serial.loops[0])} instructions begin at zero in each"
            f" iteration, which then adds {len(serial.sums)} sums of a thread itself"
        )
    return f"in a loop of {len(serial.loops[0])} instructions each wgmma is followed by a wait"


def _dynamic(serial: _Serial) -> str:
    return (
        f"{percent(serial.waiting)} of the samples wait there while no warp issues;"
        " tensor cores are"
        f" idle in these loops for {percent(serial.most)} of the time"
    )


def _advice(said: Remark | None) -> str:
    """What ptxas's reason asks for; the general way out where there is none."""
    if said is None or not said.rejected:
        return _ADVICE
    match said.rejected[0].reason:
        case PtxasReason(cause=cause, way=way):
            return f"{way[:1].upper()}{way[1:]}: {cause}."
        case PtxasSaid(words=words):
            return f"{_ADVICE} ptxas says: {words}."
        case reason:
            return f"{_ADVICE} ptxas says: {reason}."


RULE = KernelRule("wgmma-serialized", find)
