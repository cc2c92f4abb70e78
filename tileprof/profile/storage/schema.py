"""The tables of a `.tprof` file, stated once; `docs/profile-format.md` explains them.

The file is a SQLite database whose `application_id` says that it is a profile and whose
`user_version` is the version of this schema. A change that an older reader would misread raises
`VERSION`.

Each column states its type, its range, whether it may be NULL and which table it refers to.  The
`CREATE TABLE` statements of the writer and the checks of the reader (`database.py`) follow from
that, so that no value reaches the rest of tileprof that is not of the declared form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tileprof.profile.storage import limits
from tileprof.profile.tree.symbol import KINDS
from tileprof.remarks import Severity

APPLICATION_ID: Final = 0x54505246
"""The letters `TPRF`."""
VERSION: Final = 2
"""Version 2 has remarks as codes with facts, and devices as numbers; version 1 had sentences."""

Type = Literal["integer", "number", "line", "text", "value", "bytes"]
"""Kinds of columns: whole numbers, numbers, text of one line or of several, text or a number (for
attributes), bytes."""

_SQL_TYPES: Final[dict[Type, str]] = {
    "integer": " INTEGER", "number": "", "line": " TEXT", "text": " TEXT", "value": "",
    "bytes": " BLOB",
}  # fmt: skip
_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table."""

    name: str
    type: Type
    low: float = 0
    """Smallest value of a column of numbers."""
    high: float = _INT32
    """Largest value of a column of numbers, and largest length of one of texts or bytes."""
    null: bool = False
    """Whether a cell may be NULL, which is read as -1, NaN or None."""
    refers: str = ""
    """Table whose `id` a cell holds; the reader gives the place of that row, from 0."""
    earlier: bool = False
    """Whether the row that a cell refers to stands before the cell's own row."""
    choices: tuple[str, ...] = ()
    """Texts that a cell may hold; empty if any text is allowed."""
    unique: bool = False
    since: int = 1
    """Version of the format that brought the column; texts of older files are empty there."""

    def sql(self, is_key: bool) -> str:
        """Return the column's part of `CREATE TABLE`; `is_key` for a sole primary key."""
        words = f'"{self.name}"{_SQL_TYPES[self.type]}'
        if is_key:
            words += " PRIMARY KEY"
        elif not self.null:
            words += " NOT NULL"
        if self.unique:
            words += " UNIQUE"
        return words + (f" REFERENCES {self.refers} (id)" if self.refers else "")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, its primary key, and how many rows it may have."""

    name: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    """Columns of the primary key, in whose order rows are read; empty: in order of insertion."""
    rows: int
    required: bool
    """Whether every file has it; older files lack the others."""

    @property
    def has_rowid(self) -> bool:
        """Whether rows are kept under a number: the sole key column, or one without a name."""
        return not self.key or (len(self.key) == 1 and self.field(self.key[0]).type == "integer")

    def field(self, name: str) -> Field:
        """Return the column of that name."""
        return next(field for field in self.fields if field.name == name)

    def sql(self) -> str:
        """Return the statement that makes the table."""
        sole = self.key[0] if len(self.key) == 1 else ""
        parts = [field.sql(field.name == sole) for field in self.fields]
        if len(self.key) > 1:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self.key))})")
        body = ",\n    ".join(parts)
        ending = "" if self.has_rowid else " WITHOUT ROWID"
        return f"CREATE TABLE {self.name} (\n    {body}\n){ending};\n"


def quoted(name: str) -> str:
    """Return a column's name as SQL spells it: some of ours are words of SQL."""
    return f'"{name}"'


def _id() -> Field:
    return Field("id", "integer")


def _integer(name: str, low: int = 0, high: int = _INT32, *, null: bool = False) -> Field:
    return Field(name, "integer", low, high, null)


def _count(name: str) -> Field:
    return Field(name, "integer", 0, 1 << 62)


def _time(name: str, low: int = -limits.NANOSECONDS) -> Field:
    return Field(name, "integer", low, limits.NANOSECONDS)


def _to(name: str, table: str, *, null: bool = False, earlier: bool = False) -> Field:
    return Field(name, "integer", refers=table, null=null, earlier=earlier)


def _number(
    name: str, low: float = -limits.MAGNITUDE, high: float = limits.MAGNITUDE, *, null: bool = False
) -> Field:
    return Field(name, "number", low, high, null)


