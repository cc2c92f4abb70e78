"""Instructions that are executed for a few of a warp's 32 lanes.

Static: what the compiler says of an access that keeps its guard. Dynamic: threads that executed an
instruction, by 32 times the warps that did; samples at it.

A guard by itself is no fault: it is told beside the lanes, and only the compiler's own words say
whether it is needed. Instructions that one lane runs for all (barriers in shared memory, copies of
tiles) are left out, and so is the code of one lane in kernels that have them.

With f of the lanes at work, (1 - f) of the samples there goes away at most, where lanes are packed.
Warps that wait for latency would wait as long, so likely only in the cycles in which schedulers
issue. The reference takes `selected` samples of the computation of masks alone; what lanes a branch
or a narrow tile leaves idle is then not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import Instruction, KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.jumps import shown
from tileprof.analyzer.launches import busy_share

__all__ = ["RULE"]

_LANES = 32
_FEW = 0.9
"""Of the lanes, below which some are wasted."""
_ONE = 1.5 / _LANES
"""Below, one lane works."""
_BY_ONE = ("SYNCS", "UTMALDG", "UTMASTG", "UTMACMDFLUSH", "UBLKCP", "ELECT")
"""Opcodes that one lane runs for its warp, or block."""
_COLD = 0.01
_NOTABLE = 0.1
"""Of the executions of a kernel, from where lanes are told without samples."""
_AUTHOR = (
    "Let all lanes of a warp take the same way: branch by warps and not by lanes, let a tile's last"
    " dimension be a multiple of 32 threads, or pad the data once."
)
_COMPILER = "See how threads were given to the elements of this op, and what its guard rests on."


def find(case: KernelCase) -> Iterator[Draft]:
    """Hot instructions with few lanes."""
    code = case.code
    lanes = _lanes(code) if code else {}
    if code is None or not lanes:
        return
    unused = {index: 1 - each for index, each in lanes.items()}
    hot = _worst(code, unused)
    evidence = [*_guards(case, hot), _counted(code, hot, lanes)]
    place = case.place(case.user_line(hot.place), case.op_at(hot.place), (hot.offset, hot.offset))
    title = f"{_LANES * lanes[hot.index]:.0f} of 32 lanes work"
    if not code.whole:
        if _part(code, unused) >= _NOTABLE:
            yield Draft("symptom", title, place, tuple(evidence), _AUTHOR, _COMPILER)
        return
    share = np.zeros(len(code.instructions) + 1)
    for index, each in unused.items():
        share[index] = each
    taken = code.taken(code.rows(list(unused))) * share[code.at]
    lost = float(taken.sum()) / code.whole
    busy = percent(busy_share(code), 0)
    text = f"{percent(lost)} of the samples are what these lanes take, of {busy} busy"
    evidence.append(Evidence("samples", text, int(taken.sum())))
    if lost < _COLD:
        yield Draft("ignore", f"{title}, where it costs nothing", place, tuple(evidence),
                    "Leave it: this code takes no time.", confidence="high")  # fmt: skip
        return
    yield Draft("suggestion", title, place, tuple(evidence), _AUTHOR, _COMPILER,
                eliminated(taken, code.whole, busy_share(code)))  # fmt: skip


def _lanes(code: KernelCode) -> Mapping[int, float]:
    """By instruction of which lanes are wasted, the part that works."""
    by_one = bool(code.named(*_BY_ONE))
    warps, threads = (_counts(code, each) for each in ("executions", "thread_executions"))
    found = {}
    for each in code.instructions:
        if each.offset not in threads or not warps.get(each.offset) or each.name in _BY_ONE:
            continue
        lanes = threads[each.offset] / warps[each.offset] / _LANES
        if lanes < _FEW and not (by_one and lanes < _ONE):
            found[each.index] = lanes
    return found


def _counts(code: KernelCode, metric: str) -> dict[int, int]:
    """By offset, a count of a kernel's instructions; nothing where it was not asked for."""
    held = code.held.counts
    if metric not in held.metrics:
        return {}
    rows = held.rows_of(code.position)
    column = held.values[rows][:, held.metrics.index(metric)]
    return dict(zip(held.offset[rows].tolist(), column.tolist()))


def _worst(code: KernelCode, unused: Mapping[int, float]) -> Instruction:
    """Where most is lost: of samples, else of executions."""

    def lost(index: int) -> float:
        held = code.n([index]) if code.whole else code.executed([index]) or 0
        return held * unused[index]

    return code.instructions[max(unused, key=lost)]


def _part(code: KernelCode, unused: Mapping[int, float]) -> float:
    """Of all lanes of all executions, those that did not work."""
    whole = code.executed(range(len(code.instructions))) or 1
    return sum((code.executed([i]) or 0) * each for i, each in unused.items()) / whole


def _counted(code: KernelCode, hot: Instruction, lanes: Mapping[int, float]) -> Evidence:
    text = f"{_LANES * lanes[hot.index]:.1f} lanes of 32 execute {hot.name} at {shown(hot)}"
    if more := len(lanes) - 1:
        text += f", and {more} instructions more waste lanes"
    return Evidence("counters", text)


def _guards(case: KernelCase, hot: Instruction) -> Iterator[Evidence]:
    """What the compiler says of a guard in that line."""
    here = case.user_line(hot.place)
    for each in case.remarks:
        if here and each.location and each.location.line == here.line and "guarded" in each.chosen:
            reasons = "; ".join(reason for _, reason in each.rejected)
            yield Evidence("static", f"{each.op} keeps its guard: {reasons}")


RULE = KernelRule("wasted-lanes", find, ("counters", "samples"))
