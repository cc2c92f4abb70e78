"""Loops that wait for tiles because loads do not run ahead far enough, or not at all.

Static: `num_stages` and the bytes of a stage in the IR, or groups of cp.async in the code; what the
compiler says of copies that it waits for at once; matrix products in a loop whose warps copy their
tiles themselves. Dynamic: samples of warps that wait for an asynchronous copy (of the branch that
reads the answer of an mbarrier, or after `DEPBAR` for cp.async) while nobody issued. A producer
that waits for a free slot is no sign of anything: it does so whenever loads are fast enough.

Tiles may be late because few are under way, or because the way is full. With n stages they are
asked for n - 1 turns ahead. If those turns take no longer than memory's latency and the transfer of
a tile, more stages help; if they take longer, the tiles stand in a queue for the L2 or for memory,
and nothing is said (Little's law, `pace`).

Of a turn of time 1, E waits. Without, it takes C = max(1 - E, u, b), where tensor cores multiply
for u of it, and the bytes of a turn take b. These are cycles, and the clock goes down with busy
tensor cores, so products take no less than their roof lets them in all (`at_roof`). With n' stages
n' - 1 turns' loads are under way, so a turn takes max(C, (n - 1) / (n' - 1)), and from a loop of
one stage, in which latency E follows the work, max(C, E / (n' - 1)). n' is the least that reaches
C, as far as shared memory has room. At least each further stage hides C of the latency. Where
no load runs ahead, and the compiler says that warp groups take no turns so, turns come as well
(`by_turns`).

A pipelined loop that begins again in each iteration of another loop waits for a first load each
time. Other blocks of the multiprocessor work meanwhile, so likely half of that latency goes where
both are one loop: 0.35 to 1.1 of it went in three kernels of an H200 (`plant-test-7`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.fixes import Fix, LoweringControl
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import MATRIX, has_products, lost, through_registers
from tileprof.analyzer.kernel.by_turns import ALONE, kept_from, left_in_turns
from tileprof.analyzer.kernel.launches import clock_mhz, launch_of
from tileprof.analyzer.kernel.pace import at_roof, pace_of
from tileprof.analyzer.kernel.pipelines import ring_in_code, single_stage, spare_bytes
from tileprof.analyzer.kernel.tile_waits import TileWait, in_turn, waits_for_tiles
from tileprof.analyzer.machine.code import COPIES, KernelCode
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.numbers.kernels import PACE_LATENCY
from tileprof.analyzer.numbers.shared import COLD, COOL, FEWEST_SAMPLES, HALFWAY
from tileprof.analyzer.rules.numbers.waiting import (
    PIPELINE_DEPTH_BY_HAND,
    PIPELINE_DEPTH_BY_SAMPLES,
    PIPELINE_DEPTH_LEAST_REST,
    PIPELINE_DEPTH_MOST_STAGES,
    PIPELINE_DEPTH_MUCH,
)
from tileprof.analyzer.tiles.rings import Ring, begun_again, rings_of
from tileprof.remarks import Remark
from tileprof.remarks.loops import WaitedAtOnce

_TITLE, _EACH = "loads do not run far enough ahead", "tiles are waited for immediately"
_NONE = "no load runs ahead of its use"
_AGAIN = "a pipelined loop is filled again in each iteration of the loop around it"
_ONE_LOOP = (
    "Make one pipelined loop of both, over all of their iterations: then the loads of the next ones"
    " are under way where now a loop ends and is begun again."
)
_COMPILER = (
    "The ring has as many slots as `num_stages` says, and one product in flight holds one of them:"
    " see whether slots are freed as early as they can be."
)
_TURNS = "warp groups that load their tiles themselves do not take turns with products"
_PIPELINE = (
    "Load the next tiles while this one is used: a pipelined loop with `num_stages` of 3 or more."
)


@dataclass(frozen=True, slots=True)
class _Loads:
    """What is known of how loads run ahead."""

    ring: Ring | None
    said: Remark | None
    """Of copies that are waited for at once, whatever the ring has."""

    @property
    def stages(self) -> int:
        """That are under way at once."""
        return 1 if self.said or self.ring is None else self.ring.stages


def find(case: KernelCase) -> Iterator[Draft]:
    """The loop that waits the most, and loops that begin again and again."""
    yield from _waiting(case)
    yield from _filled_again(case)


def _filled_again(case: KernelCase) -> Iterator[Draft]:
    """Yield a pipelined loop that a serial loop does nothing but begin again."""
    launch, clock = launch_of(case), clock_mhz(case)
    again = max(begun_again(case.tiles), key=lambda each: each[1], default=None)
    if again is None or launch is None or not clock or not case.time or not case.launches:
        return
    loop, times = again
    starts = times * ceil(launch.rounds)
    share = min(starts * PACE_LATENCY / clock * 1e3 * case.launches / case.time, HALFWAY)
    text = f"a block begins it {times:,.0f} times, with a load that nothing runs ahead of"
    place = case.place(case.line(loop.line), f"loop {loop.arguments[0][1:]}")
    cause = Cause(_AGAIN, place, (Evidence("static", text),), _ONE_LOOP, _COMPILER)
    seen = f"{percent(share)} of the time is the latency of so many loads, one after the other"
    if HALFWAY * share >= COLD:
        saving = Saving(0.0, HALFWAY * share, share)
        yield cause.costs(saving, Evidence("activities", seen), confidence="low")


def _waiting(case: KernelCase) -> Iterator[Draft]:
    """Yield what the loop that waits the most lacks."""
    code = case.sampled
    said = next((each for each, _ in case.decided(WaitedAtOnce)), None)
    if code is None or not code.named(*COPIES):
        if said:
            place = case.place(said.location, said.subject)
            static = Evidence("static", _at_once(said), remark=said)
            yield Draft("warning", _EACH, place, (static,), _run_ahead(said), _COMPILER)
        elif code and (not case.remarks or single_stage(case)):
            yield from _by_hand(case, code)
        return
    rings, waits = rings_of(case.tiles), waits_for_tiles(code)
    if len(rings) == 1:
        waits = in_turn(code, waits)
    found = max(waits, key=lambda each: each.share, default=None)
    if found is not None and found.share >= COLD:
        ring = rings[0] if rings else ring_in_code(case, code, found.loop)
        yield from _draft(case, code, found, _Loads(ring, said))
    elif said:
        place = case.place(said.location, said.subject)
        text = "less than 1% of the time is spent waiting for copies"
        yield Draft(
            "ignore",
            _EACH,
            place,
            (Evidence("samples", text),),
            "Leave it: the wait costs nothing.",
        )


# -- loads that run ahead


def _draft(case: KernelCase, code: KernelCode, wait: TileWait, loads: _Loads) -> Iterator[Draft]:
    hot, ring = code.hottest(wait.where), loads.ring
    assert hot is not None
    line = case.user_line(hot.place)
    place = case.place(line, case.op_at(line), (hot.offset, hot.offset))
    text = (
        f"{percent(wait.share)} of the time, {wait.cycles:,.0f} cycles per iteration, is spent"
        " waiting"
    )
    measured = Evidence("samples", f"{text} for copies", int(wait.exposed.sum()))
    evidence = (Evidence("static", _seen(code, wait, loads)), measured)
    title = _EACH if loads.said else _TITLE
    if ring is None:
        if wait.share >= PIPELINE_DEPTH_MUCH:
            advice = "Start copies more iterations ahead of their use: a ring of two to four slots."
            yield Draft("symptom", title, place, evidence, advice, _COMPILER)
        return
    pace = pace_of(case, code, wait.loop, ring.stage_bytes)
    if pace.full or not pace.is_latency(loads.stages - 1):
        return
    rest = _rest(wait, pace.fed if case.roofs.tensor_floor else pace.usual, at_roof(case))
    best = _rest(wait, PIPELINE_DEPTH_BY_SAMPLES * pace.fed, at_roof(case, reached=1.0))
    stages = _stages(case, wait, loads, rest)
    saving, advice = _saving(wait, loads, (best, rest), stages), _advice(loads, stages)
    if saving is None or saving.mid >= COOL:
        yield Draft("suggestion", title, place, evidence, advice, _COMPILER, saving,
                    fixes=_fixes(loads, stages))  # fmt: skip
    elif wait.share >= PIPELINE_DEPTH_MUCH and 1 - rest >= COOL:
        yield Draft("symptom", f"{title}, and there is no room for more", place, evidence, advice,
                    _COMPILER)  # fmt: skip


def _rest(wait: TileWait, fed: float, at_roof: float) -> float:
    """Of the time, what the kernel takes however far loads run ahead."""
    most = max(0.0, (1 - fed) * wait.inside)
    return max(1 - min(wait.share, most), min(at_roof, 1.0), PIPELINE_DEPTH_LEAST_REST)


def _under_way(wait: TileWait, stages: int) -> float:
    """Of a turn, the time that loads are under way, all that have to be before the next turn."""
    return float(stages - 1) if stages > 1 else wait.share


def _stages(case: KernelCase, wait: TileWait, loads: _Loads, rest: float) -> int:
    """The fewest stages that leave no wait, as far as they fit; one more where that is unknown."""
    ring = loads.ring
    if ring is None or loads.said:
        return ring.stages if ring else 0
    wanted = max(ceil(_under_way(wait, ring.stages) / rest) + 1, ring.stages + 1)
    spare = spare_bytes(case)
    if spare is None:
        return ring.stages + 1
    return min(wanted, PIPELINE_DEPTH_MOST_STAGES, ring.stages + max(spare, 0) // ring.stage_bytes)


def _saving(
    wait: TileWait, loads: _Loads, rests: tuple[float, float], stages: int
) -> Saving | None:
    """From the stages that there are to `stages`; `rests` are what is left at best, and likely.

    All of the loop is told by that, so no samples are named whose part of it would be taken.
    """
    samples = int(wait.exposed.sum())
    if samples < FEWEST_SAMPLES:
        return None
    (best, rest), more = rests, stages - loads.stages
    after = _under_way(wait, loads.stages) / (stages - 1) if more > 0 else 1.0
    mid, high = (max(0.0, min(1 - each, 1 - after)) for each in (rest, best))
    low = min(mid, more * rest) / 2 if more > 0 else 0.0
    return Saving(low, mid, max(mid, high), samples=samples)


# -- loads that do not


def _by_hand(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Loops whose warps load, store, meet, and only then use the tile: loops of products, and all
    that the author wrote as a pipeline of one stage."""
    for loop in loops_with(code, ("STS",) if single_stage(case) else MATRIX):
        loads, stores = through_registers(code, loop)
        hot, gone = code.hottest(stores), lost(code, loop, (*loads, *stores))
        share, inside = float(gone.sum()) / code.whole, code.n(loop) / code.whole
        if hot is None or share < PIPELINE_DEPTH_MUCH:
            continue
        line = case.user_line(hot.place)
        place = case.place(line, case.op_at(line), (hot.offset, hot.offset))
        seen = "a loop of products" if has_products(code, loop) else "a loop"
        seen += f" has {len(loads)} LDG whose registers STS takes, and no copy"
        text = f"{percent(share)} of the samples wait for these loads, or are at them"
        static = Evidence("static", f"{seen} that runs ahead")
        evidence = [static, Evidence("samples", text, int(gone.sum()))]
        rings = rings_of(case.tiles)
        pace = pace_of(case, code, loop, rings[0].stage_bytes if rings else 0)
        most = min((1 - pace.least) * inside, 1 - PIPELINE_DEPTH_LEAST_REST)
        mid = min(share, (1 - pace.likely) * inside)
        left = reach.left(case, gone) or Saving(0, 1, 1)
        mid, most = min(mid, left.mid), min(most, left.high)
        likely = PIPELINE_DEPTH_BY_HAND * mid
        saving = Saving(mid / 2, likely, max(mid, most), samples=int(gone.sum()))
        kept = kept_from(case, ALONE)
        if kept and (turns := left_in_turns(case, code, (*loads, *stores))):
            saving, evidence = turns, [*evidence, Evidence("static", _TURNS)]
        yield Draft("suggestion", _NONE, place, tuple(evidence), _PIPELINE, saving=saving)


