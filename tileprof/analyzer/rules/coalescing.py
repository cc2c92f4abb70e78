"""Global-memory accesses with distant addresses in a warp, so that a request takes more sectors
than its bytes need.

Static: what the compiler counted from the layout ("8 sectors a request, 4 needed"), else what the
addresses of lanes in the code come to. Dynamic: sectors and requests by instruction, else by
launch; samples that wait for such loads, or for room in the queue at such accesses and behind them;
how much of what memory gives is used.

A request of w times the sectors it needs becomes one that needs them: (1 - 1 / w) of what it took
goes (`scattered`). Of time in the queue that is all of it, and of what else stands in it the part
that such requests have of its passes; of waiting for an answer only as much as traffic is what made
it long, so it is multiplied by the use of the memory (nearest of DRAM and L2) as it was counted:
bytes that a program asks for leave out the sectors for nothing. Where that was not counted, nothing
of the waiting is sure. At most all of it goes: sectors that leave a cache before all of them is
used come again. Where nothing was counted, but the bytes are known that have to move, all of it
goes. Without samples it is the wasted part of the traffic past L1 times that use.

Lanes whose gaps their thread's next bytes fill are not meant: `narrow-access` tells of them. Nor
are tiles of products that are stored from registers: `epilogue-drain` tells of those. Nor loads of
half a sector beside those of its other half, nor elements that each lane takes by a number of its
own: the data tell which sectors these need, as those of a search by halving, or of rows whose
elements move to where a sum says. Nor loads of an element beside its neighbours in the row, whose
sectors are those of the other loads, from L1. Nor copies of tiles whose rows are shorter than a
sector: each row takes one, whichever lane takes it.

Long scoreboards by themselves say nothing of a cause: on an H200 a chain of dependent loads has
as many (96 %) as lanes in sectors of their own (99 %), and so have barriers in shared memory and
copies by cp.async. So only what is traced to a load counts, and where neither layout nor sectors
nor addresses are known it is a symptom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel.global_memory import (
    ACCESSES,
    LOADS,
    Request,
    Requests,
    Told,
    requests,
    told,
    told_at,
    worked_out,
)
from tileprof.analyzer.kernel.memory_use import counted_use, memory_use
from tileprof.analyzer.kernel.scattered import ANSWER, Scattered, by_samples, by_traffic, rate_of
from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.numbers.shared import COOL, SECTOR
from tileprof.analyzer.rules.numbers.memory import (
    COALESCING_LANES_OF_A_ROW,
    COALESCING_MUCH,
    COALESCING_WASTEFUL,
)
from tileprof.analyzer.tiles.gathers import lines_by_number, placed_by_data, widened_lines
from tileprof.analyzer.tiles.neighbours import loaded_with_neighbours
from tileprof.analyzer.tiles.round_trips import spreads
from tileprof.binary.occupancy import WARP
from tileprof.kernel_ir import COPIES

_ADDRESS = re.compile(r"\[(R\d+)(?:\.64|\.U32)*(?:\+(-?0x[0-9a-f]+))?\]")
"""Registers and offset of an address in machine code."""
_AUTHOR = (
    "Let neighbouring threads take neighbouring addresses: the last index of the tensor should"
    " follow the last loop variable. If the other order is needed, store the tensor transposed, or"
    " bring the tile to shared memory with `T.copy` and index it there."
)
_COMPILER = (
    "The layout of this loop serves another of its accesses: see which, and whether an exchange"
    " through shared memory costs less than the sectors."
)
_COUNT = (
    "See whether its requests take more sectors than they need: `tileprof run --metrics"
    " instructions SCRIPT`. If so, let neighbouring threads take neighbouring addresses; if not,"
    " have more loads in flight: start them earlier (`T.Pipelined`, cp.async, unrolled loops), or"
    " have more warps."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Scattered accesses whose places are not counted in 64 bits."""
    wide = widened_lines(case.tiles)
    yield from (each for each in accesses(case) if each.line not in wide)


def accesses(case: KernelCase) -> Iterator[Draft]:
    """Scattered accesses; else waits for memory of which nothing more is known."""
    code, said = case.code, told(case)
    counted = list(requests(code, code.named(*ACCESSES))) if code else []
    wasteful = [each for each in said if each.ways >= COALESCING_WASTEFUL and _is_meant(case, each)]
    wasteful.sort(key=lambda each: -each.ways)
    rate = rate_of(case)
    if counted:
        yield from _by_counts(case, counted, wasteful)
    elif wasteful:
        yield from _by_layout(case, wasteful, rate)
    elif rate >= COALESCING_WASTEFUL:
        yield from _by_rate(case, rate)
    elif not said and not rate:
        yield from _by_addresses(case)


