"""A view as data for scripts: JSON and CSV, with the same options as the tree.

Nothing folds unless a threshold was asked for. Node ids are those of the view: of the profile
itself where no option changes the tree.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tileprof.profile import Diff, Profile, diff_to_json, to_json
from tileprof.profile.metrics import is_estimate
from tileprof.profile.transform.operations import without_estimates
from tileprof.viewer.columns import RATES, Column, column
from tileprof.viewer.kernel_facts import with_facts
from tileprof.viewer.options import ViewOptions
from tileprof.viewer.selection import select, shown_metrics
from tileprof.viewer.text import encodable

if TYPE_CHECKING:
    from tileprof.analyzer.changes import KernelChange

_PLACE = ("id", "parent", "depth", "kind", "name", "file", "line", "function", "phase")


def view_json(profile: Profile, options: ViewOptions) -> str:
    """Return the documented JSON of a profile as one line; `-m` leaves only those metrics.

    A rate stands beside them with `"adds": "rate"`, a quantile with `"adds": "quantile"`, a fact
    of kernels with `"adds": "mean"`, all with null for own values.
    """
    return json.dumps(view_document(profile, options)) + "\n"


def view_document(profile: Profile, options: ViewOptions) -> dict[str, Any]:
    """Return the same before it is text."""
    shown = select(with_facts(profile, options.metrics), options, 0).profile
    document = to_json(without_estimates(shown) if not options.metrics else shown)
    if options.metrics:
        _keep_metrics(document, _columns(shown, options))
    return document


def diff_json(diff: Diff, changes: Sequence[KernelChange] = ()) -> str:
    """Return the documented JSON of a diff as one line, with the kernels whose time changed."""
    kernels = [asdict(each) | {"ratio": each.ratio} for each in changes]
    return json.dumps(diff_to_json(diff) | {"kernels": kernels}) + "\n"


def view_csv(profile: Profile, options: ViewOptions) -> str:
    """Return one row a node in the order of ids; a value that does not exist is an empty cell.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    shown = select(with_facts(profile, options.metrics), options, 0).profile
    columns = _columns(shown, options)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = [f"{c.name}_{part}" for c in columns for part in ("own", "total")]
    writer.writerow([*_PLACE, *map(_text, titles)])
    numbers = [values for c in columns for values in (_own(c), c.total.tolist())]
    for node, values in enumerate(zip(*numbers) if numbers else [()] * len(shown)):
        writer.writerow([*_place(shown, node), *(_cell(value) for value in values)])
    return text.getvalue()


def _columns(profile: Profile, options: ViewOptions) -> list[Column]:
    everything = [name for name in profile.metrics if not is_estimate(name)]
    names = shown_metrics(profile, options) if options.metrics else everything
    return [column(profile, name, per_visit=options.mode != "bottom-up") for name in names]


def _keep_metrics(document: dict[str, Any], columns: list[Column]) -> None:
    """Remove the metrics that were not asked for, and add the derived ones that were."""
    derived = [c for c in columns if c.own is None]
    kept = {c.name for c in columns if c.own is not None}
    document["metrics"] = {n: m for n, m in document["metrics"].items() if n in kept} | {
        each.name: {"unit": _unit(each), "adds": each.adds} for each in derived
    }
    for node in document["nodes"]:
        node["metrics"] = {n: m for n, m in node["metrics"].items() if n in kept}
        for each in derived:
            if not math.isnan(value := float(each.total[node["id"]])):
                node["metrics"][each.name] = {"own": None, "total": value}


def _unit(derived: Column) -> str:
    if derived.unit == "share":
        return "1"
    # The names of speeds are units: gflop/s.
    is_speed = derived.name in RATES and "/" in derived.name
    return derived.name if is_speed and derived.unit == "1" else derived.unit


def _place(profile: Profile, node: int) -> list[str | int]:
    location, parent = profile.locations[node], int(profile.parents[node])
    place: tuple[str | int, ...] = ("", "", "")
    if location is not None:
        place = (_text(location.file), location.line, _text(location.function))
    return [
        node,
        "" if parent < 0 else parent,
        int(profile.depths[node]),
        profile.kinds[node],
        _text(profile.names[node]),
        *place,
        _text(profile.phases[node]),
    ]


def _text(text: str) -> str:
    """Return a text as a cell that no spreadsheet computes as a formula."""
    return (
        f"'{encodable(text)}"
        if text.startswith(("=", "+", "-", "@", "\t", "\r"))
        else encodable(text)
    )


def _own(shown: Column) -> list[float]:
    return [math.nan] * len(shown.total) if shown.own is None else list(shown.own.tolist())


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{int(value)}" if value == int(value) else repr(value)
