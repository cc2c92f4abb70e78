"""`tileprof check`: races between blocks, reads of what was not written, accesses out of bounds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from tileprof.cli import sarif, terminal
from tileprof.cli.parsing import Command, Parser, number

from .check_text import render, report_json
from .events import add_kernel
from .inputs import arguments as inputs
from .inputs import unknown_extents
from .kernels import bindings, compiled, find

USAGE = (
    "FILE:KERNEL [--set NAME=VALUE]… [--input FILE.npz] [--no-run] [--no-inside] "
    "[--target TARGET] [--schedules N] [--seed SEED] [--json] [--sarif OUT]"
)


def _parser() -> Parser:
    parser = Parser(
        "check",
        USAGE,
        "Check KERNEL of FILE for races between blocks, reads of uninitialized elements, and "
        "accesses out of bounds. Each property of each launch is proved for all inputs, or else "
        "tested by a run in the interpreter. To find races, missing fences and deadlocks inside "
        "blocks, some blocks of the code generated for a GPU run in an emulator. Exit with status "
        "1 if there is a finding. No GPU needed.",
    )
    add_kernel(parser)
    add = parser.add_argument
    add("--no-run", action="store_true", help="only prove; do not run the kernel")
    add("--no-inside", action="store_true", help="do not check inside blocks")
    add(
        "--target",
        default="sm_90a",
        help="GPU architecture to compile for: sm_90a (default) or sm_80",
    )
    add(
        "--schedules",
        type=_at_least(1),
        default=3,
        metavar="N",
        help="number of thread orders to try inside blocks (default: 3)",
    )
    add("--seed", type=_at_least(0), default=0, help="seed of the first order (default: 0)")
    add("--json", action="store_true", help="print JSON")
    add("--sarif", metavar="OUT", help="also write the findings as SARIF, for editors")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option that takes a whole number from `least` on."""
    whole = number(int)

    def convert(text: str) -> int:
        value: int = whole(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"`{text}` is less than {least}")
        return value

    return convert


def main(arguments: Sequence[str]) -> int:
    """Print findings and verdicts; return 1 where there is a finding."""
    args = _parser().parse_args(arguments)
    kernel = compiled(find(args.kernel), bindings(args.bindings))
    from tileprof.checker import Plan, check_call, check_proofs
    from tileprof.compiler.cuda.target import find_target

    target = find_target(args.target).name
    seeds = tuple(range(args.seed, args.seed + args.schedules))
    inside = None if args.no_inside else Plan(target, seeds, kernel.controls)
    unknown = unknown_extents(kernel) if args.input is None else []
    if args.no_run or unknown:
        report = check_proofs(kernel.program.kernel)
    else:
        report = check_call(kernel, (), inputs(kernel, args.input), inside)
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
