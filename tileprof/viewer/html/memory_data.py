"""Traffic between the memories of a GPU by kernel, for the chart of the page.

In: a report on a profile with hardware counters.  Out: columns for the longest kernels that have
them; sums over all launches of a kernel.
"""

from __future__ import annotations

from typing import Any

from tileprof.analyzer.report import Report
from tileprof.profile.counters import SETS
from tileprof.viewer.html.tree_data import number

MOST = 200
"""Largest number of kernels in the chart's list."""


def memory_of(report: Report) -> dict[str, list[Any]]:
    """Return the place of each kernel among those of the report, and its counters of memory."""
    program = report.program
    known = [each.metric.name for each in SETS["memory"]]
    names = [name for name in known if name in program.profile.metrics]
    found = [
        (place, {name: case.total(name) for name in names})
        for place, case in enumerate(program.kernels)
    ]
    counted = [(place, values) for place, values in found if any(values.values())][:MOST]
    return {
        "place": [place for place, _ in counted],
        **{name: [number(values[name]) for _, values in counted] for name in names},
    }
