"""Several profiles as one: forests beside each other, tables put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tileprof.profile import metrics as law
from tileprof.profile.ctas import CtaTimelines
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.pc_samples import PcSamples
from tileprof.profile.tables import KernelInfo, Tables
from tileprof.profile.timeline import Timeline
from tileprof.profile.track_totals import TrackTotals
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.node_sketches import NodeSketches


def side_by_side(profiles: Sequence[Profile]) -> Profile:
    """Put forests beside each other, nothing merged; raises `UsageError` where metrics disagree."""
    metrics = united_metrics(profiles)
    starts = _starts([len(profile) for profile in profiles])
    symbol_starts = _starts([len(profile.symbols) for profile in profiles])
    return build(
        [symbol for profile in profiles for symbol in profile.symbols],
        _concatenated(p.symbol + start for p, start in zip(profiles, symbol_starts)),
        _concatenated(
            np.where(p.parents < 0, -1, p.parents + start) for p, start in zip(profiles, starts)
        ),
        metrics,
        {m.name: _concatenated(held(p.own, m, len(p)) for p in profiles) for m in metrics.values()},
        {
            m.name: _concatenated(held(p.absorbed, m, len(p)) for p in profiles)
            for m in metrics.values()
        },
        {m.name: _whole(m, profiles) for m in metrics.values()},
        merged_tables([profile.tables for profile in profiles], starts),
    )


def united_metrics(profiles: Sequence[Profile]) -> dict[str, Metric]:
    """Return all metrics of all profiles; raises `UsageError` where two of one name disagree."""
    metrics: dict[str, Metric] = {}
    for profile in profiles:
        for name, metric in profile.metrics.items():
            law.agree(metrics.setdefault(name, metric), metric)
    return metrics


def held(columns: Mapping[str, Column], metric: Metric, count: int) -> Column:
    """Return the column of a metric, an empty one where there is none."""
    return columns[metric.name] if metric.name in columns else law.empty_column(metric, count)


def merged_tables(tables: Sequence[Tables], starts: Sequence[int]) -> Tables:
    """Put tables together: each kernel once, the first text of a file, every value of provenance.

    `starts[i]` is what the node ids of `tables[i]` move up by.
    """
    kernels: list[KernelInfo] = []
    numbers: dict[tuple[object, ...], int] = {}
    node_kernels: dict[int, int] = {}
    sources: dict[str, str] = {}
    ctas: list[CtaTimelines] = []
    for table, start in zip(tables, starts):
        renumbered = []
        for kernel in table.kernels:
            number = numbers.setdefault(_identity(kernel), len(kernels))
            if number == len(kernels):
                kernels.append(kernel)
            renumbered.append(number)
        ctas.append(table.ctas.of_kernels(renumbered))
        for node, kernel_index in table.node_kernels.items():
            node_kernels[node + start] = renumbered[kernel_index]
        sources = {**table.sources, **sources}
    provenance = _merged_provenance([table.provenance for table in tables])
    return Tables(
        tuple(kernels),
        node_kernels,
        sources,
        provenance,
        _beside([table.sketches for table in tables], starts),
        _beside([table.absorbed_sketches for table in tables], starts),
        # Runs have no common time: that of one stays, those of several are left out.
        tables[0].timeline if len(tables) == 1 else Timeline(),
        TrackTotals.joined([table.track_totals for table in tables], starts),
        CtaTimelines.joined(ctas),
        PcSamples.joined([table.pc for table in tables], starts),
        tuple(dict.fromkeys(device for table in tables for device in table.devices)),
        tuple(dict.fromkeys(peak for table in tables for peak in table.device_peaks)),
        tuple(dict.fromkeys(each for table in tables for each in table.native_modules)),
        # Each of its own run's time: beside each other, not one after the other.
        tuple(each for table in tables for each in table.series),
        tuple(each for table in tables for each in table.launches),
    )


def _beside(parts: Sequence[NodeSketches], starts: Sequence[int]) -> NodeSketches:
    return {
        (node + start, metric): sketch
        for part, start in zip(parts, starts)
        for (node, metric), sketch in part.items()
    }


def _merged_provenance(all_of: Sequence[Mapping[str, str]]) -> dict[str, str]:
    values: dict[str, dict[str, None]] = {}
    for provenance in all_of:
        for key, value in provenance.items():
            values.setdefault(key, {})[value] = None
    return {key: " | ".join(found) for key, found in values.items()}


def _identity(kernel: KernelInfo) -> tuple[object, ...]:
    attributes = tuple(sorted(kernel.attributes.items()))
    # By records, so that another version's way to print a program, or paths in the code made of
    # it, make no second kernel. The source stays: lines of remarks and of code are its lines.
    if kernel.program and kernel.program.body.ops:
        program: tuple[object, ...] = (kernel.program.identity,)
    else:
        program = (kernel.ir, kernel.code)
    return (kernel.name, kernel.device, *program, kernel.source, attributes)


def _whole(metric: Metric, profiles: Sequence[Profile]) -> int | float:
    total = law.number(law.empty_column(metric, 1)[0])
    for profile in profiles:
        if metric.name in profile.whole:
            total = law.combine(metric, total, profile.whole[metric.name])
    return total


def _starts(counts: Sequence[int]) -> list[int]:
    starts: list[int] = np.cumsum([0, *counts])[:-1].tolist()
    return starts


def _concatenated(columns: Iterable[npt.NDArray[np.generic]]) -> Column:
    return np.concatenate([*columns, np.zeros(0, np.int32)])
