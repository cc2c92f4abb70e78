"""What ptxas says about a kernel: resources of each function, and notes about lost speed.

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

from tileprof.compiler.remarks import Remark
from tileprof.errors import Location

__all__ = ["Locate", "Note", "Resources", "locator", "notes_to_remarks", "read_notes"]
__all__ += ["read_resources"]

NoteKind = Literal["serialized", "wait", "setmaxnreg", "spill", "local", "advice"]
Locate = Callable[[str, int], Location | None]
"""The author's line for a function and a line of its PTX; for line 0, where the function begins."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one function takes, in registers a thread and bytes."""

    function: str
    registers: int = 0
    """At its start; `setmaxnreg` may change it later."""
    barriers: int = 0
    """Named barriers: one more than the highest number used."""
    shared: int = 0
    """Static; dynamic shared memory comes with the launch."""
    constant: int = 0
    """Of banks that ptxas reports; newer versions leave out the parameters."""
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
    """Of the PTX; 0 where the message does not say."""
    reason: str
    """For `serialized` and `setmaxnreg`, the clause that follows "due to" or "ignored"."""
    code: str = ""
    """As `C7510`."""
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
    """What each function of a log of `-v` takes, by name."""
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
    """What the notes mean for the author: each with a way out, at its line where it has one.

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
    chosen, wanted, reason = _WORDS[note.kind](note)
    source = f" [ptxas {note.code}]" if note.code else ""
    return Remark("ptxas", location, chosen, ((wanted, f"{reason}{source}"),), "missed")


_Words = tuple[str, str, str]
"""What happens, what was wanted instead, and why it is not so with a way out."""


def _serialized(note: Note) -> _Words:
    reason = _explained(note.reason, _SERIALIZED)
    return "each wgmma waits for the one before it", "overlapping matrix products", reason


_SERIALIZED = {
    "insufficient register": "the accumulators do not fit beside what else is alive; use a smaller "
    "tile, more threads, or keep fewer fragments across the product",
    "defining accumulator": "an accumulator is written while the product runs; write it before the "
    "product starts or after its first use",
    "reading accumulator": "an accumulator is read while the product runs; read it after "
    "everything that should overlap with the product",
    "defining input": "a register operand is written while the product reads it; give the next "
    "product a fragment of its own, or put the operand in shared memory",
    "function boundary": "a function is called while the product runs; move the call out of the "
    "overlapped part",
    "Extern calls": "the kernel calls a function that is not inlined; print and assert belong "
    "outside of the loop with the products",
    "divergent path": "the product runs under a condition that differs between threads; make the "
    "condition the same for each group of 128 threads",
    "ill formed pipeline": "the products and their waits do not pair up on every path; keep `if`, "
    "`break` and `continue` out of the overlapped part",
}


def _moved_wait(note: Note) -> _Words:
    reason = (
        "what a running product writes is used before the program waits for it; move the use down, "
        "or the next product up"
    )
    return "ptxas put in a wait for all matrix products", "a later wait", reason


def _setmaxnreg(note: Note) -> _Words:
    reason = _explained(note.reason, _IGNORED)
    return "every role has the same registers", "more registers for the consumers", reason


_IGNORED = {
    "at entry": "the number of threads is not fixed when the kernel is assembled; give the launch "
    "constant threads",
    "compilation units": "a function is called that is not in this text; leave it out of the "
    "kernel or let it be inlined",
    "extern": "a function is called that is not in this text; leave it out of the kernel or let it "
    "be inlined",
    "minimum register": "a role needs more registers than it would be left with; use a smaller "
    "tile or fewer values that are alive at once",
    "debugging": "the text is assembled for a debugger; leave `-G` out",
}


def _explained(reason: str, known: dict[str, str]) -> str:
    """The cause in the author's terms; the assembler's own words for one that is not known."""
    return next((text for part, text in known.items() if part in reason), reason)


def _spill(note: Note) -> _Words:
    stores, loads = (*note.numbers, 0, 0)[:2]
    chosen = (
        f"{stores} bytes of registers are spilled to local memory and {loads} bytes read back "
        "by each thread"
    )
    reason = (
        f"{_function(note)} needs more registers than a thread has; use a smaller tile, more "
        "threads, or allow more registers"
    )
    return chosen, "everything in registers", reason


def _local(note: Note) -> _Words:
    (size,) = (*note.numbers, 0)[:1]
    reason = (
        "an array is indexed by a value that is not known at compile time; index fragments by "
        "constants or loop variables, or use shared memory"
    )
    return f"{size} bytes of each thread are in local memory", "registers", reason


def _advice(note: Note) -> _Words:
    return "slower code than possible", "the fast form", note.reason


def _function(note: Note) -> str:
    return f"`{note.function}`" if note.function else "the kernel"


_WORDS: dict[NoteKind, Callable[[Note], _Words]] = {
    "serialized": _serialized,
    "wait": _moved_wait,
    "setmaxnreg": _setmaxnreg,
    "spill": _spill,
    "local": _local,
    "advice": _advice,
}
