"""Events as a table: one row for each access of one point (or one block), with named columns.

The schema is a promise: a column keeps its name and meaning, and `SCHEMA` counts up where one
changes.  `docs/events.md` describes every column.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof.errors import OutputError, UsageError, from_extra
from tileprof.files import replace_bytes

from .access import Access

SCHEMA = 1
"""Version of the columns."""
METADATA = b"tileprof.events"
"""Key of the JSON in a Parquet file's metadata: schema, launches and dropped rows."""
_NAMED = ("kernel", "op", "file", "line", "buffer", "space", "dtype", "access")
"""Columns that follow from the site: the fields of `Site` of these names."""
_NUMBERS: Mapping[str, Any] = {
    "launch": np.int32, "step": np.int64, "block": np.int64, "point": np.int64,
    "thread": np.int32, "slot": np.int32, "phase": np.int8, "elements": np.int64,
    "guarded": np.int64, "bytes": np.int64,
}  # fmt: skip
"""Numeric columns of every table, in order; `startN` and `sizeN` follow."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place of the program that accesses a buffer."""

    kernel: str
    op: str
    """Name of the op in the IR."""
    file: str
    line: int
    buffer: str
    space: str
    dtype: str
    access: str
    """`read`, `write` or `atomic`."""
    bytes: int
    """Bytes of an element."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch, and which of its blocks the events are from."""

    kernel: str
    grid: tuple[int, ...]
    blocks: tuple[int, ...]
    """Linear indices of the blocks in the window."""


@dataclass(frozen=True, eq=False)
class Events:
    """The accesses of a window of blocks; `len()` is the number of rows.

    `events["block"]` and the other `names` are NumPy arrays, some of them made when asked for.
    """

    lanes: Mapping[str, NDArray[Any]]
    """Columns that differ between the rows of an access, and the position of the access in
    `accesses`."""
    accesses: Mapping[str, NDArray[Any]]
    """Numbers of each access, and the position of its place in `sites`."""
    rank: int
    """Dimensions of the buffer with the most."""
    sites: tuple[Site, ...]
    launches: tuple[Launch, ...]
    dropped: int
    """Rows that were left out because there were too many."""

    def __len__(self) -> int:
        return len(self.lanes["block"])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        axes = (f"{name}{axis}" for axis in range(self.rank) for name in ("start", "size"))
        return (*_NAMED, *_NUMBERS, *axes)

    @property
    def site(self) -> NDArray[Any]:
        """Position of each row's place in `sites`."""
        return self._of_access("site")

    def _of_access(self, name: str) -> NDArray[Any]:
        spread: NDArray[Any] = self.accesses[name][self.lanes["access"]]
        return spread

    def __getitem__(self, name: str) -> NDArray[Any]:
        made: NDArray[Any] = self._column(name)
        return made

    def _column(self, name: str) -> Any:
        if name in _NAMED:
            values = [getattr(site, name) for site in self.sites]
            return np.array(values, np.int64 if name == "line" else np.str_)[self.site]
        if name in self.lanes:
            return self.lanes[name]
        match name:
            case "thread":
                # The interpreter runs points, which no thread has yet.
                return np.full(len(self), -1, _NUMBERS[name])
            case "guarded":
                return self._of_access("total") - self.lanes["elements"]
            case "bytes":
                widths = np.array([site.bytes for site in self.sites], np.int64)
                return widths[self.site] * self.lanes["elements"]
            case _ if name in self.names:
                return self._of_access(name)
            case _:
                raise KeyError(name)

    def frame(self) -> Any:
        """Return a pandas DataFrame; names are categories.  Needs the extra `pandas`."""
        with from_extra("pandas"):
            import pandas

        def column(name: str) -> Any:
            if name not in _NAMED or name == "line":
                return self[name]
            codes, known = self._codes(name)
            return pandas.Categorical.from_codes(codes, known)

        return pandas.DataFrame({name: column(name) for name in self.names})

    def arrow(self) -> Any:
        """Return a pyarrow Table; names are dictionaries.  Needs the extra `parquet`."""
        with from_extra("parquet"):
            import pyarrow

        def column(name: str) -> Any:
            if name not in _NAMED or name == "line":
                return pyarrow.array(self[name])
            codes, known = self._codes(name)
            return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(known, "string"))

        table = pyarrow.table({name: column(name) for name in self.names})
        return table.replace_schema_metadata({METADATA: self._about()})

    def save(self, path: str | Path) -> None:
        """Write a Parquet file (`.parquet`, which needs the extra `parquet`) or NumPy arrays
        (`.npz`).  UsageError for another name, OutputError where the place cannot be written."""
        content = io.BytesIO()
        match Path(path).suffix:
            case ".parquet":
                table = self.arrow()
                from pyarrow import parquet

                parquet.write_table(table, content)
            case ".npz":
                named = {name: [getattr(site, name) for site in self.sites] for name in _NAMED}
                arrays: dict[str, Any] = {f"sites.{name}": held for name, held in named.items()}
                numbers = {name: self[name] for name in self.names if name not in _NAMED}
                arrays |= {"about": self._about(), "site": self.site, **numbers}
                np.savez_compressed(content, **arrays)
            case _:
                raise UsageError(
                    f"{path} is not the name of a .parquet or .npz file",
                    hint="End it in .parquet or .npz.",
                )
        try:
            replace_bytes(path, content.getvalue())
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}", hint="Choose another place."
            ) from None

    def _about(self) -> str:
        """Return the JSON that a file keeps beside the columns."""
        launches = [asdict(launch) for launch in self.launches]
        return json.dumps({"schema": SCHEMA, "launches": launches, "dropped": self.dropped})

    def _codes(self, name: str) -> tuple[NDArray[np.int32], list[str]]:
        """Return each row's position in the list of a column's different names, and the list."""
        values = [getattr(site, name) for site in self.sites]
        known = list(dict.fromkeys(values))
        of_site = np.array([known.index(value) for value in values], np.int32)
        return of_site[self.site], known


