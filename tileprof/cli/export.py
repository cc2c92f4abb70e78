"""`tileprof export`: a profile for other tools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tileprof.errors import OutputError

from .later import refuse

__all__ = ["add"]

LATER = ("perfetto", "parquet")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("export", help="write a profile in another tool's format")
    add = parser.add_argument
    add("file", metavar="FILE", help="a .tprof file")
    add("--to", required=True, metavar="FORMAT", help="chrome, speedscope, collapsed or hatchet")
    add("-o", dest="output", required=True, metavar="OUT", help="the file to write")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Write the file."""
    if args.to in LATER:
        refuse(f"`--to {args.to}`")
    from tileprof.profile import load
    from tileprof.viewer import export

    content = export(load(args.file), args.to)
    target = Path(args.output)
    try:
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise OutputError(
            f"cannot write {target}: {error.strerror}",
            hint="Choose another place with `-o`.",
        ) from None
    return 0
