"""Values that a loop hands from one iteration to the next one through a tensor: a part of
`redundant-traffic`.

Static: a load of what the iteration before stored (`tiles/round_trips`). Dynamic: samples at such
loads and stores, and of what waits for the loads.

Each iteration waits until its load brings back what the one before stored. In a fragment the value
is there at once, so all of that goes but for the first load, and for the last store where all of
them go to one place; no more than the work leaves (`reach`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.numbers.shared import COOL
from tileprof.analyzer.rules.tile_program.numbers import REDUNDANT_SURE
from tileprof.analyzer.tiles.round_trips import Carried, carried

_AUTHOR = (
    "Keep the value in a fragment, or in a variable, from iteration to iteration, and store it as"
    " well only where it is a result: what the loop loads there is what it has just stored."
)


def carried_through_memory(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each load of such a value, the first of a line."""
    held = {each.load.line: each for each in reversed(carried(case.tiles))}
    return (draft for each in held.values() for draft in _drafts(case, each))


def _drafts(case: KernelCase, each: Carried) -> Iterator[Draft]:
    code, tensor = case.sampled, each.tensor[1:]
    lines = {each.load.line, each.store.line} - {0}
    where = case.at_lines(code, lines) if code else []
    loads = [i for i in where if code and code.instructions[i].name in LOADS]
    if code is None or not loads:
        return
    title = f"a loop hands a value to its next iteration through `{tensor}`"
    text = f"{each.turns:,.0f} iterations load what the one before stored"
    place = case.place(case.line(each.load.line), f"load {tensor}")
    cause = Cause(title, place, (Evidence("static", text),), _AUTHOR)
    taken = np.maximum(code.taken(code.rows(loads)), code.waiting_for(loads))
    saving = eliminated(taken, code.whole, 1 - 1 / each.turns, REDUNDANT_SURE)
    saving = reach.as_told(case, saving)
    if saving.mid >= COOL:
        yield cause.costs(saving, sampled(code, taken, "are at these loads, or wait for them"))
