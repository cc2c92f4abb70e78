"""Every error that a user can see, and the source locations that errors, ops and profiles share.

In: a sentence, a place, a way out.  Out: one message, complete in `str()`; only `cli` prints it and
picks an exit code.

    TileprofError
    ├── UsageError               the command line or the API was used wrongly (exit code 2)
    ├── KernelError              the text of a kernel is wrong: raised while it is compiled
    │   ├── UnsupportedPython    Python that a kernel cannot use
    │   ├── UnknownOperation     `T.something` that does not exist
    │   ├── TooLarge             a block asks for more of a resource than the target has
    │   ├── ShapeError           shapes or ranks that do not fit
    │   └── DTypeError           element types that do not fit
    ├── ArgumentError            a call does not match the kernel's signature
    ├── ExecutionError           a kernel went wrong while it ran
    │   ├── BoundsError          an access outside its buffer
    │   ├── UninitializedError   a read of an element that nobody wrote
    │   ├── RaceError            two blocks or two parallel iterations write one element
    │   └── DeviceAssertError    `T.device_assert` failed
    ├── BuildError               the system compiler refused the emitted source
    ├── ProfileFileError         a file is no profile, is cut short, or comes from the future
    ├── CubinError               a file is no cubin, is cut short, or cannot be disassembled
    ├── OutputError              a result cannot be written where it should go
    ├── MissingDependencyError   an optional package or tool is not there
    └── InternalError            a fault of tileprof itself; please report it
"""

from __future__ import annotations

import difflib
import linecache
import os
import stat
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, TracebackType
from typing import Literal, Self

MOST_SOURCE_BYTES = 16 << 20
"""Size of a source file whose lines are shown."""


def source_lines(file: str) -> list[str]:
    """Return the lines of a source file that a place names; none where it cannot be read.

    Places come from files that anyone may have written, so what they name may be a device that
    never ends or a pipe that nobody writes to: only regular files are read.
    """
    if file not in linecache.cache:
        try:
            found = os.stat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_SOURCE_BYTES:
                return []
        except (OSError, ValueError):
            # `linecache` knows modules in archives, and looks for other names on Python's path.
            if os.path.isabs(file) or ".." in file or "\0" in file:
                return linecache.getlines(file) if file.endswith(".py") else []
    return linecache.getlines(file)


_LONGEST_EXCERPT = 400
"""Characters of a source line that an error shows; longer ones are cut and have no caret."""


