"""Finding the node of a call path without building the path: chains of frames, learned once.

A path is followed from the innermost frame outwards, one `Link` a frame; a link matches when the
frame runs the same code at the same instruction. Most frames match what was there last time, so a
frame costs two comparisons and no dictionary. Line numbers, names and nodes are worked out only
when a chain is seen for the first time (`paths`).
"""

from __future__ import annotations

from collections.abc import Hashable
from types import CodeType, FrameType
from typing import Any, Generic, TypeVar

_Node = TypeVar("_Node")
"""Type of the node at the end of a path; nothing here looks into it."""
_NONE: dict[tuple[int, int], Link[Any]] = {}
_UNKNOWN = compile("", "<no code>", "exec")


def line_of(frame: FrameType) -> int:
    """Return the line that a frame is at, as `line_at` does."""
    return frame.f_lineno or line_at(frame.f_code, frame.f_lasti)


def line_at(code: CodeType, offset: int) -> int:
    """Return the line of the instruction at an offset in bytes, else of the nearest one before it.

    Compilers give no line to some jumps, such as the one that ends a loop's body after an `if`.
    Threads are interrupted at jumps more than elsewhere. A function without any such line has the
    line of its definition.
    """
    nearest = code.co_firstlineno
    for start, _, line in code.co_lines():
        if start > offset:
            break
        if line is not None:
            nearest = line
    return nearest


class Link(Generic[_Node]):
    """One frame of learned chains, or, as an anchor, the point before their innermost frame."""

    __slots__ = ("ahead", "at_stop", "at_top", "code", "lasti", "others")

    def __init__(self, code: CodeType = _UNKNOWN, lasti: int = -2) -> None:
        # Held, not only compared: an id may be given to another code object once this one is gone.
        self.code = code
        self.lasti = lasti
        self.ahead: Link[_Node] = _END
        """The calling frame, as it was last time."""
        self.others: dict[tuple[int, int], Link[_Node]] = _NONE
        """Calling frames seen here, by identity of code and instruction, once there are two."""
        self.at_stop: _Node | None = None
        """The node of the path whose outermost frame this is, up to the frame of a scope."""
        self.at_top: _Node | None = None
        """The same, where the chain ran to the thread's first frame and met no scope's frame."""

    def further(self, code: CodeType, lasti: int) -> Link[_Node]:
        """Return the link of a calling frame, made where it is new."""
        last, key = self.ahead, (id(code), lasti)
        if last.code is code and last.lasti == lasti:
            return last
        if (link := self.others.get(key)) is None:
            link = Link(code, lasti)
            if last is not _END:
                others = {**self.others, (id(last.code), last.lasti): last, key: link}
                self.others = others
        self.ahead = link
        return link


_END: Link[Any] = Link.__new__(Link)
_END.code, _END.lasti, _END.ahead, _END.others = _UNKNOWN, -2, _END, _NONE
_END.at_stop = _END.at_top = None


class PathCache(Generic[_Node]):
    """Anchors of the chains that lead down from one scope, by what they lead to."""

    __slots__ = ("launches", "samples", "scopes")

    def __init__(self) -> None:
        self.scopes: dict[str, Link[_Node]] = {}
        self.launches: dict[Hashable, Link[_Node]] = {}
        self.samples: dict[tuple[int, int], Link[_Node]] = {}
        """Anchors of lines in which threads were seen, by identity of code and line."""

    def sampled(self, code: CodeType, line: int) -> Link[_Node]:
        """Return the anchor of a line, made where it is new: the point before its frame's caller.

        A sample may fall on any instruction of a line, each of which would have a chain of its own.
        """
        key = id(code), line
        link = self.samples.get(key)
        if link is None:
            # It holds the code: no other one gets that identity.
            link = self.samples[key] = Link(code, line)
        return link

    def clear(self) -> None:
        """Forget all chains; they are learned again when they are met."""
        self.scopes, self.launches, self.samples = {}, {}, {}


def follow(anchor: Link[_Node], frame: FrameType | None, stop: FrameType | None) -> _Node | None:
    """Return the node at the end of the chain from `frame` out to `stop`, None if it is unknown.

    `stop` is not part of the chain. Where it is not met, the chain runs to the outermost frame.
    """
    link = anchor
    while frame is not stop:
        if frame is None:
            return link.at_top
        ahead = link.ahead
        if ahead.code is not frame.f_code or ahead.lasti != frame.f_lasti:
            known = link.others.get((id(frame.f_code), frame.f_lasti))
            if known is None:
                return None
            link.ahead = ahead = known
        link = ahead
        frame = frame.f_back
    return link.at_stop
