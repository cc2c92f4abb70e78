"""Elements of a parallel loop that a condition on its index leaves out: a part of `wasted-lanes`.

Static: a loop all of which is under a comparison of its index with a constant, so that the compiler
gives threads to elements without work (`tiles/masked_loops`). Dynamic: samples at its lines.

Of these samples the part of the elements that are left out goes at most. While other warps wait as
well, threads without work cost issue slots alone, so likely it goes in the cycles in which
schedulers issue. Where all blocks run at once, a thread takes as long as all of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import busy_share, launch_of, sampled_share
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.numbers.blocks import WASTED_LANES_OUTSIDE
from tileprof.analyzer.rules.tile_program.numbers import LEFT_OUT_SURE
from tileprof.analyzer.tiles.masked_loops import Masked, masked_loops
from tileprof.analyzer.tiles.padding import padded_ops

_AUTHOR = (
    "Let the loop have as many elements as it works on, and leave the condition out: threads are"
    " dealt out to all elements of a `T.Parallel`, those without work included."
)


def left_out(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each loop that has many elements without work; where these are outside
    of a tensor as well, that is told elsewhere."""
    if loops := masked_loops(case.tiles):
        told = min((each.inside for each in padded_ops(case.tiles)), default=1.0)
        many = (each for each in loops if each.part >= WASTED_LANES_OUTSIDE)
        yield from (_draft(case, each) for each in many if 1 - each.part < told)


def _draft(case: KernelCase, loop: Masked) -> Draft:
    whole, inside = (" × ".join(f"{n:g}" for n in each) for each in (loop.extents, loop.inside))
    static = Evidence("static", f"a loop over {whole} elements works on {inside} of them")
    title = f"a condition leaves out {percent(loop.part, 0)} of the elements of a parallel loop"
    cause = Cause(title, case.place(case.line(loop.op.line)), (static,), _AUTHOR)
    code, launch, left = case.sampled, launch_of(case), reach.left(case)
    where = case.at_lines(code, loop.lines) if code else []
    if code is None or not where or launch is None:
        return cause.warning()
    taken = code.taken(code.rows(where))
    seen = sampled(code, taken, "are in it")
    at_once = launch.rounds < 1
    most = min(loop.part * code.share(taken) * sampled_share(case), LONGEST_SAVING)
    mid = most * (1.0 if at_once else busy_share(code))
    mid = min(mid, left.mid) if left else mid
    if mid < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    low = (HALFWAY if at_once else LEFT_OUT_SURE) * mid
    return cause.costs(Saving(low, mid, max(mid, most)), seen, known=at_once)
