"""Metrics: their units, and how values of visits and of a subtree combine.

The laws of combination live here once, for Python numbers and for whole columns; nothing else in
the package asks how a metric adds up.

    adds   repeated visits of a node   a subtree              no value
    sum    added                       added                  0
    min    the smallest                the smallest           NaN
    max    the largest                 the largest            NaN
    last   the newest                  not combined: it is a  NaN
                                       property of the node
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never, get_args

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError

Adds = Literal["sum", "min", "max", "last"]
Column: TypeAlias = npt.NDArray[Any]
"""One value per node: int64 where a sum holds integers only, else float64."""
Index: TypeAlias = npt.NDArray[Any]
"""Node ids, of any integer type."""

# Totals of integer columns stay this far below the limit of int64, so that no sum can wrap around.
_INTEGER_LIMIT = 2.0**62


@dataclass(frozen=True, slots=True)
class Metric:
    """A named quantity; two metrics of one name must agree in everything."""

    name: str
    unit: str
    """`ns`, `bytes`, `flop`, `1`, or any unit of the user's."""
    adds: Adds = "sum"
    inclusive: bool = False
    """Values are recorded with the subtree already in them; a node's own share is then derived."""

    def __post_init__(self) -> None:
        if not self.name or not re.fullmatch(r"[^\x00-\x1f]+", self.name):
            raise UsageError(
                f"{self.name!r} cannot be the name of a metric", hint="Use printable text."
            )
        if self.adds not in get_args(Adds):
            raise UsageError(
                f"metric `{self.name}` adds up by {self.adds!r}, which is unknown",
                hint=f"Use one of {', '.join(get_args(Adds))}.",
            )
        if self.inclusive and self.adds != "sum":
            raise UsageError(
                f"metric `{self.name}` cannot be inclusive and add up by {self.adds!r}",
                hint='Only a metric with adds="sum" can be inclusive.',
            )


STANDARD: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("time", "ns"),
        Metric("cpu_time", "ns"),
        Metric("count", "1"),
        Metric("time_min", "ns", "min"),
        Metric("time_max", "ns", "max"),
        Metric("flops", "flop"),
        Metric("bytes", "bytes"),
        Metric("samples", "1"),
        Metric("blocks", "1"),
        Metric("guarded", "1"),
    )
}
"""Metrics that every part of tileprof knows; a builder declares them at their first use.

`cpu_time` is wall time on the host's clock, waiting included; its name says where it was spent, not
that a processor was busy. It is recorded exclusively: what a scope spent outside the scopes
that it opened. So values of threads add up, and a visit that is still open at a flush makes no
value negative.
"""

FLOPS_AT, BYTES_AT = "flops_at_", "bytes_at_"
"""Beginnings of the names of metrics that keep an operation's work by octave of flops per byte; the
least number of it follows."""

_ESTIMATES = frozenset(
    {"op_bytes", "padding", "row_bytes", "shared_table_bytes", "slots", "table_bytes"}
)


def is_estimate(name: str) -> bool:
    """Return whether a metric is an estimate that rules of reports work with, from a sample of
    visits: lists of metrics and exports leave it out."""
    return name in _ESTIMATES


def agree(known: Metric, other: Metric) -> None:
    """Raise `UsageError` where two declarations of one name contradict each other."""
    if known != other:
        raise UsageError(
            f"metric `{known.name}` is declared as {_described(other)}, "
            f"but is {_described(known)} already",
            hint="Give one of the two another name.",
        )


def _described(metric: Metric) -> str:
    return f"{metric.unit}/{metric.adds}" + ("/inclusive" if metric.inclusive else "")


def checked_value(metric: str, value: object) -> int | float:
    """Return a value that a user handed in as a finite number, else raise `UsageError`."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise UsageError(
            f"the value of metric `{metric}` is {value!r}, which is not a number",
            hint="Metrics take integers and floats.",
        )
    number = value if isinstance(value, int) else float(value)
    if not math.isfinite(number):
        raise UsageError(
            f"the value of metric `{metric}` is {number}", hint="Metrics take finite numbers."
        )
    return number


def empty_column(metric: Metric, count: int) -> Column:
    """Return a column of `count` nodes without values."""
    if metric.adds == "sum":
        return np.zeros(count, np.int64)
    return np.full(count, np.nan)


def as_column(metric: Metric, values: npt.ArrayLike) -> Column:
    """Return values as a read-only column: integers only where their sum cannot wrap around."""
    try:
        raw = np.asarray(values)
    except OverflowError:
        raw = np.asarray(values, np.float64)
    exact = metric.adds == "sum" and (raw.dtype.kind in "iu" or not raw.size)
    if exact and float(np.abs(raw.astype(np.float64)).sum()) >= _INTEGER_LIMIT:
        exact = False
    column: Column = raw.astype(np.int64) if exact else raw.astype(np.float64)
    column.setflags(write=False)
    return column


def present(metric: Metric, column: Column) -> npt.NDArray[np.bool_]:
    """Tell where a column holds a value: not 0 for sums, not NaN for the others."""
    return column != 0 if metric.adds == "sum" else ~np.isnan(column)


def wider(a: Column, b: Column) -> Column:
    """Return a writable copy of `a` that can take values of `b` too."""
    kind = np.float64 if a.dtype.kind == "f" or b.dtype.kind == "f" else np.int64
    return a.astype(kind)


def scatter(metric: Metric, target: Column, index: Index, values: Column) -> None:
    """Combine `values[i]` into `target[index[i]]` in place, as visits of a node combine."""
    match metric.adds:
        case "sum":
            np.add.at(target, index, values)
        case "min":
            np.fmin.at(target, index, values)
        case "max":
            np.fmax.at(target, index, values)
        case "last":
            held = ~np.isnan(values)
            # NumPy assigns in order, so of repeated indices the last one stays.
            target[index[held]] = values[held]
        case _:
            assert_never(metric.adds)


def reduce_column(metric: Metric, column: Column) -> int | float:
    """Combine a whole column to one number, as a subtree combines; NaN where there is none."""
    match metric.adds:
        case "sum":
            return number(column.sum())
        case "min":
            return number(np.fmin.reduce(column, initial=np.nan))
        case "max":
            return number(np.fmax.reduce(column, initial=np.nan))
        case "last":
            return math.nan
        case _:
            assert_never(metric.adds)


def combine(metric: Metric, a: int | float, b: int | float) -> int | float:
    """Combine two numbers as a subtree combines; NaN stands for none."""
    match metric.adds:
        case "sum":
            return a + b
        case "min":
            return number(np.fmin(a, b))
        case "max":
            return number(np.fmax(a, b))
        case "last":
            return math.nan
        case _:
            assert_never(metric.adds)


def same_number(a: int | float, b: int | float, scale: float) -> bool:
    """Tell whether two sums are one: exactly for integers, up to rounding of `scale` for floats."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= 1e-9 * scale


def number(value: Any) -> int | float:
    """Return a NumPy scalar as Python's own number."""
    return int(value) if isinstance(value, np.integer) else float(value)