@dataclass(frozen=True, slots=True)
class Location:
    """A span of source text; `line` counts from 1, columns from 0 (0 and 0 when only the line is
    known)."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None
    """Where the function was called from, for code inlined from a macro."""
    scope: int | None = field(default=None, compare=False, repr=False)
    """While a kernel is lowered with measurement on: the innermost scope around, a number among
    `Kernel.sites`.  It is no part of the place."""

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column + 1}"
            if self.end_column
            else f"{self.file}:{self.line}"
        )

    @property
    def short(self) -> str:
        """The place without its folder: `train.py:12`; the file alone where no line is known.

        Files that every package has are named with their folder: `pytest/__main__.py:9`.
        """
        folder, _, name = self.file.replace("\\", "/").rpartition("/")
        if name in ("__init__.py", "__main__.py"):
            name = f"{folder.rpartition('/')[2]}/{name}".lstrip("/")
        return f"{name}:{self.line}" if self.line else name

    def to_json(self) -> dict[str, str | int]:
        """Return what JSON forms say of a place."""
        return {"file": self.file, "line": self.line, "function": self.function}

    def chain(self) -> Iterator[Location]:
        """This place, then the calls that led to it, outwards."""
        place: Location | None = self
        while place is not None:
            yield place
            place = place.caller

    def excerpt(self) -> str:
        """The source line with a caret under the span; empty where the file cannot be read."""
        lines = source_lines(self.file)
        text = lines[self.line - 1].rstrip("\n") if 1 <= self.line <= len(lines) else ""
        if not text.strip():
            return ""
        shown = text.strip()
        if not self.end_column or len(shown) > _LONGEST_EXCERPT:
            cut_off = " …" if len(shown) > _LONGEST_EXCERPT else ""
            return f"    {shown[:_LONGEST_EXCERPT]}{cut_off}"
        cut = len(text) - len(text.lstrip())
        # Columns come from the compiler as UTF-8 byte offsets; the caret counts characters.
        start = max(len(text.encode()[: self.column].decode(errors="ignore")) - cut, 0)
        last_line = self.end_line in (0, self.line)
        end = (
            len(text.encode()[: self.end_column].decode(errors="ignore")) - cut
            if last_line
            else len(shown)
        )
        return f"    {shown}\n    {' ' * start}{'^' * max(end - start, 1)}"


def _callers(inner: Location) -> list[str]:
    """One line for each call that leads to a place; a call that repeats itself is counted."""
    calls: list[tuple[str, int]] = []
    while (caller := inner.caller) is not None:
        line = f"  in `{inner.function}`, called from {caller}"
        again = calls.pop()[1] if calls and calls[-1][0] == line else 0
        calls.append((line, again + 1))
        inner = caller
    return [line if n == 1 else f"{line} ({n} times)" for line, n in calls]


def said(error: BaseException) -> str:
    """Return an error as `ValueError: text`."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def last_line(error: BaseException, file: str) -> Location | None:
    """Return the innermost line of a file that an error came through; None for none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == file and each.lineno]
    return Location(file, lines[-1]) if lines else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean …? ` for a name that is nearly one of those that exist, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean `{near[0]}`? " if near else ""


class TileprofError(Exception):
    """Base class of all errors: a message, its source location if there is one, and what to do."""

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "") -> None:
        self.message = message
        self.location = location
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        lines: list[str] = []
        if self.location is None:
            lines.append(self.message)
        else:
            lines.append(f"{self.location}: {self.message}")
            if excerpt := self.location.excerpt():
                lines.append(excerpt)
            lines += _callers(self.location)
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class UsageError(TileprofError):
    """The command line or the API was used wrongly."""


class KernelError(TileprofError):
    """The text of a kernel is wrong."""


Resource = Literal["shared memory", "registers", "threads", "barriers"]
"""What the blocks of a launch ask of a multiprocessor."""


class TooLarge(KernelError):
    """A block asks for more of a resource than the target has."""

    def __init__(
        self, message: str, resource: Resource, *, location: Location | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, location=location, hint=hint)
        self.resource: Resource = resource


class UnsupportedPython(KernelError):
    """Python that a kernel cannot use."""


class UnknownOperation(KernelError, AttributeError):
    """`T.something` that does not exist."""

    @property
    def name(self) -> None:
        """Nothing: with a name, Python adds a suggestion of its own after the way out."""
        return None

    @name.setter
    def name(self, value: object) -> None:
        pass


class ShapeError(KernelError):
    """Shapes or ranks that do not fit."""


class DTypeError(KernelError):
    """Element types that do not fit."""


class ArgumentError(TileprofError, TypeError):
    """A call does not match the kernel's signature."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a buffer, and who accessed it."""

    buffer: str
    index: tuple[int, ...]
    block: tuple[int, ...] | None
    """Indices of the block; None outside a launch."""
    point: tuple[tuple[str, int], ...] = ()
    """Loop variables of the `T.Parallel`s around, with their values."""


class ExecutionError(TileprofError):
    """A kernel went wrong while it ran."""

    elements: tuple[Element, ...] = ()
    """The accesses that show it: one that is out of bounds or reads what nobody wrote, or two that
    race.  Both have the error's location, as far as the interpreter knows."""

    def at(self, *elements: Element) -> Self:
        """Return the error with the accesses that show it."""
        self.elements = elements
        return self


class BoundsError(ExecutionError, IndexError):
    """An access outside its buffer."""


class UninitializedError(ExecutionError):
    """A read of an element that nobody wrote."""


class RaceError(ExecutionError):
    """Two blocks or two parallel iterations write one element."""


class DeviceAssertError(ExecutionError, AssertionError):
    """`T.device_assert` failed."""


class BuildError(TileprofError):
    """The system compiler refused the emitted source."""


class ProfileFileError(TileprofError):
    """A file is no profile, is cut short, or comes from the future."""


class CubinError(TileprofError):
    """A file is no cubin, is cut short, or cannot be disassembled."""


class OutputError(TileprofError):
    """A result cannot be written where it should go."""


class MissingDependencyError(TileprofError, ImportError):
    """An optional package or tool is not there."""


def extra_command(extra: str) -> str:
    """Return the command that installs an extra of tileprof, one of `pyproject.toml`."""
    return f'pip install "tileprof[{extra}]"'


@contextmanager
def from_extra(extra: str) -> Iterator[None]:
    """Wrap the import of a package that an extra of tileprof installs.

    Raises `MissingDependencyError` with the command that installs it where it is not there.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            f"{str(missing.name).partition('.')[0]} is not installed",
            hint=f"Install it: {extra_command(extra)}",
        ) from None


class InternalError(TileprofError):
    """A fault of tileprof itself; the message asks for a report."""


def without_frames(
    trace: TracebackType | None, is_left_out: Callable[[CodeType], bool]
) -> TracebackType | None:
    """Return a traceback without the frames that run such code."""
    kept = []
    while trace is not None:
        if not is_left_out(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for each in reversed(kept):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made
