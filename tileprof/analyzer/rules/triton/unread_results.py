"""Tensors that a Triton kernel stores for nobody: a part of `redundant-traffic`.

Static: the program's text. A function makes a tensor, gives it to one launch that only stores to
it, and does not use it again; the kernel stores something else that is used
(`program/tensor_faults`). The recorder tells how large the tensor is.

Dynamic: the bytes of the tensor beside those of the kernel's work. What goes is the difference of
the times that memory takes for all of them and for the others, by the roofs of both mixes of reads
and writes: all of it where memory is the limit, at least half of it otherwise, as memory that is
not busy all of the time has room for stores.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, listed, percent
from tileprof.analyzer.numbers.shared import COLD, HALFWAY
from tileprof.analyzer.program.seen_tensors import seen_tensors
from tileprof.errors import Location

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
    if mid < COLD:
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
    yield cause.costs(Saving(HALFWAY * mid, mid, max(mid, 1 - after / before)), known=True)
