"""Tiles of tensors that threads copy to shared memory by way of another buffer.

Static: a buffer that is filled from a tensor and then only copied on (`tiles/round_trips`).
Dynamic: samples at the second copy, and of warps that meet behind it.

The first copy may be asynchronous, the second never is: in each iteration all threads load and
store the tile, and meet before it is used. All of that goes where the tile is copied straight to
where it is used; waits for matrix products stay, whatever line they count for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.reach import as_told
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.tiles.round_trips import Relay, relays

_AUTHOR = (
    "Copy the tile straight to `{}`, asynchronously where the tensor's layout allows it: nothing"
    " else uses `{}`, whose space is then free for another stage, or another block."
)
_COMPILER = "No pass joins two copies of which the first one's buffer is not used otherwise."
_MEET = ("barrier",)


def by_way_of(case: KernelCase) -> Iterator[Draft]:
    """Yield a draft for each buffer that only passes a tile on."""
    return (_draft(case, each) for each in relays(case.tiles))


def _draft(case: KernelCase, relay: Relay) -> Draft:
    tensor, buffer, target = (each[1:] for each in (relay.tensor, relay.buffer, relay.target))
    title = f"tiles of `{tensor}` go through `{buffer}` on the way to `{target}`"
    static = Evidence("static", f"`{buffer}` is only copied on, by all threads")
    place = case.place(case.line(relay.on.line), f"copy {buffer} → {target}")
    cause = Cause(title, place, (static,), _AUTHOR.format(target, buffer), _COMPILER)
    code, line = case.sampled, relay.on.line
    where = case.at_lines(code, {line}) if code and line != relay.there.line else []
    if code is None or not where:
        return cause.warning()
    taken = _taken(code, where)
    seen = sampled(code, taken, "are at the second copy, or meet behind it")
    if code.share(taken) < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    return cause.costs(as_told(case, eliminated(taken, code.whole)), seen)


def _taken(code: KernelCode, where: list[int]) -> Weights:
    """By row, samples of the copy's instructions, and of barriers up to the next product."""
    held = code.instructions
    own = [index for index in where if held[index].name not in (*MATRIX, "WARPGROUP")]
    hot = code.hottest(own)
    loop = loop_around(code, hot.index) if hot else None
    behind = [index for index in loop or () if index > own[-1]]
    product = next((index for index in behind if held[index].name in MATRIX), len(held))
    met = code.rows([index for index in behind if index <= product], _MEET)
    return np.asarray(code.taken(code.rows(own) | met))
