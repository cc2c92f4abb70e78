"""Sorts and scans of which a Triton kernel uses one number: a part of `redundant-work`.

Static: the program's text (`program/needless_orders`). Dynamic: samples at the code of Triton's
library, which has sorts, scans and reductions (module `triton.language.standard`), and samples that
wait for that code. All of these go with a sort, because reductions are a few of its many steps; the
estimate is at most what the kernel's work leaves (`reach`). A scan is a symptom, because a
reduction of as many steps takes its place: six kernels of an H200 took 0.99 to 1.17 times as long
with one (`plant-test-3`, `plant-test-4`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.needless_orders import needless_orders
from tileprof.errors import Location

_LIBRARY = "triton/language/standard.py"
_DONE = {"sort": "sorted", "cumsum": "added up element by element"}
_AUTHOR = (
    "Write `tl.{instead}` of the tensor itself, without `{function}`: a reduction gives the same"
    " number, and takes no order."
)


def needless_order(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for the first such call of a kernel."""
    sources = case.program.profile.tables.sources
    held = {
        file: orders for file, text in sources.items()
        if case.name in text and (orders := needless_orders(text, case.name))
    }  # fmt: skip
    if len(held) != 1:
        return
    ((file, found),) = held.items()
    first = found[0]
    text = f"of what `{first.function}` returns, `{first.instead}` alone is used"
    title = f"a tensor is {_DONE[first.function]} where one number of the result is used"
    author = _AUTHOR.format(instead=first.instead, function=first.function)
    place = case.place(Location(file, first.line))
    cause = Cause(title, place, (Evidence("static", text),), author)
    code = case.sampled
    if code is None:
        yield cause.warning()
        return
    own = [
        each.index for each in code.instructions
        if each.place is not None and each.place.file.endswith(_LIBRARY)
    ]  # fmt: skip
    taken = np.maximum(code.taken(code.rows(own)), code.waiting_for(own))
    if code.share(taken) < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.")
        return
    seen = sampled(code, taken, "are at it and at other reductions, or wait for them")
    if first.function == "cumsum":
        yield cause.symptom(seen)
        return
    saving = reach.as_told(case, eliminated(taken, code.whole))
    yield cause.costs(saving, seen, known=True)
