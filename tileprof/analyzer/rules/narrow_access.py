"""Global-memory accesses of 1 to 8 bytes per thread, although neighbouring threads use neighbouring
addresses, so that one instruction could move 16.

Static: what the compiler counted from the layout ("4-byte accesses, 4 sectors a request, 4
needed": as many sectors as a thread has bytes are 32 lanes side by side), and why a copy got no
faster instruction; else the addresses of lanes, as the code works them out. Dynamic: samples that
issue such accesses or wait for room in their queue; sectors of requests by instruction; how much of
what memory gives is used.

One access of 16 bytes stands for 16 / w of w bytes: (1 - w / 16) of their issue goes, and of their
wait for global memory's queue. Of what waits in the queue behind it, the part of all its passes
(`queues`) that goes: five passes move 16 bytes a lane, 2 up to 4 bytes, 3 move 8. So from 4 bytes
on they cost next to nothing unless the queue is full of them: an H200 took as long with 8 bytes,
and 1.13 times as long with 2. Accesses whose lanes nobody knows, as gathers, fill the queue as
well: what waits for room counts by the part that narrow ones are of both. No more goes than what
lies between the use of memory and what kernels reach of it that only move. Where its use is not
known nothing is sure: multiprocessors that store 4 bytes a thread without end have 84 %
`lg_throttle`, and so have those that memory holds up. So of what only the code tells, and whose
memory's use is not known, only those accesses are a cause whose lanes leave gaps that their
thread's next access fills; the rest is a symptom.

An access whose place is checked, because its index was loaded, brings a branch of its own. One of
16 bytes does that once, so (1 - w / 16) of what stands between two such accesses goes, but for
waits for answers. That is what a warp does itself, so nothing else goes with it. (On an H200 0.16
of the samples stood between loads of 2 bytes of rows of a table; 8 bytes took 0.90 of the time.)

Such branches also make a thread wait for each of these loads before it begins the next one: then
(1 - w / 16) of what waits for them goes (`threads/per_thread`).

Where threads move one narrow access each and end, their number alone may set the time
(`machine_code/short_lives`).

What keeps Triton from wide accesses the program's text may tell (`triton/one_by_one`).

Stores that leave gaps for other stores of their thread keep L2 busy, wherever warps wait
(`machine_code/in_gaps`).

A tile compiler works an address out for each access, so where schedulers issue nearly all of the
time, and not for products, a kernel takes as long as its instructions: of those with integers on
the lines of such accesses that work out where these go, the part (1 - w / 16) goes.

Copies to shared memory that are narrow because they transpose, as their lanes show, can not be
wider: one instruction writes its bytes side by side. Asynchronous ones of less than 16 bytes that
the compiler tells of cost what is done for each of them: of the samples at their line, but for
waits for memory and other warps, (1 - w / 16) goes where tiles are copied in rows.

Loads of an element and of its neighbours in the row, as of a stencil, can not all be wide
(`tiles/neighbours`, else lanes that load what another lane loads too), so they are left out. So are
accesses whose place in the row is counted from a loaded number, as edges of a graph's node: no row
begins at a multiple of 16 bytes for sure. Nor do accesses that a loop moves on by single elements,
as the taps of a filter.

Long scoreboards are left out: they stand at who needs a value, and are as long for 4 bytes as for
16.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Weights, drawn, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import (
    ACCESSES,
    Request,
    Told,
    loaded_beside,
    requests,
    told,
    told_at,
    width_of,
    worked_out,
)
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.narrow import checks, passes_at, saved, turns_saved, why_harmless
from tileprof.analyzer.kernel.queues import FULL
from tileprof.analyzer.kernel.threads import per_thread
from tileprof.analyzer.machine.by_number import begins_by_number
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.strides import goes_by_elements
from tileprof.analyzer.numbers.shared import COOL, WIDEST
from tileprof.analyzer.rules.machine_code.in_gaps import in_gaps
from tileprof.analyzer.rules.machine_code.short_lives import short_lives
from tileprof.analyzer.rules.numbers.memory import (
    NARROW_ACCESS_FULL,
    NARROW_ACCESS_GAPS,
    NARROW_ACCESS_IN_ORDER,
)
from tileprof.analyzer.rules.triton.one_by_one import one_by_one
from tileprof.analyzer.tiles.gathers import begun_by_data, widened_lines
from tileprof.analyzer.tiles.neighbours import loaded_with_neighbours
from tileprof.remarks.copies import CpAsync

_AUTHOR = (
    "Let each thread move 16 bytes at once: give it neighbouring elements of the last index (fewer"
    " threads, or a wider tile), and make rows and offsets multiples of 16 bytes: pad the tensor,"
    " and use `T.const` for extents of rows that are known at launch only."
)
_IN_ROWS = (
    "Let the copy keep the order of the tensor's dimensions, and exchange the indices where the"
    " tile is read (the compiler chooses a layout without conflicts for that); make rows multiples"
    " of 16 bytes."
)
_COMPILER = (
    "The access is narrower than 16 bytes: see what determines the layout of its loop, and which"
    " alignment of the address could not be proved."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Narrow accesses whose places are not counted in 64 bits."""
    wide = widened_lines(case.tiles)
    yield from (each for each in accesses(case) if each.line not in wide)


