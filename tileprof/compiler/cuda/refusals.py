"""Errors of NVRTC and ptxas in the author's terms.

In: their messages.  Out: one error with the author's line and where everything else can be read.
What the author asked too much of (registers, memory) is a KernelError; the rest is a fault of the
emitted text, a BuildError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tileprof.errors import BuildError, KernelError, Location

from .ptxas import Locate

_ERROR = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<what>.*)$", re.MULTILINE
)
_FROM = re.compile(r"at line (\d+) of (\S.*)$", re.MULTILINE)
_ASSEMBLER = re.compile(
    r"^ ?ptxas (?:application ptx input, line (?P<line>\d+); )?(?:fatal|error) *: *(?P<what>.*)$",
    re.MULTILINE,
)
_REGISTERS = re.compile(
    r"Insufficient registers \((\d+)\) to compile instruction at line (\d+) in function (\w+)\. "
    r"Try to compile with register target of (\d+)"
)
_SHARED = re.compile(r"'(\w+)' uses too much shared data \((0x\w+) bytes, (0x\w+) max\)")


def refused(log: str, locate: Locate, place: Path, kept: Path) -> BuildError | KernelError:
    """The error for a log: at the author's line where there is one.

    `place` is the folder of files that are not the author's; the messages are in `kept`.
    """
    hint = f"All messages and the source are in {kept}"
    if found := _ERROR.search(log):
        message = log[found.start() :].split("\n\n")[0]
        location = _author_line(found, message, place)
        what = f"NVRTC refused the kernel: {found['what']}"
        return BuildError(what, location=location, hint=hint)
    if short := _REGISTERS.search(log):
        return _out_of_registers(short, locate, hint)
    if large := _SHARED.search(log):
        wanted, limit = (int(n, 16) for n in large.groups()[1:])
        return KernelError(
            f"`{large[1]}` has {wanted:,} bytes of static shared memory; {limit:,} are allowed",
            hint=f"Use smaller or fewer buffers. {hint}",
        )
    if fault := _ASSEMBLER.search(log):
        at = locate("", int(fault["line"])) if fault["line"] else None
        return BuildError(f"ptxas refused the kernel: {fault['what']}", location=at, hint=hint)
    lines = log.strip().splitlines()
    return BuildError(f"NVRTC failed: {lines[-1] if lines else 'it gave no reason'}", hint=hint)


def _author_line(found: re.Match[str], message: str, place: Path) -> Location:
    """Return where an error is: in a header, the innermost line of the author that led there."""
    first = Location(found["file"], int(found["line"]))
    callers = (Location(file, int(line)) for line, file in _FROM.findall(message))
    candidates: Iterator[Location] = (
        each for each in (first, *callers) if Path(each.file).parent != place
    )
    return next(candidates, first)


def _out_of_registers(short: re.Match[str], locate: Locate, hint: str) -> KernelError:
    held, line, function, needed = short.groups()
    return KernelError(
        f"one matrix instruction of `{function}` needs at least {needed} registers a thread, and "
        f"a thread has {held}",
        location=locate(function, int(line)),
        hint=f"Use a smaller tile, or threads that leave more registers to each. {hint}",
    )
