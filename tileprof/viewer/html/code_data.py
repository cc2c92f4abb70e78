"""Source lines, machine code and compilers' texts, with samples, as columns of JSON values.

In: a report.  Out: units: a function of a GPU with its instructions, or a kernel that has only
texts; and the source files that they and the findings are in. Instructions carry their line, so a
reader adds up what lines have. What was executed counts where nothing was sampled, and sites inside
of kernels where nothing is known of instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.report import Report
from tileprof.once import cached_property
from tileprof.profile import Profile
from tileprof.profile.kernel_places import kernels_around
from tileprof.profile.shares import SAMPLES
from tileprof.viewer.code.pc_functions import (
    Place,
    SeenFunction,
    SeenInstruction,
    sampling_text,
    seen_functions,
    user_line,
)
from tileprof.viewer.html.tree_data import number
from tileprof.viewer.text import encodable

_MOST_INSTRUCTIONS = 20_000
"""Largest number of instructions on a page (about 1.7 MB); further functions are without."""
_MOST_TEXT = 800_000
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
        self._kernels = {each.title: place for place, each in enumerate(self._units)}
        for finding in report.findings:
            if finding.place.location is not None:
                self._file(finding.place.location.file)

    def unit_of(self, kernel: str) -> int:
        """Return the unit of a kernel, -1 for none."""
        return self._kernels.get(kernel, -1)

    def file_of(self, file: str) -> int:
        """Return the place of a file, -1 where the page does not have it."""
        return self._files.get(file, -1)

    def document(self) -> dict[str, Any]:
        """Return all code as JSON values."""
        held = self._profile.tables.pc
        return {
            "sampling": sampling_text(held) if held.recordings else "",
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
            if held is not None or self._is_told(case):
                found.append(_Unit(held, case))
                used.add(function)
        return found + [_Unit(each, None) for name, each in seen.items() if name not in used]

    def _is_told(self, case: KernelCase) -> bool:
        """Return whether the kernel has a text, or lines with costs."""
        info = case.info
        texts = info is not None and bool(info.code or info.ir or info.source)
        return texts or any(node in self._site_lines for node in case.nodes)

    def _seen(self) -> list[SeenFunction]:
        return seen_functions(self._profile) if self._profile.tables.pc else []

    def _unit(self, unit: _Unit) -> dict[str, Any]:
        seen = unit.seen
        fits = seen is not None and self._has_room(seen)
        weight = seen.weight if seen is not None else 0
        lines = [] if weight else list(self._lines(unit))
        return {
            "title": encodable(unit.title),
            "name": encodable(seen.function.name) if seen else "",
            "architecture": seen.function.architecture if seen else "",
            "samples": seen.samples if seen else 0,
            "weight": number(sum(each[2] for each in lines))
            if lines
            else seen.weight
            if seen
            else 0,
            "measure": site_measure(self._profile) if lines else self._measure,
            "lines": lines,
            "note": "" if fits else _note(seen),
            "file": self._home(unit),
            "sass": self._sass(seen) if seen is not None and fits else None,
            "texts": list(self._compiled(unit)),
            "remarks": list(self._remarks(unit)),
        }

    def _has_room(self, seen: SeenFunction) -> bool:
        return bool(seen.function.code) and len(seen.function.code) <= self._room

    @property
    def _measure(self) -> str:
        return "samples" if self._profile.tables.pc.recordings else "executions"

    @cached_property
    def _site_lines(self) -> dict[int, dict[Place, float]]:
        return site_lines(self._profile)

    def _lines(self, unit: _Unit) -> Iterator[list[Any]]:
        """Yield the cost of lines by sites inside the kernel: file, line, samples or ns."""
        sums: dict[Place, float] = {}
        for node in unit.case.nodes if unit.case is not None else ():
            for place, weight in self._site_lines.get(node, {}).items():
                sums[place] = sums.get(place, 0.0) + weight
        for (file, line), weight in sums.items():
            yield [self._file(file), line, number(weight)]

    def _home(self, unit: _Unit) -> int:
        """Return the file of the kernel, where it is known."""
        case = unit.case
        if case is not None and case.location is not None:
            return self._file(case.location.file)
        return -1

    def _sass(self, seen: SeenFunction) -> dict[str, Any]:
        self._room -= len(seen.instructions)
        return machine_code(self._profile, seen, self._file)

    # -- texts

    def _compiled(self, unit: _Unit) -> Iterator[dict[str, Any]]:
        """Yield the texts that compilers made of the kernel on the way to machine code."""
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
        """Yield the compiler's decisions: line, op, choice, and what it rejected and why."""
        for each in unit.case.remarks if unit.case else ():
            line = each.location.line if each.location else 0
            rejected = [
                [encodable(str(rejected.candidate)), encodable(str(rejected.reason))]
                for rejected in each.rejected
            ]
            chosen = encodable(str(each.decision))
            yield [line, encodable(each.subject), chosen, rejected, each.severity]

    def _file(self, file: str) -> int:
        return self._files.setdefault(file, len(self._files))

    def _texts(self) -> Iterator[dict[str, Any]]:
        """Yield the files, in order of number; those without room come without text."""
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
    """Return why there is no machine code."""
    if seen is None:
        return "nothing of its machine code was sampled or counted"
    if not seen.function.code:
        return encodable(seen.function.note)
    return "too long for this page; `tileprof view --sass` shows it"


