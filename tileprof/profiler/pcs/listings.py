"""The code of functions with samples or counts: SASS, lines, loops, what stalled instructions wait
for.

In: samples, and the cubins of their modules.  Out: the same samples with the code of the functions
that have the most of them, and with the cubins that there is room for.  Only these functions are
disassembled, several at a time; what cannot be shown has a note that says why.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tileprof.errors import Location, TileprofError
from tileprof.profile import PcBlame, PcFunction, PcInstruction, PcSamples

if TYPE_CHECKING:
    from tileprof.binary import Chain, Function, Instruction, Wait

BYTES = 16
"""Size of an instruction, in bytes."""
MOST_INSTRUCTIONS = 100_000
LARGEST_CUBIN = 8 << 20
MOST_CUBIN_BYTES = 64 << 20
NO_CUBIN = "its cubin is not known"
NO_SUCH_FUNCTION = "its cubin holds no function of that name"
BLAME_SHARE = 0.01
"""Share of a function's samples, 0 to 1, from which an instruction's waits are listed."""
STALL_SHARE = 0.1
"""Share of an instruction's samples, 0 to 1, from which one of its stall reasons is explained."""
MOST_PRODUCERS = 4
NO_ROOM = f"others with more samples have {MOST_INSTRUCTIONS:,} instructions"
_TOOLKIT = re.compile(r"/(cuda[-\d.]*|targets|nvidia)/(.*/)?include/")
"""Folders of CUDA's own headers."""

_Counts = npt.NDArray[np.int64]


def with_code(
    held: PcSamples, cubins: Mapping[str, bytes], readable: Callable[[str], str]
) -> PcSamples:
    """Return the samples with the code of their functions, as far as it is known."""
    functions = list(held.functions)
    found: dict[int, Function] = {}
    crowded: dict[int, Function] = {}
    left = MOST_INSTRUCTIONS
    for place in held.hottest:
        known = _find(functions[place], cubins)
        if isinstance(known, str):
            functions[place] = replace(functions[place], note=known)
            continue
        functions[place] = replace(functions[place], architecture=known.cubin.architecture)
        size = known.resources.code_bytes // BYTES
        (found if size <= left else crowded)[place] = known
        left -= size if size <= left else 0
    _disassemble(found.values())
    places = _Places(readable)
    for place, known in found.items():
        functions[place] = _listed(held, place, functions[place], known, places)
    for place, known in crowded.items():
        functions[place] = _lines_only(held, place, functions[place], known, places, NO_ROOM)
    return replace(held, functions=tuple(functions), cubins=_kept(held, cubins))


def files_of(held: PcSamples) -> list[str]:
    """Return the files of the program that code comes from, the hottest functions' first.

    What Python's lines were made into, and the toolkit's headers, are not the program's.
    """
    files: dict[str, None] = {}
    for place in held.hottest:
        for line in dict.fromkeys(each.place for each in held.functions[place].code):
            chain = [each.file for each in line.chain()] if line is not None else []
            python = [file for file in chain if file.endswith(".py")]
            files |= dict.fromkeys(python or [f for f in chain if not _TOOLKIT.search(f)])
    return list(files)


def _find(function: PcFunction, cubins: Mapping[str, bytes]) -> Function | str:
    """Return the function in its cubin, or why there is none."""
    from tileprof import binary

    if function.module not in cubins:
        return NO_CUBIN
    try:
        found = binary.read(cubins[function.module]).functions.get(function.name)
    except TileprofError as error:
        return error.message
    return NO_SUCH_FUNCTION if found is None else found


def _disassemble(functions: Iterable[Function]) -> None:
    """Have instructions read by several processes; a cubin that is small is read as a whole."""
    firsts: dict[int, Function] = {}
    others = []
    for each in functions:
        if firsts.setdefault(id(each.cubin), each) is not each:
            others.append(each)

    def read(each: Function) -> None:
        with suppress(TileprofError):  # said where they are asked for
            _ = each.instructions

    try:
        with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as pool:
            list(pool.map(read, firsts.values()))
            list(pool.map(read, others))
    except RuntimeError:
        # A recording that ends with the interpreter: it starts no threads any more.
        for each in (*firsts.values(), *others):
            read(each)


class _Places:
    """Source lines as a profile has them, each chain of them made once."""

    def __init__(self, readable: Callable[[str], str]) -> None:
        self._readable = readable
        self._made: dict[Chain, Location | None] = {}

    def at(self, known: Function, offset: int) -> Location | None:
        """Return the innermost line of an instruction, None where there is none."""
        chain = known.chain(offset)
        if chain not in self._made:
            found = None
            for line in reversed(chain):
                function = self._readable(line.function)
                found = Location(line.file, line.line, function=function, caller=found)
            self._made[chain] = found
        return self._made[chain]


def _rows_of(held: PcSamples, place: int) -> slice:
    """Return the rows of a function in `by_instruction`."""
    begin, end = np.searchsorted(held.by_instruction.function, [place, place + 1]).tolist()
    return slice(begin, end)


