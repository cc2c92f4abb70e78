"""The list, a task and a result as text and as HTML."""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

from .catalogue import COURSE, number
from .exercise import TRACKS, Exercise, Result

if TYPE_CHECKING:
    from .face import Course, Task

_WIDTH = 96
_STYLE = "font:13px/1.45 system-ui,sans-serif;max-width:60em"
_MONO = "font:12px/1.4 ui-monospace,monospace;white-space:pre-wrap;margin:6px 0"


def course_text(course: Course) -> str:
    """Return the list of exercises, grouped by track."""
    rows = course.rows
    solved = sum(done for _, _, done in rows)
    folder = course.folder.path
    where = "this folder" if str(folder) == "." else folder
    lines = [f"{solved} of {len(rows)} puzzles solved in {where}"]
    widest = max(len(each.name) for each in COURSE)
    for track in TRACKS:
        held = [row for row in rows if row[1].track == track]
        if held:
            lines += ["", track]
        for at, each, done in held:
            mark = "solved" if done else ""
            lines.append(f"  {at:>2}  {each.name:<{widest}}  {each.title:<58} {mark}".rstrip())
    lines.append("")
    if course.next is not None:
        lines.append(f"Start the next one: tileprof learn {course.next.name}")
    else:
        lines.append("All of them are solved.")
    return "\n".join(lines)


def course_html(course: Course) -> str:
    """Return the list of exercises as a table."""
    rows = "".join(
        f"<tr><td>{at}</td><td><code>{each.name}</code></td><td>{html.escape(each.title)}</td>"
        f"<td>{each.track}</td><td>{'✓ solved' if done else ''}</td></tr>"
        for at, each, done in course.rows
    )
    solved = sum(done for _, _, done in course.rows)
    return (
        f'<div style="{_STYLE}"><b>{solved} of {len(course.rows)} puzzles solved</b>'
        f"<table>{rows}</table></div>"
    )


def task_text(task: Task) -> str:
    """Return the task of an exercise on one screen."""
    each = task.exercise
    parts = [f"{number(each)} of {len(COURSE)} · {each.name}: {each.title}", _wrapped(each.task)]
    if each.spec is not None:
        parts.append("As NumPy:\n\n" + textwrap.indent(each.spec_text(), "    "))
    if each.judge.conditions:
        wanted = "\n".join(f"  - {text}" for text in each.judge.conditions)
        parts.append(f"{_head(each)}:\n{wanted}")
    if each.uses:
        uses = "To read: " + ", ".join(f"docs/{use}" for use in each.uses)
        parts.append(textwrap.fill(uses, _WIDTH, break_on_hyphens=False, subsequent_indent=" " * 9))
    state = "Your file" if task.written else "Your file, left as it is"
    parts.append(
        f"{state}: {task.file}\n"
        f"  tileprof learn {each.name} --check\n"
        f"  tileprof learn {each.name} --hint"
    )
    return "\n\n".join(parts)


def task_html(task: Task) -> str:
    """Return the task of an exercise for a notebook."""
    each = task.exercise
    title = html.escape(f"{number(each)} of {len(COURSE)} · {each.name}: {each.title}")
    parts = [f"<div><b>{title}</b></div>"]
    parts += [
        preformatted(text) if is_table else f"<p>{html.escape(text)}</p>"
        for text, is_table in _paragraphs(each.task)
    ]
    if each.spec is not None:
        parts.append(preformatted(each.spec_text()))
    if each.judge.conditions:
        held = "".join(f"<li>{html.escape(text)}</li>" for text in each.judge.conditions)
        parts.append(f"<div>{_head(each)}:<ul>{held}</ul></div>")
    parts.append("<div>The starter:</div>" + preformatted(each.starter.strip()))
    if each.spec is not None:
        call = html.escape(f'tileprof.learn.check("{each.name}", {each.name})')
        parts.append(f"<div>Check the kernel of a cell: <code>{call}</code></div>")
    else:
        name = each.judge.conditions[0].partition(":")[0]
        call = html.escape(f'tileprof.learn.check("{each.name}", {name}=…)')
        parts.append(f"<div>Check answers: <code>{call}</code></div>")
    return f'<div style="{_STYLE}">{"".join(parts)}</div>'


def result_html(result: Result) -> str:
    """Return a result for a notebook."""
    mark = "✓" if result.passed else "✗"
    return f'<div style="{_STYLE}">{mark} {preformatted(result.text())}</div>'


def preformatted(text: str) -> str:
    """Return text in a fixed-width font."""
    return f'<pre style="{_MONO}">{html.escape(text)}</pre>'


def _wrapped(text: str) -> str:
    """Return paragraphs filled to a width; indented lines stay as they are."""
    return "\n\n".join(
        held if is_table else textwrap.fill(held, _WIDTH) for held, is_table in _paragraphs(text)
    )


def _paragraphs(text: str) -> list[tuple[str, bool]]:
    """Return paragraphs on one line each, and tables as they are; whether each is a table."""
    held = textwrap.dedent(text).strip().split("\n\n")
    return [(p, True) if p.startswith("  ") else (" ".join(p.split()), False) for p in held]


def _head(exercise: Exercise) -> str:
    """Return what stands above the conditions or questions of an exercise."""
    return "To answer" if exercise.spec is None else "Beyond right values"
