"""Lines on a screen: some that stay where they are, and many that scroll.

In: lines that are made when they come into sight.  Out: what Textual puts on the screen. No part
has a widget for each of its lines, so that their number does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tileprof.tui.strips import strip_of

_SIDE = 1
"""Lines that stay in sight above and below the chosen one, where there are some."""


class FixedLines(Widget):
    """Some lines that do not scroll."""

    DEFAULT_CSS = "FixedLines { height: 0; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, and take as much room."""
        if tuple(lines) == self._lines:
            return
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
        self._lines = tuple(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line."""
        return strip_of(self._lines[y] if y < len(self._lines) else "", self.size.width)


class Scrolled(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that scroll."""

    DEFAULT_CSS = "Scrolled { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    class Widened(Message):
        """The room for lines has another width."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._width = 0

    def count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def strip(self, at: int, width: int) -> Strip:
        """Return the line at a place."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Return the line at a place on the screen."""
        at, width = self.scroll_offset.y + y, self.size.width
        return self.strip(at, width) if 0 <= at < self.count() else Strip.blank(width)

    def resettle(self) -> None:
        """Draw everything again, after the lines have changed."""
        self.virtual_size = Size(self.size.width, self.count())
        self.refresh()

    def show_line(self, at: int, middle: bool = False) -> None:
        """Scroll as little as is needed until a line is in sight.

        `middle` leaves a third of the room above it where anything has to move.
        """
        height, top = self.size.height, self.scroll_offset.y
        side = min(_SIDE, max(height // 2 - 1, 0))
        first, last = at - side, min(at + side, self.count() - 1)
        if height <= 0 or (first >= top and last < top + height):
            return
        wanted = at - height // 3 if middle else first if first < top else last - height + 1
        self.go(wanted)

    def keep_in_sight(self) -> None:
        """Scroll to the chosen line, where there is one."""

    def go(self, top: int) -> None:
        """Scroll to a line, at once."""
        # By force, for Textual scrolls nothing before a bar is there, which comes later.
        self.scroll_to(y=max(top, 0), animate=False, force=True, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """Have lines made for another width; keep the chosen line in sight in another height."""
        self.keep_in_sight()
        if event.size.width != self._width:
            self._width = event.size.width
            self.post_message(self.Widened())
