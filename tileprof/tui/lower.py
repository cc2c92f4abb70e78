"""The pane below the tree: source, machine code, findings, or what a program prints.

In: which of them, the tree's chosen line, and texts about it.  Out: the text on the screen, made in
a thread, and a message where the reader goes to the place of a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from tileprof.analyzer import Finding
from tileprof.errors import TileprofError
from tileprof.tui.details import Details, Sheet
from tileprof.tui.keys import MOVES, TEXT
from tileprof.tui.state import TreeState
from tileprof.tui.strips import strip_of
from tileprof.tui.widgets import FixedLines, Scrolled
from tileprof.viewer.text import fit, paint

Kind = Literal["", "source", "sass", "findings", "output"]
_PAUSE_S = 0.05
"""Seconds for which the chosen line stays the same before the text follows it."""


class TextPane(Scrolled):
    """A text of which some lines may be chosen; the first of them stands out."""

    BINDINGS: ClassVar[list[BindingType]] = [each.binding for each in (*MOVES, *TEXT)]

    class Stepped(Message):
        """The reader goes some lines further."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Entered(Message):
        """The reader wants to go where the text is about."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[str] = ()
        self._chosen = range(0)

    def show(self, lines: Sequence[str], chosen: range = range(0), middle: bool = False) -> None:
        """Show a text, with its chosen lines in sight; `middle` leaves room above them."""
        self._lines, self._chosen = lines, chosen
        self.resettle()
        self.keep_in_sight(middle)

    def count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def strip(self, at: int, width: int) -> Strip:
        """Return a line of the text."""
        return strip_of(self._lines[at], width, bool(self._chosen) and at == self._chosen.start)

    def keep_in_sight(self, middle: bool = False) -> None:
        """Scroll to the chosen lines, the first of them where there is no room for all."""
        if len(self._chosen) > 1:
            self.show_line(self._chosen.stop - 1)
        if self._chosen:
            self.show_line(self._chosen.start, middle)

    @property
    def is_at_end(self) -> bool:
        """True where the last line is in sight."""
        return self.scroll_offset.y >= self.count() - self.size.height

    def action_move(self, step: int) -> None:
        """Go some lines further."""
        self.post_message(self.Stepped(step))

    def action_page(self, step: int) -> None:
        """Scroll a screen down or up."""
        self.go(self.scroll_offset.y + step * max(self.size.height - 1, 1))

    def action_edge(self, last: int) -> None:
        """Scroll to the first or the last line."""
        self.go(self.count() - self.size.height if last else 0)

    def action_jump(self) -> None:
        """Go where the text is about."""
        self.post_message(self.Entered())


class LowerPane(Vertical):
    """One of the texts, with a title and the titles of its columns."""

    DEFAULT_CSS = """
    LowerPane { height: 45%; display: none; border-top: solid ansi_blue; }
    LowerPane TextPane { height: 1fr; }
    """

    class Jump(Message):
        """The reader wants to see the place of a finding."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    class _Filled(Message):
        """A text was made."""

        def __init__(self, number: int, sheet: Sheet) -> None:
            super().__init__()
            self.number, self.sheet = number, sheet

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.kind: Kind = ""
        self.details: Details | None = None
        self.state: TreeState | None = None
        self._finding = 0
        """Number of the chosen finding."""
        self._newest = 0
        """Number of the newest request; the texts of earlier ones are thrown away."""
        self._waiting: Timer | None = None
        self._title = ""

    def compose(self) -> ComposeResult:
        """Build the lines and the text."""
        yield FixedLines("about")
        yield TextPane("text")

    @property
    def text(self) -> TextPane:
        """The part that scrolls."""
        return self.query_one(TextPane)

    @property
    def is_waiting(self) -> bool:
        """True while a text is about to be made."""
        return self._waiting is not None

    def toggle(self, kind: Kind) -> None:
        """Show one of the texts, or nothing where it is the one that is there."""
        self.kind = "" if kind == self.kind else kind
        self.display = bool(self.kind)
        if self.kind:
            self._show(Sheet("working"))
            self.text.go(0)
            # The width is known once it is on the screen.
            self.call_after_refresh(self.fill)

    def about(self, details: Details, state: TreeState | None) -> None:
        """Show texts about another profile, or another state of its tree."""
        if details is not self.details:
            self._finding = 0
        self.details, self.state = details, state
        self.follow()

    def follow(self) -> None:
        """Show the chosen line's text, once that stays the same for a moment."""
        if self.kind in ("source", "sass"):
            if self._waiting is not None:
                self._waiting.stop()
            self._waiting = self.set_timer(_PAUSE_S, self.fill)

    @on(TextPane.Widened)
    def fill(self) -> None:
        """Have the text made in a thread."""
        self._waiting, width = None, self.text.size.width
        work = self._work(width)
        if not width or work is None:
            return
        self._newest += 1
        number = self._newest

        def run() -> None:
            try:
                sheet = work()
            except TileprofError as error:
                sheet = Sheet(error.message)
            self.post_message(self._Filled(number, sheet))

        self.run_worker(run, thread=True, group="pane")

    def _work(self, width: int) -> Callable[[], Sheet] | None:
        details, state, finding = self.details, self.state, self._finding
        if details is None or self.kind in ("", "output"):
            return None
        if self.kind == "findings":
            return lambda: details.report(finding, width)
        if state is None or not len(state):
            return lambda: Sheet("There is no line.")
        if self.kind == "source":
            nodes = list(state.nodes_up(state.cursor))
            return lambda: details.source(state.rows.profile, nodes, width)
        line = state.cursor
        return lambda: details.machine(state.kernels(line), width)

    @on(_Filled)
    def _take(self, filled: _Filled) -> None:
        if filled.number == self._newest and self.kind not in ("", "output"):
            self._show(filled.sheet)

    def _show(self, sheet: Sheet) -> None:
        details = self.details
        if details is not None:
            title = fit(sheet.title.replace("\n", " "), self.size.width, details.glyphs)
            head = [paint(title, "1", details.color), *([sheet.header] if sheet.header else [])]
            self.query_one(FixedLines).show(head)
            if sheet.title != self._title and not sheet.chosen:
                self.text.go(0)
            self._title = sheet.title
            self.text.show(sheet.lines, sheet.chosen, middle=self.kind == "source")

    def show_output(self, lines: Sequence[str]) -> None:
        """Show what a program has printed, and stay at its end where the reader is there."""
        if self.kind == "output":
            stays = not self.text.is_at_end
            self._show(Sheet("Output of the program", list(lines)))
            if not stays:
                # There is room for it once the screen was laid out.
                self.call_after_refresh(self.text.action_edge, 1)

    @on(TextPane.Stepped)
    def _step(self, stepped: TextPane.Stepped) -> None:
        if self.kind != "findings":
            self.text.go(self.text.scroll_offset.y + stepped.step)
        elif self.details is not None and self.details.is_analyzed:
            last = max(len(self.details.findings) - 1, 0)
            self._finding = min(max(self._finding + stepped.step, 0), last)
            self.fill()

    @on(TextPane.Entered)
    def _enter(self) -> None:
        details = self.details
        if self.kind == "findings" and details is not None and details.is_analyzed:
            found = details.findings
            if found:
                self.post_message(self.Jump(found[self._finding]))
