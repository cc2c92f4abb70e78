"""Profiles as Arrow tables, one a kind of row, with the same columns for all of them.

In: profiles that are to be read as one, each with its name and rank.  Out: tables by name. Only
`parquet` imports this module, which needs pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tileprof.profile import Attribute, KernelInfo, Metric, Profile
from tileprof.profile import metrics as law
from tileprof.profile.transform.join import held, united_metrics
from tileprof.remarks import Candidate, Decision, Reason
from tileprof.remarks.stored import columns
from tileprof.viewer.columns import PERCENTS, quantile_column, sketched
from tileprof.viewer.exports.arrow_gpu import (
    INT,
    PLACE,
    TEXT,
    Fields,
    Row,
    count_fields,
    counter_fields,
    counter_series,
    free_name,
    instruction_counts,
    names_of,
    number_field,
    pc_samples,
    place_of,
)
from tileprof.viewer.exports.layout import check_paths
from tileprof.viewer.text import encodable

_NODE: Fields = [
    ("id", INT), ("parent", INT), ("depth", INT), ("kind", TEXT), ("name", TEXT), *PLACE,
    ("phase", TEXT), ("kernel", INT), ("path", pa.list_(TEXT)),
]  # fmt: skip
_TEXTS = ("name", "device", "ir", "source", "source_file", "code", "code_language")
_KERNEL: Fields = [
    ("kernel", INT), *((name, TEXT) for name in _TEXTS), ("source_line", INT),
    ("attributes", pa.map_(TEXT, TEXT)),
]  # fmt: skip
_SITE: Fields = [
    ("kernel", INT), ("id", INT), ("parent", INT), ("name", TEXT), ("kind", TEXT), *PLACE,
]  # fmt: skip
_REJECTED: Fields = [
    (f"{name}{part}", TEXT) for name in ("candidate", "reason") for part in ("_code", "_facts", "")
]
_REMARK: Fields = [
    ("kernel", INT), ("op", TEXT), ("name", TEXT), *PLACE, ("severity", TEXT),
    *((f"chosen{part}", TEXT) for part in ("_code", "_facts", "")),
    ("rejected", pa.list_(pa.struct(_REJECTED))),
]  # fmt: skip
_COMMON = 0.5
"""Part of the kernels that have an attribute from which on it is a column of its own."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Profile that a row is of; the first columns of every table."""

    profile: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of numbers of the nodes."""

    field: pa.Field
    metric: Metric
    part: str
    """`own`, `absorbed`, `total`, or `p` and the percent of a quantile."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that depend on what the profiles hold."""

    measures: tuple[Measure, ...]
    attributes: Mapping[str, pa.Field]
    """Columns of kernel attributes, keyed by the attribute's name."""
    counts: Mapping[str, pa.Field]
    """Columns of instruction counts, keyed by metric."""
    counters: Mapping[str, pa.Field]
    """Over time, by metric."""


def columns_of(profiles: Sequence[Profile]) -> Columns:
    """Return the columns that fit all profiles; UsageError where they declare a metric unlike."""
    taken = names_of(_NODE)
    measures = []
    with_quantiles = {metric for profile in profiles for metric in sketched(profile)}
    for metric in united_metrics(profiles).values():
        parts = {"own": "", "total": "_total", "absorbed": "_absorbed"}
        if metric.name in with_quantiles:
            parts |= {f"p{percent}": f"_p{percent}" for percent in PERCENTS}
        name = free_name(metric.name, taken, parts.values())
        for part, suffix in parts.items():
            values = [_part(profile, metric, part) for profile in profiles]
            if part != "absorbed" or any(law.present(metric, column).any() for column in values):
                measures.append(_measure(f"{name}{suffix}", metric, part, values))
    kernels = [kernel for profile in profiles for kernel in profile.tables.kernels]
    return Columns(
        tuple(measures),
        _attributes(kernels),
        count_fields(profiles),
        counter_fields(profiles),
    )


def table_of(name: str, profile: Profile, origin: Origin, columns: Columns) -> pa.Table:
    """Return the table `name`, one of `TABLES`; node ids and kernel numbers are the profile's."""
    table = TABLES[name](profile, columns)
    ranks = pa.array([origin.rank] * len(table), INT)
    profiles = pa.array([encodable(origin.profile)] * len(table), TEXT)
    return table.add_column(0, "rank", ranks).add_column(0, "profile", profiles)


def _measure(name: str, metric: Metric, part: str, values: list[law.Column]) -> Measure:
    exact = all(column.dtype.kind == "i" for column in values)
    kind = pa.int64() if exact else pa.float64()
    about = {"metric": metric.name, "unit": metric.unit, "adds": metric.adds, "part": part}
    return Measure(number_field(name, kind, **about), metric, part)


def _part(profile: Profile, metric: Metric, part: str) -> law.Column:
    if part == "total" and metric.name in profile.metrics:
        return profile.total(metric.name)
    if part.startswith("p"):
        if metric.name not in profile.metrics:
            return np.full(len(profile), np.nan)
        return quantile_column(profile, metric.name, part[1:]).total
    columns = {"own": profile.own, "absorbed": profile.absorbed}.get(part, {})
    return held(columns, metric, len(profile))


def _attributes(kernels: list[KernelInfo]) -> dict[str, pa.Field]:
    taken = names_of(_KERNEL)
    values: dict[str, list[Attribute]] = {}
    for kernel in kernels:
        for name, value in kernel.attributes.items():
            values.setdefault(name, []).append(value)
    return {
        name: pa.field(encodable(free_name(name, taken)), _type_of(found))
        for name, found in sorted(values.items())
        if len(found) >= _COMMON * len(kernels)
    }


