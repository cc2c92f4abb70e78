"""Accesses of global memory by 1 to 8 bytes a thread, although neighbouring threads are at
neighbouring addresses, so that one instruction could move 16.

Static: what the compiler counted from the layout ("4-byte accesses, 4 sectors a request, 4
needed": as many sectors as a thread has bytes are 32 lanes side by side), and why a copy got no
faster instruction. Dynamic: samples that issue such accesses or wait for room in their queue;
sectors of requests by instruction; how much of what memory gives is used.

One access of 16 bytes stands for 16 / w of w bytes: (1 - w / 16) of their issue goes, and as much
of the queue. But the queue is also full where the memory behind it takes no more, and widths from
4 bytes on pass as many bytes a cycle: so of the queue's time the part that memory is used (nearest
of DRAM and L2) stays, as does the traffic, which bounds the gain; near that roof there is none.
Where its use is not known nothing is sure. An H200's multiprocessors that store 4 bytes a thread
without end, each warp 128 bytes in order, have 84 % `lg_throttle`; samples cannot tell which of
the two it is, so by themselves they are a symptom.

Long scoreboards are left out: they stand at who needs a value, and are as long for 4 bytes as for
16.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import ISSUED, KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.global_memory import (
    ACCESSES,
    NEAR,
    WIDEST,
    Told,
    memory_use,
    requests,
    told,
    told_at,
    width_of,
)

__all__ = ["RULE"]

_IN_ORDER = (0.9, 1.25)
"""Sectors for each needed one of lanes side by side: unaligned rows of 4-byte words have 5 for 4;
fewer are lanes that share addresses."""
_QUEUE = "lg_throttle"
_COLD = 0.01
_FULL = 0.2
"""Of the samples, from which on a full queue is worth telling without a cause."""
_AUTHOR = (
    "Let each thread move 16 bytes at once: give it neighbouring elements of the last index (fewer"
    " threads, or a wider tile), and make rows and offsets multiples of 16 bytes: pad the tensor,"
    " and use `T.const` for extents of rows that are known at launch only."
)
_COMPILER = (
    "The access is narrower than 16 bytes: see what the layout of its loop is bound by, and which"
    " alignment of the address could not be shown."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Narrow accesses in order; else a queue that is full at narrow ones."""
    code = case.code
    said = [each for each in told(case) if _is_narrow(each)]
    counted = list(requests(code, _narrow(code))) if code else []
    where = {i for each in said for i in told_at(case, code, each)} if code else set[int]()
    evidence = [*_static(case, said)]
    if counted and code is not None:
        low, high = _IN_ORDER
        ordered = [each for each in counted if low <= each.ways <= high]
        where = {each.instruction.index for each in ordered}
        if not ordered:
            return
        most = max(ordered, key=lambda each: each.count)
        text = (
            f"{most.count} requests of {most.instruction.opcode}, each of"
            f" {most.sectors / most.count:.1f} sectors: its lanes are side by side"
        )
        evidence.append(Evidence("counters", text))
    if code is not None and code.whole and where:
        yield from _measured(case, code, where, evidence)
    elif evidence:
        place = case.place(said[0].location, said[0].op) if said else _place(case, code, where)
        yield Draft("warning", _title(code, where, said), place, tuple(evidence), _AUTHOR,
                    _COMPILER)  # fmt: skip
    elif code is not None and code.whole:
        yield from _symptom(case, code)


