"""Tiles copied to shared memory through registers, so that warps wait for the loads.

Static: the compiler left a copy to loads and stores, and why; of other code, a loop that stores to
shared memory the register that it loaded, with a barrier and no asynchronous copy. Dynamic: samples
of warps that wait for these loads while nobody issued, and at their line.

A copy that runs ahead hides behind the loop's other work. No less than behind what the loop issues
(GPA, section 5.2, the bound of its sequential estimate), no more than behind all else that it does
(a turn of L and C becomes max(L, C)); the likeliest is taken halfway. What the copy's own
instructions take goes where the hardware copies.

In a loop of matrix products tensor cores work while tiles come by themselves, as many turns ahead
as it takes, so at most all that the copies take goes (`by_hand.lost`), likely
`PIPELINE_DEPTH_BY_HAND` of it, down to the share of the time that tensor cores multiply, or that a
multiprocessor takes the tiles' bytes in. What L2 was measured to give is no bound: multiprocessors
that ask for the same tile get more (an H200 gave products 1.15 times as much as it gave reads of
their own). The copies' barriers also keep warp groups in step, in each turn, so that they wait for
products together: between none and all of what the loop's other work covers of that goes
(`in_step`), likely half. A loop of products that was compiled elsewhere, or one with a single
stage, has no pipeline at all: `pipeline-too-shallow` says that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import has_products, lost, through_registers
from tileprof.analyzer.kernel.in_step import covered, in_step
from tileprof.analyzer.kernel.pace import pace_of
from tileprof.analyzer.kernel.pipelines import single_stage
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loop_around, loops_of, loops_with
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.numbers.waiting import PIPELINE_DEPTH_BY_HAND
from tileprof.analyzer.rules.tile_program.relays import by_way_of
from tileprof.analyzer.tiles.rings import rings_of
from tileprof.remarks import Reason, Remark
from tileprof.remarks.common import AsAsked
from tileprof.remarks.copies import (
    AlsoRead,
    AlsoUsed,
    AlsoWritten,
    AskedReason,
    Converts,
    CpAsync,
    CpAsyncCandidate,
    InnermostStride,
    KernelWrites,
    LoadsAndStores,
    NothingOverlaps,
    OtherShape,
    OutsideReads,
    RowStride,
    RowsUnaligned,
    StrideAtLaunch,
    TileAlsoWritten,
    TileStart,
    TileUsedBefore,
    TileUsedElsewhere,
    UnalignedAddress,
)
from tileprof.remarks.loops import WaitedAtOnce

_LONG = ("long_scoreboard",)
_COMPILER = "The faster lowering of this copy was rejected: {}."
_FOREIGN = (
    "Load by cp.async (16 bytes per thread, a ring of two to four tiles) or by TMA, so that the "
    "next"
    " tile is on its way while this one is used."
)
_REMOVE = "Remove what prevents it"
_OTHER_USES = (
    AlsoRead, AlsoUsed, AlsoWritten, KernelWrites, TileAlsoWritten, TileUsedBefore,
    TileUsedElsewhere,
)  # fmt: skip
_WAYS: tuple[tuple[tuple[type[Reason], ...], str], ...] = (
    ((AskedReason, AsAsked), "Remove the annotation or control that forbids it"),
    ((Converts,), "Copy the tile in the tensor's own type, and convert it where it is used"),
    ((NothingOverlaps,), "Write the loop as `T.Pipelined` with `num_stages=2` or more"),
    (
        (RowStride, RowsUnaligned, StrideAtLaunch, TileStart),
        "Pad the tensor's rows, and begin tiles, at multiples of 16 bytes",
    ),
    ((UnalignedAddress,), "Pass a tensor that begins at a multiple of 16 bytes"),
    ((InnermostStride,), "Keep the tensor with the tile's last dimension side by side"),
    ((OutsideReads,), "Let elements outside read as 0, and mask the result"),
    ((OtherShape,), "Copy from the tensor under its own shape"),
    (_OTHER_USES, "Load into a buffer that nothing else in the loop writes"),
)
"""Maps reasons against a faster copy to the suggested change; the first match wins."""


@dataclass(frozen=True, eq=False)
class _Waits:
    """Loads of a kernel, and what waits for them."""

    loads: tuple[int, ...]
    loop: range
    rows: Weights
    """Samples, by row, that wait while nobody issues; in a loop of products all that goes."""
    own: int = 0
    """Samples of what the copies are made of, beside these."""
    copies: tuple[int, ...] = ()  # the same as instructions, in a loop of products


def find(case: KernelCase) -> Iterator[Draft]:
    """Copies by way of another buffer, and those that the compiler tells of; without remarks, what
    the code looks like."""
    yield from by_way_of(case)
    if case.remarks:
        told = [each for each in case.remarks if _is_missed(each)]
        if told and not single_stage(case):
            yield from _told(case, told)
    elif case.sampled:
        yield from _foreign(case, case.sampled)


def _is_missed(remark: Remark) -> bool:
    """Whether it is about a load into shared memory that does not run ahead as it could."""
    if remark.op != "copy":
        return False
    could = any(isinstance(each.candidate, CpAsyncCandidate) for each in remark.rejected)
    by_hand = isinstance(remark.decision, LoadsAndStores) and could
    is_late = isinstance(remark.decision, CpAsync | WaitedAtOnce) and remark.severity == "missed"
    return by_hand or is_late


def _told(case: KernelCase, told: list[Remark]) -> Iterator[Draft]:
    code = case.sampled
    if code is None or not code.named("LDG", "LDGSTS"):
        for remark in told:
            if remark.severity == "missed":
                place = case.place(remark.location, remark.subject)
                yield Draft("warning", _title([remark]), place, (_static(remark),), _way(remark),
                            _compiler(remark))  # fmt: skip
        return
    lines = {each.location.line: each for each in told if each.location}
    loads = [
        index
        for index in code.named("LDG", "LDGSTS")
        if (line := case.user_line(code.instructions[index].place)) and line.line in lines
    ]
    waits = _waits(code, loads)
    hot = code.hottest(waits.loads) if waits else None
    if waits is None or hot is None:
        return
    waits = _all_of(case, code, waits, lines)
    places = [hot.place, *(code.instructions[index].place for index in waits.loads)]
    at = [lines[line.line] for each in places if (line := case.user_line(each))]
    # Neighbouring loads may all count for the line of one of them.
    missed = [each for each in told if each.severity == "missed"]
    first, *others = dict.fromkeys([*at, *missed])
    place = case.place(first.location, first.subject, (hot.offset, hot.offset))
    yield _draft(case, code, waits, place, _title([first, *others]), _static(first), _way(first),
                 _compiler(first))  # fmt: skip


def _all_of(case: KernelCase, code: KernelCode, waits: _Waits, lines: Collection[int]) -> _Waits:
    """With what is at the copies' lines in the loop: loads, stores, addresses, barriers.

    Waits for data are not among them, nor those for products, whatever line they count for.
    """
    own = case.at_lines(code, lines, waits.loop)
    if has_products(code, waits.loop):
        return replace(waits, rows=lost(code, waits.loop, own), copies=tuple(own))
    return replace(waits, own=code.n(own) - code.n(own, _LONG))


def _foreign(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    for loop in loops_with(code, ("STS",)):
        if has_products(code, loop):
            continue
        loads, stores = through_registers(code, loop)
        waits = _waits(code, list(loads), stores)
        if waits is None or waits.rows.sum() < COLD * code.whole:
            continue
        hot = code.hottest(stores)
        assert hot is not None
        line = case.user_line(hot.place)
        place = case.place(line, case.op_at(line), (hot.offset, hot.offset))
        text = f"a loop has {len(loads)} LDG whose registers STS takes, and no asynchronous copy"
        title = "tiles pass through registers on the way to shared memory"
        yield _draft(case, code, waits, place, title, Evidence("static", text), _FOREIGN, "")


def _waits(code: KernelCode, loads: list[int], at: tuple[int, ...] | None = None) -> _Waits | None:
    """What waits for these loads, of those in innermost loops; None where none is in one.

    What an outer loop loads once, as a persistent block does, has no turn to run ahead of.
    """
    loops = {index: loop_around(code, index) for index in loads}
    looped = [index for index, loop in loops.items() if loop and is_innermost(code, loop)]
    first = code.hottest(looped)
    loop = loop_around(code, first.index) if first else None
    if loop is None:
        return None
    loop = _of_products(code, loop)
    waiting = code.waiting_for(looped, _LONG)
    if at is not None:
        waiting = np.where(code.rows(at), waiting, 0)
    waited = code.n(loop, _LONG)
    idle = code.n(loop, _LONG, idle=True) / waited if waited else 0.0
    return _Waits(tuple(looped), loop, waiting * idle)


def _of_products(code: KernelCode, loop: range) -> range:
    """Return the loop of products around a loop that copies a tile for it, row by row; itself where
    it multiplies, or none around it does."""
    around = (each for each in loops_of(code) if each[0] <= loop[0] and loop[-1] <= each[-1])
    return next((each for each in around if has_products(code, each)), loop)


def _draft(
    case: KernelCase, code: KernelCode, waits: _Waits, place: Place, title: str, static: Evidence,
    author: str, compiler: str,
) -> Draft:  # fmt: skip
    samples = int(waits.rows.sum()) + waits.own
    share = samples / code.whole
    text = f"{percent(share)} of the samples wait for these loads, or are at them"
    cause = Cause(title, place, (static,), author, compiler)
    seen = Evidence("samples", text, samples)
    if share < COLD:
        leave = "Leave it: nothing waits for these loads."
        return cause.ignored(", off the critical path", leave, seen)
    products = has_products(code, waits.loop)
    saving = _to_products(case, code, waits) if products else _hidden(code, waits)
    return cause.costs(saving, seen)


def _to_products(case: KernelCase, code: KernelCode, waits: _Waits) -> Saving:
    """All of it, down to what tensor cores, or the tiles' way, take; half of it at least. Likely it
    is `PIPELINE_DEPTH_BY_HAND` of it, but for copies of rows one after the other."""
    stage = next((ring.stage_bytes for ring in rings_of(case.tiles)), 0)
    pace = pace_of(case, code, waits.loop, stage)
    kept, inside = max(pace.tensor, pace.alone), code.n(waits.loop) / code.whole
    high = min((1 - kept) * inside, LONGEST_SAVING)
    together = covered(code, waits.loop, in_step(case, code, waits.loop), waits.copies)
    rows = np.maximum(waits.rows, HALFWAY * together)
    gone = float(rows.sum())
    mid = min(gone / code.whole, high)
    low = min(float(waits.rows.sum()) / code.whole, mid) / 2
    if all(loop_around(code, index) == waits.loop for index in waits.loads):
        # All that waits for these tiles is counted, so nothing is drawn from waits elsewhere.
        left = reach.left(case, rows) or Saving(0, 1, 1)
        mid = min(PIPELINE_DEPTH_BY_HAND * mid, left.mid)
        return Saving(min(low, mid), mid, max(mid, min(high, left.high)), samples=int(gone))
    return Saving(low, mid, high, rows * (mid * code.whole / (gone or 1)), int(gone))


def _hidden(code: KernelCode, waits: _Waits) -> Saving:
    """Behind what the loop issues at least, behind all else that it does at most."""
    inside, late = code.n(waits.loop), float(waits.rows.sum())
    issued, rest = code.n(waits.loop, (ISSUED,)), max(inside - late, 0.0)
    least, most = (min(late, behind) + min(waits.own, inside) for behind in (issued, rest))
    most = min(most, LONGEST_SAVING * code.whole, inside)
    mid = min(least + HALFWAY * (most - least), most)
    low, mid, high = (each / code.whole for each in (min(least, mid) / 2, mid, most))
    part = mid * code.whole / (late or 1)
    return Saving(low, mid, high, waits.rows * part, int(late) + waits.own)


# -- words


def _title(told: list[Remark]) -> str:
    names = " and ".join(dict.fromkeys(f"`{each.name}`" for each in told))
    by_hand = isinstance(told[0].decision, LoadsAndStores)
    how = "loads and stores" if by_hand else "the instructions of all threads"
    return f"{names} {'is' if len(told) == 1 else 'are'} left to {how}"


def _static(remark: Remark) -> Evidence:
    against = "; ".join(f"not {each}" for each in remark.rejected)
    text = f"{remark.subject}: {remark.decision}, {against}"
    return Evidence("static", text, remark=remark)


def _way(remark: Remark) -> str:
    if not remark.rejected:
        return f"{_REMOVE}."
    reason = remark.rejected[-1].reason
    within = tuple(reason.within())
    fits = (way for kinds, way in _WAYS if any(isinstance(each, kinds) for each in within))
    return f"{next(fits, _REMOVE)}: {reason}."


def _compiler(remark: Remark) -> str:
    return _COMPILER.format(remark.against)


RULE = KernelRule("missed-async-copy", find)
