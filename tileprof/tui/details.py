"""Texts about a line of the tree: its source, its machine code, and findings.

In: a profile, and nodes or names of kernels.  Out: `Sheet`s, whose lines `viewer` makes; results
are kept, for a reader goes back and forth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tileprof.analyzer import Fault, Finding, analyze
from tileprof.analyzer.cases import function_of
from tileprof.once import cached_property
from tileprof.profile import Profile
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.code.line_costs import LineCosts, line_costs
from tileprof.viewer.code.lines import FileLines
from tileprof.viewer.code.pc_functions import SeenFunction, user_line
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings.entry import entry, kernel_text
from tileprof.viewer.findings.faults import fault_text
from tileprof.viewer.findings.paper import Paper
from tileprof.viewer.grid import wrap
from tileprof.viewer.text import UNICODE, Glyphs, clean


@dataclass(frozen=True)
class Sheet:
    """A text for a pane."""

    title: str
    lines: Sequence[str] = ()
    header: str = ""
    """Titles of the columns of `lines`; '' where there are none."""
    chosen: range = range(0)
    """Lines that the text is about."""


class Details:
    """Texts about the nodes of one profile."""

    def __init__(self, profile: Profile, glyphs: Glyphs, color: bool) -> None:
        self.profile, self.glyphs, self.color = profile, glyphs, color
        self._files: dict[tuple[str, int], FileLines] = {}
        self._listings: dict[tuple[str, int], list[str]] = {}
        self._lines: dict[str, tuple[str, int] | None] = {}
        self._faults: list[Fault] = []

    def _note(self, title: str, text: str, width: int) -> Sheet:
        return Sheet(title, wrap(clean(text, self.glyphs), width, self.color))

    # -- source

    @cached_property
    def _costs(self) -> LineCosts:
        return line_costs(self.profile, ViewOptions())

    @cached_property
    def _sources(self) -> SourceTexts:
        return SourceTexts(self.profile)

    def source(self, shown: Profile, nodes: Iterable[int], width: int) -> Sheet:
        """Return the file of the first of some nodes of a tree that has a place with a text."""
        without = ""
        for node in nodes:
            for file, line in self._places(shown, node):
                if not self._sources.lines(file):
                    without = without or f"{file}:{line}"
                    continue
                key = (file, width)
                if key not in self._files:
                    lines = FileLines(self._costs, file, width, self.color, self.glyphs)
                    self._files[key] = lines
                held = self._files[key]
                at = held.numbers.index(line) if line in held.numbers else -1
                chosen = range(at, at + 1) if at >= 0 else range(0)
                return Sheet(f"Source: {file}:{line}", held, held.header(), chosen)
        missing = f"The profile does not hold the text of {without}."
        return self._note("Source", missing if without else "This has no place in a file.", width)

    def _places(self, shown: Profile, node: int) -> Iterable[tuple[str, int]]:
        """Yield a kernel's line with the most samples and where it is written, then the node's."""
        if shown.kinds[node] == "kernel":
            if (hottest := self._hottest(shown.names[node])) is not None:
                yield hottest
            for kernel in self.profile.tables.kernels:
                if kernel.name == shown.names[node] and kernel.source_file:
                    yield kernel.source_file, max(kernel.source_line, 1)
        place = shown.locations[node]
        if place is not None and place.line:
            yield place.file, place.line

    def _hottest(self, kernel: str) -> tuple[str, int] | None:
        """Return the line of a kernel with the most samples, or that runs most instructions."""
        if kernel not in self._lines:
            held, weights = self.profile.tables.pc, dict[tuple[str, int], int]()
            place = function_of(held, kernel)
            seen = SeenFunction(held, place).instructions if place is not None else ()
            for each in seen:
                line = user_line(self.profile, each.instruction.place)
                if line is not None and each.weight:
                    weights[line] = weights.get(line, 0) + each.weight
            self._lines[kernel] = max(weights, key=lambda line: weights[line], default=None)
        return self._lines[kernel]

    # -- machine code

    def machine(self, kernels: Sequence[str], width: int) -> Sheet:
        """Return the machine code of the first of some kernels that has one in the profile."""
        held = self.profile.tables.pc
        if not held:
            said = "The profile has no samples or counts of instructions. On a GPU, record some:"
            return self._note("SASS", f"{said} `tileprof run --pc-sampling PROGRAM`.", width)
        for kernel in kernels:
            place = function_of(held, kernel)
            if place is not None:
                title = held.functions[place].title
                return Sheet(f"SASS: {title}", self._listing(title, width))
        if not kernels:
            return self._note("SASS", "There is no kernel here or below.", width)
        said = f"No instruction of {kernel_text(kernels[0])} was sampled or counted."
        return self._note("SASS", said, width)

    def _listing(self, title: str, width: int) -> list[str]:
        key = (title, width)
        if key not in self._listings:
            options = ViewOptions(include=f"^{re.escape(title)}$")
            text = render_view(
                self.profile, options, "blame", width=width, color=self.color,
                unicode=self.glyphs is UNICODE,
            )  # fmt: skip
            lines = text.splitlines()
            # What is said of all functions ends at the first empty line.
            self._listings[key] = lines[lines.index("") + 1 :]
        return self._listings[key]

    # -- findings

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in order of use; the first time takes an analysis of the profile."""
        return analyze(self.profile, faults=self._faults).findings

    @property
    def is_analyzed(self) -> bool:
        """True once the findings are known."""
        return "findings" in self.__dict__

    def report(self, number: int, width: int) -> Sheet:
        """Return all findings, of which the one of a number is chosen."""
        findings = self.findings
        if not findings and not self._faults:
            return self._note(
                "Findings", "There is nothing to change that this profile shows.", width
            )
        paper = Paper.of(width, self.color, self.glyphs is UNICODE)
        lines, chosen = list[str](), range(0)
        for fault in self._faults:
            lines += [*paper.sentence(fault_text(fault), "33"), ""]
        for at, finding in enumerate(findings):
            said = entry(finding, "author", paper, self._sources)
            if at == number:
                chosen = range(len(lines), len(lines) + len(said))
            lines += [*said, ""]
        title = f"Findings: {min(number + 1, len(findings))} of {len(findings)}"
        return Sheet(title, lines[:-1], chosen=chosen)
