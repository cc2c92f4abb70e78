"""The interactive view of profiles, for the commands that offer it.

In: what is to be shown, and the reader's options.  Out: the view on the terminal, until it is left.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tileprof.errors import UsageError, from_extra

from . import terminal

if TYPE_CHECKING:
    from tileprof.tui import Feed, Subject
    from tileprof.viewer import ViewOptions


def check_terminal(option: str) -> None:
    """Raise UsageError where there is no terminal, MissingDependencyError without Textual."""
    if not (terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)):
        raise UsageError(
            f"`{option}` needs a terminal: it reads keys from standard input, and draws on standard"
            " error",
            hint=f"Leave out `{option}`, or run it in a terminal.",
        )
    with from_extra("tui"):
        import textual  # noqa: F401 # asked before a program is started


def browse(subject: Subject, options: ViewOptions, feed: Feed | None = None) -> None:
    """Show the view until the reader leaves it."""
    from tileprof.tui import Browser

    err = sys.stderr
    view = Browser(
        subject,
        options,
        color=terminal.has_color(err),
        unicode=terminal.has_unicode(err),
        feed=feed,
    )
    with terminal.given_away():
        view.run()
    if view.return_code:
        # Textual has printed what went wrong.
        raise SystemExit(view.return_code)
