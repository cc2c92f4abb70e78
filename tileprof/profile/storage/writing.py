"""A profile as the bytes of a SQLite database."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple

import numpy as np

from tileprof.errors import Location
from tileprof.profile import metrics as law
from tileprof.profile.ctas import CtaTimelines
from tileprof.profile.instruction_counts import InstructionCounts
from tileprof.profile.launch_facts import LaunchVariant
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.pc_samples import PcFunction, PcSamples
from tileprof.profile.series import CounterSeries
from tileprof.profile.sketch import Sketch
from tileprof.profile.storage import (
    cta_bytes,
    ir_bytes,
    launch_rows,
    series_tables,
    timeline_bytes,
    track_bytes,
)
from tileprof.profile.storage.schema import (
    LAUNCH_TABLES,
    PC_TABLES,
    SCHEMA,
    SERIES_TABLES,
    statements,
)
from tileprof.profile.tables import Attribute, KernelInfo
from tileprof.profile.timeline import Timeline, Track
from tileprof.profile.track_totals import TrackTotals
from tileprof.profile.tree.model import Profile
from tileprof.remarks import Candidate, Decision, Reason
from tileprof.remarks.stored import stored


def to_bytes(profile: Profile) -> bytes:
    """Return the whole content of a `.tprof` file."""
    # Built in memory: what reaches the disk is one finished file.
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        _Writer(database).profile(profile)
        database.commit()
        # Tables without row ids grow with a tenth of each page empty; this packs them.
        database.execute("VACUUM")
        return database.serialize()


class _Writer:
    """Inserts rows; locations and file names are stored once each."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._files: dict[str, int] = {}
        self._locations: dict[Location, int] = {}
        self._location_rows: list[tuple[object, ...]] = []
        self._remark_count = 0

    def profile(self, profile: Profile) -> None:
        self._insert("provenance", _texts(profile.tables.provenance.items()))
        self._tree(profile)
        for i, metric in enumerate(profile.metrics.values()):
            self._metric(i, metric, profile)
        self._sketches(profile)
        self._timeline(profile.tables.timeline)
        self._track_totals(profile.tables.track_totals)
        for i, kernel in enumerate(profile.tables.kernels):
            self._kernel(i, kernel)
        programs = [each.program for each in profile.tables.kernels]
        self._insert("kernel_ir", ir_bytes.rows(programs))
        self._ctas(profile.tables.ctas)
        self._pc_samples(profile.tables.pc)
        self._series(profile.tables.series)
        self._insert("node_kernels", profile.tables.node_kernels.items())
        self._insert("devices", (astuple(each) for each in profile.tables.devices))
        self._insert("device_peaks", (astuple(each) for each in profile.tables.device_peaks))
        self._insert("native_modules", (astuple(each) for each in profile.tables.native_modules))
        self._insert("sources", _texts(profile.tables.sources.items()))
        self._launches(profile.tables.launches)
        self._insert("files", ((number, name) for name, number in self._files.items()))
        self._insert("locations", self._location_rows)

    def _tree(self, profile: Profile) -> None:
        self._insert(
            "symbols",
            [
                (i, s.kind, _text(s.name), self._location(s.location), s.phase)
                for i, s in enumerate(profile.symbols)
            ],
        )
        parents = (None if parent < 0 else parent for parent in profile.parents.tolist())
        self._insert("nodes", zip(itertools.count(), parents, profile.symbol.tolist()))

    def _metric(self, number: int, metric: Metric, profile: Profile) -> None:
        name = metric.name
        own, absorbed, total = profile.own[name], profile.absorbed[name], profile.total(name)
        storage = "integer" if own.dtype.kind == absorbed.dtype.kind == "i" else "real"
        whole = profile.whole[name]
        texts = (_text(name), _text(metric.unit), metric.adds)
        self._insert("metrics", [(number, *texts, metric.inclusive, storage, whole)])
        columns = (own, absorbed, total)
        rows = np.flatnonzero(np.any([law.present(metric, column) for column in columns], axis=0))
        self._insert(
            "node_values",
            zip(
                itertools.repeat(number),
                rows.tolist(),
                *(_or_null(metric, column[rows]) for column in columns),
            ),
        )

    def _sketches(self, profile: Profile) -> None:
        numbers = {name: i for i, name in enumerate(profile.metrics)}
        own, absorbed = profile.tables.sketches, profile.tables.absorbed_sketches
        rows = (
            (numbers[metric], node, *(_bytes(part.get((node, metric))) for part in (own, absorbed)))
            for node, metric in sorted(own.keys() | absorbed.keys())
        )
        self._insert("sketches", rows)

    def _track_totals(self, totals: TrackTotals) -> None:
        if totals.tracks:
            self._insert("tracks", _tracks(totals.tracks))
            self._insert("track_totals", track_bytes.to_bytes(totals.sums).items())

    def _timeline(self, timeline: Timeline) -> None:
        if not timeline.tracks:
            return
        self._insert("timeline_tracks", _tracks(timeline.tracks))
        self._insert("timeline", timeline_bytes.to_bytes(timeline.events).items())

    def _ctas(self, timelines: CtaTimelines) -> None:
        if not timelines.launches:
            return
        self._insert(
            "cta_launches",
            (
                (i, e.kernel, _text(e.function), _text(e.device), e.number, e.recorded, e.issued)
                for i, e in enumerate(timelines.launches)
            ),
        )
        self._insert("ctas", ((i, *astuple(each)) for i, each in enumerate(timelines.ctas)))
        self._insert("cta_warps", ((i, *astuple(each)) for i, each in enumerate(timelines.warps)))
        self._insert("cta_queues", ((i, _text(name)) for i, name in enumerate(timelines.queues)))
        self._insert("cta_columns", cta_bytes.to_bytes(timelines).items())

    def _pc_samples(self, held: PcSamples) -> None:
        if not held:
            return
        self._database.executescript(statements(PC_TABLES))
        self._insert("pc_recordings", ((i, *astuple(e)) for i, e in enumerate(held.recordings)))
        self._insert("pc_stalls", ((i, _text(name)) for i, name in enumerate(held.stalls)))
        for number, function in enumerate(held.functions):
            self._pc_function(number, function)
        rows = held.rows
        nodes = (None if node < 0 else node for node in rows.node.tolist())
        columns = (each.tolist() for each in (rows.function, rows.offset, rows.stall))
        self._insert("pc_samples", zip(*columns, nodes, rows.samples.tolist()))
        self._insert("pc_cubins", held.cubins.items())
        texts = held.texts.items()
        self._insert("pc_texts", ((*map(_text, k), t.content, _text(t.note)) for k, t in texts))
        self._instruction_counts(held.counts)

    def _instruction_counts(self, counts: InstructionCounts) -> None:
        self._insert("instruction_metrics", enumerate(map(_text, counts.metrics)))
        places = {name: place for place, name in enumerate(counts.metrics)}
        recordings = enumerate(counts.recordings)
        asked = ((i, places[name]) for i, names in recordings for name in names)
        self._insert("instruction_recordings", asked)
        rows, metrics = (each.tolist() for each in np.nonzero(counts.values))
        columns = counts.function[rows].tolist(), counts.offset[rows].tolist(), metrics
        values = counts.values[rows, metrics].tolist()
        self._insert("instruction_counts", zip(*columns, values))

    def _pc_function(self, number: int, function: PcFunction) -> None:
        texts = (function.name, function.title, function.module, function.architecture)
        self._insert("pc_functions", [(number, *map(_text, texts), _text(function.note))])
        self._insert(
            "pc_instructions",
            (
                (number, each.offset, _text(each.text), self._location(each.place), each.depth)
                for each in function.code
            ),
        )
        self._insert(
            "pc_blames",
            (
                (number, i, each.offset, _text(each.stall), each.producer, _text(each.through))
                for i, each in enumerate(function.blames)
            ),
        )

    def _series(self, series: tuple[CounterSeries, ...]) -> None:
        if not series:
            return
        self._database.executescript(statements(SERIES_TABLES))
        self._insert("counter_series", series_tables.series_rows(series))
        self._insert("counter_columns", series_tables.column_rows(series))

    def _kernel(self, number: int, kernel: KernelInfo) -> None:
        texts = [kernel.name, kernel.device, kernel.ir, kernel.source, kernel.source_file]
        code = [_text(kernel.code), kernel.code_language]
        row = (number, *map(_text, texts), kernel.source_line, *code)
        self._insert("kernels", [row])
        attributes = kernel.attributes.items()
        self._insert(
            "kernel_attributes", [(number, _text(k), _attribute(v)) for k, v in attributes]
        )
        for position, site in enumerate(kernel.sites):
            place = self._location(site.location)
            row = (number, position, site.id, _text(site.name), site.kind, place, site.parent)
            self._insert("sites", [row])
        self._remarks(number, kernel)

    def _remarks(self, number: int, kernel: KernelInfo) -> None:
        for remark in kernel.remarks:
            self._remark_count += 1
            place = self._location(remark.location)
            about = (_text(remark.op), _text(remark.name), place, remark.severity)
            row = (self._remark_count, number, *about, *_statement(remark.decision))
            self._insert("remarks", [row])
            rejected = (
                (*_statement(each.candidate), *_statement(each.reason)) for each in remark.rejected
            )
            rows = ((self._remark_count, i, *cells) for i, cells in enumerate(rejected))
            self._insert("rejections", rows)

    def _launches(self, launches: Sequence[LaunchVariant]) -> None:
        if not launches:
            return
        self._database.executescript(statements(LAUNCH_TABLES))
        for i, each in enumerate(launches):
            place = self._location(each.place)
            row = (i, _text(each.kernel), place, each.looked_at, each.others)
            self._insert("launch_variants", [row])
        self._insert("launch_arguments", launch_rows.arguments(launches, _text))

    def _location(self, place: Location | None) -> int | None:
        if place is None:
            return None
        if place not in self._locations:
            caller = self._location(place.caller)
            file = self._files.setdefault(_text(place.file), len(self._files))
            self._locations[place] = len(self._locations)
            self._location_rows.append(
                (
                    self._locations[place],
                    file,
                    place.line,
                    place.column,
                    place.end_line,
                    place.end_column,
                    _text(place.function),
                    caller,
                )
            )
        return self._locations[place]

    def _insert(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        columns = len(self._database.execute(f"SELECT * FROM {table} LIMIT 0").description)
        marks = ", ".join("?" * columns)
        self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _bytes(sketch: Sketch | None) -> bytes | None:
    return None if sketch is None else sketch.to_bytes()


def _or_null(metric: Metric, column: Column) -> list[int | float | None]:
    held = law.present(metric, column)
    known = column[held]
    whole = (known == np.rint(known)) & (np.abs(known) < 2.0**53)
    # Integers take a third of the room that reals take; the extremes of times are whole.
    if column.dtype.kind == "f" and whole.all():
        column = np.where(held, column, 0).astype(np.int64)
    return [v if h else None for v, h in zip(column.tolist(), held.tolist())]


def _attribute(value: Attribute) -> Attribute:
    if isinstance(value, str) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return _text(str(value))
    return value


def _statement(statement: Decision | Candidate | Reason) -> tuple[str, str, str]:
    held = stored(statement)
    facts = json.dumps(held.facts, separators=(",", ":"), ensure_ascii=False)
    return _text(held.code), _text(facts), _text(held.text)


def _tracks(tracks: Sequence[Track]) -> Iterator[tuple[object, ...]]:
    """Yield the row of each track."""
    for number, track in enumerate(tracks):
        yield number, track.kind, _text(track.name), track.number, track.device


def _texts(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(_text(a), _text(b)) for a, b in pairs]


def _text(text: str) -> str:
    # A file name may hold bytes that are no UTF-8, which SQLite refuses.
    return text.encode("utf-8", "backslashreplace").decode()