def _line(name: str, choices: Iterable[str] = (), *, unique: bool = False, since: int = 1) -> Field:
    high, words = limits.LINE_CHARACTERS, tuple(choices)
    return Field(name, "line", high=high, choices=words, unique=unique, since=since)


def _text(name: str, *, since: int = 1) -> Field:
    return Field(name, "text", high=limits.TEXT_CHARACTERS, since=since)


def _statement(name: str) -> tuple[Field, Field, Field]:
    """The code of a statement, its facts as JSON, and its sentence."""
    return _line(f"{name}_code", since=2), _text(f"{name}_facts", since=2), _text(name)


def _bytes(name: str, *, null: bool = False) -> Field:
    return Field(name, "bytes", high=limits.INFLATED_BYTES, null=null)


def _table(
    name: str, *fields: Field, key: tuple[str, ...] = (), rows: int = limits.ROWS,
    required: bool = False,
) -> Table:  # fmt: skip
    """Declare a table; where its first column is `_id()`, that is the key."""
    key = key or (("id",) if fields[0].name == "id" else ())
    return Table(name, fields, key, rows, required)


PROVENANCE: Final = _table("provenance", _line("key"), _text("value"), key=("key",), required=True)
FILES: Final = _table("files", _id(), _line("name"), required=True)
LOCATIONS: Final = _table(
    "locations", _id(), _to("file", "files"), _integer("line", -1), _integer("column", -1),
    _integer("end_line", -1), _integer("end_column", -1), _line("function"),
    _to("caller", "locations", null=True, earlier=True), required=True,
)  # fmt: skip
SYMBOLS: Final = _table(
    "symbols", _id(), _line("kind", KINDS), _line("name"), _to("location", "locations", null=True),
    _line("phase"), rows=limits.NODES, required=True,
)  # fmt: skip
NODES: Final = _table(
    "nodes", _id(), _to("parent", "nodes", null=True, earlier=True), _to("symbol", "symbols"),
    rows=limits.NODES, required=True,
)  # fmt: skip
METRICS: Final = _table(
    "metrics", _id(), _line("name", unique=True), _line("unit"), _line("adds"),
    _integer("inclusive", 0, 1), _line("storage", ("integer", "real")), _number("whole", null=True),
    rows=limits.METRICS, required=True,
)  # fmt: skip
NODE_VALUES: Final = _table(
    "node_values", _to("metric", "metrics"), _to("node", "nodes"), _number("own", null=True),
    _number("absorbed", null=True), _number("total", null=True), key=("metric", "node"),
    rows=limits.CELLS, required=True,
)  # fmt: skip
SKETCHES: Final = _table(
    "sketches", _to("metric", "metrics"), _to("node", "nodes"), _bytes("own", null=True),
    _bytes("absorbed", null=True), key=("metric", "node"),
)  # fmt: skip
TIMELINE_TRACKS: Final = _table(
    "timeline_tracks", _id(), _line("kind", ("stream", "thread")), _line("name"),
    _integer("number", 0, _INT64), _integer("device", -1), rows=limits.TRACKS,
)  # fmt: skip
TRACKS: Final = _table(
    "tracks", _id(), _line("kind", ("stream", "thread")), _line("name"),
    _integer("number", 0, _INT64), _integer("device", -1), rows=limits.TRACKS,
)  # fmt: skip
TRACK_TOTALS: Final = _table(
    "track_totals", _line("name"), _bytes("content"), key=("name",), rows=64
)
TIMELINE: Final = _table("timeline", _line("name"), _bytes("content"), key=("name",), rows=64)
CTA_LAUNCHES: Final = _table(
    "cta_launches", _id(), _to("kernel", "kernels"), _line("function"), _line("device"),
    _count("number"), _count("recorded"), _time("issued", -1), rows=limits.CTAS,
)  # fmt: skip
CTAS: Final = _table(
    "ctas", _id(), _to("launch", "cta_launches"), _count("block"), _integer("sm", -1),
    _time("begin", 0), _time("end", 0), _line("chosen"), rows=limits.CTAS,
)  # fmt: skip
CTA_WARPS: Final = _table(
    "cta_warps", _id(), _to("cta", "ctas"), _integer("warp", 0, 1 << 20),
    _line("role", ("producer", "consumer", "")), _time("begin", 0), _time("end", 0),
    _line("missing", ("begin", "end", "")), rows=limits.CTA_WARPS,
)  # fmt: skip
CTA_QUEUES: Final = _table("cta_queues", _id(), _line("name"), rows=limits.CTAS)
CTA_COLUMNS: Final = _table("cta_columns", _line("name"), _bytes("content"), key=("name",), rows=64)
KERNELS: Final = _table(
    "kernels", _id(), _line("name"), _line("device"), _text("ir"), _text("source"),
    _line("source_file"), _integer("source_line", -1), _text("code"), _line("code_language"),
    rows=limits.KERNELS, required=True,
)  # fmt: skip
KERNEL_ATTRIBUTES: Final = _table(
    "kernel_attributes", _to("kernel", "kernels"), _line("name"),
    Field("value", "value", high=limits.LINE_CHARACTERS, null=True), key=("kernel", "name"),
    required=True,
)  # fmt: skip
KERNEL_IR: Final = _table(
    "kernel_ir", _to("kernel", "kernels"), _integer("version", 1), _bytes("content"),
    key=("kernel",), rows=limits.KERNELS,
)  # fmt: skip
NODE_KERNELS: Final = _table(
    "node_kernels", _to("node", "nodes"), _to("kernel", "kernels"), key=("node",), required=True
)
REMARKS: Final = _table(
    "remarks", _id(), _to("kernel", "kernels"), _line("op"), _line("name", since=2),
    _to("location", "locations", null=True), _line("severity", get_args(Severity)),
    *_statement("chosen"), rows=limits.REMARKS, required=True,
)  # fmt: skip
REJECTIONS: Final = _table(
    "rejections", _to("remark", "remarks"), _integer("position"), *_statement("candidate"),
    *_statement("reason"), key=("remark", "position"), rows=limits.REMARKS, required=True,
)  # fmt: skip
SITES: Final = _table(
    "sites", _to("kernel", "kernels"), _integer("position"), _integer("id", 0, limits.SITES),
    _line("name"), _line("kind", ("scope", "stage", "op")), _to("location", "locations", null=True),
    _integer("parent", null=True), key=("kernel", "position"), required=True,
)  # fmt: skip
DEVICES: Final = _table(
    "devices", _line("device"), _line("name"), _integer("major"), _integer("minor"),
    _integer("multiprocessors"), _count("memory"), _number("clock_mhz", 0),
    _number("memory_clock_mhz", 0), _line("driver"), rows=limits.KERNELS,
)  # fmt: skip
DEVICE_PEAKS: Final = _table(
    "device_peaks", _line("device"), _line("uuid"), _line("measured"), _line("name"),
    _number("value", 0), _line("unit"), _number("best", 0), _number("spread", 0),
    _number("clock_mhz", 0), _text("formula"), rows=limits.KERNELS,
)  # fmt: skip
NATIVE_MODULES: Final = _table(
    "native_modules", _line("path"), _line("build_id"), rows=limits.KERNELS
)
SOURCES: Final = _table("sources", _line("file"), _text("text"), key=("file",), required=True)
PC_RECORDINGS: Final = _table(
    "pc_recordings", _id(), _count("period"), _line("mode"), _count("total"), _count("dropped"),
    _count("non_user"), _count("overflows"), rows=limits.KERNELS,
)  # fmt: skip
PC_FUNCTIONS: Final = _table(
    "pc_functions", _id(), _line("name"), _line("title"), _line("module"), _line("architecture"),
    _text("note"), rows=limits.KERNELS,
)  # fmt: skip
PC_STALLS: Final = _table("pc_stalls", _id(), _line("name"), rows=1_000)
PC_SAMPLES: Final = _table(
    "pc_samples", _to("function", "pc_functions"), _integer("offset", 0, 1 << 40),
    _to("stall", "pc_stalls"), _to("node", "nodes", null=True), _count("samples"),
)  # fmt: skip
PC_INSTRUCTIONS: Final = _table(
    "pc_instructions", _to("function", "pc_functions"), _integer("offset", 0, 1 << 40),
    _line("text"), _to("location", "locations", null=True), _integer("depth", 0, limits.LOOPS),
    key=("function", "offset"),
)  # fmt: skip
PC_BLAMES: Final = _table(
    "pc_blames", _to("function", "pc_functions"), _integer("position"),
    _integer("offset", 0, 1 << 40), _line("stall"), _integer("producer", 0, 1 << 40),
    _line("through"), key=("function", "position"),
)  # fmt: skip
INSTRUCTION_METRICS: Final = _table(
    "instruction_metrics", _id(), _line("name", unique=True), rows=limits.METRICS
)
INSTRUCTION_RECORDINGS: Final = _table(
    "instruction_recordings", _integer("recording"), _to("metric", "instruction_metrics"),
    key=("recording", "metric"), rows=limits.KERNELS,
)  # fmt: skip
INSTRUCTION_COUNTS: Final = _table(
    "instruction_counts", _to("function", "pc_functions"), _integer("offset", 0, 1 << 40),
    _to("metric", "instruction_metrics"), _count("count"), key=("function", "offset", "metric"),
)  # fmt: skip
PC_CUBINS: Final = _table(
    "pc_cubins", _line("sha256"), _bytes("content"), key=("sha256",), rows=limits.KERNELS
)
PC_TEXTS: Final = _table(
    "pc_texts", _line("module"), _line("form"), _bytes("content"), _text("note"),
    key=("module", "form"), rows=limits.KERNELS,
)  # fmt: skip
COUNTER_SERIES: Final = _table(
    "counter_series", _id(), _line("device"), _time("interval", 0), _bytes("start"),
    _bytes("duration"), rows=limits.KERNELS,
)  # fmt: skip
COUNTER_COLUMNS: Final = _table(
    "counter_columns", _to("series", "counter_series"), _integer("position"), _line("name"),
    _line("unit"), _bytes("content"), key=("series", "position"), rows=limits.KERNELS,
)  # fmt: skip
LAUNCH_VARIANTS: Final = _table(
    "launch_variants", _id(), _line("kernel"), _to("place", "locations"), _count("looked_at"),
    _count("others"), rows=limits.KERNELS,
)  # fmt: skip
LAUNCH_ARGUMENTS: Final = _table(
    "launch_arguments", _to("variant", "launch_variants"), _integer("position"), _line("parameter"),
    _line("dtype"), _count("elements"), _integer("width"), _integer("memory"),
    _line("origin_kernel"), _integer("origin_line"), _line("origin_parameter"),
    _number("low", null=True), _number("high", null=True), key=("variant", "position"),
)  # fmt: skip

