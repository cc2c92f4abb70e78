"""Requests of a launch as its machine code makes them, in place of those that layouts foretell.

In: the traffic that layouts give, the compiled kernel, the arguments of the call and what the
interpreter made of them.  Out: traffic.

What the assembler joins, repeats, moves or leaves out no layout says.  So the machine code runs on
the processor: where it comes to its end and leaves in all tensors what the interpreter leaves, it
asked for what a GPU asks for.  Not so for kernels with copies by TMA or with matrix instructions,
which that run leaves out, for long launches, and where NVRTC or nvdisasm is not installed: their
numbers are those of the layouts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tileprof import binary
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.errors import TileprofError

from .machine_code.memory import COPIES, OPCODES, Key, MisalignedError
from .machine_code.running import Ran, ran
from .machine_code.threads import LEFT_OUT, EndlessError
from .moved import Moved, Place, Traffic

MOST_WORK = 100_000_000
"""Instructions of threads that run for a page: some seconds."""
_KINDS = frozenset(OPCODES.values())
_CLOSE = 0.02
"""Relative difference of results by approximate functions, as the interpreter has them, and as
machine code rounds them."""


def settled(
    found: list[Traffic],
    program: CudaProgram,
    values: Sequence[Any],
    symbols: Sequence[int],
    results: Sequence[Any],
) -> list[Traffic]:
    """Return the traffic of the launches of a call, by machine code where that can be trusted.

    `values` are the arguments before the call, `results` after it in the interpreter.
    """
    try:
        codes = {each.name: each for each in binary.read(program.cubin.bytes).kernels}
    except TileprofError:
        return found
    names = {op.name for each in codes.values() for op in each.instructions}
    if names & (LEFT_OUT | COPIES):
        return found
    runs: list[Ran] = []
    held, left = values, MOST_WORK
    files = [op.span.file if op.span else "" for op in program.kernel.launches()]
    for at, spec in enumerate(program.source.launches):
        try:
            run = ran(program, held, symbols, files[at], at, codes[spec.function], left)
        except (EndlessError, MisalignedError):
            return found
        if run.unknown:
            return found
        runs.append(run)
        held, left = run.results, run.left
    if len(runs) != len(found) or not all(map(_alike, held, results)):
        return found
    return [_replaced(traffic, run, file) for traffic, run, file in zip(found, runs, files)]


def _alike(one: Any, other: Any) -> bool:
    """Return whether two runs left the same in a tensor; True for other arguments."""
    if not isinstance(one, np.ndarray):
        return True
    if one.dtype.kind in "iub":
        return bool(np.array_equal(one, other))
    with np.errstate(invalid="ignore"):
        a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool(np.allclose(a, b, _CLOSE, _CLOSE * scale, equal_nan=True))


def _replaced(traffic: Traffic, run: Ran, file: str) -> Traffic:
    """Return traffic with the numbers of a run of code of a file.  Where these are equal in sum,
    requests stay at the lines of the program to which they belong: the assembler's table has other
    ones for some."""
    made = Traffic(uncounted=dict(traffic.uncounted), by_machine_code=True)
    groups: dict[tuple[Key, str], dict[Place, Moved]] = defaultdict(dict)
    for place, moved in traffic.places.items():
        kind = place.space, place.access, place.way
        if kind in _KINDS:
            groups[kind, place.buffer if place.space == "global" else ""][place] = moved
        else:
            made.places[place] = moved
    lines: dict[tuple[Key, str], dict[int, Moved]] = defaultdict(dict)
    for asked, moved in run.counted.items():
        name = run.tensors[asked.region] if asked.region >= 0 else ""
        lines[asked.kind, name][asked.line] = moved
    for group in {**groups, **lines}:
        places, by_line = groups.get(group, {}), lines.get(group, {})
        if _same(_sum(places.values()), _sum(by_line.values()), group[0]):
            made.places.update(places)
        else:
            made.places.update(_at_lines(group, file, places, by_line))
    return made


def _sum(every: Iterable[Moved]) -> Moved:
    made = Moved()
    for each in every:
        made.add(each)
    return made


def _same(one: Moved, other: Moved, kind: Key) -> bool:
    alike = (one.requests, one.taken, one.needed) == (other.requests, other.taken, other.needed)
    return alike and (kind[0] == "shared" or one.bytes == other.bytes)


def _at_lines(
    group: tuple[Key, str], file: str, places: dict[Place, Moved], by_line: dict[int, Moved]
) -> dict[Place, Moved]:
    """Return the numbers of a run at its lines.  The buffer of a line in shared memory is the one
    that the layouts have there, and where they have several or none, one that they have."""
    (space, access, way), name = group
    buffers = {place.line: place.buffer for place in places}
    other = name or next(iter(buffers.values()), "shared memory")
    return {
        Place(file, line, access, name or buffers.get(line, other), space, way): moved
        for line, moved in by_line.items()
    }