def _is_meant(case: KernelCase, said: Told) -> bool:
    """Neither an atomic, nor a tile of products that is stored as its lanes hold it, nor elements
    whose sectors only data tell, other loads have, or the tile takes anyway; nor rows that a tile
    of equal numbers chooses, of which `redundant-work` tells."""
    if said.remark.op == "load" and said.access.sectors >= WARP and _is_gathered(case, said):
        return False
    chosen = frozenset[tuple[str, str, int]]().union(*(e.places for e in spreads(case.tiles)))
    if said.key in chosen | placed_by_data(case.tiles):
        return False
    if said.remark.op == "load" and (_is_with_neighbours(case, said) or _is_row_each(case, said)):
        return False
    products = bool(case.code and case.code.named(*PRODUCTS))
    row = COALESCING_LANES_OF_A_ROW * said.access.width
    tile = products and said.remark.op == "store" and said.ways * row <= SECTOR
    return said.remark.op != "atomic" and not tile


def _is_gathered(case: KernelCase, said: Told) -> bool:
    return said.line in lines_by_number(case.tiles)


def _is_with_neighbours(case: KernelCase, said: Told) -> bool:
    """Whether other loads of its row have its sectors, but for one at an end of the warp's."""
    name = said.remark.name
    if name not in loaded_with_neighbours(case.tiles):
        return False
    beside = (e.access for e in told(case) if (e.remark.op, e.remark.name) == ("load", name))
    dense = max((each.sectors for each in beside if each.sectors == each.needed), default=0)
    return said.access.sectors <= dense + 1


def _is_row_each(case: KernelCase, said: Told) -> bool:
    """Whether it copies a tile whose rows are shorter than a sector, so that each takes one."""
    name = f"%{said.remark.name}"
    views = {op.result: op for op in case.tiles.named("view") if op.source == name}
    for copy in case.tiles.named(*COPIES):
        sizes = views[copy.source].numbers("sizes") if copy.source in views else ()
        if copy.line == said.line and sizes:
            row = sizes[-1] * case.tiles.types[name].bits / 8
            return row < SECTOR and said.access.sectors * row <= WARP * said.access.width
    return False


def _by_counts(case: KernelCase, all_: list[Requests], said: list[Told]) -> Iterator[Draft]:
    found = sorted(
        (each for each in all_ if each.ways >= COALESCING_WASTEFUL), key=lambda each: -each.wasted
    )
    code = case.code
    if code is None or not found:
        return
    first = found[0]
    text = (
        f"{first.sectors / first.count:.1f} sectors per request of {first.instruction.opcode},"
        f" {first.ideal:.0f} needed"
    )
    wasted = sum(each.wasted for each in found) / sum(each.sectors for each in all_)
    scattered = [Scattered(each.instruction.index, each.ways) for each in found]
    index = first.instruction.index
    static = [each for each in said if index in told_at(case, code, each)][:1]
    evidence = [*map(_static, static), Evidence("counters", text)]
    yield from _drafts(case, code, scattered, evidence, wasted, _place(case, code, scattered))


def _by_layout(case: KernelCase, said: list[Told], rate: float) -> Iterator[Draft]:
    """Remarks, with what counters of launches say of them, if they do."""
    code, evidence = case.code, [_static(said[0])]
    if rate:
        evidence.append(_rate_text(rate))
    scattered = list[Scattered]()
    if code is not None:
        at = [(each, told_at(case, code, each)) for each in reversed(said)]
        ways = {i: each.ways for each, found in at for i in _not_shared(code, found, each.ways)}
        ways = {index: many for index, many in ways.items() if not _is_filled(case, index)}
        if not ways and any(found for _, found in at):
            return
        scattered = [Scattered(index, many) for index, many in ways.items()]
    wasted = 1 - 1 / rate if rate >= COALESCING_WASTEFUL else 0.0
    place = case.place(said[0].location, said[0].op)
    yield from _drafts(case, code, scattered, evidence, wasted, place)


def _is_apart(request: Request) -> bool:
    """Whether lanes take needless sectors, whose gaps their thread's next bytes do not fill."""
    return min(request.ways, request.widened) >= COALESCING_WASTEFUL


def _is_filled(case: KernelCase, index: int) -> bool:
    """Whether another access of its thread takes what lies between it and the next lane's."""
    request = worked_out(case).get(index)
    if request is None or _is_apart(request) or request.stride <= 0:
        return False
    return any(
        other.instruction.name == request.instruction.name
        and other.stride == request.stride
        and 0 < abs(other.first - request.first) < request.stride
        for other in worked_out(case).values()
    )


