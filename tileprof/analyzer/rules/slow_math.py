"""Arithmetic that is slower than necessary: accidental doubles, conversions, slow paths.

Static: opcodes, and constants that tell what they are part of; what the kernel's own ops are.
Dynamic: samples at them whose pipe or queue was busy, and of what waits for their results.

Samples at such an instruction that wait for its operands are not its own: on an H200 a conversion
behind a load from memory has 96 % of a kernel's samples, all of them the load's. Doubles, functions
with all digits and divisions own the arithmetic of their lines: they are a few dozen instructions,
with branches between them, and what else stands there is little beside them.

Of the samples the part goes away that the faster form does not need: a power in an attention
kernel, 33 instructions where `exp2` takes 3, took 0.65 of the samples on an H200, and 0.61 of the
time. A number that is made a double takes part in one operation at least, which stays, as one of
floats: so many turns to issue do not go. Warps at a barrier wait for others that slow arithmetic
made late: that time goes in the same proportion as all other. No more goes likely than these
samples tell: with a part of all other waits, gains of 19 defects were 1.18 times too large (of
logarithms, the median; `benchmarks/results/plant-*.json`).

Of functions whose approximate form the tile language does not have, nobody can write that form in a
tile kernel: there they are a symptom, without a gain. (A square root as `x * rsqrt(x)`, both of
them with all digits, took 1.15 times as long on an H200.)

What a block does once while its first loads are under way, as a division that finds its tile,
costs nothing where it waits for them longer than that takes. (On an H200 a division had 9 % of the
samples and the wait behind it 34 %; without it the kernel took as long.)

Where tensor cores and special functions in turn fill all of the time, other arithmetic runs beside
them, and what is slow of it costs nothing. Exponentials that keep their unit busy are work, not a
fault: they are a symptom, of whose cause nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.machine.arithmetic import (
    FOR_RESULTS,
    FORMS,
    NO_ARITHMETIC,
    WITHIN,
    Form,
    lines_calling,
    staying,
)
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, Instruction, KernelCode
from tileprof.analyzer.numbers.shared import COOL, HALFWAY, LONGEST_SAVING, SPECIAL_CYCLES
from tileprof.analyzer.rules.numbers.work import (
    SLOW_MATH_BUSY,
    SLOW_MATH_FULL,
    SLOW_MATH_MOST,
    SLOW_MATH_NOTABLE,
    SLOW_MATH_PART,
    SLOW_MATH_SETUP,
    SLOW_MATH_SURE,
)
from tileprof.errors import Location

_OWN = (ISSUED, "mio_throttle", "math_pipe_throttle", "dispatch_stall")
"""Reasons at an instruction that are its own, and not those of its operands."""
_BARRIER = ("barrier",)
_NO_FORM = "An approximate form, which an author could ask for, would take a few instructions."
_COMPILER = "See which op of the program this comes from, and whether a cheaper form is allowed."


def find(case: KernelCase) -> Iterator[Draft]:
    """Slow arithmetic in a kernel, of each form."""
    code = case.code
    if code is None:
        return
    taken = set[int]()
    for form in FORMS:
        signs = [each for each in form.where(code) if each not in taken]
        where = _lines(case, code, signs, form) if form.spread else signs
        where = [each for each in where if each not in taken]
        if where:
            taken.update(where)
            yield from _told(case, code, form, signs or where, where)
    yield from _special(case, code)


def _lines(case: KernelCase, code: KernelCode, signs: list[int], form: Form) -> list[int]:
    """All arithmetic of the lines of which these instructions are a part worth the name, or that
    call the function by its name."""
    calling = lines_calling(case.cuda, form.calls)
    if not signs and not calling:
        return []
    held = dict[Location | None, list[int]]()
    for each in code.instructions:
        if each.index in signs or not each.name.startswith(NO_ARITHMETIC):
            held.setdefault(case.user_line(each.place), []).append(each.index)
    found = set(signs)
    for line, where in held.items():
        part = len(found.intersection(where)) / len(where)
        remark = case.remark_at(line) if form.once and line else None
        if remark is not None and remark.op == "launch":
            continue  # that line has all that a block does to find its tile
        if line is not None and (part >= SLOW_MATH_PART or line.line in calling):
            found.update(where)
    return sorted(found)


def _told(
    case: KernelCase, code: KernelCode, form: Form, signs: list[int], where: list[int]
) -> Iterator[Draft]:
    looped = [each for each in signs if code.instructions[each].depth > 0]
    static = Evidence("static", f"{len(where)} instructions of it, {len(looped)} of them in loops")
    place = _place(case, code, signs)
    cause = Cause(form.title, place, (static,), form.author, _COMPILER)
    if not code.whole:
        if looped and not form.quiet:
            yield cause.warning()
        return
    taken = _taken(code, where, form)
    if form.once and not looped:
        taken = _uncovered(code, where, taken)
    share = code.share(taken)
    seen = sampled(code, taken, "are at these instructions or wait for their results")
    once = form.once and (not looped or place.op == "launch")
    if once and (left := reach.left(case)) is not None and left.mid < SLOW_MATH_NOTABLE:
        return
    if share >= (SLOW_MATH_SETUP if once or form.quiet else COOL) and not _beside(
        case, code, where, share, taken
    ):
        if case.ir and form.in_tiles:
            author, compiler = form.in_tiles, _NO_FORM
            yield replace(cause, author=author, compiler=compiler).symptom(seen)
            return
        saving = _saving(case, eliminated(_with_late(code, taken), code.whole, form.part))
        yield cause.costs(saving, seen, confidence=form.confidence)
    elif not form.quiet and not once:
        leave = "Leave it: this code rarely runs, or overlaps with what takes the time."
        yield cause.ignored(", where it costs nothing", leave, seen)


def _saving(case: KernelCase, taken: Saving) -> Saving:
    """What its samples tell, as far as the work leaves it; at most as much again elsewhere."""
    told, left = reach.as_told(case, taken), reach.left(case, taken.rows)
    most = min(SLOW_MATH_MOST * told.mid, left.high if left else LONGEST_SAVING)
    return replace(told, low=SLOW_MATH_SURE * told.mid, high=max(told.high, most))


def _taken(code: KernelCode, where: list[int], form: Form) -> Weights:
    """Samples of these, and of what waits for them; of a subroutine all, as all of it would go."""
    every = None if form.whole else WITHIN if form.spread else _OWN
    found = np.maximum(code.taken(code.rows(where, every)), code.waiting_for(where, FOR_RESULTS))
    for kept, part in staying(code, where) if form.is_wide else ():
        found[code.rows(kept, (ISSUED,))] *= 1 - part
    return found


def _uncovered(code: KernelCode, where: list[int], taken: Weights) -> Weights:
    """Return these samples without what runs while earlier loads are under way.

    Loads that are waited for afterwards, and longer, arrive no sooner without it, as long as
    schedulers have issue slots left.
    """
    loads = code.where(lambda each: each.name in LOADS and each.index < min(where))
    late = code.waiting_for(loads, ("long_scoreboard",))
    waiters = code.where(lambda each: each.depth == 0 and each.index > min(where))
    last = max(waiters, key=lambda at: float(late[code.rows([at])].sum()), default=0)
    before = code.rows(range(min(where), last))
    is_covered = float(late[code.rows([last])].sum()) >= float(taken[before].sum())
    if busy_share(code) >= HALFWAY or not is_covered:
        return taken
    return np.where(before, 0.0, taken)


def _with_late(code: KernelCode, taken: Weights) -> Weights:
    """With waits at barriers for warps that it makes late, where it is much; on an H200 waits for
    products look like them."""
    share = float(taken.sum()) / code.whole
    products = code.waiting_for(code.named(*PRODUCTS), _BARRIER)
    late = code.taken(code.rows(reasons=_BARRIER)) - products
    return np.maximum(taken, share * late) if share >= SLOW_MATH_SETUP else taken


def _beside(
    case: KernelCase, code: KernelCode, where: Collection[int], share: float,
    gone: Weights | None = None,
) -> bool:  # fmt: skip
    """Whether other work fills the time: tensor cores and special functions in turn, these aside;
    or memory, or turns to issue without those that go."""
    if case.roofs.tensor_floor and code.issued:
        others = set(code.named("MUFU")).difference(where)
        special = busy_share(code) / code.issued * code.n(others, (ISSUED,))
        return case.roofs.tensor_floor / case.time + special * SPECIAL_CYCLES >= SLOW_MATH_FULL
    left = reach.left(case)
    if left is None or left.low > 0 or share >= SLOW_MATH_NOTABLE:
        return False
    # Where it is turns to issue that fill the time, what is slow is a part of what does.
    without = reach.left(case, gone)
    return gone is None or without is None or without.mid - left.mid < HALFWAY * share


def _place(case: KernelCase, code: KernelCode, where: list[int]) -> Place:
    hot: Instruction | None = code.hottest(where)
    assert hot is not None
    return case.at(hot)


def _special(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Special functions that keep their unit busy: the work itself, as far as is known."""
    where = code.named("MUFU")
    if not where or not code.whole:
        return
    rows = code.taken(code.rows(where, _OWN))
    taken = np.maximum(rows, code.waiting_for(where, FOR_RESULTS))
    share = float(taken.sum()) / code.whole
    if share < SLOW_MATH_BUSY or _beside(case, code, (), 0.0):
        return
    hot = code.hottest(where)
    name = hot.opcode if hot else "MUFU"
    text = (
        f"{percent(share)} of the samples are at {name} and similar instructions, or wait for "
        f"their results"
    )
    yield Draft(
        "symptom", "the kernel waits for special functions", _place(case, code, where),
        (Evidence("samples", text, int(taken.sum())),),
        "Use fewer of them if possible: compute them once for several"
        " uses, in pairs of halves (`ex2` of f16x2), or some by a polynomial on the other units.",
        confidence="low",
    )  # fmt: skip


RULE = KernelRule("slow-math", find)
