"""Profiles with timelines for tests of the page: all three kinds, and more than it has room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.profile.cta_samples import on_a_timeline
from tileprof.errors import ProfileFileError
from tileprof.profile import (
    CounterSeries,
    Cta,
    CtaFlights,
    CtaLaunch,
    CtaTimelines,
    CtaVisits,
    CtaWarp,
    KernelInfo,
    Profile,
    SeriesMetric,
    SiteInfo,
    Timeline,
    TimelineEvents,
    Track,
)

__all__ = ["all_kinds", "crowded", "damaged", "series"]

_SITES = (
    SiteInfo(0, "producer", "stage"),
    SiteInfo(1, "load a", "op", None, 0),
    SiteInfo(2, "wait for a", "op", None, 0),
)


def series(begin: int = 96_000, rows: int = 200, ns: int = 50) -> CounterSeries:
    """A counter that is 0, then not sampled, then 0.8; and one in bytes/s, which grows."""
    start = begin + np.arange(rows) * ns
    values = np.stack([np.zeros(rows), np.arange(rows) * 1e10])
    values[0, rows // 2 :] = 0.8
    kept = np.ones(rows, bool)
    kept[rows // 4 : rows // 2] = False
    metrics = (SeriesMetric("dram_use", "share"), SeriesMetric("dram_read", "bytes/s"))
    columns = (start[kept], np.full(kept.sum(), ns))
    return CounterSeries.of("cuda:0", ns, *columns, metrics, values[:, kept])


def all_kinds() -> Profile:
    """Two CTAs, the timeline on which their kernel ran, and counters while it did."""
    made = on_a_timeline()
    provenance = {**made.tables.provenance, "counters over time": "memory on GH100, every 50 ns"}
    tables = replace(made.tables, series=(series(),), provenance=provenance)
    return replace(made, tables=tables)


def damaged() -> Profile:
    """The same, where the columns of events and CTAs cannot be read."""
    made = all_kinds()
    held = made.tables.ctas
    ctas = CtaTimelines(held.launches, held.ctas, held.warps, held.queues, _broken("CTAs"))
    timeline = Timeline(made.tables.timeline.tracks, _broken("events"))
    return replace(made, tables=replace(made.tables, ctas=ctas, timeline=timeline))


def _broken(what: str) -> Callable[[], Any]:
    def make() -> Any:
        raise ProfileFileError(f"the {what} are damaged </script><b>")

    return make


def crowded(made: Profile) -> Profile:
    """A profile with as many bars, curves and events as nobody can look at."""
    kernels = (*made.tables.kernels, KernelInfo("crowd", "cuda:0", sites=_SITES))
    tables = replace(
        made.tables, kernels=kernels, ctas=_many_ctas(len(kernels) - 1),
        series=(_many_curves(),), timeline=_many_events(len(made)),
    )  # fmt: skip
    return replace(made, tables=tables)


def _many_ctas(kernel: int, ctas: int = 24, warps: int = 8, visits: int = 700) -> CtaTimelines:
    """Warps that load and wait in turns; a flight for each load of the first warp."""
    random = np.random.default_rng(3)
    launches = [CtaLaunch(kernel, "crowd_0", "cuda:0", n, 8, -1) for n in range(ctas)]
    held = [Cta(n, 7 * n, n, 0, 10**6, "median" if n % 2 else "") for n in range(ctas)]
    told = [CtaWarp(c, w, "producer", 0, 10**6) for c in range(ctas) for w in range(warps)]
    ends = np.sort(random.choice(10**6, (len(told), 2 * visits), replace=False), axis=1)
    warp = np.repeat(np.arange(len(told)), visits)
    site = np.tile(np.arange(visits) % 2 + 1, len(told))
    columns = CtaVisits.typed(warp, site, ends[:, ::2].ravel(), ends[:, 1::2].ravel())
    first = ends[::warps]
    issuer = np.repeat(np.arange(0, len(told), warps), visits)
    times = (first[:, ::2].ravel(), first[:, ::2].ravel() + 5, first[:, 1::2].ravel() + 900)
    same = np.ones(len(issuer))
    flights = CtaFlights.typed(0 * same, issuer, issuer, same, 2 * same, *times)
    return CtaTimelines(launches, held, told, ["ring"], lambda: (columns, flights))


def _many_curves(rows: int = 9000, metrics: int = 40) -> CounterSeries:
    values = np.random.default_rng(4).random((metrics, rows)) * 1e12
    names = tuple(SeriesMetric(f"counter_{n}", "bytes/s") for n in range(metrics))
    return CounterSeries.of(
        "cuda:0", 10**5, np.arange(rows) * 10**5, np.full(rows, 10**5), names, values
    )


def _many_events(nodes: int, events: int = 150_000) -> Timeline:
    """On 70 threads, each event of which may be around others, and two streams."""
    random = np.random.default_rng(5)
    threads = [Track("thread", f"Thread-{n}", n) for n in range(70)]
    streams = [Track("stream", f"cuda:0 stream {n}", n, 0) for n in (7, 13)]
    start = np.sort(random.integers(0, 10**9, events))
    duration = random.integers(0, 30_000, events)
    track = random.integers(0, 72, events)
    launch = np.where(track >= 70, np.maximum(np.arange(events) - 9, -1), -1)
    columns = (random.integers(0, nodes, events), track, launch)
    return Timeline.holding((*threads, *streams), TimelineEvents.of(start, duration, *columns))
