"""Blocks that move so few bytes that a device spends most time starting and ending them.

Static: none. Dynamic: bytes of a launch by its blocks, its waves of blocks, and how far it is from
the time that moving the bytes takes. A multiprocessor holds 32 blocks at most, so few bytes are
under way at once, and each block waits for its first load alone. A block that loads once, stores
and ends takes `SMALL_BLOCK_LIFE` even so, and those that run at once are done with a wave after
that (Little's law): where all waves together take less than the bytes do, the size of blocks is not
what holds the kernel up, however few bytes each has. (Of two kernels on an H200 with 1.5 and 3 KB a
block, 16 blocks a multiprocessor, the first took 248 waves of 1.28 µs, and 0.58 of the time with
larger blocks; the second, which waits for atomics, took no less.) With more work a block such a
kernel likely reaches most of the memory's rate; half of the difference goes at least, and all of
what is above the floor at most. Blocks that mostly wait for fences are long for these, however
little they move; so are those that live more than twice as long for what they compute: a larger
block computes as much for each element, and while one begins or ends the others go on. Kernels of
an operation are a library's, whose blocks stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, listed, percent, plain
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.kernel.global_memory import ACCESSES, ATOMICS
from tileprof.analyzer.kernel.launches import sampled_share
from tileprof.analyzer.numbers.shared import COLD, HALFWAY
from tileprof.analyzer.rules import narrow_access
from tileprof.analyzer.rules.machine_code.short_lives import short_lives
from tileprof.analyzer.rules.numbers.blocks import SMALL_BLOCK_LIFE, SMALL_BLOCK_WAVES
from tileprof.analyzer.rules.program.numbers import (
    SMALL_BLOCK_BYTES,
    SMALL_BLOCK_FAR,
    SMALL_BLOCK_REACHED,
)
from tileprof.analyzer.rules.tile_program.thin_work import idle_threads

_ADVICE = (
    "Let each block work on more elements: a larger block of a Triton kernel (BLOCK = 1024 or"
    " more), several elements for each thread, or a loop over tiles in fewer blocks."
)


def find(program: Program) -> Iterator[Draft]:
    """All kernels with such blocks together."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    floors = Floors(tree)
    found = [case for case in program.kernels if _is_small(tree, floors, case)]
    nodes = tuple(node for case in found for node in case.nodes)
    held = list(nodes)
    time, floor = float(tree.time[held].sum()), float(floors.floor[held].sum())
    if not found or tree.share(time) < COLD:
        return
    first = found[0]
    each = _bytes_of_block(tree, first)
    evidence = (
        Evidence(
            "activities",
            f"{listed([plain(case.name) for case in found])}: {percent(tree.share(time))} of"
            f" {tree.whose}, although moving the bytes takes only {percent(tree.share(floor))}",
        ),
        Evidence(
            "activities",
            f"a launch of {plain(first.name)} has {first.extent('grid'):,} blocks of"
            f" {first.extent('block')} threads, which move {each:,.0f} bytes each",
        ),
    )
    # Of a kernel of several launches, the time of the one with these blocks.
    time *= sum(sampled_share(case) * case.time for case in found) / sum(c.time for c in found)
    lost = sum(_lost(tree, floors, case) for case in found)
    likely = min(lost, max(time - floor / SMALL_BLOCK_REACHED, 0.0))
    count = len(found)
    yield Draft(
        "suggestion", f"blocks of {count} kernel{'s' * (count > 1)} do too little work",
        tree.place(first.nodes[0]), evidence, _ADVICE, "",
        tree.saving(likely / 2, likely, max(time - floor, likely)), nodes=nodes,
    )  # fmt: skip


def _is_small(tree: Contexts, floors: Floors, case: KernelCase) -> bool:
    nodes = list(case.nodes)
    time, floor = float(tree.time[nodes].sum()), float(floors.floor[nodes].sum())
    if any(tree.op(node) for node in nodes) or _is_ordered(case):
        return False
    by_memory = any(floors.limits.get(node) == "memory" for node in nodes)
    if not by_memory or time < SMALL_BLOCK_FAR * floor:
        return False
    waves = case.number("waves") or 0.0
    few = waves >= SMALL_BLOCK_WAVES and 0 < _bytes_of_block(tree, case) < SMALL_BLOCK_BYTES
    return few and _lost(tree, floors, case) >= COLD * time and not _is_told(case)


def _is_told(case: KernelCase) -> bool:
    """Whether its blocks have more threads than elements, or its narrow accesses are why it has so
    many: wider ones need fewer."""
    code = case.sampled
    if any(each.severity == "suggestion" for each in idle_threads(case)):
        return True
    if code is None or short_lives(case, code, code.named(*ACCESSES)) is None:
        return False
    return any(each.severity == "suggestion" for each in narrow_access.find(case))


def _lost(tree: Contexts, floors: Floors, case: KernelCase) -> float:
    """Time, ns, by which blocks that begin and end take longer than moving their bytes."""
    nodes = list(case.nodes)
    time, floor = float(tree.time[nodes].sum()), float(floors.floor[nodes].sum())
    lives = case.launches * (case.number("waves") or 0.0) * SMALL_BLOCK_LIFE
    if lives < HALFWAY * time:
        return 0.0
    return max(0.0, min(time, lives) - floor / SMALL_BLOCK_REACHED)


def _is_ordered(case: KernelCase) -> bool:
    """Whether most of what its warps wait for are fences, and atomics between them."""
    code = case.sampled
    fences = code.named("MEMBAR") if code else []
    if code is None or not fences:
        return False
    waits = np.maximum(
        code.taken(code.rows(reasons=("membar",))), code.waiting_for(code.named(*ATOMICS))
    )
    return code.share(waits) >= HALFWAY


def _bytes_of_block(tree: Contexts, case: KernelCase) -> float:
    """Bytes that a block has to move on average; 0 where that is not known."""
    blocks = case.launches * case.extent("grid")
    moved = float(tree.program.work.bytes[list(case.nodes)].sum())
    return moved / blocks if blocks else 0.0


RULE = ProgramRule("small-block", find)
