"""Location of an op in the user's source: the first frame outside of tileprof, and its callers."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from types import CodeType, FrameType, TracebackType

from tileprof.errors import InternalError, Location, TileprofError, without_frames

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"})

_BETWEEN = frozenset({contextlib.__file__, ast.__file__})

_ours: dict[str, bool] = {}
# Code objects compare by content, which is slow to hash; the object is kept so that its id stays.
_positions: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}
_locations: dict[tuple[int, int, str, Location | None], Location] = {}
_MAX_LOCATIONS = 100_000


def here(root: CodeType | None = None) -> Location | None:
    """Return the user's line that is running.

    With `root`, the code of a kernel, the chain of calls from that kernel down to the line (through
    macros and helpers) is in `caller`.
    """
    frames = _user_frames(root)
    location: Location | None = None
    for frame, function in reversed(frames):
        location = _locate(frame, function, location)
    return location


def _user_frames(root: CodeType | None) -> list[tuple[FrameType, str]]:
    """Return frames from the innermost outwards up to the one that runs `root`; only the innermost
    without it."""
    found: list[tuple[FrameType, str]] = []
    frame: FrameType | None = sys._getframe(2)
    inner: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename):
            if code.co_name in _COMPREHENSIONS:
                inner = inner or frame
            else:
                found.append((inner or frame, code.co_name))
                inner = None
                if code is root or root is None:
                    return found
        frame = frame.f_back
    return found[:1]


def is_ours(file: str) -> bool:
    """Return whether a file belongs to tileprof, or stands between it and the user's `with`."""
    known = _ours.get(file)
    if known is None:
        known = file.startswith((_PACKAGE, "<frozen")) or file in _BETWEEN
        _ours[file] = known
    return known


def _locate(
    frame: FrameType, function: str, caller: Location | None, at: int | None = None
) -> Location:
    code = frame.f_code
    at = frame.f_lasti if at is None else at
    key = (id(code), at, function, caller)
    known = _locations.get(key)
    if known is None:
        if len(_locations) >= _MAX_LOCATIONS:
            _locations.clear()
        entry = _positions.get(id(code))
        if entry is None:
            entry = _positions[id(code)] = (code, list(code.co_positions()))
        line, end_line, column, end_column = entry[1][at // 2]
        known = _locations[key] = Location(
            code.co_filename,
            line or frame.f_lineno,
            column or 0,
            end_line or 0,
            end_column or 0,
            function,
            caller,
        )
    return known


def traceback_location(error: BaseException) -> Location | None:
    """Return the user's line where an exception left it; None where it was raised further
    inside."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_ours(trace.tb_frame.f_code.co_filename):
        return None
    return _locate(trace.tb_frame, trace.tb_frame.f_code.co_name, None, trace.tb_lasti)


def hide_internals(error: BaseException) -> None:
    """Leave the user's frames alone in an error's traceback; those of tileprof say nothing about a
    mistake in a kernel, and everything about a fault of tileprof."""
    if isinstance(error, InternalError):
        return
    if isinstance(error, TileprofError) and error.__cause__ is None:
        error.__suppress_context__ = True
    error.__traceback__ = users_traceback(error.__traceback__)


def users_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of tileprof."""
    return without_frames(trace, lambda code: is_ours(code.co_filename))


def function_location(code: CodeType) -> Location:
    """Return the location where a function begins."""
    return Location(code.co_filename, code.co_firstlineno, function=code.co_name)


def node_location(node: object, file: str, function: str) -> Location:
    """Return the place of a syntax node."""
    return Location(
        file,
        getattr(node, "lineno", 0),
        getattr(node, "col_offset", 0),
        getattr(node, "end_lineno", 0) or 0,
        getattr(node, "end_col_offset", 0) or 0,
        function,
    )
