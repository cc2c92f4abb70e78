"""A profile from an open SQLite database whose header has been checked."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import Location
from tileprof.profile import cta_bytes, pc_reading, series_tables, timeline_bytes
from tileprof.profile import metrics as law
from tileprof.profile.ctas import Cta, CtaLaunch, CtaTimelines, CtaWarp
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.model import Profile, build
from tileprof.profile.pc_samples import PcSamples
from tileprof.profile.schema import has_table
from tileprof.profile.sketch import Sketch, sketches_from_bytes
from tileprof.profile.symbol import Symbol
from tileprof.profile.tables import DevicePeak, KernelInfo, RemarkInfo, SiteInfo, Tables
from tileprof.profile.timeline import Timeline, Track


def from_database(database: sqlite3.Connection) -> Profile:
    """Return the profile; raises whatever a damaged database makes the parts raise."""
    places = _locations(database)
    rows = database.execute("SELECT kind, name, location, phase FROM symbols ORDER BY id")
    symbols = [
        Symbol(kind, name, None if place is None else places[place], phase)
        for kind, name, place, phase in rows
    ]
    nodes = np.fromiter(
        database.execute("SELECT coalesce(parent, -1), symbol FROM nodes ORDER BY id"),
        [("parent", np.int32), ("symbol", np.int32)],
    )
    metrics: dict[str, Metric] = {}
    own: dict[str, Column] = {}
    absorbed: dict[str, Column] = {}
    whole: dict[str, int | float] = {}
    columns = "id, name, unit, adds, inclusive, storage, whole"
    for row in database.execute(f"SELECT {columns} FROM metrics ORDER BY id").fetchall():
        number, name, unit, adds, inclusive, storage, amount = row
        metric = metrics[name] = Metric(name, unit, adds, bool(inclusive))
        whole[name] = math.nan if amount is None else amount
        kind = "int64" if storage == "integer" else "float64"
        own[name] = _values(database, metric, number, "own", kind, len(nodes))
        absorbed[name] = _values(database, metric, number, "absorbed", kind, len(nodes))
    tables = replace(
        _tables(database, places),
        sketches=_sketches(database, "own"),
        absorbed_sketches=_sketches(database, "absorbed"),
        timeline=_timeline(database, len(nodes)),
        ctas=_ctas(database),
        pc=_pc_samples(database, places),
        device_peaks=_device_peaks(database),
        series=series_tables.read(database) if has_table(database, "counter_series") else (),
    )
    return build(symbols, nodes["symbol"], nodes["parent"], metrics, own, absorbed, whole, tables)


def _values(
    database: sqlite3.Connection,
    metric: Metric,
    number: int,
    which: str,
    kind: npt.DTypeLike,
    count: int,
) -> Column:
    rows = np.fromiter(
        database.execute(
            f"SELECT node, {which} FROM node_values WHERE metric = ? AND {which} IS NOT NULL",
            (number,),
        ),
        [("node", np.int64), ("value", kind)],
    )
    column = law.empty_column(metric, count).astype(kind)
    column[rows["node"]] = rows["value"]
    return column


def _sketches(database: sqlite3.Connection, which: str) -> dict[tuple[int, str], Sketch]:
    if not has_table(database, "sketches"):
        return {}
    rows = database.execute(
        f"SELECT node, name, {which} FROM sketches JOIN metrics ON metrics.id = metric "
        f"WHERE {which} IS NOT NULL"
    ).fetchall()
    sketches = sketches_from_bytes([content for _, _, content in rows])
    return {(node, metric): sketch for (node, metric, _), sketch in zip(rows, sketches)}


def _timeline(database: sqlite3.Connection, nodes: int) -> Timeline:
    if not has_table(database, "timeline"):
        return Timeline()
    rows = database.execute("SELECT kind, name, number, device FROM timeline_tracks ORDER BY id")
    tracks = tuple(Track(*row) for row in rows)
    columns = dict(database.execute("SELECT name, content FROM timeline").fetchall())
    return timeline_bytes.from_bytes(tracks, columns, nodes)


def _ctas(database: sqlite3.Connection) -> CtaTimelines:
    if not has_table(database, "cta_launches"):
        return CtaTimelines()

    def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()

    return cta_bytes.from_bytes(
        [
            CtaLaunch(*row)
            for row in rows("cta_launches", "kernel, function, device, number, recorded, issued")
        ],
        [Cta(*row) for row in rows("ctas", 'launch, block, sm, "begin", "end", chosen')],
        [CtaWarp(*row) for row in rows("cta_warps", 'cta, warp, role, "begin", "end", missing')],
        [name for (name,) in rows("cta_queues", "name")],
        dict(database.execute("SELECT name, content FROM cta_columns").fetchall()),
    )


def _pc_samples(database: sqlite3.Connection, places: dict[int, Location]) -> PcSamples:
    return pc_reading.read(database, places) if has_table(database, "pc_samples") else PcSamples()


def _device_peaks(database: sqlite3.Connection) -> tuple[DevicePeak, ...]:
    if not has_table(database, "device_peaks"):
        return ()
    columns = ", ".join(field.name for field in fields(DevicePeak))
    rows = database.execute(f"SELECT {columns} FROM device_peaks ORDER BY rowid")
    return tuple(DevicePeak(*row) for row in rows)


def _locations(database: sqlite3.Connection) -> dict[int, Location]:
    places: dict[int, Location] = {}
    columns = 'locations.id, name, line, "column", end_line, end_column, function, caller'
    joined = "locations JOIN files ON files.id = locations.file"
    # A caller is written before what it calls.
    for row in database.execute(f"SELECT {columns} FROM {joined} ORDER BY locations.id"):
        number, file, line, column, end_line, end_column, function, caller = row
        around = None if caller is None else places[caller]
        places[number] = Location(file, line, column, end_line, end_column, function, around)
    return places


def _tables(database: sqlite3.Connection, places: dict[int, Location]) -> Tables:
    attributes: dict[int, dict[str, str | int | float]] = defaultdict(dict)
    for kernel, name, value in database.execute(
        "SELECT kernel, name, value FROM kernel_attributes"
    ):
        attributes[kernel][name] = math.nan if value is None else value
    remarks, sites = _remarks(database, places), _sites(database, places)
    texts = "name, device, ir, source, source_file, source_line, code, code_language"
    kernels = []
    for number, *row in database.execute(f"SELECT id, {texts} FROM kernels ORDER BY id"):
        extras = [tuple(remarks[number]), tuple(sites[number]), attributes[number]]
        kernels.append(KernelInfo(*row, *extras))
    return Tables(
        tuple(kernels),
        dict(database.execute("SELECT node, kernel FROM node_kernels").fetchall()),
        dict(database.execute("SELECT file, text FROM sources").fetchall()),
        dict(database.execute("SELECT key, value FROM provenance").fetchall()),
    )


def _remarks(
    database: sqlite3.Connection, places: dict[int, Location]
) -> dict[int, list[RemarkInfo]]:
    rejected: dict[int, list[tuple[str, str]]] = defaultdict(list)
    order = "ORDER BY remark, position"
    for remark, candidate, reason in database.execute(
        f"SELECT remark, candidate, reason FROM rejections {order}"
    ):
        rejected[remark].append((candidate, reason))
    remarks: dict[int, list[RemarkInfo]] = defaultdict(list)
    columns = "id, kernel, op, location, chosen, severity"
    for row in database.execute(f"SELECT {columns} FROM remarks ORDER BY id"):
        number, kernel, op, place, chosen, severity = row
        location = None if place is None else places[place]
        remark_info = RemarkInfo(op, location, chosen, tuple(rejected[number]), severity)
        remarks[kernel].append(remark_info)
    return remarks


def _sites(database: sqlite3.Connection, places: dict[int, Location]) -> dict[int, list[SiteInfo]]:
    sites: dict[int, list[SiteInfo]] = defaultdict(list)
    columns = "kernel, id, name, kind, location, parent"
    for row in database.execute(f"SELECT {columns} FROM sites ORDER BY kernel, position"):
        kernel, number, name, kind, place, parent = row
        location = None if place is None else places[place]
        sites[kernel].append(SiteInfo(number, name, kind, location, parent))
    return sites