def _seen(held: PcSamples, place: int) -> _Counts:
    """Offsets in a function that have samples or counts."""
    sampled = held.by_instruction.offset[_rows_of(held, place)]
    seen: _Counts = np.append(sampled, held.counts.offset[held.counts.rows_of(place)])
    return seen


def _listed(
    held: PcSamples, place: int, function: PcFunction, known: Function, places: _Places
) -> PcFunction:
    rows = _rows_of(held, place)
    try:
        code = tuple(_code(known, _seen(held, place), places))
        blames = tuple(_blames(held, rows, known))
    except TileprofError as error:
        return _lines_only(held, place, function, known, places, error.message)
    return replace(function, code=code, blames=blames, note="")


def _code(known: Function, sampled: _Counts, places: _Places) -> Iterator[PcInstruction]:
    """Yield the instructions up to the last one that can be reached or was seen."""
    reachable = [block.end for block in known.blocks if block.is_reachable]
    end = max([*reachable, int(sampled.max(initial=-1)) + 1])
    for each in known.instructions:
        if each.offset >= end:
            return
        place, depth = places.at(known, each.offset), known.depth(each.offset)
        yield PcInstruction(each.offset, each.text, place, depth)


def _lines_only(
    held: PcSamples,
    place: int,
    function: PcFunction,
    known: Function,
    places: _Places,
    note: str,
) -> PcFunction:
    """Return what the line table alone says about the sampled instructions."""
    end = known.resources.code_bytes
    offsets = np.unique(_seen(held, place)).tolist()
    inside = (offset for offset in offsets if offset < end and offset % BYTES == 0)
    try:
        code = tuple(PcInstruction(offset, "", places.at(known, offset)) for offset in inside)
    except TileprofError as error:
        return replace(function, note=error.message)
    return replace(function, code=code, note=note)


def _kept(held: PcSamples, cubins: Mapping[str, bytes]) -> dict[str, bytes]:
    """Cubins that are small enough, those of the functions with the most samples first."""
    kept: dict[str, bytes] = {}
    left = MOST_CUBIN_BYTES
    for place in held.hottest:
        module = held.functions[place].module
        data = cubins.get(module)
        if data is not None and module not in kept and len(data) <= min(left, LARGEST_CUBIN):
            kept[module] = zlib.compress(data, 1)
            left -= len(data)
    return kept


# -- blame


def _blames(held: PcSamples, rows: slice, known: Function) -> Iterator[PcBlame]:
    """Yield what instructions with many samples wait for, by stall reason."""
    from tileprof.binary import waits

    offsets, stalls = (getattr(held.by_instruction, name)[rows] for name in ("offset", "stall"))
    counts = np.where(held.is_counted[stalls], held.by_instruction.samples[rows], 0)
    places, at = np.unique(offsets, return_inverse=True)
    wholes = np.zeros(len(places), np.int64)
    np.add.at(wholes, at, counts)
    floor, code = BLAME_SHARE * int(counts.sum()), len(known.instructions) * BYTES
    for place in np.flatnonzero(wholes > floor).tolist():
        offset = int(places[place])
        if offset % BYTES or offset >= code:
            continue
        found = waits(known, offset)
        here = np.flatnonzero((at == place) & (counts >= STALL_SHARE * wholes[place]))
        for row in here[np.argsort(-counts[here], kind="stable")].tolist():
            name = held.stalls[int(stalls[row])]
            for each in explaining(name, found, known)[:MOST_PRODUCERS]:
                yield PcBlame(offset, name, each.producer, each.through)


_OF_ITSELF = frozenset(
    ("selected", "not_selected", "dispatch_stall", "no_instruction", "no_instructions", "drain",
     "imc_miss", "math_pipe_throttle", "mio_throttle", "lg_throttle", "tex_throttle", "misc")
)  # fmt: skip
"""Reasons that no other instruction is to blame for. Devices may name others."""

_BLOCKED = {"barrier": "BAR", "membar": "MEMBAR", "sleeping": "NANOSLEEP"}
"""Stall reasons of what comes soon after an instruction that blocks: docs/stalls.md."""


def explaining(stall: str, found: Iterable[Wait], known: Function) -> list[Wait]:
    """Return those waits that a stall reason can mean, nearest first."""
    if stall in _OF_ITSELF:
        return []
    if stall == "wait":
        return [each for each in found if each.kind == "latency"]
    blocked = [
        each
        for each in found
        if each.kind == "blocking" and known.instruction(each.producer).name == _BLOCKED.get(stall)
    ]
    if blocked:
        return blocked
    groups = [each for each in found if each.kind in ("wgmma", "copies", "mbarrier")]
    if not stall.endswith("scoreboard"):
        return groups
    boards = [each for each in found if each.kind in ("scoreboard", "operands")]
    fitting = [
        each
        for each in boards
        if each.kind == "scoreboard"
        and _fits(known.instruction(each.producer), stall.startswith("long"))
    ]
    return [*(fitting or boards), *groups]


def _fits(producer: Instruction, is_long_stall: bool) -> bool:
    """Return whether a scoreboard of that kind can be for a result; an mbarrier's answer is a long
    one."""
    from tileprof.binary import is_long

    return (producer.name == "SYNCS" or is_long(producer)) == is_long_stall
