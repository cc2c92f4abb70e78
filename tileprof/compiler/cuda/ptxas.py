"""Messages of ptxas about a kernel: resources of each function, and notes about lost speed.

In: the text that it writes with `-v -warn-spills -warn-lmem-usage`.  Out: `Resources`, `Note`s, and
remarks in the author's terms.  A note names a line of the PTX, whose `.loc` directives lead back to
the author's line (`locator`).  Notes are told apart by their words: their numbers differ between
versions of ptxas.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tileprof.errors import Location
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark
from tileprof.remarks.common import RegisterCandidate
from tileprof.remarks.ptxas import (
    AccumulatorRead,
    AccumulatorsTooLarge,
    AccumulatorWritten,
    AnotherUnit,
    Debugger,
    DivergentPath,
    FastForm,
    FunctionBoundary,
    IllFormed,
    IndexedArray,
    InputWritten,
    InRegisters,
    LaterWait,
    LocalMemory,
    MoreRegisters,
    MovedWait,
    NotInlined,
    OverlappingProducts,
    PtxasReason,
    PtxasSaid,
    RoleRegisters,
    SameRegisters,
    Serialized,
    SlowerCode,
    Spilled,
    ThreadRegisters,
    ThreadsOpen,
    UsedTooEarly,
)

NoteKind = Literal["serialized", "wait", "setmaxnreg", "spill", "local", "advice"]
Locate = Callable[[str, int], Location | None]
"""The author's line for a function and a line of its PTX; for line 0, where the function begins."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one function, in registers a thread and bytes."""

    function: str
    registers: int = 0
    """At its start; `setmaxnreg` may change it later."""
    barriers: int = 0
    """Named barriers: one more than the highest number used."""
    shared: int = 0
    """Static; dynamic shared memory comes with the launch."""
    constant: int = 0
    """Bytes of banks that ptxas reports; newer versions leave out the parameters."""
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """One message about speed."""

    kind: NoteKind
    function: str
    """Empty where the message does not say."""
    line: int
    """Line of the PTX; 0 where the message does not say."""
    reason: str
    """Clause that follows "due to" or "ignored", for `serialized` and `setmaxnreg`."""
    code: str = ""
    """Number of the message: `C7510`."""
    numbers: tuple[int, ...] = ()
    """Bytes: of stores and loads for `spill`, of the stack frame for `local`."""


_LINE = re.compile(r"^ ?ptxas (?:info|warning|advisory) *: *(?:\((C\d+)\) *)?(.*)$", re.MULTILINE)
_MESSAGES: tuple[tuple[NoteKind, re.Pattern[str]], ...] = (
    ("serialized", re.compile(r"wgmma\.mma_async instructions are serialized due to (.*)")),
    ("wait", re.compile(r"(?:wgmma\.wait_group|warpgroup\.wait) is injected (.*)")),
    ("setmaxnreg", re.compile(r"'?setmaxnreg'? ignored[;,]? ?(.*)")),
    ("spill", re.compile(r"Registers are spilled to local memory (.*)")),
    ("local", re.compile(r"Local memory used (.*)")),
    # Whatever a later version has to say about speed is passed on in its own words.
    ("advice", re.compile(r"Potential Performance Loss: (.*)")),
)
_FUNCTION = re.compile(r",? ?(?:in|for)(?: the)? function '([^']*)',?")
_AT = re.compile(r" ?in (?:around )?line (\d+)")
_BYTES = re.compile(r"(\d+) bytes")


def read_notes(log: str) -> tuple[Note, ...]:
    """The notes about speed in a log, in its order."""
    functions = _FUNCTION_START.findall(log)
    only = functions[0] if len(functions) == 1 else ""
    found = (_note(code, text, only) for code, text in _LINE.findall(log))
    return tuple(note for note in found if note is not None)


def _note(code: str, text: str, only: str) -> Note | None:
    for kind, pattern in _MESSAGES:
        if match := pattern.search(text):
            function, line = _FUNCTION.search(text), _AT.search(text)
            reason = _AT.sub("", _FUNCTION.sub("", match[1]))
            return Note(
                kind,
                function[1] if function else only,
                int(line[1]) if line else 0,
                " ".join(reason.split()).strip(" .,"),
                code,
                tuple(int(n) for n in _BYTES.findall(text)),
            )
    return None


_FUNCTION_START = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)$", re.MULTILINE)
_AMOUNTS = tuple(
    re.compile(rf"{before}(\d+) {after}")
    for before, after in (("used ", "barriers"), ("", "bytes smem"), ("", "bytes cmem"))
)


