"""Too few warps to hide latency, if one more block per multiprocessor nearly fits.

Static: what limits the blocks on a multiprocessor, and what one more needs. Dynamic: cycles in
which schedulers issue nothing, and the latency that their warps wait for then.

The gain is that of blocks in a closed network of queues (`side_by_side`): memory, shared memory and
schedulers serve one block while others wait for latency, or for one of these. So no more comes back
than what the busiest of them leaves, and no part of it where several blocks keep that one busy.

A block alone has a tile that is far too large, or memory that it does not need. Who makes it
smaller seldom stops where two blocks fit: so likely it is halfway between the next step and half of
all warps, and at best all that the kernel's work leaves.

A block alone has nothing beside it while it loads, or reduces, or writes: any latency counts. Where
blocks share a multiprocessor already, they cover each other's arithmetic, and only waits for memory
count: likely no more than these goes. Those are no sign where the bytes that have to be moved are
not known, as warps wait as long for a memory that gives all it has; then one block alone is a
symptom. Nor are they with blocks side by side that take rows by their numbers in a tensor: these
come in more or less than once, as the numbers are. (Blocks of an H200 that did so left 0.4 of its
roof by the bytes of their tensors. With 0.77 of it, counting each row that they ask for, a load was
under way for 2,000 cycles, where tiles take 1,450 with all multiprocessors loading: memory was what
they waited for.)

A warp that has some 60 loads under way waits before the next one until one of them is there.
Samples have no name of their own for that (`misc`, at loads): it is a wait for memory like that of
who needs a value. (On an H200 it began at the 58th load in a row.)

Nor do more warps help for sure where blocks side by side wait much longer for a load than memory
takes (`load_latency`): it has as many under way as it takes, and that is a symptom.

Nor does it help where registers are spilled already (a step to more warps takes some away). Where
blocks share a multiprocessor and the queues of memory are full of accesses, these have causes of
their own; a block alone fills them by itself when it begins to load, while nobody computes.

Where part of a buffer is never accessed, more blocks fit at no price. Passes of shared memory, as
they are reckoned, may fill all of the time that warps leave idle between them; then the part of the
idle cycles goes that the added blocks are of all. (An H200 that held three blocks where an unused
buffer had left room for two took 0.78 of the time, at 0.55 of the cycles idle.)

Two rounds of blocks, the last of which is not full, stay two where the next step has not room for
all: then nothing comes back, as each round takes as long.

Not told of: kernels whose grid leaves room already (fewer than a wave: more room would stay empty),
kernels of products of warp groups or of copies of tiles, which hide latency by engines and not by
warps (but where one block keeps its warp groups in step, `alone_in_step`), kernels with more than
half of all warps, and kernels near what their work takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.kernel.launches import (
    Launch,
    busy_share,
    is_pipelined,
    launch_of,
    launch_place,
)
from tileprof.analyzer.kernel.next_step import Step, next_step, step_without
from tileprof.analyzer.kernel.side_by_side import demands, faster
from tileprof.analyzer.kernel.threads.load_latency import load_latency
from tileprof.analyzer.kernel.threads.unused_rows import unused_bytes
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.numbers.kernels import MOST_WARPS
from tileprof.analyzer.numbers.shared import COLD, FEWEST_SAMPLES
from tileprof.analyzer.rules.machine_code.alone_in_step import alone_in_step
from tileprof.analyzer.rules.numbers.blocks import (
    OCCUPANCY_ALIKE,
    OCCUPANCY_FEWEST,
    OCCUPANCY_LEFT,
    OCCUPANCY_NOTABLE,
    OCCUPANCY_OF_IDLE,
    OCCUPANCY_OTHER,
    OCCUPANCY_QUEUED,
    OCCUPANCY_SMALL_STEP,
    OCCUPANCY_SURE,
    OCCUPANCY_WAITING,
)
from tileprof.analyzer.rules.tile_program.group_alone import group_alone
from tileprof.analyzer.tiles.gathers import takes_by_number

_MEMORY = "long_scoreboard"
_MANY = "misc"
"""Why a warp waits at a load that has as many under way as its counters tell apart."""
_ON_CHIP = (
    "short_scoreboard", "wait", "barrier", "branch_resolving",
    "no_instructions", "imc_miss",
)  # fmt: skip
"""Further reasons that other warps cover, where no product of a warp group is waited for."""
_KEPT = ("sleeping", "membar")
"""Naps and fences, which are as long with other warps beside them."""
_QUEUES = ("lg_throttle", "mio_throttle", "tex_throttle")
_COMPILER = (
    "See which values are alive across the loop, and whether the bound on registers, or the number"
    " of stages, could be that of one block more."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel that a few registers, or some memory, keep from hiding its latency."""
    launch, share = launch_of(case), case.number("occupancy") or 0.0
    if launch is not None and (unused := list(_unused(case, launch))):
        yield from unused
        return
    if launch is not None:
        yield from group_alone(case, launch)
        yield from alone_in_step(case, launch)
    if launch is None or not 0 < share <= MOST_WARPS or launch.waves < 1 or is_pipelined(case):
        return
    step, left = next_step(case, launch), reach.left(case)
    if step is None or (left is not None and _is_near(left, launch)):
        return
    static = Evidence("static", _static(case, launch, share, step))
    if case.sampled is not None and not _has_other_cause(case.sampled, launch):
        yield from _seen(case, case.sampled, launch, step, static, left)
    elif case.sampled is None and step.left >= OCCUPANCY_SMALL_STEP:
        title = "one more block per multiprocessor nearly fits"
        yield Draft("warning", title, launch_place(case), (static,), _advice(step), _COMPILER)