def _fixes(loads: _Loads, stages: int) -> tuple[Fix, ...]:
    """Return the control that sets the stages of a pipelined loop of ours."""
    ring = loads.ring
    if loads.said or ring is None or not ring.variable or stages <= ring.stages:
        return ()
    return (LoweringControl("stages", stages),)


# -- words


def _seen(code: KernelCode, wait: TileWait, loads: _Loads) -> str:
    if loads.said:
        return _at_once(loads.said)
    if loads.ring:
        kilobytes = loads.ring.stage_bytes / 1024
        loop = f"loop {loads.ring.variable}" if loads.ring.variable else "a loop of cp.async"
        stages = "1 stage" if loads.ring.stages == 1 else f"{loads.ring.stages} stages"
        return f"{loop} has {stages} of {kilobytes:.0f} KB"
    copies = [index for index in wait.loop if code.instructions[index].name in COPIES]
    what = code.instructions[copies[0]].name if copies else "a copy"
    return f"{what} is waited for in a loop of {len(wait.loop)} instructions"


def _at_once(said: Remark) -> str:
    return f"{said.subject}: {said.decision}, not {said.against}"


def _run_ahead(said: Remark) -> str:
    return f"Let the loads run ahead: {'; '.join(str(each.reason) for each in said.rejected)}."


def _advice(loads: _Loads, stages: int) -> str:
    ring = loads.ring
    if loads.said or ring is None:
        return _run_ahead(loads.said) if loads.said else _PIPELINE
    kilobytes = (stages - ring.stages) * ring.stage_bytes / 1024
    if stages > ring.stages:
        write = f"Write `num_stages={stages}`"
        if not ring.variable:
            write = f"Let copies run ahead in {stages} stages (Triton: `num_stages={stages}`)"
        return f"{write}: it takes {kilobytes:.0f} KB more of shared memory."
    return (
        f"One more stage of {ring.stage_bytes / 1024:.0f} KB does not fit: take a smaller tile, or"
        " smaller elements, and more stages."
    )


RULE = KernelRule("pipeline-too-shallow", find)