def accesses(case: KernelCase) -> Iterator[Draft]:
    """Narrow accesses in order, or with gaps; else a queue that is full at narrow ones."""
    found, gaps, reason = [*_in_order(case), *_copied(case)], in_gaps(case), one_by_one(case)
    if gaps is not None and not any(_is_more(each, gaps) for each in found):
        found = [gaps]
    if reason is None:
        yield from found
        return
    costly = [each for each in found if each.saving is not None]
    for each in costly:
        yield replace(each, author=reason.author, evidence=(reason.evidence[0], *each.evidence))
    if not costly:
        yield reason


def _is_more(said: Draft, other: Draft) -> bool:
    """Whether a cause saves more than another one of the same accesses."""
    return (said.saving.mid if said.saving else 0.0) >= (other.saving.mid if other.saving else 0.0)


def _in_order(case: KernelCase) -> Iterator[Draft]:
    """Accesses that are side by side, by what waits for them."""
    code = case.code
    shifted = loaded_with_neighbours(case.tiles)
    said = [
        each for each in told(case) if _is_narrow(each)
        if (each.remark.op != "load" or each.remark.name not in shifted)
        and each.key not in begun_by_data(case.tiles)
    ]  # fmt: skip
    counted = list(requests(code, _narrow(code))) if code else []
    where = {i for each in said for i in told_at(case, code, each)} if code else set[int]()
    evidence = [*_static(case, said)]
    if counted and code is not None:
        low, high = NARROW_ACCESS_IN_ORDER
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
    if code is not None and not counted:
        more, shown = _by_addresses(case, _untold(case, code))
        if more and (not where or code.n(more) > code.n(where)):
            where, evidence, said = more, shown, []
    if code is not None and code.whole and where:
        yield from _measured(case, code, where, evidence)
    elif evidence:
        place = case.place(said[0].location, said[0].op) if said else _place(case, code, where)
        title = _title(code, where, said)
        yield Cause(title, place, tuple(evidence), _AUTHOR, _COMPILER).warning()
    elif code is not None and code.whole:
        yield from _symptom(case, code)


def _copied(case: KernelCase) -> Iterator[Draft]:
    """Asynchronous copies of less than 16 bytes, where what they do for each of them takes time."""
    code = case.sampled
    said = [held for held in case.decided(CpAsync, "copy") if held[1].width < WIDEST]
    if code is None or not said:
        return
    remark, decision = min(said, key=lambda each: each[1].width)
    copies = [i for i in code.named("LDGSTS") if width_of(code.instructions[i].opcode) < WIDEST]
    places = (case.user_line(code.instructions[index].place) for index in copies)
    where = case.at_lines(code, {place.line for place in places if place})
    own = code.rows(where) & ~code.rows(where, ("long_scoreboard", "barrier"))
    taken = (1 - decision.width / WIDEST) * code.taken(own)
    if code.share(taken) < COOL:
        return
    title = f"a copy to shared memory moves {decision.width} bytes at a time where 16 would do"
    static = Evidence("static", f"{remark.subject}: {decision}", remark=remark)
    place = case.place(remark.location, remark.subject)
    cause = Cause(title, place, (static,), _IN_ROWS, _COMPILER)
    seen = sampled(code, code.taken(own), "issue such copies, and work out where they go")
    yield cause.costs(eliminated(taken, code.whole), seen)


