"""Where the devices' time goes, in the lines that open a report.

In: an account.  Out: sentences: shares of floors, causes and idle time; what the program could
reach at most, and what its first changes likely bring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.analyzer import Account
from tileprof.profile.units import format_percent, format_value

_LEAST = 0.005
"""Share of the time from which on a part is named."""
_REASONS = 3
"""Largest number of reasons of idle time that are named."""


def account_text(account: Account) -> Iterator[str]:
    """Yield its sentences."""
    time = account.time
    parts = [
        ("floor (the least time of this work on this device)", account.floor),
        ("causes named below", sum(each.time for each in account.causes)),
        ("unexplained", account.unexplained),
        ("copies", account.copies),
        ("communication", account.communication),
        ("waiting without a named cause", account.waiting),
    ]
    shown = [
        f"{format_percent(part / time)} % {name}" for name, part in parts if part > _LEAST * time
    ]
    yield f"Devices' time in steps, {format_value(time, 'ns')}: {', '.join(shown)}."
    if idle := [(name, part) for name, part in account.idle if part > _LEAST * time]:
        whole = format_percent(sum(part for _, part in account.idle) / time)
        named = ", ".join(
            f"{name} {format_percent(part / time)} %" for name, part in idle[:_REASONS]
        )
        yield f"Idle, a part of the above: {whole} % ({named})."
    if account.unknown > _LEAST * time:
        share = format_percent(account.unknown / time)
        yield (
            f"{share} % has no floor: what these kernels move is not known, or the device's roofs"
            " were not measured (`tileprof doctor --roofs`)."
        )
    if account.assumed:
        yield (
            "Floors are by the roofs of another device of this name; `tileprof doctor --roofs`"
            " measures this one."
        )
    yield from _gains(account)


def _gains(account: Account) -> Iterator[str]:
    """Yield what can be reached at most, and by the first changes."""
    if math.isfinite(account.most):
        yield f"By its floors the program could be {account.most:.1f}× as fast at most."
    count, gain = account.first
    if count > 1:
        yield f"The first {count} suggestions together likely make it {gain:.2f}× as fast."
