"""Work repeated with the same result, and tiles copied repeatedly.

Static: statements of a tile program that depend on nothing that the loop around them changes, that
stand twice, or whose results are written over before they are read (`tiles/repeated`). Dynamic:
samples at their lines, and waits for what they load.

Of these samples all turns but one go. A tile that threads copy by themselves, through registers,
holds up all that comes after it in its loop, so those waits go with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, listed
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import lost
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.machine.code import COPIES as AHEAD
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.machine_code.same_programs import same_programs
from tileprof.analyzer.rules.tile_program.asserted import asserted
from tileprof.analyzer.rules.tile_program.carried import carried_through_memory
from tileprof.analyzer.rules.tile_program.launch_pairs import split_launches
from tileprof.analyzer.rules.tile_program.needless_tensors import needless_tensors
from tileprof.analyzer.rules.tile_program.numbers import REDUNDANT_SURE
from tileprof.analyzer.rules.tile_program.points import called_too_often
from tileprof.analyzer.rules.tile_program.round_trips import there_and_back
from tileprof.analyzer.rules.tile_program.small_tiles import small_tiles
from tileprof.analyzer.rules.tile_program.unread_parts import copied_for_nobody
from tileprof.analyzer.rules.triton.corrected_sums import corrected_sums
from tileprof.analyzer.rules.triton.needless_orders import needless_order
from tileprof.analyzer.rules.triton.scalar_loops import scalar_searches
from tileprof.analyzer.tiles.read_again import ReadAgain, read_again
from tileprof.analyzer.tiles.repeated import Again, How, repeated
from tileprof.kernel_ir import COPIES
from tileprof.remarks.layouts import LoadedBefore

_TITLES: dict[How, str] = {
    "each turn": "the same is {done} in each iteration of a loop",
    "whole loop": "all {turns:.0f} iterations of a loop do the same",
    "twice": "the same is {done} twice",
    "overwritten": "a result is written in each iteration of a loop, and only the last one is kept",
    "unread": "a result is written over before anything reads it",
}
_WAYS: dict[How, str] = {
    "each turn": "Move it before the loop: nothing that it depends on changes in the loop.",
    "whole loop": "Do it once: no iteration depends on the loop's index, or on an earlier "
    "iteration.",
    "twice": "Remove one of them: nothing changes in between.",
    "overwritten": "Move it after the loop: nothing reads what earlier iterations write.",
    "unread": "Remove it: what it writes is not read before it is written again.",
}
_KEEP = (
    "Keep the elements from where they were read first, in a fragment or in shared memory, and use"
    " those."
)
_COMPILER = "No pass moves out of a loop what does not change in it, or removes what is done twice."
_LOADS = ("LDG", "LDGSTS", "LDS", "LD", *AHEAD)


def find(case: KernelCase) -> Iterator[Draft]:
    """Work that a kernel's program, or the text of its module, says is done again."""
    yield from (_draft(case, each) for each in repeated(case.tiles) if not _copies(each))
    yield from asserted(case)
    yield from called_too_often(case)
    yield from there_and_back(case)
    yield from same_programs(case)
    yield from needless_order(case)
    yield from corrected_sums(case)
    yield from scalar_searches(case)


def find_copies(case: KernelCase) -> Iterator[Draft]:
    """Tiles that a kernel's program says are copied again, or that are too small; what it writes
    for nothing."""
    copies = [each for each in repeated(case.tiles) if _copies(each)]
    yield from (_draft(case, each) for each in copies)
    twice = {each.op.line for each in copies if each.how == "twice"}
    # One line may read a tensor several times, and be there in several launches.
    again = {(each.tensor, each.op.line): each for each in reversed(read_again(case.tiles))}
    lines = dict.fromkeys(each.op.line for each in reversed(again.values()))
    for line in (each for each in lines if each not in twice):
        yield from _read_again(case, [e for e in reversed(again.values()) if e.op.line == line])
    yield from copied_for_nobody(case)
    yield from carried_through_memory(case)
    yield from needless_tensors(case)
    yield from split_launches(case)
    yield from small_tiles(case)


