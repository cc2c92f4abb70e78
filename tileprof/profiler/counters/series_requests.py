"""Requests of `--pm-sampling`: the interval, and counters over time.

In: an interval and names as a user gives them.  Out: `SeriesAsked`.  A series is one metric of
CUPTI's: a count becomes a rate (what happened, by the sample's time), a percentage a share,
anything else stays.  Its sets are other ones than those of `--metrics` alone: the device counts all
of them at once, and not of launches but of all that it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tileprof.errors import UsageError
from tileprof.profile import SeriesMetric
from tileprof.profile.counters import is_count, is_percent, metric_name, unit_of

from .requests import metric_names

USUAL_INTERVAL = 200_000
"""ns. Reading a sample of the usual counters takes 80 µs or so of a processor's core (H200)."""
LEAST, MOST = 20_000, 1_000_000_000
"""ns."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of CUPTI's over time."""

    metric: SeriesMetric
    term: str
    """Metric name in CUPTI's spelling."""
    counted: bool = False
    """Whether it counts what happens: then a sample's value is divided by its time in seconds."""
    factor: float = 1.0


def _share(name: str, term: str) -> Series:
    """Return a series of the share of the peak that is used, over all time: also while nothing
    runs."""
    whole = f"{term}.avg.pct_of_peak_sustained_elapsed"
    return Series(SeriesMetric(name, "share"), whole, factor=0.01)


def _rate(name: str, term: str, unit: str) -> Series:
    return Series(SeriesMetric(name, unit), term, counted=True)


SERIES_SETS: dict[str, tuple[Series, ...]] = {
    "memory": (
        _share("dram_use", "dram__throughput"),
        _rate("dram_read", "dram__bytes_read.sum", "bytes/s"),
        _rate("dram_write", "dram__bytes_write.sum", "bytes/s"),
        _rate("l2", "lts__t_bytes.sum", "bytes/s"),
    ),
    "tensor": (_share("tensor_use", "sm__pipe_tensor_cycles_active"),),
    "occupancy": (
        _share("sm_use", "sm__cycles_active"),
        _share("occupancy", "sm__warps_active_realtime"),
        _share("issue_use", "smsp__issue_active"),
        _rate("sm_clock", "sm__cycles_elapsed.max", "hz"),
    ),
    "links": (
        _rate("pcie_read", "pcie__read_bytes.sum", "bytes/s"),
        _rate("pcie_write", "pcie__write_bytes.sum", "bytes/s"),
        _rate("nvlink_received", "nvlrx__bytes.sum", "bytes/s"),
        _rate("nvlink_sent", "nvltx__bytes.sum", "bytes/s"),
    ),
}
"""Sets that `--metrics` knows by one word together with `--pm-sampling`."""
USUAL_SETS = ("memory", "tensor", "occupancy")
"""The sets where none is named."""


@dataclass(frozen=True, slots=True)
class SeriesAsked:
    """Counters over time that a session wants."""

    interval: int
    """ns between two samples."""
    names: tuple[str, ...]
    """Names as the user gave them: sets, and metrics of CUPTI's."""

    @property
    def series(self) -> tuple[Series, ...]:
        """The series that these are, each once."""
        found = {each.term: each for name in self.names for each in series_of(name)}
        return tuple(found.values())

    @property
    def terms(self) -> tuple[str, ...]:
        """CUPTI's metrics, each once."""
        return tuple(each.term for each in self.series)

    def of_term(self, term: str) -> str:
        """Return the first name that wants a metric of CUPTI's."""
        wanting = (n for n in self.names if any(each.term == term for each in series_of(n)))
        return next(wanting, term)


def series_of(name: str) -> tuple[Series, ...]:
    """Return the series of a set, or of one of CUPTI's metrics; UsageError for no name at all."""
    if name in SERIES_SETS:
        return SERIES_SETS[name]
    whole = metric_name(name, SERIES_SETS)
    if is_count(whole):
        return (_rate(whole, whole, "bytes/s" if unit_of(whole) == "bytes" else "1/s"),)
    if is_percent(whole):
        return (Series(SeriesMetric(whole, "share"), whole, factor=0.01),)
    return (Series(SeriesMetric(whole, "1/s" if whole.endswith(".per_second") else "1"), whole),)


def parse_pm_sampling(
    asked: object, metrics: str | Iterable[str] | bool | None = None
) -> SeriesAsked | None:
    """Return what is asked for: True or "" for the usual interval, else µs; None for nothing.

    UsageError for what is no interval, or no name of a metric.
    """
    if asked is None or asked is False:
        return None
    interval = USUAL_INTERVAL if asked is True or asked == "" else _nanoseconds(asked)
    if metrics is None or metrics is False:
        return SeriesAsked(interval, USUAL_SETS)
    names = metric_names(metrics, SERIES_SETS)
    for name in names:
        series_of(name)
    return SeriesAsked(interval, names)


def _nanoseconds(asked: object) -> int:
    try:
        interval = round(float(asked) * 1000) if isinstance(asked, (str, int, float)) else 0
    except (ValueError, OverflowError):
        interval = 0
    if not LEAST <= interval <= MOST:
        raise UsageError(
            f"pm_sampling is {asked!r}",
            hint=f"Give µs between two samples, from {LEAST // 1000} to {MOST // 1000:,}.",
        )
    return interval