def _plain(text: str) -> str:
    """Return the text with one kind of line ends, as Python counts lines."""
    return encodable("\n".join(text.splitlines()))


def _lines_of(code: str) -> list[int]:
    """Return the source line of each line of the code: a `#line` holds up to the next one."""
    found, here = list[int](), 0
    for line in code.splitlines():
        mark = _LINE.match(line)
        here = int(mark[1]) if mark else here
        found.append(here)
    return found


def machine_code(
    profile: Profile, seen: SeenFunction, file_of: Callable[[str], int]
) -> dict[str, Any]:
    """Return the columns; `file_of` says which file of the page a name is."""
    stalls = {name: place for place, name in enumerate(profile.tables.pc.stalls)}
    held = seen.instructions
    lines = [user_line(profile, each.instruction.place) for each in held]
    places: dict[Place | None, int] = {None: -1}
    for line in lines:
        places.setdefault(line, len(places) - 1)
    return {
        "offset": [each.instruction.offset for each in held],
        "text": [encodable(each.instruction.text) for each in held],
        "depth": [each.instruction.depth for each in held],
        "place": [places[line] for line in lines],
        "places": [[file_of(place[0]), place[1]] for place in places if place is not None],
        "samples": [each.samples for each in held],
        "weight": [each.weight for each in held],
        "stalls": [_flat(each.stalls, stalls) for each in held],
        "not_issued": [sum(each.not_issued.values()) for each in held],
        "blames": list(_blames(held, stalls)),
    }


def _flat(stalls: dict[str, int], places: dict[str, int]) -> list[int]:
    """Return reasons and samples alternately, the most samples first."""
    return [value for name, n in stalls.items() if n for value in (places[name], n)]


def _blames(held: list[SeenInstruction], stalls: dict[str, int]) -> Iterator[list[Any]]:
    """Yield who waits, the reason, the offset of the producer, and what passes between them."""
    for place, each in enumerate(held):
        for blame in each.blames:
            if blame.stall in each.stalls:
                through = encodable(blame.through)
                yield [place, stalls[blame.stall], blame.producer, through]


_MEASURES = {SAMPLES: "samples", "block_time": "ns"}


def site_measure(profile: Profile) -> str:
    """Return the weight of sites' lines: `samples`, `ns`, or '' where nothing was measured."""
    return _MEASURES[_metric(profile)] if _metric(profile) else ""


def site_lines(profile: Profile) -> dict[int, dict[Place, float]]:
    """Return for each kernel's node what its lines hold themselves; values below 0 are left out."""
    metric = _metric(profile)
    found: dict[int, dict[Place, float]] = {}
    if not metric:
        return found
    own = (profile.own[metric] + profile.absorbed[metric]).tolist()
    for node, kernel in enumerate(kernels_around(profile).tolist()):
        at = profile.locations[node]
        if kernel not in (-1, node) and at is not None and own[node] > 0:
            lines = found.setdefault(kernel, {})
            lines[at.file, at.line] = lines.get((at.file, at.line), 0.0) + own[node]
    return found


def _metric(profile: Profile) -> str:
    return next((m for m in _MEASURES if m in profile.metrics and profile.whole[m] > 0), "")