def _unused(case: KernelCase, launch: Launch) -> Iterator[Draft]:
    """Rows of tiles in shared memory that no statement accesses, where more blocks fit without."""
    found = unused_bytes(case.tiles)
    step = step_without(case, launch, sum(found.values()))
    code = case.sampled
    if step is None:
        return
    largest = max(found, key=lambda name: found[name])
    text = f"no statement accesses {sum(found.values()) / 1024:,.1f} KB of shared memory"
    static = Evidence("static", f"{text}, most of it of `{largest[1:]}`")
    more = Evidence("static", f"without it {step.blocks} blocks fit on a multiprocessor, not "
                    f"{launch.held}")  # fmt: skip
    title = f"`{largest[1:]}` is larger in shared memory than what is used of it"
    place, way = launch_place(case), f"Allocate what is accessed: {step.needs}."
    if code is None or not code.whole:
        yield Draft("warning", title, place, (static, more), way, _COMPILER)
        return
    held, added = _saving(case, code, launch, step, reach.left(case)), 1 - launch.held / step.blocks
    mid = max(held.mid, added * code.n(idle=True) / code.whole)
    held, most = Saving(held.low, mid, max(held.high, mid)), max(held.high, added)
    if held.mid < COLD:
        return
    yield Draft(
        "suggestion", title, place, (static, more), way, _COMPILER, replace(held, high=most),
        confidence="high",
    )  # fmt: skip


def _is_near(left: Saving, launch: Launch) -> bool:
    """Whether next to nothing is left to gain; several blocks leave no more than is likely."""
    return left.high < OCCUPANCY_NOTABLE if launch.held == 1 else left.mid < OCCUPANCY_LEFT


def _waiting(case: KernelCase, code: KernelCode, alone: bool) -> int:
    """Samples that wait for latency while nobody issues."""
    told = alone or not takes_by_number(case.tiles)
    waiting = code.n(reasons=_ON_CHIP, idle=True) if alone else 0
    return waiting + (_for_memory(code) if told and case.roofs.copy_floor > 0 else 0)


def _for_memory(code: KernelCode) -> int:
    """Of these, those for memory."""
    return code.n(reasons=(_MEMORY,), idle=True) + code.n(code.named(*LOADS), (_MANY,), idle=True)


