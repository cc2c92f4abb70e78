"""Loop iterations that read or write what the previous one did; the same bytes loaded twice.

Static: accesses of global memory in a loop whose addresses its turns do not change, by the machine
code (`machine/repeats`); pairs of loads of one address. Dynamic: samples of the loop, of such
accesses, and of what waits for them.

Where all that a loop loads is the same in each turn, and a turn begins with nothing that the one
before computed, n turns do what one would: (n - 1) / n of the loop's time goes. How often it turns
is told by issued instructions, those of the loop that are in no inner one, beside those outside of
loops, less their error; it is two at least. Caches have no part in that: what a second pass finds
in L2 it loads faster, but its products, and its waits, are those of the first.

Where only some accesses of an innermost loop are repeated, what goes is their issue, their queue,
and what waits for them. Others in the loop may be waited for instead, so no more than a third of
that is sure. Copies that run on their own are waited for together: of these waits the part goes
that repeated bytes are. A store that each turn writes again is needed once; what its line does to
get there (conversions, exchanges between threads) goes with it, and so do lines that only work for
it, as the program's text tells; where loads are what the loop waits for, half of what the work
leaves. Of pairs of loads of one address no more goes than waits for them: the others of the kernel
stay.

Loops that go on until a load has a value wait for somebody, and are left out. Tiles that a block
reads once for each of several other tiles are reuse by a cache, not repetition: inner loops change
their addresses, and an outer loop is a cause only where everything in it is done again. How often a
loop of products uses what it loads is asked apart (`machine_code/few_products`), and so is what
goes to memory and comes back (`machine_code/moved_again`), or stays there unread
(`triton/unread_results`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.kernel.queues import FULL
from tileprof.analyzer.machine.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.repeats import (
    Repeated,
    alike,
    parsed,
    repetition,
    repetitions,
    turns_of,
    width_in,
)
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.program.only_for import only_for
from tileprof.analyzer.rules.machine_code.few_products import few_products
from tileprof.analyzer.rules.machine_code.moved_again import moved_again
from tileprof.analyzer.rules.numbers.memory import (
    REDUNDANT_TRAFFIC_OTHERS,
    REDUNDANT_TRAFFIC_SURE,
    REDUNDANT_TRAFFIC_WHOLE,
)
from tileprof.analyzer.rules.triton.unread_results import unread_results

_PASS = (
    "Run the loop once: each iteration starts anew and loads the same addresses, so it computes the"
    " same as the previous one. Keep the results, or merge the passes into one."
)
_HOIST = (
    "Load it once, before the loop, and keep it in registers or shared memory: its address does not"
    " depend on the iteration. A load that is volatile, or that a store may alias, stays where it"
    " is written."
)
_STORE = (
    "Store once, after the loop, and make there what is only stored: each iteration overwrites what"
    " the previous one stored, so only the last store counts."
)
_TWICE = "Load it once and use the value twice; a volatile load is not merged with another one."
_MEMORY = "long_scoreboard"
_COMPILER = (
    "The address does not change in the loop: see what keeps the access from being moved out"
    " (volatile, an alias, a barrier)."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Loops that are repetitions; else single accesses that are."""
    code = case.sampled
    if code is None:
        return
    if (whole := repetition(code)) is not None:
        yield from _passes(case, code, whole)
        return
    for each in repetitions(code):
        if each.innermost:
            yield from _accesses(case, code, each)
    yield from _twice(case, code)
    yield from moved_again(case, code)
    yield from few_products(case)
    yield from unread_results(case)


def _passes(case: KernelCase, code: KernelCode, each: Repeated) -> Iterator[Draft]:
    """A loop of which one turn would do."""
    samples = code.n(each.loop)
    share, turns = samples / code.whole, turns_of(code, each.loop)
    hot = code.hottest(each.loads)
    assert hot is not None
    text = f"{len(each.loads)} loads of the loop have the same addresses in each iteration"
    evidence = (
        Evidence("static", f"{text}, and only its counter is carried from iteration to iteration"),
        Evidence("samples", f"{percent(share)} of the samples are in the loop", samples),
    )
    gone = min(share * (1 - 1 / turns), LONGEST_SAVING)
    most = min(gone + REDUNDANT_TRAFFIC_OTHERS * (1 - gone), LONGEST_SAVING)
    title = "each iteration of a loop loads and computes the same as the one before"
    cause = Cause(title, case.at(hot), evidence, _PASS)
    yield cause.costs(
        Saving(REDUNDANT_TRAFFIC_WHOLE * gone, gone, most, None, samples), confidence="high"
    )


def _accesses(case: KernelCase, code: KernelCode, each: Repeated) -> Iterator[Draft]:
    """Accesses of an innermost loop that each of its turns repeats."""
    for where, kind, author in ((each.loads, "load", _HOIST), (each.stores, "store", _STORE)):
        hot = code.hottest(where)
        if hot is None:
            continue
        taken = _taken(code, where)
        if kind == "load":
            taken = np.maximum(taken, _waits_for_copies(code, each))
        if kind == "store":
            taken = np.maximum(taken, code.taken(code.rows(_done_for(case, code, hot, each.loop))))
        held_up = _held_up(case, code, each) if kind == "store" else None
        if code.share(taken) < COLD and held_up is None:
            continue
        text = f"{len(where)} {kind}s whose addresses do not change in the loop"
        static = Evidence("static", text)
        title = f"each iteration of a loop {kind}s the same bytes again"
        cause = Cause(title, case.at(hot), (static,), author, _COMPILER)
        seen = sampled(code, taken, "are at them or wait for them")
        alone = _waited_for_alone(case, code, each, taken) if kind == "load" else None
        own = alone or (_of_loads(code, each, taken) if kind == "load" else held_up)
        saving = own or eliminated(taken, code.whole, sure=REDUNDANT_TRAFFIC_SURE)
        yield cause.costs(saving, seen, known=alone is not None)


