"""Waits for writes to complete: fences, and the stores and atomics at a kernel's end.

Static: fences for the device or the system in the code; stores and atomics behind a loop that
works, of a block or of each tile in turn, and why a tile's store is no copy by TMA. Dynamic:
samples of `membar`, wherever they stand, and where each atomic is between two fences also those
that wait for what it gives back; of `drain` after the exit; of warps that find the queue
full at those stores and atomics, or whose next result has to wait until a store has left its
register (which of the two depends on how many registers the stores take in turn), and for atomics
those of what else stands in the queue, and of loads that share L2 with them.

That time goes (sequential elimination, GPA): of fences in loops all, as one after the loop is left,
and where one warp has them for its block, what the others wait for it at the next barrier;
of the end of stores, and of what stands in the queue behind them, likely half, since what is stored
still has to get there, and more where the block's next tile can be under way meanwhile. Atomics at
the end are mostly not the kernel's work: a block that adds up first makes one of many, so all goes
that waits for them. An H200 whose threads added 8 elements each to sums of columns had 12 %
`drain`, and found the queue full in 23 % of the samples, in the next blocks' first instructions
too; with longer strips, so fewer atomics, it took 0.66 of the time. While they work blocks load as
well, and where memory is not at its roof what these loads wait for is L2, which reads and writes a
sector for each of an atomic: that part of their waits is the atomics' too.

On an H200 `drain` is rare where few bytes are stored: a kernel that does nothing but store has 9
samples of it in 53,752, the full queue is what shows (`lg_throttle` at the stores); in kernels of
one pass over their data it is up to 19 %, and up to 2 % behind loops of products, where nothing is
wrong with them. The wait of a fence stands at what follows it (`ERRBAR`, `CCTL`), and most fences
are in the middle of kernels: so `membar` is not asked to be at the end. Full queues in loops are
not the end's: `narrow-access` tells of them. Nor has a kernel without loops an end: its stores are
its work, its atomics are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel.global_memory import (
    ATOMICS,
    LOADS,
    STORES,
    told,
    told_at,
    width_of,
    worked_out,
)
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.queues import FULL, behind, passes_of
from tileprof.analyzer.kernel.reach import as_told
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, Instruction, KernelCode
from tileprof.analyzer.machine.loops import loop_around, loops_of
from tileprof.analyzer.numbers.shared import COLD, SECTOR
from tileprof.analyzer.rules.numbers.waiting import (
    DRAIN_END,
    DRAIN_MEANWHILE,
    DRAIN_NEAR,
    DRAIN_ONCE,
    DRAIN_SHORT,
    DRAIN_SURE,
)
from tileprof.binary.occupancy import WARP
from tileprof.remarks.copies import StoresFromRegisters

_WORK = (
    *PRODUCTS, "HMMA", "IMMA", "LDG", "LDS", "LDSM", "LDGSTS", "FFMA", "FADD", "FMUL", "MUFU",
)  # fmt: skip
"""Instructions of a loop that does not only wait."""
_BLOCK = ("CTA", "SM")
"""Scopes of fences that wait for no memory outside of the multiprocessor."""
_FENCE = ("membar",)
_TAIL = ("drain",)
_REGISTERS = ("long_scoreboard",)
"""Why a warp waits until a store, or an atomic, has left its registers."""
_FENCE_AUTHOR = (
    "Fence once, after the last write that other threads read, and by one thread of the block; or"
    " add up partial results in a second kernel, which needs no fence."
)
_ORDERED_AUTHOR = (
    'Say that it orders nothing else (`sem="relaxed"` in Triton, `memory_order_relaxed` in CUDA):'
    " fences are needed where other threads read what was written before."
)
_EXCHANGED_AUTHOR = (
    "Store the value (`tl.store`) where each element has one writer: nobody reads what an exchange"
    ' gives back. Where there are several, say that it orders nothing else (`sem="relaxed"`).'
)
_FENCE_COMPILER = (
    "Order by the access itself (`red.release`, `st.release`, `ld.acquire`) at the narrowest scope"
    " in place of a fence of the device."
)
_TAIL_AUTHOR = (
    "Store the tile through shared memory, by TMA or 16 bytes per thread, or let a block begin its"
    " next tile meanwhile (a persistent kernel)."
)
_ATOMIC_AUTHOR = (
    "Add up in two steps: within the block first, so that a block adds each element once, or into"
    " partial results that a second kernel adds up."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Fences; then the end."""
    if case.code is not None:
        yield from _fences(case, case.code)
    if case.sampled is not None:
        yield from _tail(case, case.sampled)


