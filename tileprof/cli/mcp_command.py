"""`tileprof mcp`: the tools for agents over the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tileprof.errors import UsageError

from .parsing import Command, Parser

USAGE = "[--root DIR]"


def _parser() -> Parser:
    parser = Parser(
        "mcp",
        USAGE,
        "Serve profiles to an agent over the Model Context Protocol, on standard input and output: "
        "record, tune, report, view, diff, explain_line, remarks. The agent can execute any "
        'script below DIR. Needs `pip install "tileprof[mcp]"`.',
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        default=".",
        help="folder that files have to be in (default: the current one)",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Serve until the input ends."""
    args = _parser().parse_args(arguments)
    root = Path(args.root)
    if not root.is_dir():
        raise UsageError(f"--root: {args.root} is not a folder", hint="Name one that exists.")
    from tileprof.agent import Tools, build_server

    build_server(Tools(root)).run()
    return 0


COMMAND = Command("mcp", "serve profiles to an agent (MCP)", main, _parser)
