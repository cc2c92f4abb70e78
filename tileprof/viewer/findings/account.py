"""Account of the devices' time, in the lines that open a report, and in the words of its page.

In: an account.  Out: its parts with bars, and sentences: idle time and its reasons, what the
program could reach at most, and what its first changes likely bring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tileprof.analyzer import Account
from tileprof.analyzer.shortfalls import SHORTFALLS
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.findings.paper import Paper
from tileprof.viewer.text import bar

_LEAST = 0.005
"""Share of the time from which on a part is named."""
_REASONS = 3
"""Largest number of reasons of idle time that are named."""
_BAR = 12
"""Cells of the bar of a whole."""
_WIDE = 60
"""Cells of a terminal from which on parts have bars."""

_UNKNOWN_WORK = "what these kernels move is not known"
_UNMEASURED = "the device's roofs were not measured (`tileprof doctor --roofs`)"
_HOST = "the peak rates of a CPU are not measured"

Kind: TypeAlias = Literal[
    "floor", "causes", "shortfalls", "unexplained", "copies", "communication", "waiting"
]  # fmt: skip
"""Part of the devices' time; all parts together are the whole."""


@dataclass(frozen=True)
class Part:
    """A part of the devices' time, and how it is called."""

    kind: Kind
    name: str
    meaning: str
    """Explanation of the name; empty where it says so itself."""
    time: float
    """Length, ns."""


def parts_of(account: Account) -> tuple[Part, ...]:
    """Return the parts that add up to the account's time, in the order in which they are named."""
    causes = sum(each.time for each in account.causes)
    least = "the least time of this work on this device"
    shortfalls = sum(time for _, time in account.shortfalls)
    return (
        Part("floor", "floor", least, account.floor),
        Part("causes", "causes named below", "", causes),
        Part("shortfalls", "known limits of kernels", _limits(account), shortfalls),
        Part("unexplained", "unexplained", "", account.unexplained),
        Part("copies", "copies", "", account.copies),
        Part("communication", "communication", "", account.communication),
        Part("waiting", "waiting without a named cause", "", account.waiting),
    )


def _limits(account: Account) -> str:
    """The longest known limits, with their shares of all time."""
    return ", ".join(
        f"{SHORTFALLS[cause]} {format_percent(time / account.time)} %"
        for cause, time in account.shortfalls[:_REASONS]
        if time > _LEAST * account.time
    )


def account_text(account: Account, paper: Paper) -> Iterator[str]:
    """Yield a line for each part of the devices' time, and sentences on what it does not show."""
    time = account.time
    yield from paper.sentence(f"Devices' time in steps, {format_value(time, 'ns')}:")
    for part in parts_of(account):
        if part.time > _LEAST * time:
            yield from _drawn(part, part.time / time, paper)
    if idle := [(name, part) for name, part in account.idle if part > _LEAST * time]:
        whole = format_percent(sum(part for _, part in account.idle) / time)
        named = ", ".join(
            f"{name} {format_percent(part / time)} %" for name, part in idle[:_REASONS]
        )
        yield from paper.sentence(f"Idle, a part of the above: {whole} % ({named}).")
    for each in notes(account):
        yield from paper.sentence(each)


def _drawn(part: Part, share: float, paper: Paper) -> Iterator[str]:
    """Yield the share, a bar and the words of a part."""
    drawn = f"{format_percent(share):>7} %  "
    if paper.width >= _WIDE:
        drawn += f"{bar(share, _BAR, paper.glyphs)}  "
    yield from paper.beside(drawn, _words(part))


def notes(account: Account) -> Iterator[str]:
    """Yield what is not known of the floors, and where they come from; commands in backquotes."""
    if account.unknown > _LEAST * account.time:
        share = format_percent(account.unknown / account.time)
        yield f"{share} % has no floor: {_why_without_floor(account)}."
    if account.assumed:
        yield (
            "Floors are by the roofs of another device of this name; `tileprof doctor --roofs`"
            " measures this one."
        )


def _why_without_floor(account: Account) -> str:
    kernels = account.without_floor
    devices = {each.case.device for each in kernels if each.lacks_roofs}
    reasons = [] if all(each.lacks_roofs for each in kernels) else [_UNKNOWN_WORK]
    if devices - {"cpu"}:
        reasons.append(_UNMEASURED)
    elif devices:
        reasons.append(_HOST)
    return ", or ".join(reasons)


def gains(account: Account) -> Iterator[str]:
    """Yield what can be reached at most, where that is known, and by the first changes."""
    if math.isfinite(account.most):
        yield f"By its floors the program could be {account.most:.1f}× as fast at most."
    count, gain = account.first
    if count > 1:
        yield (
            f"The first {count} suggestions together likely make it {gain.mid:.2f}× as fast"
            f" ({gain.low:.2f}–{gain.high:.2f})."
        )


def _words(part: Part) -> str:
    return f"{part.name}: {part.meaning}" if part.meaning else part.name