def _type_of(values: list[Attribute]) -> pa.DataType:
    """Return the type that holds every value as it is; text where no other does."""
    if any(isinstance(v, str) or (isinstance(v, int) and abs(v) >= 2**63) for v in values):
        return TEXT
    return pa.int64() if all(isinstance(v, int) for v in values) else pa.float64()


def _nodes(profile: Profile, columns: Columns) -> pa.Table:
    places = profile.locations
    count = len(profile)
    kernels = [profile.tables.node_kernels.get(node) for node in range(count)]
    by_place = [place_of(place) for place in places]
    plain = {
        "id": np.arange(count),
        "parent": [None if parent < 0 else parent for parent in profile.parents.tolist()],
        "depth": profile.depths,
        "kind": profile.kinds,
        "name": [encodable(name) for name in profile.names],
        **{name: [place.get(name) for place in by_place] for name, _ in PLACE},
        "phase": [phase or None for phase in profile.phases],
        "kernel": kernels,
        "path": _paths(profile),
    }
    arrays = [pa.array(plain[name], kind) for name, kind in _NODE]
    fields = [pa.field(name, kind) for name, kind in _NODE]
    for measure in columns.measures:
        arrays.append(_numbers(_part(profile, measure.metric, measure.part), measure.field.type))
        fields.append(measure.field)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _numbers(column: law.Column, kind: pa.DataType) -> pa.Array:
    """Return a column of numbers; null where there is none."""
    return pa.array(column.astype(kind.to_pandas_dtype()), kind, from_pandas=True)


def _paths(profile: Profile) -> pa.Array:
    """Return for each node the names from the top level down to itself."""
    check_paths(profile, profile.names, np.ones(len(profile), bool))
    ends = np.cumsum(profile.depths + 1, dtype=np.int64)
    symbols = np.zeros(int(ends[-1]) if len(ends) else 0, np.int32)
    nodes: law.Index = np.arange(len(profile))
    places = ends - 1
    while len(nodes):
        symbols[places] = profile.symbol[nodes]
        above = profile.parents[nodes]
        inside = above >= 0
        nodes, places = above[inside], places[inside] - 1
    names = pa.array([encodable(symbol.name) for symbol in profile.symbols], TEXT)
    starts = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(starts, names.take(pa.array(symbols)))


def _of_rows(fields: Fields, rows: Iterator[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


def _kernels(profile: Profile, columns: Columns) -> pa.Table:
    fields = [*_KERNEL, *((field.name, field.type) for field in columns.attributes.values())]
    return _of_rows(fields, _kernel_rows(profile, columns.attributes))


def _kernel_rows(profile: Profile, common: Mapping[str, pa.Field]) -> Iterator[Row]:
    for number, kernel in enumerate(profile.tables.kernels):
        attributes = sorted(kernel.attributes.items())
        row: Row = {name: encodable(getattr(kernel, name)) for name in _TEXTS}
        row |= {"kernel": number, "source_line": kernel.source_line or None}
        row["attributes"] = [(encodable(name), encodable(str(v))) for name, v in attributes]
        for name, value in attributes:
            if (field := common.get(name)) is not None:
                text = pa.types.is_string(field.type)
                row[field.name] = encodable(str(value)) if text else value
        yield row


def _sites(profile: Profile, _: Columns) -> pa.Table:
    rows = (
        {"kernel": number, "id": site.id, "parent": site.parent, "name": encodable(site.name)}
        | {"kind": site.kind, **place_of(site.location)}
        for number, kernel in enumerate(profile.tables.kernels)
        for site in kernel.sites
    )
    return _of_rows(_SITE, rows)


def _remarks(profile: Profile, _: Columns) -> pa.Table:
    rows = (
        {"kernel": number, "op": encodable(remark.op), "name": encodable(remark.name)}
        | {"severity": remark.severity, **place_of(remark.location)}
        | _statement("chosen", remark.decision)
        | {
            "rejected": [
                _statement("candidate", each.candidate) | _statement("reason", each.reason)
                for each in remark.rejected
            ]
        }
        for number, kernel in enumerate(profile.tables.kernels)
        for remark in kernel.remarks
    )
    return _of_rows(_REMARK, rows)


def _statement(name: str, statement: Decision | Candidate | Reason) -> Row:
    """The code of a statement, its facts as JSON, and its sentence."""
    held = columns(name, statement)
    held[f"{name}_facts"] = json.dumps(held[f"{name}_facts"], ensure_ascii=False)
    return {column: encodable(text) for column, text in held.items()}


def _pairs(first: str, second: str, pairs: Mapping[str, str]) -> pa.Table:
    rows = ({first: encodable(a), second: encodable(b)} for a, b in sorted(pairs.items()))
    return _of_rows([(first, TEXT), (second, TEXT)], rows)


TABLES: dict[str, Callable[[Profile, Columns], pa.Table]] = {
    "nodes": _nodes,
    "kernels": _kernels,
    "sites": _sites,
    "remarks": _remarks,
    "pc_samples": lambda profile, _: pc_samples(profile),
    "instruction_counts": lambda profile, columns: instruction_counts(profile, columns.counts),
    "counter_series": lambda profile, columns: counter_series(profile, columns.counters),
    "sources": lambda profile, _: _pairs("file", "text", profile.tables.sources),
    "provenance": lambda profile, _: _pairs("key", "value", profile.tables.provenance),
}
