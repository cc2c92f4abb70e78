"""Fragments that threads exchange through shared memory because two ops need them differently.

Static: the compiler's remark on the conversion, with the line that has the fragment otherwise.
Dynamic: samples at the stores, loads and barriers of that line, and of what waits for them; waits
for what is stored there are not the exchange's doing. Without it that time goes.

Exchanges of one loop are one finding: one layout that does not fit has them all, and reductions
that go from warp to warp through shared memory as well. Where products of several warp groups are
in that loop, the barriers also keep the groups in step: each waits for its products while the other
waits for its own, whereas without them the one computes meanwhile. So of these waits, those at
which nobody issues, what the loop issues elsewhere hides (`in_step`). Where they could take turns
without, as the compiler says, that brings more (`by_turns`). No turn becomes shorter than its tiles
take to come (`pace`).

A fragment with fewer rows than warps have in a product (16 each) is what each warp needs all of,
and has a part of: its exchange is a part of the algorithm, so it is a symptom, without a gain.

An exchange takes shared memory as well. Where that is what keeps blocks from taking tile after
tile, the ends of tiles are its doing too (`tile_ends`). (On an H200 a pair of products that
exchanged once at its end took 1.33 of the time, with 5 % of its samples at the exchange.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.by_hand import has_products
from tileprof.analyzer.kernel.by_turns import SHARED, kept_from, left_in_turns
from tileprof.analyzer.kernel.in_step import covered, in_step
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.pace import pace_of
from tileprof.analyzer.kernel.tile_ends import fragment_bytes, tile_ends
from tileprof.analyzer.kernel.tile_waits import loading_apart
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.machine_code.turned_results import reduced_across
from tileprof.analyzer.rules.numbers.work import (
    LAYOUT_CONVERTS_COMES_BACK,
    LAYOUT_CONVERTS_LEAST_KEPT,
    LAYOUT_CONVERTS_OFTEN,
    LAYOUT_CONVERTS_ROWS,
)
from tileprof.analyzer.rules.tile_program.shared_fragments import shared_fragments
from tileprof.analyzer.tiles.rings import rings_of
from tileprof.errors import Location
from tileprof.kernel_ir import PRODUCTS
from tileprof.remarks import Remark
from tileprof.remarks.layouts import Converted, FilledOnce

_EXCHANGE = ("STS", "LDS", "STSM", "LDSM", "BAR")
_TILES = ("copy", "load", "store")
"""Kinds of ops that bring tiles, or take them away."""
_ELSEWHERE = "long_scoreboard"
_TURNS = "warp groups that exchange results do not alternate with each other's products"
_ADVICE = (
    "Let both ops use the same layout of the fragment: the same order of indices in their"
    " `T.Parallel`, the"
    " same `policy` of products, the exchange outside of the loop, or a copy of the fragment in"
    " shared memory where one of them reads across."
)
_ONCE = (
    "Let each element have one thread: fill a shared buffer, or make the fragment as large as the"
    " block has threads."
)
_FEW_ROWS = (
    "Its rows are too few for several warps, so each needs what the others computed. See whether"
    " one warp a block is enough, or each warp can add up elements of its own until the end."
)
_COMPILER = (
    "Layouts are solved for the whole launch: see what fixes the other layout, and whether its op"
    " could take this one."
)


@dataclass(frozen=True, eq=False)
class _Exchange:
    """Conversions that are one finding, and their instructions."""

    remarks: tuple[Remark, ...]
    """The one with the most samples first."""
    where: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    """Those of the first remark."""
    loop: range | None = None


def find(case: KernelCase) -> Iterator[Draft]:
    """Exchanges that the compiler tells of, those of one loop or of one line together.

    Of several that cost nothing the longest stands for all.
    """
    yield from shared_fragments(case)
    yield from reduced_across(case)
    drafts = [_draft(case, each) for each in _exchanges(case)]
    yield from (each for each in drafts if each.severity != "ignore")
    cold = [each for each in drafts if each.severity == "ignore"]
    if len(cold) == len(drafts):
        yield from sorted(cold, key=lambda each: -each.evidence[-1].samples)[:1]


def _exchanges(case: KernelCase) -> Iterator[_Exchange]:
    lines = dict[Location | None, list[Remark]]()
    for remark in case.remarks:
        if _is_exchange(remark):
            lines.setdefault(remark.location, []).append(remark)
    code, loops = case.sampled, dict[range, list[_Exchange]]()
    for together in lines.values():
        where = _at(case, code, together[0]) if code else ()
        hot = code.hottest(where) if code else None
        loop = loop_around(code, hot.index) if code and hot else None
        if loop is None:
            yield _Exchange(tuple(together), where, where)
        else:
            loops.setdefault(loop, []).append(_Exchange(tuple(together), where, where, loop))
    for loop, found in loops.items():
        assert code is not None
        found.sort(key=lambda each: -code.n(each.where))
        yield _Exchange(
            tuple(remark for each in found for remark in each.remarks),
            tuple(index for each in found for index in each.where), found[0].first, loop,
        )  # fmt: skip


def _is_exchange(remark: Remark) -> bool:
    match remark.decision:
        case Converted(through="shared memory") | FilledOnce():
            return remark.op == "buffer"
        case _:
            return False


def _draft(case: KernelCase, exchange: _Exchange) -> Draft:
    remark, code = exchange.remarks[0], case.sampled
    names = list(dict.fromkeys(f"`{each.name}`" for each in exchange.remarks))
    verb = "is" if len(names) == 1 else "are"
    listed = " and ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])
    title = f"{listed} {verb} exchanged between threads through shared memory"
    against = ", ".join(f"{each.candidate} ({each.reason})" for each in remark.rejected)
    text = f"{remark.subject}: {remark.decision}, not {against}"
    static = Evidence("static", text, remark=remark)
    advice = _ONCE if isinstance(remark.decision, FilledOnce) else _ADVICE
    hot = code.hottest(exchange.first) if code else None
    if code is None or hot is None:
        place = case.place(remark.location, remark.subject)
        return Cause(title, place, (static,), advice, _COMPILER).warning()
    place = case.place(remark.location, remark.subject, (hot.offset, hot.offset))
    taken = _taken(code, exchange.where)
    cause = Cause(title, place, (static,), advice, _COMPILER)
    seen = sampled(code, taken, "are at the exchange or wait for it")
    if code.share(taken) < COLD:
        leave = "Leave it: the exchange takes no time."
        return cause.ignored(", off the critical path", leave, seen)
    if _is_needed(case, remark):
        needed = replace(cause, author=_FEW_ROWS, compiler="")
        return needed.symptom(seen)
    saving, more = _saving(case, code, exchange, taken)
    return cause.costs(saving, seen, *more, most=_most(case, code, exchange.loop))


def _is_needed(case: KernelCase, remark: Remark) -> bool:
    """Whether an operand of a product has no rows of its own for each warp of the block."""
    name, launch = f"%{remark.name}", launch_of(case)
    kind = case.tiles.types.get(name)
    operand = any(op.source == name for op in case.tiles.named(*PRODUCTS))
    if not operand or launch is None or kind is None or not kind.extents:
        return False
    return launch.warps > 1 and kind.extents[0] <= LAYOUT_CONVERTS_ROWS


def _most(case: KernelCase, code: KernelCode, loop: range | None) -> float:
    """How many times as fast it can become while its tiles come as they do."""
    rings = rings_of(case.tiles)
    if loop is None or not rings or not has_products(code, loop):
        return math.inf
    whole = max(code.whole - loading_apart(code, loop), 1.0)
    inside = min(code.n(loop) / whole, 1.0)
    kept = pace_of(case, code, loop, rings[0].stage_bytes).shortest(rings[0].stages - 1)
    return 1 / max(1 - (1 - kept) * inside, LAYOUT_CONVERTS_LEAST_KEPT)


def _saving(
    case: KernelCase, code: KernelCode, exchange: _Exchange, taken: Weights
) -> tuple[Saving, list[Evidence]]:
    """Of the exchange, in a loop of products of all that it brings with it, and of tiles' ends."""
    more, whole, loop = list[Evidence](), float(code.whole), exchange.loop
    if loop is not None and has_products(code, loop):
        taken, more = _in_loop(case, code, loop, taken)
        whole = max(code.whole - loading_apart(code, loop), 1.0)
    names = (each.name for each in exchange.remarks)
    ends = tile_ends(case, code, fragment_bytes(case.tiles, names))
    if ends is not None and ends.sum() >= COLD * code.whole:
        taken = np.maximum(taken, ends)
        text = f"{percent(float(ends.sum()) / code.whole)} of the samples wait where tiles begin"
        why = "the exchange leaves too little shared memory for blocks that take several"
        more.append(Evidence("samples", f"{text} and end: {why}", int(ends.sum())))
    saving = eliminated(taken * (code.whole / whole), code.whole, LAYOUT_CONVERTS_COMES_BACK)
    kept = loop and kept_from(case, SHARED)
    if kept and (turns := left_in_turns(case, code, exchange.where)):
        return turns, [*more, Evidence("static", _TURNS)]
    return saving, more


