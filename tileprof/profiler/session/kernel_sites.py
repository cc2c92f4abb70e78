"""Sites below the node of their kernel: where its time went, by records or by samples.

In: what the launches of a kernel at one call path wrote about their inside, and the kernel's time.
Out: nodes for sites, whose time is taken out of the kernel's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tileprof.profile import KernelInfo, SiteInfo, TreeBuilder
from tileprof.profiler.tree import metrics
from tileprof.profiler.tree.totals import LaunchTotals, SiteTotals

if TYPE_CHECKING:
    from tileprof.instrument.decode.samples import SampleTotals


def add_sites(
    builder: TreeBuilder,
    kernel: int,
    totals: SiteTotals,
    launches: LaunchTotals,
    time: int,
    info: KernelInfo,
) -> None:
    """Hang the sites of one nesting below their kernel, out of whose time theirs is taken."""
    described = {site.id: site for site in info.sites}
    whole = max(launches.block_ns, sum(s.outermost_ns() for s in launches.sites.values()), 1)
    nodes: list[int] = []
    sketches = totals.sketches()
    for at, (parent, site) in enumerate(zip(totals.parents, totals.sites)):
        known = described.get(site)
        name = known.name if known is not None else f"site {site}"
        above = nodes[parent] if parent >= 0 else kernel
        node = builder.child(above, "site", name, known.location if known else None)
        nodes.append(node)
        total, count = int(totals.total_ns[at]), int(totals.count[at])
        share = time * total // whole
        builder.add(node, "time", share)
        builder.add(above, "time", -share)
        builder.add(node, "block_time", total)
        if parent >= 0:
            builder.add(above, "block_time", -total)
        builder.add(node, "count", count)
        if totals.marks is not None:
            marks = int(totals.marks.count[at]), round(totals.marks.ns[at])
            for metric, value in zip(("marks", "mark_time"), marks):
                builder.add(node, metric, value)
                if parent >= 0:
                    builder.add(above, metric, -value)
        if count:
            builder.add(node, "block_time_min", int(totals.shortest[at]))
            builder.add(node, "block_time_max", int(totals.longest[at]))
        if sketches:
            builder.sketch(node, "block_time", sketches[at])


def add_samples(
    builder: TreeBuilder,
    kernel: int,
    groups: Collection[SampleTotals],
    time: int,
    info: KernelInfo,
) -> None:
    """Hang the sites that warps were seen at below their kernel, with its time in proportion.

    `groups`: of variants that differ in their roles.
    """
    from tileprof.instrument.decode.samples import effective_sample_size

    sites = sorted(info.sites, key=lambda site: site.id)
    nodes = _seen_sites(builder, kernel, sites, groups)
    whole, before = max(sum(int(samples.samples.sum()) for samples in groups), 1), 0
    for samples in groups:
        for row, role in enumerate(samples.roles):
            looks, of_role = metrics.OF_ROLES[role]
            builder.add(kernel, looks.name, effective_sample_size(samples, row))
            *own, outside = samples.own([site.parent for site in sites], row)
            for site, count in enumerate([*own[: len(sites)], outside]):
                at = nodes.get(site, kernel)
                for metric in (metrics.KERNEL_SAMPLES, *of_role):
                    builder.add(at, metric.name, count)
                # Whole nanoseconds, such that all parts add up to the kernel's time.
                share = time * (before + count) // whole - time * before // whole
                builder.add(at, "time", share)
                builder.add(kernel, "time", -share)
                before += count


def _seen_sites(
    builder: TreeBuilder,
    kernel: int,
    sites: Sequence[SiteInfo],
    groups: Collection[SampleTotals],
) -> dict[int, int]:
    """Return the node of each site that warps were seen at, or inside of it."""
    seen = {
        site for samples in groups for site in np.flatnonzero(samples.seen[:, :-1].sum(0)).tolist()
    }
    nodes: dict[int, int] = {}
    for site in sites:
        if site.id in seen:
            above = kernel if site.parent is None else nodes[site.parent]
            nodes[site.id] = builder.child(above, "site", site.name, site.location)
    return nodes
