"""Tensors that a Triton kernel stores for nobody: a part of `redundant-traffic`.

Static: the program's text. A function makes a tensor, gives it to one launch that only stores to
it, and does not use it again; the kernel stores something else that is used
(`program/tensor_faults`). The recorder tells how large the tensor is.

Dynamic: samples at the stores' lines, with exchanges between threads that bring elements into
order, and the bytes of the tensor beside those of the kernel's work; the more of the two. A store
whose place is loaded, or that is in a loop, moves more than the tensor has. What goes is the
difference of the times that memory takes for all of them and for the others, by the roofs of both
mixes of reads and writes: all of it where memory is the limit, at least half of it otherwise, as
memory that is not busy all of the time has room for stores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, listed, percent
from tileprof.analyzer.kernel.global_memory import STORES
from tileprof.analyzer.kernel.launches import sampled_share
from tileprof.analyzer.kernel.queues import FULL
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.program.seen_tensors import seen_tensors
from tileprof.errors import Location

_MEMORY = "long_scoreboard"
_AUTHOR = (
    "Leave the store at line {line} out, with `{parameter}` and `{call}`: the function that"
    " launches the kernel does not use the tensor again. Where it is wanted now and then, as for"
    " debugging, store it under a condition that is known when the kernel is compiled"
    " (`tl.constexpr`)."
)


def unread_results(case: KernelCase) -> Iterator[Draft]:
    """What goes with all such tensors of a kernel, at the first one."""
    roofs, stored = case.roofs, case.unread_bytes
    seen = seen_tensors(case.program.profile.tables, case.name, "unread")
    unread = [each for each, _, _ in seen]
    needed = roofs.needed_bytes
    if not unread or not needed or not case.time:
        return
    moved = needed + stored
    written = roofs.written * moved
    before, after = (
        1e9 * all_ / rate if (rate := roofs.mixed_rate(min(1.0, part / all_))) else 0.0
        for all_, part in ((moved, written), (needed, max(0.0, written - stored)))
    )
    mid = max(0.0, min((before - after) / case.time, 1 - after / before)) if before else 0.0
    lines = {line for each in unread for line in each.accesses}
    worked, queued = _worked(case, lines, stored / moved)
    if max(mid, worked) < COLD:
        return
    names = listed([each.tensor for each in unread])
    line = unread[0].accesses[0]
    evidence = (
        Evidence(
            "static", f"{names}: given to {case.name} alone, which only stores there; nothing"
            " uses it afterwards",
        ),
        Evidence(
            "activities", f"{percent(stored / moved)} of the {moved / case.launches / 1e6:,.3g} MB"
            f" that a launch moves, for which memory takes {percent(before / case.time, 0)} of the"
            " time",
        ),
    )  # fmt: skip
    location = case.location and Location(case.location.file, line)
    author = _AUTHOR.format(line=line, parameter=unread[0].parameter, call=unread[0].call)
    cause = Cause(
        f"{names} is stored, and nothing reads it", case.place(location), evidence, author
    )
    low, mid = max(HALFWAY * mid, HALFWAY * worked), max(mid, worked)
    high = max(mid, queued, 1 - after / before if before else 0.0)
    yield cause.costs(Saving(low, mid, min(high, LONGEST_SAVING)), known=True)


def _worked(case: KernelCase, lines: set[int], part: float) -> tuple[float, float]:
    """Return the shares of the time that pass at stores in these lines, and with all waits for
    queues besides, which they fill; 0 without samples, or where the lines have no stores.

    What waits for a loaded value would wait elsewhere, and so would what waits for a queue, but for
    the `part` of all bytes that the stores move.
    """
    code = case.sampled
    where = case.at_lines(code, lines) if code else []
    if code is None or not {code.instructions[i].name for i in where} & {*STORES}:
        return 0.0, 0.0
    own, memory, queue = (
        code.taken(code.rows(where, reasons)) for reasons in (None, (_MEMORY,), FULL)
    )
    own -= memory + (1 - part) * queue
    full = np.maximum(own, code.taken(code.rows(reasons=FULL)))
    of_all = LONGEST_SAVING * sampled_share(case)
    return of_all * code.share(own), of_all * code.share(full)