def read_resources(log: str) -> dict[str, Resources]:
    """Return what each function of a log of `-v` takes, by name."""
    found: dict[str, Resources] = {}
    _, *parts = _FUNCTION_START.split(log)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        held = Resources(name)
        if frame := _FRAME.search(text):
            stack, stores, loads = (int(n) for n in frame.groups())
            held = replace(held, stack=stack, spill_stores=stores, spill_loads=loads)
        if used := _USED.search(text):
            amounts = [sum(map(int, each.findall(used[2]))) for each in _AMOUNTS]
            held = replace(held, registers=int(used[1]))
            held = replace(held, barriers=amounts[0], shared=amounts[1], constant=amounts[2])
        found[name] = held
    return found


_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) \d+(?:,.*\binlined_at (\d+) (\d+) \d+)?")
_ENTRY = re.compile(r"^\.visible \.entry (\w+)|^(?:\.visible )?\.func .*?(\w+)\(", re.MULTILINE)


def locator(ptx: str, generated: Callable[[str], bool] = lambda file: False) -> Locate:
    """Leads from lines of the PTX to the line of the author's file that they come from.

    For code inlined from a header it is the outermost call.  `generated` tells files that are not
    the author's; for their lines it is the author's line before them.
    """
    files = {number: name for number, name in _FILE.findall(ptx)}
    lines: list[int] = []
    places: list[Location] = []
    starts: dict[str, int] = {}
    for number, text in enumerate(ptx.splitlines(), 1):
        if entry := _ENTRY.match(text):
            starts[entry[1] or entry[2]] = number
        elif loc := _LOC.match(text):
            file, line = (loc[3], loc[4]) if loc[3] else (loc[1], loc[2])
            if not generated(files.get(file, "")):
                lines.append(number)
                places.append(Location(files[file], int(line)))

    def locate(function: str, line: int) -> Location | None:
        start = starts.get(function, 0)
        if not line:
            after = bisect.bisect_left(lines, start)
            return places[after] if start and after < len(lines) else None
        before = bisect.bisect_right(lines, line)
        return places[before - 1] if before and lines[before - 1] >= start else None

    return locate


def notes_to_remarks(notes: Sequence[Note], locate: Locate) -> list[Remark]:
    """Return what the notes mean for the author: each with a way out, at its line where it has one.

    Waits that ptxas moved are named once for a line.
    """
    spilled = {note.function for note in notes if note.kind == "spill"}
    found: dict[Remark, None] = {}
    for note in notes:
        # Spilling implies local memory: one remark is enough.
        if note.kind == "local" and note.function in spilled:
            continue
        found[_remark(note, locate(note.function, note.line))] = None
    return list(found)


def _remark(note: Note, location: Location | None) -> Remark:
    decision, wanted, reason = _meant(note)
    return Remark(decision, "ptxas", "", location, (Rejection(wanted, reason),), "missed")


def _meant(note: Note) -> tuple[Decision, Candidate, Reason]:
    """Return the decision, the candidate that was wanted, and the reason with a way out."""
    first, second = (*note.numbers, 0, 0)[:2]
    match note.kind:
        case "serialized":
            return Serialized(), OverlappingProducts(), _explained(note, _SERIALIZED)
        case "wait":
            return MovedWait(), LaterWait(), UsedTooEarly(note.code)
        case "setmaxnreg":
            return SameRegisters(), MoreRegisters(), _explained(note, _IGNORED)
        case "spill":
            spilled = Spilled(first, second, note.function)
            return spilled, InRegisters(), ThreadRegisters(note.code)
        case "local":
            return LocalMemory(first), RegisterCandidate(), IndexedArray(note.code)
        case "advice":
            return SlowerCode(), FastForm(), PtxasSaid(note.reason, note.code)


_SERIALIZED: dict[str, type[PtxasReason]] = {
    "insufficient register": AccumulatorsTooLarge,
    "defining accumulator": AccumulatorWritten,
    "reading accumulator": AccumulatorRead,
    "defining input": InputWritten,
    "function boundary": FunctionBoundary,
    "Extern calls": NotInlined,
    "divergent path": DivergentPath,
    "ill formed pipeline": IllFormed,
}
_IGNORED: dict[str, type[PtxasReason]] = {
    "at entry": ThreadsOpen,
    "compilation units": AnotherUnit,
    "extern": AnotherUnit,
    "minimum register": RoleRegisters,
    "debugging": Debugger,
}


def _explained(note: Note, known: dict[str, type[PtxasReason]]) -> Reason:
    """The cause in the author's terms; the assembler's own words for one that is not known."""
    found = (reason for part, reason in known.items() if part in note.reason)
    return next(found, lambda number: PtxasSaid(note.reason, number))(note.code)