def _untold(case: KernelCase, code: KernelCode) -> set[int]:
    """Return the accesses that the compiler says nothing of, as those of a tensor that is read as
    another type."""
    known = {index for each in told(case) for index in told_at(case, code, each)}
    return {*code.named(*ACCESSES)} - known - {*case.at_lines(code, {e.line for e in told(case)})}


def _by_addresses(case: KernelCase, among: set[int]) -> tuple[set[int], list[Evidence]]:
    """Of these accesses, those whose lanes are side by side, or leave gaps for their thread's next
    bytes."""
    low, high = NARROW_ACCESS_IN_ORDER
    known = worked_out(case)
    narrow = [known[index] for index in among & known.keys() if _could_widen(known[index])]
    narrow = [each for each in narrow if not _is_kept_narrow(case, each)]
    narrow = [each for each in narrow if not _is_shifted(case, each, narrow)]
    found = [
        each for each in narrow if low <= each.widened <= high and each.ways >= NARROW_ACCESS_GAPS
    ]
    if not found and memory_use(case):
        found = [each for each in narrow if low <= each.ways <= high]
    if not found:
        return set(), []
    first = max(found, key=lambda each: each.ways)
    text = (
        f"{first.instruction.opcode}: {first.sectors} sectors per request, {first.needed} needed, "
        f"by"
        " the addresses of its lanes"
    )
    return {each.instruction.index for each in found}, [Evidence("static", text)]


def _is_kept_narrow(case: KernelCase, each: Request) -> bool:
    """Whether where it begins is no multiple of 16 bytes, whoever has which element."""
    code, index = case.code, each.instruction.index
    return index in loaded_beside(case) or (code is not None and begins_by_number(code, index))


def _is_shifted(case: KernelCase, each: Request, others: Sequence[Request]) -> bool:
    """Return whether a loop moves an access on by single elements, whose lanes have no gaps that
    only its next iterations fill."""
    code, index = case.code, each.instruction.index
    if code is None or not goes_by_elements(code, index):
        return False
    loop = loop_around(code, index)
    return sum(loop_around(code, one.instruction.index) == loop for one in others) >= int(each.ways)


def _could_widen(each: Request) -> bool:
    at = each.instruction
    return each.follows and at.name in ACCESSES and width_of(at.opcode) < WIDEST


def _measured(
    case: KernelCase, code: KernelCode, where: set[int], evidence: list[Evidence]
) -> Iterator[Draft]:
    """What they cost by samples."""
    use = memory_use(case)
    at = code.n(where, (ISSUED, *FULL))
    text = f"{percent(at / code.whole)} of the samples issue them or queue for it"
    evidence.append(Evidence("samples", text, at))
    checked = checks(code, where)
    checking = int(checked.sum())
    if checking >= COOL * code.whole:
        text = f"{percent(checking / code.whole)} of the samples check bounds"
        text += " that a wider access checks once"
        evidence.append(Evidence("samples", text, checking))
    if use:
        evidence.append(Evidence("activities", use.text))
    in_turn = per_thread.by_turns(code, where)
    if code.share(in_turn) >= COOL:
        evidence.append(sampled(code, in_turn, "wait for such loads, one after the other"))
    title, place = _title(code, where), _place(case, code, where)
    cause = Cause(title, place, tuple(evidence), _AUTHOR, _COMPILER)
    passes = passes_at(case, code, where)
    made = _beside(case, code, where)
    saving = saved(case, code, passes, checked, use, made, in_turn)
    turns = turns_saved(case, code, where, use) if told(case) and use and not use.near else None
    lives = short_lives(case, code, where)
    left = reach.left(case, saving.rows)
    own = drawn(saving, left) if left else saving
    if lives and lives.mid > max(own.mid, saving.mid, turns.mid if turns else 0.0):
        text = "as many threads take as long to begin and to end, whatever each of them moves"
        more = (*evidence, Evidence("activities", text))
        cause = Cause(title, place, more, _AUTHOR, _COMPILER)
        yield cause.costs(lives, most=use.most if use else float("inf"))
        return
    if turns and turns.mid > saving.mid:
        text = f"schedulers issue in {percent(busy_share(code), 0)} of the cycles: addresses of"
        cause = Cause(
            title, place,
            (*evidence, Evidence("samples", f"{text} narrow accesses take their turns", at)),
            _AUTHOR, _COMPILER,
        )  # fmt: skip
        yield cause.costs(turns, most=use.most if use else float("inf"))
        return
    if why := why_harmless(code, passes, checked, saving, use, np.maximum(made, in_turn)):
        yield cause.ignored(", where it costs nothing", f"Leave it: {why}.")
        return
    yield cause.costs(
        saving, most=use.most if use else float("inf"), confidence="medium" if use else "low"
    )


