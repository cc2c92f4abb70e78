"""Account of the devices' time as JSON values: its parts, idle time by reason, and the kernels.

In: a report.  Out: a dictionary of columns; times in ns. The page draws it above the findings, in
the sentences of the text report.
"""

from __future__ import annotations

from typing import Any

from tileprof.analyzer.account import Account, KernelAccount
from tileprof.analyzer.report import Report
from tileprof.viewer.findings.account import gains, notes, parts_of
from tileprof.viewer.html.tree_data import number
from tileprof.viewer.text import encodable


def account_of(report: Report) -> dict[str, Any] | None:
    """Return the account; None where no device was timed."""
    account = report.account
    if account is None:
        return None
    return {
        "time": number(account.time),
        "parts": [
            [part.kind, part.name, part.meaning, number(part.time)] for part in parts_of(account)
        ],
        "causes": _causes(report, account),
        "idle": [[encodable(reason), number(time)] for reason, time in account.idle],
        "headline": list(gains(account)),
        "notes": list(notes(account)),
        "kernels": _kernels(report, account.kernels),
    }


def _causes(report: Report, account: Account) -> list[list[Any]]:
    """Return each cause's time, and the place of its finding in the page's list.

    An account takes the suggestions in the order in which the report has them.
    """
    findings = enumerate(report.findings)
    places = (place for place, each in findings if each.severity == "suggestion")
    return [[number(cause.time), place] for cause, place in zip(account.causes, places)]


def _kernels(report: Report, kernels: tuple[KernelAccount, ...]) -> dict[str, list[Any]]:
    """Return columns, the longest kernel first; `kernel` is its place in the page's kernels."""
    places = {case: place for place, case in enumerate(report.program.kernels)}
    return {
        "kernel": [places[each.case] for each in kernels],
        "time": [number(each.time) for each in kernels],
        "floor": [number(each.floor) if each.limit else None for each in kernels],
        "named": [number(each.named) for each in kernels],
        "shortfalls": [number(sum(each.shortfalls.values())) for each in kernels],
        "unexplained": [number(each.unexplained) for each in kernels],
        "limit": [each.limit for each in kernels],
    }
