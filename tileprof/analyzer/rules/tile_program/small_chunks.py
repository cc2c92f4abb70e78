"""Loops over chunks of one or two elements a thread, which threads reduce in each iteration: a part
of `early-reduction`.

Static: the loop's reductions and iterations (`tiles/thin_loops`). Dynamic: samples in the loop.

Chunks of so many elements that a thread loads 16 bytes take a part of the iterations, and each
thread adds up its own elements before it meets others. Of the loop's samples that part goes likely
for one half: the other half is work for each element. No more goes than the kernel's work leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.numbers.shared import COOL, HALFWAY
from tileprof.analyzer.numbers.tiles import SMALL_CHUNKS_EACH
from tileprof.analyzer.rules.tile_program.numbers import SMALL_CHUNKS_LARGER
from tileprof.analyzer.tiles.thin_loops import SmallChunk, small_chunks

_AUTHOR = (
    "Let each iteration take a chunk of several times as many elements: each thread then loads 16"
    " bytes at once and reduces its own elements before threads meet, in as many times fewer"
    " iterations."
)


def in_small_chunks(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each such loop that takes time."""
    return (draft for each in small_chunks(case.tiles) for draft in _drafts(case, each))


def _drafts(case: KernelCase, each: SmallChunk) -> Iterator[Draft]:
    code = case.sampled
    where = case.at_lines(code, each.lines) if code else []
    if code is None or not where:
        return
    title = f"a loop reduces {each.elements} elements across {each.threads} threads at a time"
    text = f"{each.turns} iterations, in which all threads meet"
    place = case.place(case.line(each.loop.line))
    cause = Cause(title, place, (Evidence("static", text),), _AUTHOR)
    taken = code.taken(code.rows(where))
    held = each.elements / each.threads / SMALL_CHUNKS_EACH
    part = HALFWAY * (1 - held / SMALL_CHUNKS_LARGER)
    saving = reach.as_told(case, eliminated(taken, code.whole, part))
    if saving.mid >= COOL:
        yield cause.costs(saving, sampled(code, taken, "are in it"))
