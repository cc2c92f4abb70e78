"""A profile from the checked rows of a database.

What a single column may hold is checked by `database.py`.  What is checked here is what several
columns have to do with each other: values with their metric, sites with the sites around them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tileprof.errors import Location, ProfileFileError
from tileprof.profile import metrics as law
from tileprof.profile.ctas import Cta, CtaLaunch, CtaTimelines, CtaWarp
from tileprof.profile.metrics import Column, Index, Metric
from tileprof.profile.sketch import Sketch, sketches_from_bytes
from tileprof.profile.storage import (
    cta_bytes,
    ir_bytes,
    launch_rows,
    limits,
    older_devices,
    pc_reading,
    remark_rows,
    schema,
    series_tables,
    timeline_bytes,
    track_bytes,
)
from tileprof.profile.storage.database import Database, check_ascending
from tileprof.profile.tables import (
    DeviceInfo,
    DevicePeak,
    KernelInfo,
    NativeModule,
    SiteInfo,
    Tables,
)
from tileprof.profile.timeline import Timeline, Track
from tileprof.profile.tree.forest import depths
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.symbol import Symbol

_T = TypeVar("_T")


def from_database(database: Database) -> Profile:
    """Return the profile; raises `ProfileFileError` where the database is damaged."""
    places = _locations(database)
    symbols = [
        Symbol(kind, name, _at(places, place), phase)
        for kind, name, place, phase in database.rows(schema.SYMBOLS).tuples()
    ]
    nodes = database.rows(schema.NODES)
    parents, symbol = nodes.integers("parent"), nodes.integers("symbol")
    _check_tree(parents, symbol, symbols)
    rows = database.rows(schema.METRICS)
    if len(rows) * len(nodes) > limits.CELLS:
        raise ProfileFileError(
            f"it has {len(rows):,} metrics at {len(nodes):,} nodes, and at most "
            f"{limits.CELLS:,} values are read"
        )
    metrics: dict[str, Metric] = {}
    own: dict[str, Column] = {}
    absorbed: dict[str, Column] = {}
    whole: dict[str, int | float] = {}
    columns = ("id", "name", "unit", "adds", "inclusive", "storage", "whole")
    for number, name, unit, adds, inclusive, storage, amount in rows.tuples(*columns):
        metric = metrics[name] = Metric(name, unit, adds, bool(inclusive))
        whole[name] = amount
        for which, held in (("own", own), ("absorbed", absorbed)):
            held[name] = _values(database, metric, number, which, storage, len(nodes))
    tables = replace(
        _tables(database, places),
        sketches=_sketches(database, list(metrics), "own"),
        absorbed_sketches=_sketches(database, list(metrics), "absorbed"),
        timeline=_timeline(database, len(nodes)),
        track_totals=track_bytes.from_bytes(
            tuple(Track(*row) for row in database.rows(schema.TRACKS).tuples()),
            dict(database.rows(schema.TRACK_TOTALS).tuples()),
            len(nodes),
        ),
        ctas=_ctas(database),
        pc=pc_reading.read(database, places),
        devices=_devices(database),
        device_peaks=tuple(DevicePeak(*row) for row in database.rows(schema.DEVICE_PEAKS).tuples()),
        native_modules=tuple(
            NativeModule(*row) for row in database.rows(schema.NATIVE_MODULES).tuples()
        ),
        series=series_tables.read(database),
        launches=launch_rows.read(database, places),
    )
    return build(symbols, symbol, parents, metrics, own, absorbed, whole, tables)


def _at(places: Sequence[Location], place: int) -> Location | None:
    return None if place < 0 else places[place]


def _check_tree(parents: Index, symbol: Index, symbols: Sequence[Symbol]) -> None:
    """Raise where a tree is so deep, or takes so much text, that nothing can show it."""
    deepest = int(depths(parents).max(initial=-1)) + 1
    if deepest > limits.DEPTH:
        raise ProfileFileError(
            f"its tree is {deepest:,} nodes deep, and at most {limits.DEPTH:,} are read"
        )
    sizes = np.array([_characters(each) for each in symbols], np.int64)
    written = int(sizes[symbol].sum()) if len(symbol) else 0
    if written > limits.TREE_CHARACTERS:
        raise ProfileFileError(
            f"the names and places of its nodes take {written:,} characters, and at most "
            f"{limits.TREE_CHARACTERS:,} are read"
        )


def _characters(symbol: Symbol) -> int:
    """Characters that a node of this symbol takes where it is written out."""
    place = symbol.location
    around = len(place.file) + len(place.function) if place is not None else 0
    return len(symbol.name) + len(symbol.phase) + around


def _values(
    database: Database, metric: Metric, number: int, which: str, storage: str, count: int
) -> Column:
    table = schema.NODE_VALUES
    asked = [table.field("node"), table.field(which)]
    rows = database.selected(table, asked, f"WHERE metric = ? AND {which} IS NOT NULL", number)
    nodes = rows.integers("node")
    check_ascending(table, [nodes])
    found = np.asarray(rows.column(which))
    kind = "int64" if storage == "integer" else "float64"
    if kind == "int64" and found.size and found.dtype.kind != "i":
        raise ProfileFileError(f"the values of metric `{metric.name}` are not whole numbers")
    column = law.empty_column(metric, count).astype(kind)
    column[nodes] = found
    return column


def _sketches(
    database: Database, metrics: Sequence[str], which: str
) -> dict[tuple[int, str], Sketch]:
    rows = database.rows(schema.SKETCHES).tuples("node", "metric", which)
    held = [(node, metrics[metric], content) for node, metric, content in rows if content]
    sketches = sketches_from_bytes([content for _, _, content in held])
    return {(node, metric): sketch for (node, metric, _), sketch in zip(held, sketches)}


def _timeline(database: Database, nodes: int) -> Timeline:
    tracks = tuple(Track(*row) for row in database.rows(schema.TIMELINE_TRACKS).tuples())
    columns = dict(database.rows(schema.TIMELINE).tuples())
    return timeline_bytes.from_bytes(tracks, columns, nodes)


def _ctas(database: Database) -> CtaTimelines:
    launches = database.rows(schema.CTA_LAUNCHES)
    if not len(launches):
        return CtaTimelines()
    return cta_bytes.from_bytes(
        [CtaLaunch(*row) for row in launches.tuples()],
        [Cta(*row) for row in database.rows(schema.CTAS).tuples()],
        [CtaWarp(*row) for row in database.rows(schema.CTA_WARPS).tuples()],
        database.rows(schema.CTA_QUEUES).values("name"),
        dict(database.rows(schema.CTA_COLUMNS).tuples()),
    )


def _devices(database: Database) -> tuple[DeviceInfo, ...]:
    if database.version < 2:
        provenance = database.rows(schema.PROVENANCE).tuples()
        return tuple(each for row in provenance for each in older_devices.devices(*row))
    return tuple(DeviceInfo(*row) for row in database.rows(schema.DEVICES).tuples())


def _locations(database: Database) -> list[Location]:
    files = database.rows(schema.FILES).values("name")
    places: list[Location] = []
    callers: list[int] = []
    # A caller is written before what it calls.
    for file, line, column, end, end_column, function, caller in database.rows(
        schema.LOCATIONS
    ).tuples():
        callers.append(0 if caller < 0 else callers[caller] + 1)
        if callers[-1] > limits.CALLERS:
            raise ProfileFileError(f"a place was inlined through more than {limits.CALLERS} others")
        around = _at(places, caller)
        places.append(Location(files[file], line, column, end, end_column, function, around))
    return places


def _tables(database: Database, places: Sequence[Location]) -> Tables:
    attributes: dict[int, dict[str, Any]] = defaultdict(dict)
    for kernel, name, value in database.rows(schema.KERNEL_ATTRIBUTES).tuples():
        attributes[kernel][name] = value
    remarks, sites = _grouped(remark_rows.read(database, places)), _sites(database, places)
    kernels = list[KernelInfo]()
    for number, row in enumerate(database.rows(schema.KERNELS).tuples()):
        extras = [tuple(remarks[number]), tuple(sites[number]), attributes[number]]
        kernels.append(KernelInfo(*row, *extras))
    return Tables(
        _with_programs(database, kernels),
        dict(database.rows(schema.NODE_KERNELS).tuples()),
        dict(database.rows(schema.SOURCES).tuples()),
        dict(database.rows(schema.PROVENANCE).tuples()),
    )


def _with_programs(database: Database, kernels: Sequence[KernelInfo]) -> tuple[KernelInfo, ...]:
    rows = database.rows(schema.KERNEL_IR).tuples()
    stored = {kernel: (version, content) for kernel, version, content in rows}
    programs = ir_bytes.programs([each.ir for each in kernels], stored)
    return tuple(replace(each, program=own) for each, own in zip(kernels, programs))


def _sites(database: Database, places: Sequence[Location]) -> dict[int, list[SiteInfo]]:
    columns = ("kernel", "id", "name", "kind", "location", "parent")
    found = _grouped(
        (kernel, SiteInfo(number, name, kind, _at(places, at), None if above < 0 else above))
        for kernel, number, name, kind, at, above in database.rows(schema.SITES).tuples(*columns)
    )
    for sites in found.values():
        _check_nesting(sites)
    return found


def _check_nesting(sites: Sequence[SiteInfo]) -> None:
    """Raise where a number is that of two sites, or a site lies inside of itself."""
    parents = {site.id: site.parent for site in sites}
    if len(parents) != len(sites):
        raise ProfileFileError("`sites.id` holds a number twice within a kernel")
    settled: set[int | None] = {None}
    for site in sites:
        path: dict[int | None, None] = {}
        at: int | None = site.id
        while at not in settled:
            if at in path or at not in parents:
                raise ProfileFileError("`sites.parent` refers to no site around its own")
            path[at] = None
            at = parents[at]
        settled.update(path)


def _grouped(pairs: Iterable[tuple[int, _T]]) -> dict[int, list[_T]]:
    """Values by their number, in their order."""
    found: dict[int, list[_T]] = defaultdict(list)
    for number, value in pairs:
        found[number].append(value)
    return found
