"""Functions as their machine code, with samples, stalls and counts beside each instruction.

In: a profile with samples of program counters, or counts of instructions.  Out: text: the hottest
functions, each in order of its code under the source lines it came from. Runs of instructions that
hold little are folded. With blame, what a stalled instruction waits for stands below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from tileprof.errors import Location
from tileprof.profile import Profile
from tileprof.profile.instruction_counts import EXECUTIONS
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.code.pc_functions import (
    SeenFunction,
    SeenInstruction,
    sampling_text,
    seen_functions,
    stall_text,
    user_line,
    weight_text,
    whole_weight,
)
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Label, arrange, wrap
from tileprof.viewer.kernel_names import printed_forms, short_forms
from tileprof.viewer.notes import missing_from, title_of
from tileprof.viewer.options import DEFAULT_THRESHOLD, ViewOptions
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, fit, heat, paint, shorten, width_of

from .instruction_columns import CountColumn, Sums, count_columns, count_fields, counted_text

_MOST_FUNCTIONS = 10
_FUNCTION_SHARE = 0.01
"""Share of all samples below which a function is folded, unless one was asked for."""
_INDENT = " " * 9
_SHORT_RUN = 2
"""Instructions that take no more room than the line that would stand for them."""


def render_sass(
    profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool
) -> str:
    """Return the hottest or matching functions, in lines of at most `width` cells.

    Raises UsageError where there are none.
    """
    return _Sass(profile, options, width, color, unicode, blame=False).text()


def render_blame(
    profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool
) -> str:
    """Return the same with what stalled instructions wait for."""
    return _Sass(profile, options, width, color, unicode, blame=True).text()


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of a listing: an instruction, or what was folded."""

    text: str
    stalls: str = ""
    weight: int = 0
    """Number of samples, or executions."""
    counts: Sums = field(default_factory=dict)
    offset: str = ""
    heading: str | None = None
    """The source line that stands above it, where it is another one."""
    below: tuple[str, ...] = ()
    """Lines about what the instruction waits for."""
    style: str = ""