def _not_shared(code: KernelCode, where: list[int], ways: float) -> list[int]:
    """Of loads of half a sector those whose other half no load beside them takes, through L1."""
    at = {index: _ADDRESS.search(code.instructions[index].text) for index in where}
    known = {(found[1], int(found[2] or "0", 16)) for found in at.values() if found}
    half = SECTOR // 2

    def is_shared(index: int) -> bool:
        found = at[index]
        if ways > 2 or found is None or code.instructions[index].name not in LOADS:
            return False
        offset = int(found[2] or "0", 16)
        return not known.isdisjoint({(found[1], offset - half), (found[1], offset + half)})

    return [index for index in where if not is_shared(index)]


def _by_addresses(case: KernelCase) -> Iterator[Draft]:
    """Lanes that the code shows to be apart; else what waits for loads of unknown addresses."""
    code = case.code
    known = [each for each in worked_out(case).values() if each.instruction.name in ACCESSES]
    apart = [each for each in known if _is_apart(each)]
    if code is None or not apart:
        yield from _symptom(case)
        return
    first = max(apart, key=lambda each: (code.n([each.instruction.index]), each.ways))
    at, index = first.instruction, first.instruction.index
    text = (
        f"{at.opcode}: {first.sectors} sectors per request, {first.needed} needed, by the addresses"
        " of its lanes"
    )
    scattered = [Scattered(each.instruction.index, each.ways) for each in apart]
    place = _place(case, code, [Scattered(index, first.ways)])
    yield from _drafts(case, code, scattered, [Evidence("static", text)], 0.0, place)


def _by_rate(case: KernelCase, rate: float) -> Iterator[Draft]:
    yield from _drafts(case, None, [], [_rate_text(rate)], 1 - 1 / rate, case.place())


def _drafts(
    case: KernelCase, code: KernelCode | None, scattered: list[Scattered],
    evidence: list[Evidence], wasted: float, place: Place,
) -> Iterator[Draft]:  # fmt: skip
    """What such accesses cost by samples, else by traffic; a warning where neither was seen."""
    use = counted_use(case)
    title = "lanes of a warp access distant addresses of global memory"
    if use:
        evidence.append(Evidence("activities", use.text))
    if code is not None and code.whole and scattered:
        saving = by_samples(case, code, scattered, use.share if use else None)
        text = f"{percent(saving.mid)} of the samples wait for sectors that are not needed"
        evidence.append(Evidence("samples", text, saving.samples))
    elif use and wasted:
        saving = by_traffic(case, wasted, min(use.share, 1.0))
    else:
        yield Cause(title, place, tuple(evidence), _AUTHOR, _COMPILER).warning()
        return
    asked = None if use else memory_use(case)
    near = asked is not None and asked.near
    if asked and near:
        evidence.append(Evidence("activities", asked.text))
    cause = Cause(title, place, tuple(evidence), _AUTHOR, _COMPILER)
    if saving.mid < COOL or near:
        why = "memory bandwidth is the limit" if near else "these accesses take no time"
        yield cause.ignored(", where it costs nothing", f"Leave it: {why}.")
        return
    yield cause.costs(saving, confidence="high" if use and scattered and wasted else "medium")


def _symptom(case: KernelCase) -> Iterator[Draft]:
    code, use = case.sampled, memory_use(case)
    loads = code.named(*LOADS) if code else []
    if code is None or not loads or (use and use.near):
        return
    waiting = code.waiting_for(loads, ANSWER)
    if code.share(waiting) < COALESCING_MUCH:
        return
    slow = max(loads, key=lambda index: float(code.waiting_for([index], ANSWER).sum()))
    if slow in worked_out(case):
        return  # its lanes are not apart
    evidence = [sampled(code, waiting, "do")]
    if use:
        evidence.append(Evidence("activities", use.text))
    place = _place(case, code, [Scattered(slow, 1.0)])
    yield Cause("waits for global memory", place, tuple(evidence), _COUNT).symptom()


def _static(said: Told) -> Evidence:
    return Evidence("static", f"{said.op}: {said.access}, by the layout", remark=said.remark)


def _rate_text(rate: float) -> Evidence:
    return Evidence("counters", f"{rate:.1f} sectors for each that its widest access needs")


def _place(case: KernelCase, code: KernelCode, scattered: list[Scattered]) -> Place:
    at = code.instructions[scattered[0].index]
    return case.at(at)


RULE = KernelRule("uncoalesced-global", find, ("samples", "counters"))