def _copies(again: Again) -> bool:
    return again.moves and again.op.name in COPIES


def _draft(case: KernelCase, again: Again) -> Draft:
    done = "copied" if again.op.name in COPIES else "done"
    title = _TITLES[again.how].format(done=done, turns=again.turns)
    evidence = Evidence("static", _told(again))
    place = case.place(case.line(again.op.line), _named(again))
    cause = Cause(title, place, (evidence,), _WAYS[again.how], _COMPILER)
    code = case.sampled
    if code is None:
        return cause.warning()
    where = case.at_lines(code, again.lines)
    if not where:
        return cause.warning()  # lines of its statements are not known
    taken = _taken(code, again, where)
    seen = sampled(code, taken, "are at it, or wait for it")
    if code.share(taken) * again.part < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    # What is done again takes its own time; nothing queues behind it.
    saving = eliminated(taken, code.whole, again.part, REDUNDANT_SURE)
    return cause.costs(reach.as_told(case, saving), seen)


def _read_again(case: KernelCase, reads: Sequence[ReadAgain]) -> Iterator[Draft]:
    """Yield what reads of one line cost; nothing where the machine code has no load for them, as
    compilers merge those that no barrier and no store is between."""
    code = case.sampled
    names = (*LOADS, *AHEAD)
    lines = {reads[0].op.line} - {0}
    where = [] if code is None else [
        i for i in case.at_lines(code, lines) if code.instructions[i].name in names
    ]  # fmt: skip
    reads = [each for each in reads if not _is_merged(case, each.tensor[1:], lines)]
    if code is None or not where or not reads:
        return
    tensors = [each.tensor[1:] for each in reads]
    title = f"a block reads the same elements of {listed([f'`{each}`' for each in tensors])} again"
    static = (
        Evidence(
            "static", f"{each.elements:,} elements, which it has read before"
            f"{f' in line {first.line}' if (first := case.line(each.first.line)) else ''};"
            " nothing writes them",
        )
        for each in reads
    )  # fmt: skip
    place = case.place(case.line(reads[0].op.line), f"load {tensors[0]}")
    cause = Cause(title, place, (*static,), _KEEP, _COMPILER)
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
    seen = sampled(code, taken, "are at these loads, or wait for them")
    if code.share(taken) < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
        return
    yield cause.costs(eliminated(taken, code.whole, sure=REDUNDANT_SURE), seen)


def _is_merged(case: KernelCase, tensor: str, lines: Collection[int]) -> bool:
    """Return whether the compiler loads a tensor's elements of these lines with earlier ones; what
    loads the machine code has there are of other tensors then."""
    return any(
        remark.location is not None and remark.location.line in lines and remark.name == tensor
        for remark, _ in case.decided(LoadedBefore, "load")
    )


def _taken(code: KernelCode, again: Again, where: list[int]) -> Weights:
    loads = [index for index in where if code.instructions[index].name in _LOADS]
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(loads))
    if again.op.name in COPIES and not set(where) & set(code.named(*AHEAD)):
        loops = {loop for index in loads if (loop := loop_around(code, index)) is not None}
        for loop in loops:
            taken = np.maximum(taken, lost(code, loop, where))
    return taken


def _told(again: Again) -> str:
    names = " and ".join(f"`{name[1:]}`" for name in again.buffers)
    if again.how == "twice":
        return f"{names} has what it is given already"
    if again.how == "unread":
        return f"all of {names} is written again, and not read between"
    if again.how == "overwritten":
        return f"{names} is written {again.turns:.0f} times at the same place, and not read between"
    return f"{names} is given the same {again.turns:.0f} times: it depends on nothing that changes"


def _named(again: Again) -> str:
    op = again.op
    if op.name in COPIES:
        return f"copy → {op.operands[1][1:]}"
    return f"loop {op.arguments[0][1:]}" if op.name == "for" and op.arguments else ""


RULE = KernelRule("redundant-work", find)
TRAFFIC = KernelRule("redundant-traffic", find_copies)
"""About copies from and to tensors alone, and tiles of products that are read too often."""
