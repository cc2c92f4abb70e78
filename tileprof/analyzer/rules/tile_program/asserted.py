"""Checks at run time that a tile program makes in its kernel: a part of `redundant-work`.

Static: `T.device_assert` in the program. Each element is compared, and a branch leads to what ends
the program. No instruction moves over that branch, so loads and sums behind it start late.

Dynamic: samples at its lines, and how much of all that issues is of these lines. Waits for values
stand at the statements beside it, so of the time goes whichever part is larger; at least half of
the samples, and at most a part of what others wait as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.machine.code import ISSUED
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import ASSERTED_BESIDE, REDUNDANT_SURE

_WAY = (
    "Leave it out once the kernel is right, or check a result once, after the loop: what is no"
    " number stays none in sums and products."
)


def asserted(case: KernelCase) -> Iterator[Draft]:
    """Yield all checks of a kernel as one finding, with what they cost."""
    lines = sorted({op.line for op in case.tiles.named("assert")} - {0})
    code = case.sampled
    if not lines or code is None or not code.whole:
        return
    where = case.at_lines(code, lines)
    taken = code.taken(code.rows(where))
    at, issued = code.share(taken), code.n(where, (ISSUED,)) / max(1, code.issued)
    text = f"{len(where)} instructions check elements, {percent(issued)} of all that issue"
    cause = Cause(
        "elements are checked at run time by an assertion", case.place(case.line(lines[0]), ""),
        (Evidence("static", text),), _WAY,
    )  # fmt: skip
    seen = sampled(code, taken, "are at it")
    part = min(LONGEST_SAVING, max(at, issued))
    if part < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
        return
    most = min(LONGEST_SAVING, part + ASSERTED_BESIDE * (1 - part))
    samples = int(taken.sum())
    yield cause.costs(Saving(REDUNDANT_SURE * at, part, most, samples=samples), seen)
