"""`tileprof cache`: where compiled kernels are kept, how much they take, and removing them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import terminal
from .parsing import Command, Parser, one_of

SCHEMA = 1
_WORDS = ("size", "clear", "path")


def _parser() -> Parser:
    parser = Parser(
        "cache",
        "size|clear|path [--json]",
        "Show the size of the cache of compiled kernels, remove it, or print its folder. "
        "TILEPROF_CACHE sets the folder, TILEPROF_CACHE_LIMIT the limit (default: 2 GB). "
        "Beyond the limit, the least recently used entries are removed.",
    )
    parser.add_argument(
        "what", metavar="size|clear|path", type=one_of(*_WORDS), help="what to show or do"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print what the cache holds, or remove it."""
    args = _parser().parse_args(arguments)
    found = _done(args.what)
    if args.json:
        terminal.show(json.dumps({"schema": SCHEMA, **found}, indent=1) + "\n")
    elif args.what == "path":
        terminal.show(f"{found['path']}\n")
    else:
        terminal.show(_sentence(args.what, found))
    return 0


def _done(what: str) -> dict[str, Any]:
    from tileprof.native import cache

    folder = cache.cache_folder()
    if what == "path":
        return {"path": str(folder)}
    if what == "clear":
        removed, size = cache.clear()
        return {"path": str(folder), "removed_entries": removed, "removed_bytes": size}
    held = cache.entries(folder)
    return {
        "path": str(folder),
        "entries": len(held),
        "bytes": sum(each.bytes for each in held),
        "limit_bytes": cache.limit_bytes(),
    }


def _sentence(what: str, found: dict[str, Any]) -> str:
    place = found["path"]
    if what == "clear":
        entries, size = found["removed_entries"], found["removed_bytes"]
        return f"removed {_count(entries)} ({_size(size)}) from {place}\n"
    limit = found["limit_bytes"]
    allowed = "no limit" if limit is None else f"limit {_size(limit)}"
    return f"{_count(found['entries'])}, {_size(found['bytes'])} ({allowed}) in {place}\n"


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"


COMMAND = Command("cache", "show or remove cached kernels on disk", main, _parser)