BASE: Final = (
    PROVENANCE, FILES, LOCATIONS, SYMBOLS, NODES, METRICS, NODE_VALUES, SKETCHES,
    TRACKS, TRACK_TOTALS, TIMELINE_TRACKS, TIMELINE, CTA_LAUNCHES, CTAS, CTA_WARPS, CTA_QUEUES,
    CTA_COLUMNS, KERNELS, KERNEL_ATTRIBUTES, KERNEL_IR, NODE_KERNELS, REMARKS, REJECTIONS, SITES,
    DEVICES, DEVICE_PEAKS, NATIVE_MODULES, SOURCES,
)  # fmt: skip
"""Tables of every file that this version writes."""
PC_TABLES: Final = (
    PC_RECORDINGS, PC_FUNCTIONS, PC_STALLS, PC_SAMPLES, PC_INSTRUCTIONS, PC_BLAMES,
    INSTRUCTION_METRICS, INSTRUCTION_RECORDINGS, INSTRUCTION_COUNTS, PC_CUBINS, PC_TEXTS,
)  # fmt: skip
"""Tables of files with samples or counts of instructions; other files do without them."""
SERIES_TABLES: Final = (COUNTER_SERIES, COUNTER_COLUMNS)
"""Tables of files with hardware counters over time; other files do without them."""
LAUNCH_TABLES: Final = (LAUNCH_VARIANTS, LAUNCH_ARGUMENTS)
"""Tables of files with arguments of launches; other files do without them."""
TABLES: Final = (*BASE, *PC_TABLES, *SERIES_TABLES, *LAUNCH_TABLES)
"""All tables that the reader knows."""

_VIEWS: Final = """
CREATE VIEW places AS
    SELECT locations.id, files.name AS file, line, "column", function
    FROM locations JOIN files ON files.id = locations.file;
CREATE VIEW tree AS
    SELECT nodes.id, nodes.parent, kind, symbols.name, file, line, function, phase
    FROM nodes
    JOIN symbols ON symbols.id = nodes.symbol
    LEFT JOIN places ON places.id = symbols.location;
CREATE VIEW measurements AS
    SELECT node, metrics.name AS metric, unit, own, absorbed, total
    FROM node_values JOIN metrics ON metrics.id = node_values.metric;
"""
"""Views for SQL queries; the reader ignores them."""


def statements(tables: Iterable[Table]) -> str:
    """Return the statements that make these tables."""
    return "".join(table.sql() for table in tables)


SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
{statements(BASE)}{_VIEWS}"""
"""Statements that make an empty profile's database."""