def _beside(case: KernelCase, code: KernelCode, where: set[int]) -> Weights:
    """What is done for each thread, and waits for latency as too few bytes are under way.

    Code that a tile compiler made works addresses out for tiles, not for accesses; and where the
    use of memory is not known, nobody knows whether arithmetic matters.
    """
    known = memory_use(case) is not None and not told(case)
    made = per_thread.by_addresses(code, where) if known else np.zeros(len(code.counts))
    short = per_thread.short_of(case, code, where)
    return np.maximum(made, per_thread.by_latency(code, where, short)) if short else made


def _symptom(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """A queue that is full of what could be narrow for nothing."""
    known = worked_out(case)
    others = [
        i
        for i, e in known.items()
        if not (_could_widen(e) and e.widened <= NARROW_ACCESS_IN_ORDER[1])
    ]
    looped = [i for i in _narrow(code) if code.instructions[i].depth and i not in others]
    waits, use = code.n(looped, ("lg_throttle",)), memory_use(case)
    if waits < NARROW_ACCESS_FULL * code.whole or (use and use.near) or told(case):
        return
    widths = {width_of(code.instructions[index].opcode) for index in looped}
    text = (
        f"{percent(waits / code.whole)} of the samples are at accesses of {min(widths)} bytes a"
        " thread and find its queue full"
    )
    author = (
        "If neighbouring threads access neighbouring addresses, let each move 16 bytes at once;"
        " otherwise leave the access as it is. `tileprof run --metrics instructions SCRIPT` counts"
        " the sectors of its requests, `--metrics memory` shows whether memory has bandwidth left."
    )
    place, evidence = _place(case, code, looped), Evidence("samples", text, waits)
    title = "the queue of global memory is full of narrow accesses"
    yield Cause(title, place, (evidence,), author).symptom()


def _is_narrow(said: Told) -> bool:
    """Whether a remark is about lanes side by side that move less than they could."""
    access = said.access
    narrow = access.width < WIDEST and access.width == access.needed == access.sectors
    return narrow and said.remark.op in ("load", "store")


def _narrow(code: KernelCode) -> list[int]:
    return [i for i in code.named(*ACCESSES) if width_of(code.instructions[i].opcode) < WIDEST]


def _static(case: KernelCase, said: list[Told]) -> Iterator[Evidence]:
    """The narrowest access, and why what moves it is no faster copy."""
    if not said:
        return
    first = min(said, key=lambda each: each.access.width)
    yield Evidence("static", f"{first.op}: {first.access}", remark=first.remark)
    for remark in case.remarks:
        if remark.op == "copy" and remark.location == first.location:
            for each in remark.rejected[:1]:
                yield Evidence("static", f"not {each}", remark=remark)


def _title(code: KernelCode | None, where: Collection[int], said: list[Told] | None = None) -> str:
    widths = {width_of(code.instructions[i].opcode) for i in where} if code else set[int]()
    width = min(widths | {each.access.width for each in said or ()})
    return f"accesses of {width} bytes per thread where 16 would do"


def _place(case: KernelCase, code: KernelCode | None, where: Collection[int]) -> Place:
    hot = code.hottest(where) if code else None
    if hot is None or code is None:
        return case.place()
    ops = (each.op for each in told(case) if hot.index in told_at(case, code, each))
    line = case.user_line(hot.place)
    return case.place(line, next(ops, case.op_at(hot.place)), (hot.offset, hot.offset))


RULE = KernelRule("narrow-access", find, ("samples", "counters"))
