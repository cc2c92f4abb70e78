"""`tileprof events`: the memory accesses of a kernel's blocks, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser
from tileprof.errors import UsageError

from .inputs import arguments as inputs
from .kernels import add_bindings, bindings, compiled, find

if TYPE_CHECKING:
    from tileprof.runtime.events.table import Events

USAGE = "FILE:KERNEL [--set NAME=VALUE]… [--input FILE.npz] [--blocks N|I,J,…] [-o OUT]"


def _parser() -> Parser:
    parser = Parser(
        "events",
        USAGE,
        "Run KERNEL of FILE in the interpreter and list what its blocks read and write, one row "
        "per "
        "access of a point or block. Without -o, print totals by source line. No GPU needed.",
    )
    add = parser.add_argument
    add_kernel(parser)
    add_blocks(
        parser,
        "keep N blocks of each launch, spread over the grid (default: 64), or the blocks with "
        "these linear indices",
    )
    add("-o", dest="output", metavar="OUT", help="write a .parquet or .npz file")
    return parser


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a kernel and what it is called with."""
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="Python file and the name of a kernel in it")
    add_bindings(parser, "bind a value known at compile time or an extent; may be repeated")
    add(
        "--input",
        metavar="FILE.npz",
        help="tensors by argument name; missing ones are generated: random floats, integers 0",
    )


def add_blocks(parser: argparse.ArgumentParser, told: str) -> None:
    """Add `--blocks`, a number of blocks or their linear indices; `told` is its help."""
    parser.add_argument(
        "--blocks",
        type=_blocks,
        metavar="N|I,J,…",
        help=f"{told}; a comma makes a list, as in 3,",
    )


def _blocks(text: str) -> int | list[int]:
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}` is not a number of blocks nor a list of block indices"
        ) from None


def main(arguments: Sequence[str]) -> int:
    """Run the kernel, then write its events or print their totals."""
    args = _parser().parse_args(arguments)
    if args.output is not None and not args.output.endswith((".parquet", ".npz")):
        raise UsageError(
            f"{args.output} is not the name of a .parquet or .npz file",
            hint="End it in .parquet or .npz.",
        )
    kernel = compiled(find(args.kernel), bindings(args.bindings))
    from tileprof.lang.recorded import events

    made = events(kernel, blocks=args.blocks, **inputs(kernel, args.input))
    if args.output is not None:
        made.save(args.output)
        terminal.complain(f"{args.output}: {len(made):,} events of {_window(made)}")
    else:
        terminal.show(_totals(made))
    return 0


def _window(events: Events) -> str:
    """Return which blocks the events are from, in words, and how many rows are missing."""
    import math

    kept = sum(len(launch.blocks) for launch in events.launches)
    total = sum(math.prod(launch.grid) for launch in events.launches)
    dropped = f"; {events.dropped:,} more were dropped" if events.dropped else ""
    return f"{kept:,} of {total:,} blocks{dropped}"


def _totals(events: Events) -> str:
    """Return a line for each place of the program that accesses a buffer."""
    import numpy as np

    heads = ("line", "op", "access", "buffer", "rows", "elements", "guarded", "bytes")
    site, count = events.site, len(events.sites)

    def total(name: str) -> list[int]:
        weights = events[name].astype(float)
        return [int(number) for number in np.bincount(site, weights, count)]

    columns = [np.bincount(site, minlength=count).tolist(), *map(total, heads[5:])]
    rows = [
        (
            f"{each.file.rpartition('/')[2]}:{each.line}", each.op, each.access,
            f"{each.buffer} ({each.space})", *(f"{column[at]:,}" for column in columns),
        )
        for at, each in enumerate(events.sites)
    ]  # fmt: skip
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = [
            text.ljust(width) if at < 4 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths))
        ]
        return "  ".join(cells).rstrip() + "\n"

    return f"{_window(events)}\n\n{line(heads)}{''.join(map(line, rows))}"


COMMAND = Command("events", "list what the blocks of a kernel read and write", main, _parser)
