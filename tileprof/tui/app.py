"""The interactive view: its parts, the choices of the reader, and what a running program sends.

In: a subject, the reader's first choices, and a feed where a program runs.  Out: a screen until the
reader leaves. Whatever takes longer than some milliseconds runs in threads, so that keys do not
wait for it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Footer, Input
from textual.worker import get_current_worker

from tileprof.errors import TileprofError
from tileprof.tui.choices import CHOICES, changed, current, in_words
from tileprof.tui.details import Details
from tileprof.tui.keys import EVERYWHERE, help_lines
from tileprof.tui.lower import Kind, LowerPane
from tileprof.tui.screens import ChoiceScreen, HelpScreen
from tileprof.tui.state import Choices, TreeState
from tileprof.tui.subjects import Feed, Subject, Update
from tileprof.tui.tree_pane import TreePane
from tileprof.tui.widgets import FixedLines
from tileprof.viewer import ViewOptions
from tileprof.viewer.options import DEFAULT_THRESHOLD
from tileprof.viewer.rows import TreeRows
from tileprof.viewer.text import ASCII, UNICODE, fit, paint

_OUTPUT_S = 0.5
"""Seconds between two looks at what a program has printed."""


class Browser(App[None]):
    """An interactive view of one subject."""

    CSS = """
    Screen { background: ansi_default; }
    #tree { height: 1fr; }
    #search { height: 1; border: none; padding: 0; display: none; background: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(each.binding for each in EVERYWHERE),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
    ]

    class _Built(Message):
        """The lines of a tree were made, or are refused with a sentence."""

        def __init__(self, number: int, options: ViewOptions, rows: TreeRows | str | None,
                     error: str = "") -> None:  # fmt: skip
            super().__init__()
            self.number, self.options, self.rows, self.error = number, options, rows, error

    class _News(Message):
        """The program that runs has said something."""

        def __init__(self, update: Update) -> None:
            super().__init__()
            self.update = update

    def __init__(
        self,
        subject: Subject,
        options: ViewOptions,
        *,
        color: bool = True,
        unicode: bool = True,
        feed: Feed | None = None,
    ) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the terminal's own colours, as all views have them
        self._subject, self._options, self._feed = subject, options, feed
        self._given = options.metrics
        self._glyphs, self._color = UNICODE if unicode else ASCII, color
        given = options.threshold
        self._choices = Choices(threshold=DEFAULT_THRESHOLD if given is None else given)
        self._details = Details(subject.profile, self._glyphs, color)
        self._newest = 0
        """Number of the newest request for lines; what earlier ones made is thrown away."""
        self._is_building = False
        self._status = ""
        """Words on what the program that runs does."""
        self._runs = feed is not None
        self._nothing = ""
        """Reason for which there is no tree, where there is none."""
        self._pattern = ""
        self._before_search = 0
        """Line that was chosen when the search began."""

    # -- the parts

    def compose(self) -> ComposeResult:
        """Build the screen."""
        yield FixedLines("title")
        yield FixedLines("head")
        yield TreePane("tree")
        yield LowerPane("lower")
        yield Input(id="search", placeholder="search", compact=True)
        yield FixedLines("status")
        yield Footer()

    def on_mount(self) -> None:
        """Make the first lines, and follow the program that runs."""
        self.tree_pane.focus()
        self._build(self._options)
        if self._feed is not None:
            self.run_worker(self._follow, thread=True, group="feed")
            self.set_interval(_OUTPUT_S, self._show_output)

    def on_unmount(self) -> None:
        """End the wait for news, which would hold up the end."""
        if self._feed is not None:
            self._feed.stop()

    @property
    def tree_pane(self) -> TreePane:
        """The tree."""
        return self.query_one(TreePane)

    @property
    def lower_pane(self) -> LowerPane:
        """The pane below the tree."""
        return self.query_one(LowerPane)

    @property
    def is_busy(self) -> bool:
        """True while lines or a text are being made."""
        works = any(each.group != "feed" for each in self.workers)
        return self._is_building or works or self.lower_pane.is_waiting

    # -- lines of the tree

    def _build(self, options: ViewOptions) -> None:
        """Have the lines of the tree made in a thread."""
        self._newest += 1
        self._is_building = True
        number, subject, glyphs = self._newest, self._subject, self._glyphs
        self._tell()

        def work() -> None:
            try:
                rows = subject.rows(options, glyphs)
                if isinstance(rows, TreeRows):
                    # Here, and not when a key asks for it.
                    _ = rows.path_keys, rows.line_of, rows.symbol_texts
                self.post_message(self._Built(number, options, rows))
            except TileprofError as error:
                self.post_message(self._Built(number, options, None, error.message))

        self.run_worker(work, thread=True, group="rows")

    @on(_Built)
    def _take_rows(self, built: _Built) -> None:
        if built.number != self._newest:
            return
        self._is_building = False
        if built.rows is None:
            self._tell(built.error)
            return
        self._options, tree = built.options, self.tree_pane
        if isinstance(built.rows, str):
            tree.show(None, None)
            self._nothing = built.rows
        else:
            state = TreeState(built.rows, self._choices)
            state.search(self._pattern)
            tree.show(state, None)
            # Passing over a large profile's objects again and again would take half a second each.
            gc.freeze()
        self.lower_pane.about(self._details, tree.state)
        self._lay_out()

    @on(TreePane.Widened)
    def _lay_out(self) -> None:
        """Lay columns out for the width that there is, and draw everything."""
        tree, width = self.tree_pane, self.size.width
        if not width:
            return
        title = self._subject.title(width, self._glyphs, self._color)
        self.query_one("#title", FixedLines).show(title)
        head = list[str]()
        if tree.state is not None:
            # A bar for scrolling must not move the columns.
            drawn = tree.state.rows.drawn(width - tree.scrollbar_size_vertical, self._color)
            tree.show(tree.state, drawn)
            head = [drawn.header(), drawn.whole()]
        self.query_one("#head", FixedLines).show(head)
        tree.redraw()

    # -- the last line

    @on(TreePane.Changed)
    def _take_change(self, changed: TreePane.Changed) -> None:
        self._tell(changed.said)
        self.lower_pane.follow()

    def _tell(self, said: str = "") -> None:
        """Say something until the next key, or what there is to see."""
        text = (said or " | ".join(self._facts())).replace("\n", " ")
        shown = fit(text, self.size.width, self._glyphs)
        style = "33" if said else "2"
        self.query_one("#status", FixedLines).show([paint(shown, style, self._color)])

    def _facts(self) -> Iterator[str]:
        state = self.tree_pane.state
        if self._status:
            yield self._status
        if self._is_building:
            yield "working"
        if state is not None:
            yield from in_words(state, self._options, self._pattern)
        elif self._nothing and not self._runs:
            yield self._nothing

    # -- searching

    def action_search(self) -> None:
        """Ask for what to search."""
        if self.tree_pane.state is None:
            return
        self._before_search = self.tree_pane.state.cursor
        field = self.query_one("#search", Input)
        field.value = ""
        field.display = True
        field.focus()

    @on(Input.Changed, "#search")
    def _search(self, event: Input.Changed) -> None:
        state, start = self.tree_pane.state, self._before_search
        if state is None or not event.input.display:
            return
        try:
            found = state.search(event.value)
        except TileprofError as error:
            self._tell(error.message)
            return
        self._pattern = event.value
        here = None if not found or state.matches[start] else state.next_match(1, start)
        self.tree_pane.reveal(start if here is None else here)

    @on(Input.Submitted, "#search")
    def _end_search(self) -> None:
        self.query_one("#search", Input).display = False
        self.tree_pane.focus()

    # -- options

    def action_choose(self, option: str) -> None:
        """Ask for the value of an option."""
        if option not in self._subject.menus:
            self._tell(f"{option}: not for two profiles compared.")
            return
        values: Sequence[str]
        values = self._subject.metrics() if option == "metric" else CHOICES[option]

        def take(value: str | None) -> None:
            if value is not None:
                self._set(option, value)

        now = f"{self._choices.threshold:g}"
        held = now if option == "threshold" else current(self._options, option)
        self.push_screen(ChoiceScreen(option, values, held), take)

    def _set(self, option: str, value: str) -> None:
        if option != "threshold":
            self._build(changed(self._options, option, value, self._given))
            return
        self._choices.threshold = float(value)
        if self.tree_pane.state is not None:
            self.tree_pane.state.set_threshold(float(value))
            self.tree_pane.redraw()

    # -- the pane below

    def action_pane(self, kind: Kind) -> None:
        """Show a pane, or take it away where it is there."""
        if kind == "output" and self._feed is None:
            self._tell("No program runs: `tileprof run --live` shows what one prints.")
            return
        self.lower_pane.toggle(kind)
        if self.lower_pane.kind == "findings":
            self.lower_pane.text.focus()
        else:
            self.tree_pane.focus()
        self._show_output()

    def action_switch(self) -> None:
        """Go from the tree to the pane, or back."""
        if self.lower_pane.kind and not self.lower_pane.text.has_focus:
            self.lower_pane.text.focus()
        else:
            self.tree_pane.focus()

    def action_leave_pane(self) -> None:
        """Go back to the tree; there, forget the search."""
        field = self.query_one("#search", Input)
        if self.tree_pane.has_focus or field.display:
            field.display = False
            self._pattern = ""
            if self.tree_pane.state is not None:
                self.tree_pane.state.search("")
                self.tree_pane.redraw()
        self.tree_pane.focus()

    @on(LowerPane.Jump)
    def _jump(self, jump: LowerPane.Jump) -> None:
        """Choose the line that a finding is about."""
        place, state = jump.finding.place, self.tree_pane.state
        line = None if state is None else state.line_of_path(place.path, place.kernel)
        if line is None:
            self._tell("The tree has no line for the place of this finding: try frames (f).")
            return
        self.tree_pane.focus()
        self.tree_pane.reveal(line)

    # -- a program that runs

    def _follow(self) -> None:
        """Take news until the program is over; in a thread."""
        worker, feed = get_current_worker(), self._feed
        while feed is not None and not worker.is_cancelled:
            update = feed.next()
            self.post_message(self._News(update))
            if update.is_over:
                return

    @on(_News)
    def _take_news(self, news: _News) -> None:
        self._status = news.update.status
        self._runs = not news.update.is_over
        if (subject := news.update.subject) is None:
            self._tell()
            return
        self._subject = subject
        self._details = Details(subject.profile, self._glyphs, self._color)
        self._build(self._options)
        if news.update.is_over and self.lower_pane.kind == "findings":
            # Only now: the program has needed the processors.
            self.lower_pane.about(self._details, self.tree_pane.state)
            self.lower_pane.fill()

    def _show_output(self) -> None:
        if self._feed is not None:
            self.lower_pane.show_output(self._feed.output())

    def action_interrupt(self) -> None:
        """Ask the program that runs to end; leave where there is none."""
        if self._feed is None or not self._runs or not self._feed.interrupt():
            self.exit()

    def action_leave(self) -> None:
        """Leave."""
        self.exit()

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen(help_lines()))
