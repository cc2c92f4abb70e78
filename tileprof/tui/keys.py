"""Keys of the interactive view: what each does, and how the list of keys describes it.

In: nothing.  Out: bindings for the parts of the screen, and the lines of the help.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """Some keys with one meaning."""

    keys: str
    """Names in Textual's spelling, separated by commas."""
    action: str
    shown: str
    """The keys as people name them."""
    meaning: str
    short: str = ""
    """Name on the last line of the screen; '' where it is not there."""

    @property
    def binding(self) -> BindingType:
        """The key as Textual binds it."""
        return Binding(self.keys, self.action, self.short, show=bool(self.short))


MOVES = (
    Key("down,j", "move(1)", "↓ j", "next line; in findings, the next finding"),
    Key("up,k", "move(-1)", "↑ k", "line before"),
    Key("pagedown", "page(1)", "PgDn", "a screen down"),
    Key("pageup", "page(-1)", "PgUp", "a screen up"),
    Key("home", "edge(0)", "Home", "first line"),
    Key("end", "edge(1)", "End", "last line"),
)
"""Keys of everything that scrolls."""
TREE = (
    Key("right,l", "inwards", "→ l", "open; then go to the first line below"),
    Key("left,h", "outwards", "← h", "fold; then go to the line above in the tree"),
    Key("enter,space", "fold", "Enter Space", "open or fold; in findings, go to the place"),
    Key("plus", "spread(1)", "+", "open all levels below"),
    Key("minus", "spread(0)", "-", "fold all levels below"),
    Key("n", "match(1)", "n", "next match of the search"),
    Key("N", "match(-1)", "N", "match before"),
)
"""Further keys of the tree."""
TEXT = (Key("enter,space", "jump", "", ""),)
"""Further keys of the pane below it."""
EVERYWHERE = (
    Key("slash", "search", "/", "search names and places (a regular expression)", "search"),
    Key("s", "choose('metric')", "s", "sort by a metric, which becomes the first column", "sort"),
    Key("g", "choose('group')", "g", "group by module, phase, kernel, line, thread or stream",
        "group"),
    Key("v", "choose('mode')", "v", "view top-down, bottom-up or flat", "view"),
    Key("f", "choose('frames')", "f", "frames of Python: user, library or all", "frames"),
    Key("t", "choose('threshold')", "t", "put lines below a percentage out of sight", "threshold"),
    Key("1", "pane('source')", "1", "source of the line", "source"),
    Key("2", "pane('sass')", "2", "machine code of its kernel", "SASS"),
    Key("3", "pane('findings')", "3", "findings, as `tileprof report` has them", "findings"),
    Key("4", "pane('output')", "4", "output of a program that runs"),
    Key("tab", "switch", "Tab", "between the tree and the pane"),
    Key("escape", "leave_pane", "Esc", "end the search; back to the tree"),
    Key("question_mark", "help", "?", "this list", "keys"),
    Key("q", "leave", "q", "quit", "quit"),
)  # fmt: skip
"""Keys that do the same wherever the reader is."""


def help_lines() -> list[tuple[str, str]]:
    """Return all keys with what they do."""
    return [(each.shown, each.meaning) for each in (*MOVES, *TREE, *EVERYWHERE)]
