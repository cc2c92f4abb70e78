"""Copies of tiles of which a part is never read: a part of `redundant-traffic`.

Static: what statements read of the buffer that a copy fills (`threads/unused_rows`). Dynamic:
samples of warps that wait for memory.

Who waits for memory waits for all that was asked for, so of these waits the part goes that unread
bytes are of all that blocks ask for. What the buffer keeps other blocks from, `occupancy-limited`
tells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.threads.unused_rows import partly_read
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import REDUNDANT_SURE

_AUTHOR = (
    "Let the buffer be as large as what is read of it, {} elements, and the copy with it: the rest"
    " comes from memory, and takes shared memory, for nobody."
)
_COMPILER = "No pass makes a buffer, or a copy, smaller by what no statement reads."
_ANSWER = ("long_scoreboard",)
_WAITS = (*_ANSWER, "barrier", "short_scoreboard")
"""Reasons of waits that stand at a copy's line whatever it moves."""


def copied_for_nobody(case: KernelCase) -> Iterator[Draft]:
    """Yield a draft for each copy from a tensor of which a notable part is never read."""
    for each in partly_read(case.tiles):
        tensor, buffer = each.tensor[1:], each.buffer[1:]
        title = f"{percent(each.unread, 0)} of what is copied from `{tensor}` is never read"
        size = " × ".join(map(str, each.read))
        static = Evidence("static", f"of `{buffer}` statements read {size} elements")
        place = case.place(case.line(each.op.line), f"copy {tensor} → {buffer}")
        cause = Cause(title, place, (static,), _AUTHOR.format(size), _COMPILER)
        code = case.sampled
        if code is None or not code.whole:
            yield cause.warning()
            continue
        asked = case.total("bytes") / case.launches if case.launches else 0.0
        part = min(each.bytes / asked, each.unread) if asked else 0.0
        own, waits = case.at_lines(code, {each.op.line} - {0}), code.rows(reasons=_ANSWER)
        issue = code.taken(code.rows(own) & ~code.rows(reasons=_WAITS))
        taken = np.maximum(each.unread * issue, part * code.taken(waits))
        seen = sampled(code, taken, "issue it, or wait for as many bytes")
        if code.share(taken) < COLD:
            yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
            continue
        yield cause.costs(eliminated(taken, code.whole, sure=REDUNDANT_SURE), seen)