def _seen(
    case: KernelCase, code: KernelCode, launch: Launch, step: Step, static: Evidence,
    left: Saving | None,
) -> Iterator[Draft]:  # fmt: skip
    """Where samples say that warps wait for latency, and nobody issues meanwhile."""
    alone, known = launch.held == 1, case.roofs.copy_floor > 0
    waiting = _waiting(case, code, alone)
    saving = _saving(case, code, launch, step, left)
    if not alone:
        saving = _at_most(saving, waiting / code.whole)
    idle = code.n(idle=True)
    enough = max(OCCUPANCY_FEWEST * code.whole, OCCUPANCY_OF_IDLE * idle)
    least = OCCUPANCY_WAITING * code.whole
    if not alone and load_latency(code) >= OCCUPANCY_QUEUED:
        if waiting >= max(min(least, enough), FEWEST_SAMPLES) and saving.mid >= OCCUPANCY_NOTABLE:
            yield _queued(case, code, static, waiting, step)
        return
    if (
        waiting >= max(least if alone else min(least, enough), FEWEST_SAMPLES)
        and saving.mid >= OCCUPANCY_NOTABLE
    ):
        yield Draft(
            "suggestion", "more warps would hide latency", launch_place(case),
            (static, _waits(code, waiting, "latency")), _advice(step), _COMPILER, saving,
            confidence="medium" if step.left >= OCCUPANCY_ALIKE else "low",
        )  # fmt: skip
        return
    waiting = _for_memory(code)
    if alone and not known and waiting >= max(OCCUPANCY_WAITING * code.whole, FEWEST_SAMPLES):
        evidence = (static, _waits(code, waiting, "memory"))
        title = "the warps of one block wait for memory"
        yield Draft("symptom", title, launch_place(case), evidence, _advice(step), _COMPILER)


def _queued(
    case: KernelCase, code: KernelCode, static: Evidence, waiting: int, step: Step
) -> Draft:
    """Where loads wait for one another: whether more of them at a time help is not known."""
    text = f"a warp waits {load_latency(code):,.0f} cycles for a load on average"
    more = "; a load alone takes half of that or less, so requests wait for one another"
    evidence = (static, _waits(code, waiting, "memory"), Evidence("samples", text + more))
    title = "warps wait for memory, which has many of their loads under way already"
    return Draft("symptom", title, launch_place(case), evidence, _advice(step), _COMPILER)


def _has_other_cause(code: KernelCode, launch: Launch) -> bool:
    spills = code.named("LDL", "STL")
    spilling = code.n(spills) + float(code.waiting_for(spills).sum())
    queued = code.n(reasons=_QUEUES) if launch.held > 1 else 0
    return max(spilling, queued) > OCCUPANCY_OTHER * code.whole


def _waits(code: KernelCode, waiting: int, what: str) -> Evidence:
    text = (
        f"schedulers issue in {percent(busy_share(code), 0)} of the cycles; in"
        f" {percent(waiting / code.whole, 0)} no warp issues while warps wait for {what}"
    )
    return Evidence("samples", text, waiting)


def _saving(
    case: KernelCase, code: KernelCode, launch: Launch, step: Step, left: Saving | None
) -> Saving:
    """Of the time, what more blocks take away; waits that are no latency stay."""
    idle, stations = code.n(idle=True), demands(case, code)
    if not idle or step.warps <= launch.held * launch.warps:
        return Saving(0, 0, 0)
    part = 1 - code.n(reasons=_KEPT, idle=True) / idle

    def covered(warps: float) -> float:
        blocks = warps / launch.warps
        if 1 < launch.waves <= 2 and launch.each > blocks:
            return 0.0  # as many rounds
        return part * (1 - 1 / faster(stations, launch.held, blocks))

    low, mid = OCCUPANCY_SURE * covered(step.warps), covered((step.warps + step.further) / 2)
    most = max(0.0, 1 - launch.held * launch.warps / step.warps)
    high = left.high if left and step.further > step.warps else most
    return Saving(min(low, mid), mid, max(mid, high))


def _at_most(saving: Saving, mid: float) -> Saving:
    """Return the saving, likely no more than `mid`."""
    return replace(saving, low=min(saving.low, mid), mid=min(saving.mid, mid))


def _static(case: KernelCase, launch: Launch, share: float, step: Step) -> str:
    blocks = "1 block" if launch.held == 1 else f"{launch.held} blocks"
    limit = case.attributes.get("limited_by", "")
    return (
        f"{blocks} of {launch.threads} threads per multiprocessor, {percent(share, 0)} of its "
        f"warps,"
        f" limited by {limit}; the next step needs {step.needs}"
    )


def _advice(step: Step) -> str:
    return (
        f"Make room for the next step, which needs {step.needs}: a smaller tile, fewer stages, or a"
        " bound on registers. Look at the spills that it may bring."
    )


RULE = KernelRule("occupancy-limited", find, ("samples",))
