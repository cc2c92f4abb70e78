"""`tileprof check`: races between blocks, reads of what was not written, accesses out of bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tileprof.cli import sarif, terminal
from tileprof.cli.parsing import Command, Parser

from .check_text import render, report_json
from .events import add_kernel
from .inputs import arguments as inputs
from .inputs import unknown_extents
from .kernels import bindings, compiled, find

USAGE = "FILE:KERNEL [--set NAME=VALUE]… [--input FILE.npz] [--no-run] [--json] [--sarif OUT]"


def _parser() -> Parser:
    parser = Parser(
        "check",
        USAGE,
        "Look for races between blocks, reads of elements that were not written, and accesses out "
        "of bounds in KERNEL of FILE. Each property of each launch is proved for all inputs, or "
        "explored by a run in the interpreter. Exit with status 1 if there is a finding. No GPU "
        "needed.",
    )
    add_kernel(parser)
    add = parser.add_argument
    add("--no-run", action="store_true", help="only prove; without it, the kernel also runs")
    add("--json", action="store_true", help="print JSON")
    add("--sarif", metavar="OUT", help="also write the findings as SARIF, for editors")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print findings and verdicts; return 1 where there is a finding."""
    args = _parser().parse_args(arguments)
    kernel = compiled(find(args.kernel), bindings(args.bindings))
    from tileprof.checker import check, check_proofs

    unknown = unknown_extents(kernel) if args.input is None else []
    if args.no_run or unknown:
        report = check_proofs(kernel.program.kernel)
    else:
        report = check(kernel, **inputs(kernel, args.input))
    if args.json:
        terminal.show(json.dumps(report_json(report), indent=1) + "\n")
    else:
        terminal.show(render(report, () if args.no_run else unknown))
    if args.sarif is not None:
        sarif.write(args.sarif, sarif.of_check(report))
    return 1 if report.findings else 0


COMMAND = Command(
    "check", "find races, uninitialized reads and accesses out of bounds", main, _parser
)
