"""Source lines, machine code and compilers' texts, with samples, as columns of JSON values.

In: a report.  Out: units: a function of a GPU with its instructions, or a kernel that has only
texts; and the source files that they and the findings are in. Instructions carry their line, so a
reader adds up what lines have. What was executed counts where nothing was sampled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.report import Report
from tileprof.profile import Profile
from tileprof.viewer.pc_functions import (
    Place,
    SeenFunction,
    SeenInstruction,
    sampling_text,
    seen_functions,
    user_line,
)
from tileprof.viewer.text import encodable

__all__ = ["CodeData"]

_MOST_INSTRUCTIONS = 25_000
"""Of a page: about 1.5 MB; further functions have no machine code on it."""
_MOST_TEXT = 1_200_000
"""Characters of source files, and as many of compilers' texts."""
_LINE = re.compile(r"^#line (\d+)", re.MULTILINE)
_FORMS = ("ttgir", "ptx")


class _Unit:
    """A function with what is known of its kernel, or a kernel without a function."""

    def __init__(self, seen: SeenFunction | None, case: KernelCase | None) -> None:
        self.seen, self.case = seen, case

    @property
    def title(self) -> str:
        if self.case is not None:
            return self.case.name
        return self.seen.function.title if self.seen is not None else ""


class CodeData:
    """The code of a report; places in it are the numbers that other parts of the page use."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._profile: Profile = report.program.profile
        self._files: dict[str, int] = {}
        self._room = _MOST_INSTRUCTIONS
        self._text_room = _MOST_TEXT
        self._functions = [self._unit(each) for each in self._units]
        self._kernels = {each.title: number for number, each in enumerate(self._units)}
        for finding in report.findings:
            if finding.place.location is not None:
                self._file(finding.place.location.file)

    def unit_of(self, kernel: str) -> int:
        """The unit of a kernel, -1 for none."""
        return self._kernels.get(kernel, -1)

    def file_of(self, file: str) -> int:
        """The place of a file, -1 where the page does not have it."""
        return self._files.get(file, -1)

    def document(self) -> dict[str, Any]:
        """All of it."""
        held = self._profile.tables.pc
        return {
            "sampling": sampling_text(held) if held.recordings else "",
            "sampled": bool(held.recordings),
            "stalls": [encodable(name) for name in held.stalls],
            "files": list(self._texts()),
            "units": self._functions,
        }

    # -- units

    @cached_property
    def _units(self) -> list[_Unit]:
        """Kernels of the report by time, then other functions, the hottest first."""
        seen = {each.function.name: each for each in self._seen()}
        found, used = list[_Unit](), set[str]()
        for case in (each.case for each in self._report.kernels):
            function = case.code.function.name if case.code is not None else ""
            held = seen.get(function) if function not in used else None
            if held is not None or (case.info is not None and (case.info.code or case.info.ir)):
                found.append(_Unit(held, case))
                used.add(function)
        return found + [_Unit(each, None) for name, each in seen.items() if name not in used]

    def _seen(self) -> list[SeenFunction]:
        return seen_functions(self._profile) if self._profile.tables.pc else []

    def _unit(self, unit: _Unit) -> dict[str, Any]:
        seen = unit.seen
        fits = seen is not None and self._has_room(seen)
        return {
            "title": encodable(unit.title),
            "name": encodable(seen.function.name) if seen else "",
            "architecture": seen.function.architecture if seen else "",
            "samples": seen.samples if seen else 0,
            "weight": seen.weight if seen else 0,
            "note": "" if fits else _note(seen),
            "file": self._home(unit),
            "sass": self._sass(seen) if seen is not None and fits else None,
            "texts": list(self._compiled(unit)),
            "remarks": list(self._remarks(unit)),
        }

    def _has_room(self, seen: SeenFunction) -> bool:
        return bool(seen.function.code) and len(seen.function.code) <= self._room

    def _home(self, unit: _Unit) -> int:
        """The file of the kernel, where it is known."""
        case = unit.case
        if case is not None and case.location is not None:
            return self._file(case.location.file)
        return -1

    # -- machine code

    def _sass(self, seen: SeenFunction) -> dict[str, Any]:
        self._room -= len(seen.instructions)
        stalls = {name: i for i, name in enumerate(self._profile.tables.pc.stalls)}
        places: dict[Place | None, int] = {None: -1}
        held = seen.instructions
        lines = [user_line(self._profile, each.instruction.place) for each in held]
        for line in lines:
            places.setdefault(line, len(places) - 1)
        return {
            "offset": [each.instruction.offset for each in held],
            "text": [encodable(each.instruction.text) for each in held],
            "depth": [each.instruction.depth for each in held],
            "place": [places[line] for line in lines],
            "places": [[self._file(p[0]), p[1]] for p in places if p is not None],
            "samples": [each.samples for each in held],
            "weight": [each.weight for each in held],
            "stalls": [_flat(each.stalls, stalls) for each in held],
            "not_issued": [sum(each.not_issued.values()) for each in held],
            "blames": list(_blames(held, stalls)),
        }

    # -- texts

    def _compiled(self, unit: _Unit) -> Iterator[dict[str, Any]]:
        """What compilers made of the kernel on the way."""
        info = unit.case.info if unit.case else None
        if info is not None and info.code:
            label = {"cuda": "CUDA", "cpp": "C++"}.get(info.code_language, "code")
            file = self._file(info.source_file) if info.source_file else -1
            yield from self._text(label, info.code, file, _lines_of(info.code))
        if info is not None and info.ir:
            yield from self._text("tile IR", info.ir)
        if unit.seen is not None:
            for form in _FORMS:
                held = self._profile.tables.pc.texts.get((unit.seen.function.module, form))
                if held is not None and held.text:
                    yield from self._text(form.upper(), held.text)

    def _text(
        self, label: str, text: str, file: int = -1, lines: list[int] | None = None
    ) -> Iterator[dict[str, Any]]:
        if len(text) <= self._text_room:
            self._text_room -= len(text)
            yield {"label": label, "text": _plain(text), "file": file, "lines": lines}

    def _remarks(self, unit: _Unit) -> Iterator[list[Any]]:
        """What the compiler decided: line, op, what it chose, what it turned down and why."""
        for each in unit.case.remarks if unit.case else ():
            line = each.location.line if each.location else 0
            rejected = [[encodable(what), encodable(why)] for what, why in each.rejected]
            yield [line, encodable(each.op), encodable(each.chosen), rejected, each.severity]

    def _file(self, file: str) -> int:
        return self._files.setdefault(file, len(self._files))

    def _texts(self) -> Iterator[dict[str, Any]]:
        """The files, in order of their numbers; those for which there is no room without text."""
        room = _MOST_TEXT
        tables = self._profile.tables
        for file in self._files:
            text, first = tables.sources.get(file, ""), 1
            kernel = next((k for k in tables.kernels if k.source_file == file and k.source), None)
            if not text and kernel is not None:
                text, first = kernel.source, max(kernel.source_line, 1)
            text = text if len(text) <= room else ""
            room -= len(text)
            yield {"name": encodable(file), "first": first, "text": _plain(text)}


def _note(seen: SeenFunction | None) -> str:
    """Why there is no machine code."""
    if seen is None:
        return "nothing of its machine code was sampled or counted"
    if not seen.function.code:
        return encodable(seen.function.note)
    return "too long for this page; `tileprof view --sass` shows it"


def _plain(text: str) -> str:
    """The text with one kind of line ends, as Python counts lines."""
    return encodable("\n".join(text.splitlines()))


def _flat(stalls: dict[str, int], places: dict[str, int]) -> list[int]:
    """Reason and samples in turns, the most first."""
    return [value for name, n in stalls.items() if n for value in (places[name], n)]


def _blames(held: list[SeenInstruction], stalls: dict[str, int]) -> Iterator[list[Any]]:
    """Place of who waits, reason, offset of whom it waits for, and what passes between them."""
    for place, each in enumerate(held):
        for blame in each.blames:
            if blame.stall in each.stalls:
                through = encodable(blame.through)
                yield [place, stalls[blame.stall], blame.producer, through]


def _lines_of(code: str) -> list[int]:
    """By line of the code, the source line it was made from: a `#line` holds up to the next one."""
    found, here = list[int](), 0
    for line in code.splitlines():
        mark = _LINE.match(line)
        here = int(mark[1]) if mark else here
        found.append(here)
    return found
