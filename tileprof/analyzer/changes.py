"""Why a kernel takes longer, or less, than before: the first level at which two profiles differ.

In: two profiles.  Out: for each kernel of both whose time a launch changed by more than its noise,
the first of these that is not the same: its program (IR), its launch, the code that was made of it,
the machine code, its registers and memory, the device and its clocks. What lies below the first
difference follows from it; so the first one says who did it: the author, the lowering, ptxas, the
machine.

The noise of a mean is the standard error of its launches, with a standard deviation of IQR / 1.35,
as for normal times; quartiles are known to 1.6 %, so they are taken to be that far apart at least.
From one process to the next more changes than that, so changes below 2 % are told in no case.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.machine.code import opcode_of
from tileprof.analyzer.numbers.reports import (
    CHANGES_LEAST,
    CHANGES_QUARTILES,
    CHANGES_RESOLUTION,
    CHANGES_SIGMAS,
    CHANGES_TOLD_OPS,
)
from tileprof.analyzer.tiles.program_changes import OpChange, program_changes
from tileprof.profile import Profile

_RESOURCES = (
    "registers",
    "local_bytes",
    "dynamic_shared_bytes",
    "static_shared_bytes",
    "occupancy",
)
_LINE_DIRECTIVE = re.compile(r"^#line .*$", re.MULTILINE)
_LAUNCH = ("grid", "block")
_PROGRAM = "the program (IR)"
_Difference = Callable[[KernelCase, KernelCase], str]


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kernel whose time changed."""

    kernel: str
    old: float
    """Mean time of a launch, ns."""
    new: float
    noise: float
    """Of the ratio of the two, one standard error."""
    level: str
    """The first that differs, or `nothing`."""
    text: str
    """What differs there."""
    ops: tuple[OpChange, ...] = ()
    """Ops that changed, in the order of the new program, where the level is the program and both
    profiles have it as records; `text` renders the first of them."""

    @property
    def ratio(self) -> float:
        """New by old."""
        return self.new / self.old


def explain(old: Profile, new: Profile) -> tuple[KernelChange, ...]:
    """The kernels of both whose time changed, the greatest change of the program first."""
    before = {case.name: case for case in Program(old).kernels}
    pairs = [(before[case.name], case) for case in Program(new).kernels if case.name in before]
    found = [(change, abs(b.time - a.time)) for a, b in pairs if (change := _change(a, b))]
    return tuple(change for change, _ in sorted(found, key=lambda item: -item[1]))


def _change(old: KernelCase, new: KernelCase) -> KernelChange | None:
    if not (old.time and new.time and old.launches and new.launches):
        return None
    (before, first), (after, second) = _launch(old), _launch(new)
    noise = math.hypot(first, second)
    if abs(math.log(after / before)) < max(CHANGES_LEAST, CHANGES_SIGMAS * noise):
        return None
    level, text = next(_differences(old, new))
    ops = _op_changes(old, new) if level == _PROGRAM else ()
    return KernelChange(new.name, before, after, noise, level, text, ops)


def _launch(case: KernelCase) -> tuple[float, float]:
    """Time of a launch, and its standard error as a share of it."""
    mean = case.time / case.launches
    held = case.program.profile.sketches("time").get(case.nodes[0])
    if held is None or held.count < 2:
        return mean, 0.0
    quarter, three_quarters = (held.quantile(each) for each in (0.25, 0.75))
    apart = max(three_quarters - quarter, CHANGES_RESOLUTION * mean)
    return mean, apart / CHANGES_QUARTILES / math.sqrt(held.count) / mean


def _differences(old: KernelCase, new: KernelCase) -> Iterator[tuple[str, str]]:
    """Levels that differ with what differs there, and `nothing` at last."""
    for level, difference in _LEVELS.items():
        if text := difference(old, new):
            yield level, text
    yield (
        "nothing",
        "nothing that was recorded differs: what else the machine did, or which data there were",
    )


def _op_changes(old: KernelCase, new: KernelCase) -> tuple[OpChange, ...]:
    """Return the ops that changed; nothing where a side has no records of its program."""
    known = old.tiles.body.ops and new.tiles.body.ops
    return program_changes(old.tiles, new.tiles) if known else ()


def _program(old: KernelCase, new: KernelCase) -> str:
    """The first ops that changed; a line of text only where a side has no records."""
    if not (old.tiles.body.ops and new.tiles.body.ops):
        return _first_line(old.ir, new.ir)
    found = _op_changes(old, new)
    more = len(found) - CHANGES_TOLD_OPS
    told = "; ".join(map(str, found[:CHANGES_TOLD_OPS]))
    return f"{told}; changes of other ops: {more}" if more > 0 else told


def _code(old: KernelCase, new: KernelCase) -> str:
    # A directive says where code came from: it stays as an empty line, so that lines keep numbers.
    return _first_line(*(_LINE_DIRECTIVE.sub("", case.cuda) for case in (old, new)))


def _first_line(old: str, new: str) -> str:
    """The first line that is not the same; nothing where a side is not known."""
    if not old or not new or old == new:
        return ""
    before, after = old.splitlines(), new.splitlines()
    at = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), -1)
    if at < 0:
        return f"{len(before)} lines became {len(after)}"
    return f"line {at + 1}: `{before[at].strip()}` became `{after[at].strip()}`"


def _launches(old: KernelCase, new: KernelCase) -> str:
    return _attributes(old, new, _LAUNCH)


def _resources(old: KernelCase, new: KernelCase) -> str:
    return _attributes(old, new, _RESOURCES)


def _attributes(old: KernelCase, new: KernelCase, names: tuple[str, ...]) -> str:
    pairs = [(name, old.attributes.get(name), new.attributes.get(name)) for name in names]
    return ", ".join(
        f"{name.replace('_', ' ')} {before} → {after}"
        for name, before, after in pairs
        if before is not None and after is not None and before != after
    )


def _machine_code(old: KernelCase, new: KernelCase) -> str:
    before, after = (
        [each.text for each in case.code.function.code] if case.code else [] for case in (old, new)
    )
    if not before or not after or before == after:
        return ""
    mixes = [Counter(map(opcode_of, texts)) for texts in (before, after)]
    moved = {name: mixes[1][name] - mixes[0][name] for name in mixes[0] | mixes[1]}
    most = sorted((name for name in moved if moved[name]), key=lambda name: -abs(moved[name]))[:3]
    told = ", ".join(f"{name} {mixes[0][name]} → {mixes[1][name]}" for name in most)
    return f"{len(before)} → {len(after)} instructions; {told or 'the same ones in another order'}"


def _device(old: KernelCase, new: KernelCase) -> str:
    names = dict.fromkeys((old.device, "torch", "triton", "cupti", "tileprof"))
    facts = [case.program.profile.tables.provenance for case in (old, new)]
    return "; ".join(
        f"{name}: {facts[0][name]} → {facts[1][name]}"
        for name in names
        if all(name in each for each in facts) and facts[0][name] != facts[1][name]
    )


_LEVELS: dict[str, _Difference] = {
    _PROGRAM: _program,
    "the launch": _launches,
    "the code made of it": _code,
    "the machine code (SASS)": _machine_code,
    "registers and memory": _resources,
    "the device or its software": _device,
}
"""In the order in which one follows from the other."""