class _Sass:
    """Rendering of sampled machine code."""

    def __init__(
        self,
        profile: Profile,
        options: ViewOptions,
        width: int,
        color: bool,
        unicode: bool,
        *,
        blame: bool,
    ) -> None:
        self.profile, self.color, self.blame = profile, color, blame
        self.glyphs: Glyphs = UNICODE if unicode else ASCII
        self.width = max(width, MINIMUM_WIDTH)
        self.floor = (DEFAULT_THRESHOLD if options.threshold is None else options.threshold) / 100
        self.seen = seen_functions(profile, options.include, options.exclude)
        self.held = profile.tables.pc
        self.whole = whole_weight(self.held)
        self.columns = count_columns(self.held.counts)
        self.all_of = options.include is not None
        self.sources = SourceTexts(profile)
        self.parts = 1 if self.width < 100 else 2 if self.width < 140 else 3

    def text(self) -> str:
        """Return the whole rendering as text."""
        lines = [
            *title_of(self.profile, self.width, self.glyphs, self.color),
            *missing_from(self.profile, self.width, self.glyphs, self.color),
            *(self._sentence(f"{sampling_text(self.held)}.") if self.held.recordings else ()),
            *(self._sentence(f"{counted_text(self.held.counts)}.") if self.columns else ()),
        ]
        shown = [each for i, each in enumerate(self.seen) if self._is_shown(i, each)]
        for each in shown:
            lines += ["", *self._function(each)]
        folded = [each for each in self.seen if each not in shown]
        if folded:
            count = f"{len(folded)} function{'s' if len(folded) > 1 else ''}"
            amount = self._amount(sum(each.weight for each in folded))
            lines += ["", *self._sentence(f"Folded: {count} with {amount}; see them with -i RE.")]
        return "\n".join(lines) + "\n"

    def _is_shown(self, place: int, each: SeenFunction) -> bool:
        if self.all_of or place == 0:
            return True
        return place < _MOST_FUNCTIONS and each.weight >= _FUNCTION_SHARE * self.whole

    def _amount(self, weight: int) -> str:
        return weight_text(self.held, weight, self.whole)

    def _sentence(self, text: str) -> list[str]:
        return wrap(clean(text, self.glyphs), self.width, self.color)

    def _function(self, seen: SeenFunction) -> Iterator[str]:
        yield paint(self._title(seen), "1", self.color)
        yield from self._about(seen)
        rows = list(self._rows(seen))
        if not rows:
            return
        fields = [
            *self._weights(seen, rows),
            *count_fields(self._counts_beside(), [row.counts for row in rows], 4),
            Field("offset", [row.offset for row in rows], 3, ["2"] * len(rows)),
        ]
        grid = arrange(fields, self.width, self.glyphs, self.color)
        yield grid.header("SASS")
        for number, row in enumerate(rows):
            if row.heading is not None:
                yield paint(fit(row.heading, self.width, self.glyphs), "36", self.color)
            text = fit(clean(row.text, self.glyphs), grid.room, self.glyphs)
            yield grid.row(number, Label(text, style=row.style))
            for said in row.below:
                for line in self._below(said):
                    yield paint(line, "33", self.color)

    def _weights(self, seen: SeenFunction, rows: list[_Row]) -> list[Field]:
        """Return the fields of rows' weights: samples with their stalls, or executions."""
        shares = [row.weight / max(seen.weight, 1) for row in rows]
        heats = [heat(share) for share in shares]
        percents = [format_percent(share) if share else "" for share in shares]
        weights = [format_value(row.weight, "1") if row.weight else "" for row in rows]
        stalls = [clean(row.stalls, self.glyphs) for row in rows]
        return [
            Field("samples" if self.held.recordings else EXECUTIONS, weights, 0, heats),
            Field("%", percents, 2, heats),
            *([Field("stalls (%)", stalls, 1, left=True)] if self.held.recordings else ()),
        ]

    def _counts_beside(self) -> list[CountColumn]:
        """Return the counts that have columns of their own."""
        sampled = bool(self.held.recordings)
        return [each for each in self.columns if sampled or each.name != EXECUTIONS]

    def _below(self, said: str) -> list[str]:
        """Wrap a note below an instruction to as many lines as it needs."""
        first = f"{_INDENT}{self.glyphs.last}"
        lines = textwrap.wrap(
            clean(said, self.glyphs),
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
        )
        # Characters may be two cells wide.
        return [fit(line, self.width, self.glyphs) for line in lines]

    def _title(self, seen: SeenFunction) -> str:
        amount = f": {self._amount(seen.weight)}"
        room = self.width - width_of(amount)
        title = clean(seen.function.title, self.glyphs)
        forms = (title, *printed_forms(seen.function.title, self.glyphs))
        fitting = next((form for form in forms if width_of(form) <= room), forms[-1])
        return shorten(fitting, room, self.glyphs) + amount

    def _about(self, seen: SeenFunction) -> Iterator[str]:
        """Yield facts about a function besides its code."""
        said = []
        if seen.function.note:
            said.append(f"Not disassembled: {seen.function.note}.")
        if seen.samples and seen.not_issued:
            share = format_percent(seen.not_issued / seen.samples)
            said.append(f"At {share} % of the samples no other warp issued either.")
        if seen.strays:
            said.append(f"{format_value(seen.strays, '1')} samples are at no instruction of it.")
        for sentence in said:
            yield from self._sentence(sentence)

    def _rows(self, seen: SeenFunction) -> Iterator[_Row]:
        shown = self._shown(seen)
        at, place = 0, ""
        while at < len(seen.instructions):
            end = at
            while end < len(seen.instructions) and not shown[end]:
                end += 1
            if end > at:
                yield self._fold(seen, seen.instructions[at:end])
                at = end
                continue
            each = seen.instructions[at]
            heading = self._heading(each.instruction.place) if seen.function.code else ""
            yield self._instruction(seen, each, heading if heading != place else None)
            at, place = at + 1, heading

    def _shown(self, seen: SeenFunction) -> list[bool]:
        """Return whether each row is shown: hot ones, those to blame, and short runs between."""
        if seen.function.note:
            return [each.weight > 0 for each in seen.instructions]
        least = max(self.floor * seen.weight, 1)
        shown = [each.weight >= least for each in seen.instructions]
        if self.blame:
            hot = {at for at, is_hot in enumerate(shown) if is_hot}
            blamed = {b.producer for at in hot for b in seen.instructions[at].blames}
            for at, each in enumerate(seen.instructions):
                shown[at] = shown[at] or each.instruction.offset in blamed
        start = 0
        for at in range(len(shown) + 1):
            if at == len(shown) or shown[at]:
                if at - start <= _SHORT_RUN:
                    shown[start:at] = [True] * (at - start)
                start = at + 1
        return shown

    def _fold(self, seen: SeenFunction, folded: list[SeenInstruction]) -> _Row:
        weight = sum(each.weight for each in folded)
        share = format_percent(weight / max(seen.weight, 1))
        return _Row(f"… {len(folded)} instructions, {share} %", style="2")

    def _instruction(self, seen: SeenFunction, each: SeenInstruction, heading: str | None) -> _Row:
        code = each.instruction
        text = f"{'| ' * code.depth}{code.text}"
        below = tuple(self._blames(seen, each)) if self.blame else ()
        stalls = stall_text(each.stalls, self.parts)
        return _Row(text, stalls, each.weight, each.counts, f"{code.offset:#06x}", heading, below)

    def _blames(self, seen: SeenFunction, each: SeenInstruction) -> Iterator[str]:
        """Yield what it waits for; producers of one kind on one line share a text."""
        reasons: dict[tuple[int, str], list[str]] = {}
        for blame in each.blames:
            reasons.setdefault((blame.producer, blame.through), []).append(blame.stall)
        groups: dict[tuple[str, str, str, str], list[str]] = {}
        for (producer, through), stalls in reasons.items():
            made = seen.by_offset.get(producer)
            line = user_line(self.profile, made.place) if made is not None else None
            where = f", {_base(line[0])}:{line[1]}" if line is not None else ""
            opcode = _opcode(made.text) if made is not None else "an instruction"
            key = (", ".join(stalls), opcode, where, through)
            groups.setdefault(key, []).append(f"{producer:#06x}")
        for (stalls_text, opcode, where, through), offsets in groups.items():
            # What blocks by itself passes nothing.
            by = f" ({through})" if through != opcode else ""
            yield f"{stalls_text}: waits for {opcode} at {', '.join(offsets)}{where}{by}"

    def _heading(self, place: Location | None) -> str:
        """Return the program's line with its text, and what of it was inlined from where."""
        if place is None:
            return "(no line)"
        chain = list(place.chain())
        shown = user_line(self.profile, place)
        at = next(i for i, each in enumerate(chain) if (each.file, each.line) == shown)
        text = self.sources.lines(chain[at].file).get(chain[at].line, "").strip()
        notes = []
        if at:
            notes.append(f"{self._function_name(chain[0])} at {chain[0].short}")
        if at + 1 < len(chain):
            outer = ", ".join(each.short for each in chain[at + 1 :])
            notes.append(f"{self._function_name(chain[at])}, inlined at {outer}")
        parts = [chain[at].short, *([text] if text else []), *(f"[{note}]" for note in notes)]
        return clean("  ".join(parts), self.glyphs)

    def _function_name(self, place: Location) -> str:
        """Return a name without namespaces and parameters."""
        forms = short_forms(place.function)
        return min((place.function, *forms), key=len).partition("(")[0] or "inlined"


def _base(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]


def _opcode(text: str) -> str:
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0] if words else "an instruction"