def _measured(
    case: KernelCase, code: KernelCode, where: set[int], evidence: list[Evidence]
) -> Iterator[Draft]:
    """What they cost by samples."""
    use = memory_use(case)
    taken = _taken(code, where, 1 - min(use[0], 1.0) if use else 1.0)
    at = code.n(where, (ISSUED, _QUEUE))
    evidence.append(
        Evidence(
            "samples",
            f"{percent(at / code.whole)} of the samples issue them or queue for it",
            at,
        )
    )
    if use:
        evidence.append(Evidence("activities", use[1]))
    title, place = _title(code, where), _place(case, code, where)
    share, near = float(taken.sum()) / code.whole, use is not None and use[0] >= NEAR
    if share < _COLD or near:
        why = "memory gives no more than it does" if near else "these accesses take no time"
        yield Draft(
            "ignore", f"{title}, where it costs nothing", place, tuple(evidence),
            f"Leave it: {why}.", confidence="high",
        )  # fmt: skip
        return
    yield Draft(
        "suggestion", title, place, tuple(evidence), _AUTHOR, _COMPILER,
        eliminated(taken, code.whole, sure=0.5 if use else 0.0),
        most=1 / use[0] if use else float("inf"), confidence="medium" if use else "low",
    )  # fmt: skip


def _taken(code: KernelCode, where: Collection[int], room: float) -> Weights:
    """By row, the samples that are not there if each instruction moves 16 bytes.

    room: the part of time in the queue that memory is not what fills it.
    """
    taken = np.zeros(len(code.counts))
    for index in where:
        part = 1 - width_of(code.instructions[index].opcode) / WIDEST
        taken += part * code.taken(code.rows([index], (ISSUED,)))
        taken += part * room * code.taken(code.rows([index], (_QUEUE,)))
    return taken


def _symptom(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Whether its lanes are in order is not known, nor what memory has room for."""
    looped = [index for index in _narrow(code) if code.instructions[index].depth]
    waits, use = code.n(looped, (_QUEUE,)), memory_use(case)
    if waits < _FULL * code.whole or (use and use[0] >= NEAR) or told(case):
        return
    widths = {width_of(code.instructions[index].opcode) for index in looped}
    text = (
        f"{percent(waits / code.whole)} of the samples are at accesses of {min(widths)} bytes a"
        " thread and find the queue full"
    )
    author = (
        "If its threads are side by side, let each move 16 bytes at once; if they are not, let"
        " them be. `tileprof run --metrics instructions SCRIPT` counts the sectors of its requests,"
        " `--metrics memory` tells whether the memory behind them has room."
    )
    place, evidence = _place(case, code, looped), Evidence("samples", text, waits)
    yield Draft("symptom", "the queue of global memory is full of narrow accesses", place,
                (evidence,), author)  # fmt: skip


def _is_narrow(said: Told) -> bool:
    """Whether a remark is about lanes side by side that move less than they could."""
    moves = said.op.startswith(("load", "store"))
    return moves and said.width < WIDEST and said.width == said.needed == said.sectors


def _narrow(code: KernelCode) -> list[int]:
    return [i for i in code.named(*ACCESSES) if width_of(code.instructions[i].opcode) < WIDEST]


def _static(case: KernelCase, said: list[Told]) -> Iterator[Evidence]:
    """The narrowest access, and why what moves it is no faster copy."""
    if not said:
        return
    first = min(said, key=lambda each: each.width)
    yield Evidence("static", f"{first.op}: {first.text}")
    for remark in case.remarks:
        if remark.op.startswith("copy") and remark.location == first.location:
            for candidate, reason in remark.rejected[:1]:
                yield Evidence("static", f"not {candidate}: {reason}")


def _title(code: KernelCode | None, where: Collection[int], said: list[Told] | None = None) -> str:
    widths = {width_of(code.instructions[i].opcode) for i in where} if code else set[int]()
    width = min(widths | {each.width for each in said or ()})
    return f"accesses of {width} bytes a thread where 16 would do"


def _place(case: KernelCase, code: KernelCode | None, where: Collection[int]) -> Place:
    hot = code.hottest(where) if code else None
    if hot is None:
        return case.place()
    return case.place(case.user_line(hot.place), case.op_at(hot.place), (hot.offset, hot.offset))


RULE = KernelRule("narrow-access", find, ("samples", "counters"))