def _in_loop(
    case: KernelCase, code: KernelCode, loop: range, taken: Weights
) -> tuple[Weights, list[Evidence]]:
    """With what warps exchange besides, and with waits of warp groups that it keeps in step."""
    taken = np.maximum(taken, _taken(code, _between_warps(case, code, loop)))
    waits = in_step(case, code, loop)
    idle = float(waits.sum())
    if float(taken.sum()) < LAYOUT_CONVERTS_OFTEN * code.whole or idle < COLD * code.whole:
        return taken, []
    text = f"{percent(idle / code.whole)} of the samples wait for products while nobody issues"
    more = Evidence("samples", f"{text}: the exchange keeps warp groups in step", int(idle))
    return np.maximum(taken, covered(code, loop, waits)), [more]


def _between_warps(case: KernelCase, code: KernelCode, loop: range) -> list[int]:
    """What else threads of a loop tell each other through shared memory: not copies of tiles."""
    found = list[int]()
    for index in code.named(*_EXCHANGE):
        remark = case.remark_at(code.instructions[index].place)
        if index in loop and (remark is None or remark.op not in _TILES):
            found.append(index)
    return found


def _at(case: KernelCase, code: KernelCode, remark: Remark) -> tuple[int, ...]:
    """What the exchange can be made of in its line."""
    line = remark.location.line if remark.location else 0
    return tuple(case.at_lines(code, (line,), code.named(*_EXCHANGE)))


def _taken(code: KernelCode, where: Collection[int]) -> Weights:
    reasons = [each for each in code.by_reason(where) if each != _ELSEWHERE]
    at = code.taken(code.rows(where, reasons))
    return np.maximum(at, code.waiting_for(where))


RULE = KernelRule("layout-convert", find)
