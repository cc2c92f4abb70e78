"""Hardware counters of launches as metrics: what each is made of, how it adds up, rates of two.

In: a set of counters, or the name of one of CUPTI's metrics.  Out: `Counter`s, which say what a
launch adds to its kernel's node, and `Rate`s, which readers derive.

Counts are added up. A rate is never averaged: what is divided by what is kept as two sums, so a
rate of many launches, or of a subtree, is that of all their work together. Of a metric of CUPTI's
that is a rate already, and whose parts cannot be had, the sums are its values times the time of
their launches, and that time: the mean that they give is by time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tileprof.errors import UsageError
from tileprof.profile.metrics import Adds, Metric

TIME = "gpu__time_duration.sum"
"""Nanoseconds of a launch; read with all others, and the kernel's `time`."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One metric that launches add to: the sum of CUPTI's metrics."""

    metric: Metric
    terms: tuple[str, ...]
    by_time: bool = False
    """Whether the sum is multiplied with the launch's time."""
    factor: float = 1.0

    def value(self, values: Mapping[str, float]) -> float:
        """Return the value that a launch adds, from the values of CUPTI's metrics."""
        total = sum(values[term] for term in self.terms) * self.factor
        return total * values[TIME] if self.by_time else total


@dataclass(frozen=True, slots=True)
class Rate:
    """A metric that readers derive from two others: `factor * above / below`, in `unit`."""

    above: str
    below: str
    factor: float
    unit: str
    may_be_zero: bool = True
    """True where 0 is a measured value, as of counters; otherwise 0 means that it is unknown."""


def _count(name: str, *terms: str, unit: str = "1") -> Counter:
    """Return the sum of CUPTI's counters over a device; a term with a point is one of its
    numbers."""
    whole = tuple(term if "." in term else f"{term}.sum" for term in terms)
    return Counter(Metric(name, unit), whole)


_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
_GLOBAL = "pipe_lsu_mem_global_op"
_LOCAL = "l1tex__t_bytes_pipe_lsu_mem_local_op"

SETS: dict[str, tuple[Counter, ...]] = {
    "memory": (
        _count("dram_read_bytes", "dram__bytes_read", unit="bytes"),
        _count("dram_write_bytes", "dram__bytes_write", unit="bytes"),
        _count("dram_bytes", "dram__bytes_read", "dram__bytes_write", unit="bytes"),
        _count("l2_hit_sectors", "lts__t_sectors_lookup_hit"),
        _count("l2_sectors", "lts__t_sectors_lookup_hit", "lts__t_sectors_lookup_miss"),
        _count("l1_hit_sectors", "l1tex__t_sectors_lookup_hit"),
        _count("l1_sectors", "l1tex__t_sectors_lookup_hit", "l1tex__t_sectors_lookup_miss"),
        _count("load_sectors", f"l1tex__t_sectors_{_GLOBAL}_ld"),
        _count("load_requests", f"l1tex__t_requests_{_GLOBAL}_ld"),
        _count("store_sectors", f"l1tex__t_sectors_{_GLOBAL}_st"),
        _count("store_requests", f"l1tex__t_requests_{_GLOBAL}_st"),
        _count("shared_load_conflicts", f"{_CONFLICTS}_ld"),
        _count(
            "shared_loads", "smsp__inst_executed_op_shared_ld", "smsp__inst_executed_op_ldsm"
        ),
        _count("shared_store_conflicts", f"{_CONFLICTS}_st"),
        _count(
            "shared_stores", "smsp__inst_executed_op_shared_st",
            "smsp__inst_executed_op_shared_stsm",
        ),
        _count("local_bytes", f"{_LOCAL}_ld", f"{_LOCAL}_st", unit="bytes"),
    ),
    "tensor": (
        _count("tensor_cycles", "sm__pipe_tensor_cycles_active"),
        _count("tensor_cycles_at_most", "sm__pipe_tensor_cycles_active.sum.peak_sustained_elapsed"),
        _count("tensor_instructions", "sm__inst_executed_pipe_tensor"),
    ),
    "occupancy": (
        _count("warp_cycles", "sm__warps_active"),
        _count("warp_cycles_at_most", "sm__warps_active.sum.peak_sustained_active"),
        _count("sm_active_cycles", "sm__cycles_active"),
        _count("sm_cycles", "sm__cycles_elapsed"),
        _count("issue_cycles", "smsp__issue_active"),
        _count("scheduler_cycles", "smsp__cycles_active"),
    ),
}  # fmt: skip
"""Sets of counters that `--metrics` knows by one word."""

