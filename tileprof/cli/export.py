"""`tileprof export`: a profile for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tileprof.errors import OutputError

from . import terminal
from .later import refuse
from .parsing import Command, Parser

__all__ = ["COMMAND"]

LATER = ("perfetto", "parquet")


def _parser() -> Parser:
    description = "Write a profile in another tool's format."
    parser = Parser("export", "FILE --to FORMAT -o OUT", description)
    add = parser.add_argument
    add("file", metavar="FILE", help="a .tprof file")
    add("--to", required=True, metavar="FORMAT", help="chrome, speedscope, collapsed or hatchet")
    add("-o", dest="output", required=True, metavar="OUT", help="the file to write; - for stdout")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Write the file."""
    args = _parser().parse_args(arguments)
    if args.to in LATER:
        refuse(f"`--to {args.to}`")
    from tileprof.profile import load
    from tileprof.viewer import export

    content = export(load(args.file), args.to)
    if args.output == "-":
        terminal.show(content if isinstance(content, str) else content.decode())
        return 0
    try:
        Path(args.output).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise OutputError(
            f"{args.output} cannot be written: {error.strerror}",
            hint="Choose another place with `-o`.",
        ) from None
    return 0


COMMAND = Command("export", "write a profile in another tool's format", main)
