"""Loops that go on behind the length that masks their elements: a part of `wasted-lanes`.

Static: a loop to a fixed end, in which a comparison with a length that each block loads masks all
that is behind it (`tiles/conditions`); a Triton kernel's loop whose mask only loses elements
(`machine/idle_iterations`). Dynamic: samples at the loop's lines.

What is read and computed behind the length comes to nothing, so iterations from there on can go.
Nor does a loop do anything once a condition around all of it is false for good. How long the
lengths are is in no recording, so the gain is a guess with a wide interval.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel.launches import sampled_share
from tileprof.analyzer.machine.idle_iterations import idle_loops
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import MASKED_TAILS
from tileprof.analyzer.tiles.conditions import MaskedTail, masked_tails

_AUTHOR = (
    "Let the loop end where the length of `{lengths}` does, rounded up to a tile: iterations behind"
    " it load {read} and mask all of it. Keep the mask for the last tile."
)
_STOP = (
    "Leave the loop there: a `break`, or a `while` with that condition (Triton:"
    " `while (k < n) & (tl.max(going, 0) > 0):`)."
)
_CONDITION = "nothing else changes what its condition depends on, so it stays false"
_FLAG = (
    "a mask that the loop carries only loses elements; once it has none, iterations leave all"
    " results as they are, but no condition of the loop asks for it"
)


def masked_iterations(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each loop with such a tail."""
    yield from (_of_tile_kernel(case, each) for each in masked_tails(case.tiles))
    code = case.code
    for each in idle_loops(code.ttgir) if code else ():
        yield _draft(case, _cause(case, each.line, _FLAG), range(each.line, each.last + 1))


def _of_tile_kernel(case: KernelCase, tail: MaskedTail) -> Draft:
    lengths, read = tail.lengths[1:], " and ".join(f"`{each[1:]}`" for each in tail.read)
    cause = _cause(case, tail.loop.line, _CONDITION)
    if lengths:
        text = (
            f"all blocks have as many iterations; those behind a length of `{lengths}` are masked"
        )
        cause = Cause(
            f"a loop goes on behind the length in `{lengths}` that masks its elements",
            cause.place, (Evidence("static", text),), _AUTHOR.format(lengths=lengths, read=read),
        )  # fmt: skip
    return _draft(case, cause, tail.lines)


def _cause(case: KernelCase, line: int, text: str) -> Cause:
    """Return a loop in a line that goes on when nothing is left to do."""
    title = "a loop goes on after the condition of all that it does is false"
    return Cause(title, case.place(case.line(line)), (Evidence("static", text),), _STOP)


def _draft(case: KernelCase, cause: Cause, lines: Container[int]) -> Draft:
    code = case.sampled
    where = case.at_lines(code, lines) if code else []
    if code is None or not where:
        return cause.warning()
    taken = code.taken(code.rows(where))
    seen, share = sampled(code, taken, "are in it"), code.share(taken) * sampled_share(case)
    if share < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    low, mid, high = (part * share for part in MASKED_TAILS)
    return cause.costs(Saving(low, mid, high), seen, confidence="low")