RATES: dict[str, Rate] = {
    "dram_tbyte/s": Rate("dram_bytes", "time", 1e-3, "1"),
    "l2_hit_rate": Rate("l2_hit_sectors", "l2_sectors", 1.0, "share"),
    "l1_hit_rate": Rate("l1_hit_sectors", "l1_sectors", 1.0, "share"),
    "sectors_per_load": Rate("load_sectors", "load_requests", 1.0, "1"),
    "sectors_per_store": Rate("store_sectors", "store_requests", 1.0, "1"),
    "conflicts_per_shared_load": Rate("shared_load_conflicts", "shared_loads", 1.0, "1"),
    "conflicts_per_shared_store": Rate("shared_store_conflicts", "shared_stores", 1.0, "1"),
    "tensor_use": Rate("tensor_cycles", "tensor_cycles_at_most", 1.0, "share"),
    "achieved_occupancy": Rate("warp_cycles", "warp_cycles_at_most", 1.0, "share"),
    "sm_use": Rate("sm_active_cycles", "sm_cycles", 1.0, "share"),
    "issue_use": Rate("issue_cycles", "scheduler_cycles", 1.0, "share"),
}
"""Rates of the sets' counters, by name."""

_ABOVE, _BELOW = "above of ", "below of "
_NAME = re.compile(r"[A-Za-z]\w*(\.\w+)*")
_COUNTED = re.compile(r"\w+\.(sum|avg|max|min)")
_OF_PEAK = re.compile(r"(\w+)\.(sum|avg)\.pct_of_(peak_sustained_(?:active|elapsed))")


def counters_of(name: str) -> tuple[Counter, ...]:
    """Return the metrics that launches add for a set, or for one of CUPTI's metrics; UsageError for
    no name at all.

    Whether a device has such a metric is not known here. A name without a way to combine the units
    of a device (`.sum`, `.avg`, …) is taken as their sum.
    """
    if name in SETS:
        return SETS[name]
    whole = metric_name(name, SETS)
    if is_count(whole):
        laws: dict[str, Adds] = {"max": "max", "min": "min"}
        law = laws.get(whole.rpartition(".")[2], "sum")
        return (Counter(Metric(whole, unit_of(whole), law), (whole,)),)
    if (found := _OF_PEAK.fullmatch(whole)) and "throughput" not in found[1]:
        parts = (f"{found[1]}.sum",), (f"{found[1]}.sum.{found[3]}",)
        return _above(whole, parts[0]), _below(whole, parts[1])
    factor = 0.01 if is_percent(whole) else 1.0
    return _above(whole, (whole,), by_time=True, factor=factor), _below(whole, (TIME,))


def metric_name(name: str, sets: Iterable[str]) -> str:
    """Return the whole name of one of CUPTI's metrics.

    UsageError, naming the sets, for what cannot be one: CUPTI's names begin with a unit of the GPU
    and two underscores. Which of them a device has is known where there is CUPTI.
    """
    if not _NAME.fullmatch(name) or "__" not in name:
        near = difflib.get_close_matches(name, list(sets), n=1)
        raise UsageError(
            f"{name!r} is not the name of a metric",
            hint=(f"Did you mean `{near[0]}`? " if near else "")
            + f"Use {', '.join(sets)}, or a metric of CUPTI's like dram__bytes_read.sum.",
        )
    return name if "." in name else f"{name}.sum"


def _above(
    name: str, terms: tuple[str, ...], by_time: bool = False, factor: float = 1.0
) -> Counter:
    return Counter(Metric(f"{_ABOVE}{name}", "1"), terms, by_time, factor)


def _below(name: str, terms: tuple[str, ...]) -> Counter:
    return Counter(Metric(f"{_BELOW}{name}", "1"), terms)


def is_part(metric: str) -> bool:
    """Return whether a metric is one of the two sums of a rate of CUPTI's."""
    return metric.startswith((_ABOVE, _BELOW))


def rate_of(metric: str) -> tuple[str, Rate] | None:
    """Return the rate of CUPTI's that a metric is the upper sum of, with its name."""
    if not metric.startswith(_ABOVE):
        return None
    name = metric.removeprefix(_ABOVE)
    unit = "share" if is_percent(name) else "1"
    return name, Rate(metric, f"{_BELOW}{name}", 1.0, unit)


def is_count(name: str) -> bool:
    """Return whether one of CUPTI's metrics, by its whole name, counts what happens."""
    return _COUNTED.fullmatch(name) is not None


def is_percent(name: str) -> bool:
    """Return whether one of CUPTI's metrics is a percentage."""
    return name.endswith(".pct") or ".pct_of_" in name


def unit_of(name: str) -> str:
    """Return the unit of what one of CUPTI's metrics counts."""
    base = name.partition(".")[0]
    if "__time_" in base:
        return "ns"
    return "bytes" if "bytes" in base and "_per_" not in base else "1"
