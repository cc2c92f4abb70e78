"""A warp group that multiplies alone on its multiprocessor, while stages take the room of another.

Static: one block on a multiprocessor, one warp group of it multiplies; the stages of its ring, of
which fewer leave shared memory for a second block. Dynamic: tiles are there when they are asked
for, so that further stages hide nothing, and tensor cores have less to do than the time.

A group that is alone leaves tensor cores idle between its products, while it waits for them, for
its other warps, or for what it reads beside its tiles, and at the end of a tile. Of two groups one
multiplies meanwhile, so at best only the products' own time is left, and likely half as much goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.launches import Launch, launch_place
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.kernel.tensor_use import groups_of
from tileprof.analyzer.kernel.tile_waits import in_turn, waits_for_tiles
from tileprof.analyzer.machine.code import PRODUCTS
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.numbers.shared import HALFWAY, RESERVED_BYTES, SHARED_BYTES
from tileprof.analyzer.rules.numbers.blocks import OCCUPANCY_NOTABLE
from tileprof.analyzer.rules.tile_program.numbers import GROUP_ALONE_LATE, GROUP_ALONE_SURE
from tileprof.analyzer.tiles.rings import Ring, rings_of

_COMPILER = "See whether two blocks of fewer stages would have fitted: their groups take turns."


def group_alone(case: KernelCase, launch: Launch) -> Iterator[Draft]:
    """A kernel of products of one warp group with more stages than it needs."""
    code, rings = case.sampled, rings_of(case.tiles)
    loops = loops_with(code, PRODUCTS) if code else ()
    if code is None or launch.held != 1 or len(rings) != 1 or not loops:
        return
    if max(groups_of(case, code, loop) for loop in loops) > 1:
        return
    stages = _stages(case, rings[0])
    late = sum(each.share for each in in_turn(code, waits_for_tiles(code)))
    products, best = at_roof(case), at_roof(case, reached=1.0)
    if not stages or late > GROUP_ALONE_LATE or not products:
        return
    most = max(0.0, min(1 - best, HALFWAY))
    mid = min(HALFWAY * (1 - products), most)
    if mid < OCCUPANCY_NOTABLE:
        return
    ring = rings[0]
    static = (
        f"1 block on a multiprocessor, of whose warp groups one multiplies; {ring.stages} stages of"
        f" {ring.stage_bytes / 1024:.0f} KB, and with {stages} a second block has room"
    )
    seen = (
        f"tiles are late in {percent(late)} of the time, and products take"
        f" {percent(products, 0)} of it"
    )
    yield Draft(
        "suggestion", "one warp group multiplies alone, because its stages take the memory of a "
        "second block",
        launch_place(case), (Evidence("static", static), Evidence("samples", seen, code.whole)),
        f"Write `num_stages={stages}`, so that two blocks share a multiprocessor, or let two warp"
        " groups share a tile (`threads=256`).", _COMPILER,
        Saving(GROUP_ALONE_SURE * mid, mid, most),
    )  # fmt: skip


def _stages(case: KernelCase, ring: Ring) -> int:
    """The most stages, two or more and fewer than now, that leave room for two; 0 for none."""
    target = str(case.attributes.get("target", "sm_90")).rstrip("af")
    taken = sum(int(case.number(f"{kind}_shared_bytes") or 0) for kind in ("static", "dynamic"))
    if target not in SHARED_BYTES or not ring.stage_bytes or not taken:
        return 0
    room = SHARED_BYTES[target] // 2 - RESERVED_BYTES
    over = -(-max(taken - room, 0) // ring.stage_bytes)
    return ring.stages - over if over and ring.stages - over >= 2 else 0
