"""Blocks that walk independent tiles one after the other, in few waves: a part of `tail-wave`.

Static: the serial loop that all of the kernel is in, and how many of its iterations are outside of
the tensors (`tiles/walks`); waves of blocks. Dynamic: the time of a launch.

Blocks are not of one length, and those of the last wave end one by one, so a part of a block's time
is lost, whatever the number of waves says: 1/n of it for n waves. A block for each tile loses the
less of it, and none is launched for a tile that is outside. In less than a wave, warps are missing
that would issue while others wait: with a block for each tile, time goes down as warps become more,
until schedulers issue as often as they do at best.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.kernel.launches import (
    Launch,
    busy_share,
    has_products,
    is_pipelined,
    launch_place,
)
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.numbers.shared import COOL, ISSUE_REACHED
from tileprof.analyzer.rules.tile_program.numbers import LONG_BLOCKS_END
from tileprof.analyzer.rules.tile_program.outside import saved_outside
from tileprof.analyzer.tiles.walks import Walk

_AUTHOR = (
    "Give each block one tile, or fewer: make the loop's index a part of the grid's, which has as"
    " many blocks as there are tiles. No iteration needs what another one computed."
)


def long_blocks(case: KernelCase, launch: Launch, walk: Walk) -> Iterator[Draft]:
    """Yield a finding for a kernel whose blocks could be smaller."""
    text = (
        f"each block does {walk.turns} independent iterations of `{walk.loop.arguments[0][1:]}`;"
        f" {launch.pieces:,} of them are {launch.rounds:.1f} waves"
    )
    if walk.outside:
        text += f"; {percent(walk.outside, 0)} of the iterations are outside of the tensors"
    title = f"each block walks {walk.turns} tiles one after the other"
    cause = Cause(title, launch_place(case), (Evidence("static", text),), _AUTHOR)
    if not case.time or not case.launches:
        if walk.outside:
            yield cause.warning()
        return
    saving = _saving(case, launch, walk.turns, walk.outside)
    if saving.mid >= COOL:
        each = f"a launch takes {duration(case.time / case.launches)}"
        yield cause.costs(saving, Evidence("activities", each), confidence="low")
    elif walk.outside:
        yield cause.ignored(", where it costs nothing", "Leave it: the time is spent elsewhere.")


def _saving(case: KernelCase, launch: Launch, turns: int, outside: float) -> Saving:
    low, mid, high = (
        min(1.0, part / launch.rounds) * (1 - 1 / turns) if launch.rounds > 1 else 0.0
        for part in LONG_BLOCKS_END
    )
    if launch.rounds < 1 and not is_pipelined(case) and case.sampled is not None:
        busy, few = busy_share(case.sampled), max(launch.rounds, 1 / turns)
        high, mid, low = (max(0.0, 1 - max(busy / most, few)) for most in ISSUE_REACHED)
    if has_products(case):
        room = 1 - at_roof(case, launch.each)
    else:
        memory = memory_use(case)
        room = memory.room if memory else 1.0
    mid, high = min(mid, room), min(high, room)
    gone = saved_outside(case, outside, 1.0, multiplies=False)  # all of an iteration goes
    low, mid, high = (
        1 - (1 - one) * (1 - other)
        for one, other in ((low, gone.low), (mid, gone.mid), (high, gone.high))
    )
    return Saving(min(low, mid), mid, max(mid, high))
