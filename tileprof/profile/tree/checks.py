"""The laws every profile obeys: a well-formed tree, and metrics that are conserved.

An operation carries `whole` along untouched and moves numbers between nodes; that the numbers still
amount to it is what `check` tests.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.profile import metrics as law
from tileprof.profile.metrics import Metric
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import KINDS


def check(profile: Profile) -> None:
    """Raise `InternalError` where the tree is malformed or a conservation law is broken."""
    count = len(profile)
    if profile.symbol.shape != (count,) or not _inside(profile.symbol, 0, len(profile.symbols)):
        raise InternalError("a node of the profile refers to a symbol that does not exist")
    if (profile.parents >= np.arange(count)).any() or not _inside(profile.parents, -1, count):
        raise InternalError("a node of the profile stands before its parent")
    if unknown := {symbol.kind for symbol in profile.symbols} - set(KINDS):
        raise InternalError(f"the profile has nodes of unknown kinds: {', '.join(sorted(unknown))}")
    for node, kernel in profile.tables.node_kernels.items():
        if not (0 <= node < count and 0 <= kernel < len(profile.tables.kernels)):
            raise InternalError(
                f"node {node} refers to kernel {kernel}, and one of the two does not exist"
            )
    profile.tables.ctas.check(len(profile.tables.kernels))
    profile.tables.pc.check(count)
    for series in profile.tables.series:
        series.check()
    for metric in profile.metrics.values():
        _check_metric(profile, metric)
    tables = profile.tables
    for node, name in (*tables.sketches, *tables.absorbed_sketches):
        if not 0 <= node < count or name not in profile.metrics:
            raise InternalError(f"node {node} has a sketch of `{name}`, and one does not exist")


def _check_metric(profile: Profile, metric: Metric) -> None:
    own, absorbed = profile.own[metric.name], profile.absorbed[metric.name]
    if own.shape != (len(profile),) or absorbed.shape != (len(profile),):
        raise InternalError(f"metric `{metric.name}` has a column that does not fit the tree")
    if metric.adds == "sum" and (np.isnan(own).any() or np.isnan(absorbed).any()):
        raise InternalError(f"metric `{metric.name}` is a sum, but holds NaN")
    tops = law.reduce_column(metric, profile.total(metric.name)[profile.parents < 0])
    whole = profile.whole[metric.name]
    scale = float(np.abs(own).sum() + np.abs(absorbed).sum()) if metric.adds == "sum" else 0.0
    if not law.same_number(tops, whole, scale):
        raise InternalError(
            f"metric `{metric.name}` is not conserved: "
            f"the tree holds {tops}, the program had {whole}"
        )


def _inside(column: npt.NDArray[np.int32], low: int, end: int) -> bool:
    return not column.size or bool(column.min() >= low and column.max() < end)