def _fences(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    fences = code.where(lambda e: e.name == "MEMBAR" and not {*_BLOCK} & {*e.opcode.split(".")})
    looped = [index for index in fences if code.instructions[index].depth]
    if not fences:
        return
    if ordered := _ordered(code):
        yield from _around(case, code, ordered)
        return
    first = code.instructions[(looped or fences)[0]]
    place, advice = _place(case, code, first.index), (_FENCE_AUTHOR, _FENCE_COMPILER)
    many = "a fence" if len(fences) == 1 else f"{len(fences)} fences"
    text = f"{many} ({first.opcode}), {len(looped)} in loops"
    static = Evidence("static", text)
    if not code.whole:
        if looped:
            yield Draft("warning", "a fence in a loop", place, (static,), *advice)
        return
    taken = code.taken(code.rows(reasons=_FENCE))
    again = code.waiting_for(looped, _FENCE)
    share = float(taken.sum()) / code.whole
    text = f"{percent(share)} of the samples wait until writes are visible"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share < (COLD if looped else DRAIN_SHORT):
        if looped:
            yield Draft("ignore", "a fence in a loop that costs nothing", place, evidence,
                        "Leave it: no warp waits for it.", confidence="high")  # fmt: skip
        return
    yield Draft(
        "suggestion", "warps wait until their writes are visible", place, evidence, *advice,
        eliminated(again + DRAIN_ONCE * (taken - again), code.whole),
    )  # fmt: skip


def _ordered(code: KernelCode) -> list[int]:
    """Atomics with a fence in front of them and one behind, which waits for what they give back:
    each of a default order in Triton and CUDA C++."""
    found = []
    for index in code.named(*ATOMICS):
        before, after = (
            code.instructions[max(index - DRAIN_NEAR, 0) : index],
            code.instructions[index + 1 : index + 1 + DRAIN_NEAR],
        )
        if any(e.name == "MEMBAR" for e in before) and any(e.name == "CCTL" for e in after):
            found.append(index)
    return found


def _around(case: KernelCase, code: KernelCode, atomics: list[int]) -> Iterator[Draft]:
    """Atomics that order all other accesses. Without fences nothing waits for their results; an
    exchange of which nobody takes the result is a store, and goes as a whole."""
    hot = code.hottest(atomics)
    first = code.instructions[atomics[0]]
    unused = all(_is_unused_exchange(code.instructions[index]) for index in atomics)
    place = _place(case, code, (hot or first).index)
    many = "an atomic" if len(atomics) == 1 else f"{len(atomics)} atomics"
    text = f"{many} ({first.opcode}), each between two fences (`MEMBAR`, `CCTL.IVALL`)"
    title = (
        "results are stored by exchanges, each between two fences" if unused
        else "each atomic is between two fences"
    )  # fmt: skip
    author = _EXCHANGED_AUTHOR if unused else _ORDERED_AUTHOR
    advice, static = (author, _FENCE_COMPILER), Evidence("static", text)
    if not code.whole:
        yield Draft("warning", title, place, (static,), *advice)
        return
    rows = code.rows(reasons=_FENCE)
    if unused:
        rows = rows | code.rows(atomics)
    taken = np.maximum(code.taken(rows), code.waiting_for(atomics, _REGISTERS))
    share = code.share(taken)
    seen = f"{percent(share)} of the samples wait until writes are visible, or for atomics"
    evidence = (static, Evidence("samples", seen, int(taken.sum())))
    if share < COLD:
        yield Draft("ignore", f"{title}, where it costs nothing", place, evidence,
                    "Leave it: no warp waits for it.", confidence="high")  # fmt: skip
        return
    part = 1.0 if unused or (hot is not None and hot.depth) else DRAIN_ONCE
    taken = np.maximum(taken, _meeting(case, code, atomics, taken))
    # Nobody else stands behind a warp that waits for its fence.
    saving = as_told(case, eliminated(taken, code.whole, part, sure=DRAIN_SURE))
    yield Draft("suggestion", title, place, evidence, *advice, saving)


def _meeting(
    case: KernelCase, code: KernelCode, atomics: list[int], taken: Weights
) -> Weights:  # fmt: skip
    """Return waits at the next barriers, in turn of a loop, for the warp that runs atomics for its
    block: each other warp waits there no longer than that one did for its fences."""
    bars, launch = code.named("BAR"), launch_of(case)
    met = set[int]()
    for index in (i for i in atomics if code.instructions[i].text.startswith("@")):
        loop = loop_around(code, index)
        inside = [bar for bar in bars if loop is None or bar in loop]
        met.update([*(bar for bar in inside if bar > index), *(inside if loop else ())][:1])
    waits = code.waiting_for(met, ("barrier",))
    others = (launch.warps - 1) * float(taken.sum()) if launch else 0.0
    return waits * min(1.0, others / max(float(waits.sum()), 1.0))


def _is_unused_exchange(at: Instruction) -> bool:
    """Whether it is an exchange whose result goes nowhere."""
    return "EXCH" in at.opcode.split(".") and ", RZ," in at.text


def _tail(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Stores behind a loop of work, and what is outstanding at the exit."""
    stores, use = _ends(code), memory_use(case)
    if not stores or (use and use.near):
        return
    hot = code.hottest(stores)
    assert hot is not None
    atomic = hot.name in ATOMICS
    ended = code.taken(code.rows(reasons=_TAIL) | code.rows(stores, FULL))
    queued = np.maximum(ended, _behind(case, code, stores))
    held = code.waiting_for(stores, _REGISTERS)
    # Whoever else stands in the queue of atomics is no store of the work: its waits tell as well.
    shares = [float(e.sum()) / code.whole for e in ((queued,) if atomic else (ended, held))]
    if sum(shares) < DRAIN_END:
        return
    taken = queued + held + _late_loads(case, code, stores)
    evidence = (*_static(case, code, stores), _seen(code, stores, shares, int(taken.sum())))
    part = 1.0 if atomic else DRAIN_MEANWHILE if hot.depth else DRAIN_ONCE
    yield Draft(
        "suggestion", f"the end of the kernel waits for its {'atomics' if atomic else 'stores'}",
        _place(case, code, hot.index), evidence, _ATOMIC_AUTHOR if atomic else _TAIL_AUTHOR, "",
        eliminated(taken, code.whole, part, sure=DRAIN_SURE if part > DRAIN_ONCE else 0.0),
        confidence="medium" if use else "low",
    )  # fmt: skip


def _seen(code: KernelCode, stores: list[int], shares: list[float], samples: int) -> Evidence:
    """Parts of the samples: those in the queue and at the exit; those that wait for registers."""
    left, full = code.n(reasons=_TAIL) / code.whole, code.n(stores, FULL) / code.whole
    text = f"{percent(sum(shares))} of the samples: {percent(left)} after the exit"
    text += f", {percent(full)} with their queue full"
    also = {"until stores have left the registers": sum(shares[1:])}
    also |= {"behind them in the queue": shares[0] - left - full}
    text += "".join(f", {percent(part)} {who}" for who, part in also.items() if part >= COLD)
    return Evidence("samples", text, samples)


def _ends(code: KernelCode) -> list[int]:
    """Stores and atomics behind a loop that works, in no loop but those around it; atomics, where
    there is no such loop. Those of a check that never failed have no samples."""
    works = [loop for loop in loops_of(code) if _works(code, loop)]
    names = (*STORES, *ATOMICS) if works else ATOMICS
    ends = [index for index in code.named(*names) if code.n([index])]
    return [index for index in ends if _is_behind(code, index, works)] if works else ends


def _works(code: KernelCode, loop: range) -> bool:
    return any(code.instructions[index].name in _WORK for index in loop)


def _is_behind(code: KernelCode, index: int, works: list[range]) -> bool:
    around = loop_around(code, index)
    return any(
        loop[-1] < index and (around is None or (loop != around and loop[0] in around))
        for loop in works
    )


def _behind(case: KernelCase, code: KernelCode, ends: list[int]) -> Weights:
    """What waits in the queue for them; an atomic does its sectors one by one."""
    sectors = _sectors(case, code)
    held = {index: passes_of(code.instructions[index]) for index in ends}
    held |= {index: 1.0 + sectors[index] for index in _atomics(code, ends)}
    return behind(code, held, held)


def _late_loads(case: KernelCase, code: KernelCode, ends: list[int]) -> Weights:
    """What waits for loads because L2 has atomics to do: as much of it as of L2's accesses.

    An atomic takes two for each sector: it is read, and written.
    """
    loads, atomics, sectors = code.named(*LOADS), _atomics(code, ends), _sectors(case, code)
    read, added = (
        sum(code.n([index], (ISSUED,)) * sectors[index] for index in where)
        for where in (loads, atomics)
    )
    part = 2 * added / (read + 2 * added) if added else 0.0
    return part * code.waiting_for(loads, _REGISTERS)


def _atomics(code: KernelCode, where: list[int]) -> list[int]:
    return [index for index in where if code.instructions[index].name in ATOMICS]


def _sectors(case: KernelCase, code: KernelCode) -> dict[int, float]:
    """By place of a load or an atomic, the sectors of a request, as far as they are known; else
    those that its bytes fill."""
    every = code.named(*LOADS, *ATOMICS)
    found = {i: WARP * width_of(code.instructions[i].opcode) / SECTOR for i in every}
    found |= {index: float(each.sectors) for index, each in worked_out(case).items()}
    for said in told(case):
        found |= {index: float(said.access.sectors) for index in told_at(case, code, said)}
    return found


def _static(case: KernelCase, code: KernelCode, stores: list[int]) -> Iterator[Evidence]:
    atomics = _atomics(code, stores)
    widths = {width_of(code.instructions[index].opcode) for index in stores}
    yield Evidence(
        "static",
        f"{len(stores) - len(atomics)} stores and {len(atomics)} atomics at the end, of"
        f" {min(widths)} bytes per thread on",
    )
    for remark, chosen in case.decided(StoresFromRegisters, "copy"):
        against = "".join(f": not {each}" for each in remark.rejected[:1])
        yield Evidence("static", f"{remark.subject}: {chosen}{against}", remark=remark)


def _place(case: KernelCase, code: KernelCode, index: int) -> Place:
    at = code.instructions[index]
    return case.at(at)


RULE = KernelRule("epilogue-drain", find)
