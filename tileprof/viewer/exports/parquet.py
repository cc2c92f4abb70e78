"""Parquet, for questions over many profiles at once in DuckDB, Dask, Polars or pandas.

A folder a kind of row, a file a profile in each: `nodes/step.rank0.parquet`. Every row names its
profile and its rank, and the files of one export have the same columns, so that all ranks read as
one table. The tables themselves are made in `arrow`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

from tileprof.errors import from_extra
from tileprof.profile import Profile, rank_of


def to_parquet(profiles: Mapping[str, Profile]) -> dict[str, bytes]:
    """Return the files of the folder by their path in it; `profiles` come by name.

    Equal profiles give equal bytes. Raises MissingDependencyError where pyarrow is not installed,
    UsageError where profiles declare a metric differently.
    """
    with from_extra("parquet"):
        import pyarrow.parquet
    from tileprof.viewer.exports.arrow import TABLES, Origin, columns_of, table_of

    columns = columns_of(list(profiles.values()))
    files = {}
    for kind in TABLES:
        for name, profile in profiles.items():
            table = table_of(kind, profile, Origin(name, rank_of(name, profile)), columns)
            content = io.BytesIO()
            # Strings are encoded by dictionary, which is the writer's default.
            pyarrow.parquet.write_table(table, content, compression="zstd")
            files[f"{kind}/{name}.parquet"] = content.getvalue()
    return files
