"""The tables of a `.tprof` file, stated once; `docs/profile-format.md` explains them.

The file is a SQLite database whose `application_id` says that it is a profile and whose
`user_version` is the version of this schema. A change that an older reader would misread raises
`VERSION`.
"""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x54505246
"""The letters `TPRF`."""
VERSION: Final = 1

SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};

CREATE TABLE provenance (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE locations (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL REFERENCES files (id),
    line INTEGER NOT NULL,
    "column" INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    end_column INTEGER NOT NULL,
    function TEXT NOT NULL,
    caller INTEGER REFERENCES locations (id)
);
CREATE TABLE symbols (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    location INTEGER REFERENCES locations (id),
    phase TEXT NOT NULL
);
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    parent INTEGER REFERENCES nodes (id),
    symbol INTEGER NOT NULL REFERENCES symbols (id)
);

CREATE TABLE metrics (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    unit TEXT NOT NULL,
    adds TEXT NOT NULL,
    inclusive INTEGER NOT NULL,
    storage TEXT NOT NULL,
    whole
);
CREATE TABLE node_values (
    metric INTEGER NOT NULL REFERENCES metrics (id),
    node INTEGER NOT NULL REFERENCES nodes (id),
    own,
    absorbed,
    total,
    PRIMARY KEY (metric, node)
) WITHOUT ROWID;
CREATE TABLE sketches (
    metric INTEGER NOT NULL REFERENCES metrics (id),
    node INTEGER NOT NULL REFERENCES nodes (id),
    own BLOB,
    absorbed BLOB,
    PRIMARY KEY (metric, node)
) WITHOUT ROWID;

CREATE TABLE timeline_tracks (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    device INTEGER NOT NULL
);
CREATE TABLE timeline (
    name TEXT PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE cta_launches (
    id INTEGER PRIMARY KEY,
    kernel INTEGER NOT NULL REFERENCES kernels (id),
    function TEXT NOT NULL,
    device TEXT NOT NULL,
    number INTEGER NOT NULL,
    recorded INTEGER NOT NULL,
    issued INTEGER NOT NULL
);
CREATE TABLE ctas (
    id INTEGER PRIMARY KEY,
    launch INTEGER NOT NULL REFERENCES cta_launches (id),
    block INTEGER NOT NULL,
    sm INTEGER NOT NULL,
    "begin" INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    chosen TEXT NOT NULL
);
CREATE TABLE cta_warps (
    id INTEGER PRIMARY KEY,
    cta INTEGER NOT NULL REFERENCES ctas (id),
    warp INTEGER NOT NULL,
    role TEXT NOT NULL,
    "begin" INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    missing TEXT NOT NULL
);
CREATE TABLE cta_queues (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE cta_columns (
    name TEXT PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE kernels (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    device TEXT NOT NULL,
    ir TEXT NOT NULL,
    source TEXT NOT NULL,
    source_file TEXT NOT NULL,
    source_line INTEGER NOT NULL,
    code TEXT NOT NULL,
    code_language TEXT NOT NULL
);
CREATE TABLE kernel_attributes (
    kernel INTEGER NOT NULL REFERENCES kernels (id),
    name TEXT NOT NULL,
    value,
    PRIMARY KEY (kernel, name)
) WITHOUT ROWID;
CREATE TABLE node_kernels (
    node INTEGER PRIMARY KEY REFERENCES nodes (id),
    kernel INTEGER NOT NULL REFERENCES kernels (id)
);
CREATE TABLE remarks (
    id INTEGER PRIMARY KEY,
    kernel INTEGER NOT NULL REFERENCES kernels (id),
    op TEXT NOT NULL,
    location INTEGER REFERENCES locations (id),
    chosen TEXT NOT NULL,
    severity TEXT NOT NULL
);
CREATE TABLE rejections (
    remark INTEGER NOT NULL REFERENCES remarks (id),
    position INTEGER NOT NULL,
    candidate TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (remark, position)
) WITHOUT ROWID;
CREATE TABLE sites (
    kernel INTEGER NOT NULL REFERENCES kernels (id),
    position INTEGER NOT NULL,
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    location INTEGER REFERENCES locations (id),
    parent INTEGER,
    PRIMARY KEY (kernel, position)
) WITHOUT ROWID;
CREATE TABLE device_peaks (
    device TEXT NOT NULL,
    uuid TEXT NOT NULL,
    measured TEXT NOT NULL,
    name TEXT NOT NULL,
    value NOT NULL,
    unit TEXT NOT NULL,
    best NOT NULL,
    spread NOT NULL,
    clock_mhz NOT NULL,
    formula TEXT NOT NULL
);
CREATE TABLE sources (file TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;

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

PC_SCHEMA: Final = """
CREATE TABLE pc_recordings (
    id INTEGER PRIMARY KEY,
    period INTEGER NOT NULL,
    mode TEXT NOT NULL,
    total INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    non_user INTEGER NOT NULL,
    overflows INTEGER NOT NULL
);
CREATE TABLE pc_functions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    module TEXT NOT NULL,
    architecture TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE pc_stalls (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE pc_samples (
    function INTEGER NOT NULL REFERENCES pc_functions (id),
    "offset" INTEGER NOT NULL,
    stall INTEGER NOT NULL REFERENCES pc_stalls (id),
    node INTEGER REFERENCES nodes (id),
    samples INTEGER NOT NULL
);
CREATE TABLE pc_instructions (
    function INTEGER NOT NULL REFERENCES pc_functions (id),
    "offset" INTEGER NOT NULL,
    text TEXT NOT NULL,
    location INTEGER REFERENCES locations (id),
    depth INTEGER NOT NULL,
    PRIMARY KEY (function, "offset")
) WITHOUT ROWID;
CREATE TABLE pc_blames (
    function INTEGER NOT NULL REFERENCES pc_functions (id),
    position INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    stall TEXT NOT NULL,
    producer INTEGER NOT NULL,
    through TEXT NOT NULL,
    PRIMARY KEY (function, position)
) WITHOUT ROWID;
CREATE TABLE instruction_metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE instruction_recordings (
    recording INTEGER NOT NULL,
    metric INTEGER NOT NULL REFERENCES instruction_metrics (id),
    PRIMARY KEY (recording, metric)
) WITHOUT ROWID;
CREATE TABLE instruction_counts (
    function INTEGER NOT NULL REFERENCES pc_functions (id),
    "offset" INTEGER NOT NULL,
    metric INTEGER NOT NULL REFERENCES instruction_metrics (id),
    count INTEGER NOT NULL,
    PRIMARY KEY (function, "offset", metric)
) WITHOUT ROWID;
CREATE TABLE pc_cubins (sha256 TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pc_texts (
    module TEXT NOT NULL,
    form TEXT NOT NULL,
    content BLOB NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (module, form)
) WITHOUT ROWID;
"""
"""What files with samples or counts of instructions have beside; others need no room for it."""


def has_table(database: sqlite3.Connection, table: str) -> bool:
    """Whether there is a table that files of earlier versions lack."""
    found = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return found is not None