@dataclass(frozen=True, slots=True)
class Kept:
    """An access in a log."""

    launch: int
    step: int
    site: int
    access: Access


def unfold(
    kept: Sequence[Kept], sites: Sequence[Site], launches: Sequence[Launch], dropped: int
) -> Events:
    """Return the accesses of a log as a table."""
    rank = max((len(each.access.sizes) for each in kept), default=0)
    lanes = [each.access.active() for each in kept]
    ends = np.cumsum([each.count for each in lanes], dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    columns: dict[str, NDArray[Any]] = {
        "access": np.repeat(np.arange(len(kept), dtype=np.int32), np.diff(ends, prepend=0)),
        **{name: np.empty(total, np.int64) for name in ("block", "point", "elements")},
        **{f"start{axis}": np.full(total, -1) for axis in range(rank)},
    }
    begin = 0
    for each, active, end in zip(kept, lanes, ends.tolist()):
        access = each.access
        values = {f"start{axis}": start for axis, start in enumerate(access.starts)}
        values |= {"block": active.block(), "point": active.point()}
        values["elements"] = access.elements()
        for name, value in values.items():
            active.put(columns[name][begin:end], value)
        begin = end
    return Events(columns, _accesses(kept, rank), rank, tuple(sites), tuple(launches), dropped)


def _accesses(kept: Sequence[Kept], rank: int) -> dict[str, NDArray[Any]]:
    rows = []
    for each in kept:
        access, trip = each.access, each.access.trip
        stages = max(access.stages, 1)
        ring = trip >= 0 and access.buffer.type.space == "shared"
        slot, phase = (trip % stages, trip // stages % 2) if ring else (-1, -1)
        sizes = (*access.sizes, *(-1,) * (rank - len(access.sizes)))
        total = math.prod(access.sizes)
        rows.append((each.launch, each.step, each.site, slot, phase, total, *sizes))
    axes = (f"size{axis}" for axis in range(rank))
    names = ("launch", "step", "site", "slot", "phase", "total", *axes)
    held = np.array(rows, np.int64).reshape(-1, len(names)).T
    return {name: row.astype(_NUMBERS.get(name, np.int64)) for name, row in zip(names, held)}
