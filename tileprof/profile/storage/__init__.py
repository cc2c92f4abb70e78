"""Profiles as files: the schema of a `.tprof` file, reading, writing and checking.

In: a `Profile`, or the bytes of a file from anyone.  Out: the bytes of a SQLite database, or a
checked `Profile`.  `file` is the entry; `schema` declares each table once."""