def _done_for(
    case: KernelCase, code: KernelCode, store: Instruction, loop: range
) -> list[int]:  # fmt: skip
    """Instructions of a loop at the line of a store, and those that only work for it."""
    here = case.user_line(store.place)
    if here is None:
        return []
    alone = only_for(case.program.profile.tables.sources.get(here.file, ""), here.line)
    places = {index: case.user_line(code.instructions[index].place) for index in loop}
    foreign = [
        index for index, place in places.items()
        if alone.library and place is not None and place.file != here.file
    ]  # fmt: skip
    return [*case.at_lines(code, alone.lines | {here.line}, loop), *foreign]


def _waits_for_copies(code: KernelCode, each: Repeated) -> Weights:
    """Waits for all copies of the loop that run on their own, by the part of repeated bytes."""
    lines = parsed(code)
    moved, again = (
        sum(int(width_in(lines[i]).lstrip("US")) for i in where if lines[i].name == "LDGSTS")
        for where in (each.loop, each.loads)
    )
    after = [i + 1 for i in each.loop if lines[i].name == "DEPBAR"]
    part = again / moved if moved else 0.0
    return part * code.taken(code.rows(after, (_MEMORY,)))


def _held_up(case: KernelCase, code: KernelCode, each: Repeated) -> Saving | None:
    """What stores cost where loads of the loop are what it waits for: none of the next iteration
    begins before a store that could be to its place. None where it waits for something else."""
    left, waits = reach.left(case), code.n(each.loop, (_MEMORY,))
    if left is None or waits < HALFWAY * code.whole:
        return None
    mid = HALFWAY * left.mid
    return Saving(0, mid, max(mid, left.high), samples=waits)


def _waited_for_alone(
    case: KernelCase, code: KernelCode, each: Repeated, taken: Weights
) -> Saving | None:  # fmt: skip
    """Return what goes with repeated loads where a turn asks for all others later, by what the
    repeated values decide: nothing covers the wait for these, so all of it goes, as far as the work
    leaves it. None where most of what they take is no such wait, or another load is under way from
    the turn before."""
    loads = code.where(lambda one: one.name in LOADS and one.index in each.loop)
    others = set(loads) - set(each.loads)
    if not others or any(0 <= _waited_at(code, load) < load for load in others):
        return None
    decided = code.waiting_for(each.loads) * (code.at < min(others))
    if decided.sum() < HALFWAY * taken.sum():
        return None
    return reach.as_told(case, eliminated(decided, code.whole, sure=REDUNDANT_TRAFFIC_SURE))


def _waited_at(code: KernelCode, load: int) -> int:
    """Return the place of the instruction at which most warps wait for a load; -1 for none."""
    waits = code.waiting_for([load])
    return int(code.at[waits.argmax()]) if waits.any() else -1


def _of_loads(code: KernelCode, each: Repeated, taken: Weights) -> Saving | None:
    """Return what goes with repeated loads into registers; None for copies, which are waited for
    together.

    They come from a cache. A turn that has other loads waits for these as well, which come from
    farther and are asked for at the same time, so only the sure part goes, and no queue with it.
    Where it has none, a wait that other warps fill costs nothing.
    """
    if not all(code.instructions[index].name in LOADS for index in each.loads):
        return None
    loads = code.where(lambda one: one.name in LOADS and one.index in each.loop)
    if set(loads) - set(each.loads):
        most = eliminated(taken, code.whole, REDUNDANT_TRAFFIC_SURE, REDUNDANT_TRAFFIC_SURE)
        return replace(most, rows=None)
    issue = code.taken(code.rows(each.loads, (ISSUED, *FULL)))
    idle = np.maximum(issue, code.idle_part * code.waiting_for(each.loads))
    return eliminated(idle, code.whole, sure=REDUNDANT_TRAFFIC_SURE)


def _taken(code: KernelCode, where: tuple[int, ...]) -> Weights:
    return np.maximum(code.taken(code.rows(where, (ISSUED, *FULL))), code.waiting_for(where))


def _twice(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Loads of an address that was just loaded."""
    pairs = alike(code)
    again = tuple(dict.fromkeys(index for _, index in pairs))
    hot = code.hottest(again)
    if hot is None:
        return
    taken = _taken(code, tuple({index for pair in pairs for index in pair}))
    if code.share(taken) < COLD:
        return
    static = Evidence("static", f"{len(again)} loads of an address that was just loaded")
    cause = Cause("the same bytes are loaded twice", case.at(hot), (static,), _TWICE, _COMPILER)
    seen = sampled(code, taken, "are at these loads or wait for them")
    looped = loop_around(code, hot.index) is not None
    part = len(again) / len({index for pair in pairs for index in pair})
    saving = eliminated(taken, code.whole, part, REDUNDANT_TRAFFIC_SURE)
    yield cause.costs(
        reach.as_told(case, saving), seen,
        confidence="medium" if looped else "low", known=True,
    )  # fmt: skip


RULE = KernelRule("redundant-traffic", find)
