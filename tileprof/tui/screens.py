"""Small screens over the tree: a choice of one value, and the list of keys.

In: what there is to choose, or lines of help.  Out: the chosen value, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from tileprof.viewer.text import safe

_STYLE = """
ChoiceScreen, HelpScreen { align: center middle; background: transparent; }
ChoiceScreen > Vertical, HelpScreen > Vertical {
    width: auto; height: auto; max-height: 90%; max-width: 90%; border: solid ansi_blue;
    padding: 0 1; background: ansi_default;
}
ChoiceScreen OptionList {
    width: 40; max-width: 100%; height: auto; max-height: 20; border: none;
    background: ansi_default;
}
HelpScreen Static { width: auto; }
"""


class ChoiceScreen(ModalScreen[str | None]):
    """A list of values of which one is chosen."""

    DEFAULT_CSS = _STYLE
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "cancel"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, title: str, values: Sequence[str], current: str) -> None:
        super().__init__()
        self._title, self._values, self._current = title, values, current

    def compose(self) -> ComposeResult:
        """Build the list, with the present value chosen."""
        with Vertical():
            yield Static(Text(self._title, style="bold"))
            yield OptionList(*(Text(safe(each, color=False)) for each in self._values))

    def on_mount(self) -> None:
        """Begin at the present value."""
        if self._current in self._values:
            self.query_one(OptionList).highlighted = self._values.index(self._current)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the chosen value."""
        self.dismiss(self._values[event.option_index])

    def action_cancel(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def action_down(self) -> None:
        """Go to the next value."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """Go to the value before."""
        self.query_one(OptionList).action_cursor_up()


class HelpScreen(ModalScreen[None]):
    """All keys, and what they do."""

    DEFAULT_CSS = _STYLE
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "close", "close")
    ]

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = list(keys)

    def compose(self) -> ComposeResult:
        """Build one text of all lines."""
        room = max(len(key) for key, _ in self._keys)
        text = Text()
        for key, meaning in self._keys:
            text.append(f"{key:<{room}}  ", style="bold")
            text.append(f"{meaning}\n")
        text.append("\nA click chooses a line; another one opens or folds it.", style="dim")
        with Vertical():
            yield Static(text)

    def action_close(self) -> None:
        """Go back to the tree."""
        self.dismiss(None)
