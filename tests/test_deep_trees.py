"""Deep trees: recursion of a program, or a file that was made to be deep, ends no view."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tileprof.analyzer import analyze
from tileprof.analyzer.json_form import to_json
from tileprof.analyzer.program.masks import nearest, outermost
from tileprof.errors import Location
from tileprof.profile import STANDARD, Profile, Symbol, build
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.html import report_page

KINDS = ("scope", "frame", "op", "kernel", "site", "idle", "api")


def chain(depth: int, *kinds: str) -> Profile:
    """Nodes below each other, of these kinds by turns; each has time and visits."""
    symbols = [Symbol(kind, f"a {kind}", Location("/home/me/x.py", 1)) for kind in kinds]
    metrics = {name: STANDARD[name] for name in ("time", "cpu_time", "count")}
    own = {name: np.full(depth, 4) for name in metrics}
    places = np.arange(depth) % len(kinds)
    return build(symbols, places, np.arange(depth) - 1, metrics, own)


@pytest.mark.spread("all kinds")
@pytest.mark.parametrize("kinds", [("frame",), KINDS], ids=["frames", "all kinds"])
def test_a_report_reads_a_tree_of_30000_levels(kinds: tuple[str, ...]) -> None:
    """Each rule passes over the nodes; none walks up from each of them, and none recurses."""
    report = analyze(chain(30_000, *kinds))
    assert render_reports({"deep": report}, ReportOptions(height=10))
    assert json.dumps(to_json(report))
    assert len(repr(report).splitlines()) <= 10


def test_views_show_a_tree_deeper_than_pythons_stack() -> None:
    """Tree, JSON, CSV, bottom-up, text and page."""
    profile = chain(2 * sys.getrecursionlimit(), *KINDS)
    for view in ("tree", "json", "csv", "lines"):
        assert render_view(profile, ViewOptions(), view)
    assert render_view(profile, ViewOptions(mode="bottom-up"))
    assert len(profile.text().splitlines()) == len(profile)
    assert "<script" in report_page(analyze(profile))


def test_nearest_and_outermost_follow_parents() -> None:
    """A tree by hand: 0 ← 1 ← 2 ← 3 and a second root 4 ← 5; of the mask are 1, 3 and 5."""
    profile = build(
        [Symbol("frame", "f")], [0] * 6, [-1, 0, 1, 2, -1, 4], {"time": STANDARD["time"]},
        {"time": [1] * 6},
    )  # fmt: skip
    mask = np.array([False, True, False, True, False, True])
    assert nearest(profile, mask).tolist() == [-1, 1, 1, 3, -1, 5]
    assert outermost(profile, mask).tolist() == [False, True, False, False, False, True]
