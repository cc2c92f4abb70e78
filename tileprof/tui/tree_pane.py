"""The tree on the screen, and the keys that move in it, fold and search.

In: what is in sight of a tree, and its lines in a width.  Out: messages on what the reader did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tileprof.tui.keys import MOVES, TREE
from tileprof.tui.state import TreeState
from tileprof.tui.strips import strip_of
from tileprof.tui.widgets import Scrolled
from tileprof.viewer.rows import DrawnRows

_MATCH = "1;36"
"""Style of the names that a search found."""
_MOST_STRIPS = 5_000
"""Lines that are kept once they were drawn, a few MB."""


class TreePane(Scrolled):
    """The tree."""

    BINDINGS: ClassVar[list[BindingType]] = [each.binding for each in (*MOVES, *TREE)]

    class Changed(Message):
        """Another line is chosen, or other lines are in sight; `said` is worth telling."""

        def __init__(self, said: str = "") -> None:
            super().__init__()
            self.said = said

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.state: TreeState | None = None
        self.drawn: DrawnRows | None = None
        self._strips: dict[tuple[int, int, str, str, bool], Strip] = {}

    # -- drawing

    def count(self) -> int:
        """Return how many lines are in sight."""
        return 0 if self.state is None else len(self.state)

    def show(self, state: TreeState | None, drawn: DrawnRows | None) -> None:
        """Show another tree, or the same one in another width."""
        self.state, self.drawn = state, drawn
        self._strips.clear()

    def strip(self, at: int, width: int) -> Strip:
        """Return a line of the tree; those drawn before are kept, for most come again."""
        state, drawn = self.state, self.drawn
        if state is None or drawn is None:
            return Strip.blank(width)
        line, glyphs, mark = int(state.visible[at]), drawn.rows.glyphs, ""
        if state.is_parent(line):
            mark = glyphs.open if state.is_open(line) else glyphs.closed
        style = _MATCH if state.matches[line] else ""
        key = (line, width, mark, style, line == state.cursor)
        if key not in self._strips:
            if len(self._strips) >= _MOST_STRIPS:
                self._strips.clear()
            self._strips[key] = strip_of(drawn.row(line, mark, style), width, key[-1])
        return self._strips[key]

    def keep_in_sight(self) -> None:
        """Scroll to the chosen line."""
        if self.state is not None and len(self.state):
            self.show_line(self.state.index)

    def redraw(self, said: str = "") -> None:
        """Draw the tree again, after lines were opened, folded or found."""
        self.resettle()
        self.keep_in_sight()
        self.post_message(self.Changed(said))

    # -- moving

    def _choose(self, act: Callable[[TreeState], None]) -> None:
        """Do something that chooses another line; only that line and the one before are drawn."""
        state = self.state
        if state is None or not len(state):
            return
        before = state.index
        act(state)
        for at in {before, state.index}:
            self.refresh(Region(0, at - self.scroll_offset.y, self.size.width, 1))
        self.show_line(state.index)
        self.post_message(self.Changed())

    def action_move(self, step: int) -> None:
        """Go to the line after or before."""
        self._choose(lambda state: state.choose(state.index + step))

    def action_page(self, step: int) -> None:
        """Go a screen down or up."""
        height = max(self.size.height - 1, 1)
        self._choose(lambda state: state.choose(state.index + step * height))

    def action_edge(self, last: int) -> None:
        """Go to the first or the last line."""
        self._choose(lambda state: state.choose(len(state) - 1 if last else 0))

    def on_click(self, event: events.Click) -> None:
        """Choose a line; open or fold the chosen one."""
        at = self.scroll_offset.y + event.y
        if self.state is None or at >= len(self.state):
            return
        if at == self.state.index:
            self.action_fold()
        else:
            self._choose(lambda state: state.choose(at))

    # -- folding

    def action_inwards(self) -> None:
        """Open the chosen line; go to the first one below where it is open."""
        state = self.state
        if state is None or not state.is_parent(state.cursor):
            return
        if state.is_open(state.cursor):
            self._choose(lambda each: each.choose(each.index + 1))
        else:
            self._set_open(state, True)

    def action_outwards(self) -> None:
        """Fold the chosen line; go to the one above in the tree where it is folded."""
        state = self.state
        if state is None:
            return
        if state.is_parent(state.cursor) and state.is_open(state.cursor):
            self._set_open(state, False)
        else:
            self._choose(lambda each: each.choose_parent())

    def action_fold(self) -> None:
        """Open or fold the chosen line."""
        state = self.state
        if state is not None and state.is_parent(state.cursor):
            self._set_open(state, not state.is_open(state.cursor))

    def _set_open(self, state: TreeState, is_open: bool) -> None:
        before = len(state)
        state.set_open(state.cursor, is_open)
        small = is_open and len(state) == before
        said = f"What is below is less than {state.choices.threshold:g} %: t shows it."
        self.redraw(said if small else "")

    def action_spread(self, is_open: int) -> None:
        """Open or fold all levels below the chosen line."""
        if self.state is not None and len(self.state):
            self.state.set_all_open(self.state.cursor, bool(is_open))
            self.redraw()

    # -- searching

    def action_match(self, step: int) -> None:
        """Go to the next match, or the one before."""
        if self.state is None:
            return
        line = self.state.next_match(step, self.state.cursor)
        if line is None:
            self.post_message(self.Changed("Nothing was found: / searches."))
        else:
            self.reveal(line)

    def reveal(self, line: int) -> None:
        """Choose a line, opening what it is in."""
        if self.state is not None:
            lifted = self.state.reveal(line)
            said = "That line is below the threshold, which is 0 now: t sets another one."
            self.redraw(said if lifted else "")
