"""The interactive view without a terminal: keys in, the screen as plain text out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.widget import Widget

from tileprof.tui import Browser, Feed, Subject
from tileprof.tui.tree_pane import TreePane
from tileprof.viewer import ViewOptions

PARTS = ("#title", "#head", "#tree", "#about", "#text", "#status")
Step = str | Callable[[Browser], Awaitable[None]]


def play(
    subject: Subject,
    *steps: Step,
    options: ViewOptions | None = None,
    size: tuple[int, int] = (80, 24),
    unicode: bool = True,
    feed: Feed | None = None,
) -> list[str]:
    """Return the screen at first and after each step: keys with spaces between, or a function."""
    return asyncio.run(_play(subject, steps, options or ViewOptions(), size, unicode, feed))


async def _play(
    subject: Subject,
    steps: Sequence[Step],
    options: ViewOptions,
    size: tuple[int, int],
    unicode: bool,
    feed: Feed | None,
) -> list[str]:
    view = Browser(subject, options, unicode=unicode, feed=feed)
    seen = []
    async with view.run_test(size=size) as pilot:
        await _settled(view, pilot)
        seen.append(screen_of(view))
        for step in steps:
            if callable(step):
                await step(view)
            else:
                await pilot.press(*step.split(" "))
            await _settled(view, pilot)
            seen.append(screen_of(view))
    return seen


async def _settled(view: Browser, pilot: Any) -> None:
    """Wait until all is made and drawn."""
    for _ in range(3):
        await pilot.pause()
        while view.is_busy:
            await asyncio.sleep(0.005)


def screen_of(view: Browser) -> str:
    """Return the parts of the screen as text; `>` is before lines that are chosen."""
    main = view.screen_stack[0]
    lines = []
    for part in PARTS:
        widget = main.query_one(part)
        if part in ("#about", "#text") and not view.lower_pane.display:
            continue
        drawn = lines_of(widget)
        while isinstance(widget, TreePane) and drawn and not drawn[-1].strip():
            drawn.pop()
        lines += drawn
    return "\n".join(lines) + "\n"


def lines_of(widget: Widget) -> list[str]:
    """Return the lines of a part of the screen."""
    lines = []
    for y in range(widget.size.height):
        strip = list(widget.render_line(y))
        text = "".join(segment.text for segment in strip).rstrip()
        chosen = any(segment.style is not None and segment.style.reverse for segment in strip)
        lines.append(f"{'>' if chosen else ' '}{text}".rstrip())
    return lines
