"""`tileprof bisect`: what changed in kernels between two compilers, and what brought it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tileprof.cli import terminal
from tileprof.cli.kernel.kernels import add_bindings, bindings
from tileprof.cli.parsing import Command, Parser, number, split_program
from tileprof.errors import TileprofError, UsageError

if TYPE_CHECKING:
    from tileprof.bisecting import Change, Report, Settings, Suite
    from tileprof.profile import Change as Delta
    from tileprof.profile import Metric

USAGE = (
    "[OPTIONS] OLD NEW FILE[:KERNEL,…] [OPTIONS]\n"
    "       tileprof bisect [OPTIONS] OLD NEW SCRIPT [ARGS…]\n"
    "       tileprof bisect [OPTIONS] OLDDIR NEWDIR"
)
_GATED = {
    "time": "ns", "registers": "1", "instructions": "1", "spill_instructions": "1",
    "stack_bytes": "bytes", "static_shared_bytes": "bytes",
}  # fmt: skip
"""Metrics of `--fail-if` with their units."""


def _parser() -> Parser:
    parser = Parser(
        "bisect",
        USAGE,
        "Compile kernels of tileprof or Triton with two compilers, time both alternately, and name "
        "the kernels that changed beyond noise. For each, show the first level that differs "
        "(Python, options, IR and pass, code, PTX, SASS, resources, launch, clocks) and the "
        "commit, pass or option that caused it. OLD and NEW are wheels (FILE.whl), commits of a "
        "git repository, source trees, "
        "environments (a folder or its python), options (NAME=VALUE,… or `default`), or folders "
        "that Triton cached or dumped. Without a GPU, kernels are compiled but not timed. With "
        "--fail-if, exit with status 1 if the expression holds for a kernel.",
    )
    add = parser.add_argument
    add("old", metavar="OLD", help="baseline compiler")
    add("new", metavar="NEW", help="new compiler")
    add(
        "suite",
        metavar="SUITE",
        nargs="?",
        help="a Python file with kernels, kernels or functions in it, or a script that launches "
        "some",
    )
    add_bindings(
        parser,
        "bind a name to a value; for a kernel of Triton a constant, an option or a type, as "
        "'*fp32:16' or i32; may be repeated",
    )
    add(
        "--control",
        dest="controls",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option on both sides, for example stages=2; may be repeated",
    )
    add(
        "--target",
        metavar="TARGET",
        help="cpu, sm_90a or sm_80 (default: that of the GPU; sm_90a without one)",
    )
    add("--compile-only", action="store_true", help="compare code only; time nothing")
    add(
        "--floor",
        type=number(float),
        default=2.0,
        metavar="PERCENT",
        help="smallest change of a time that counts; its whole interval must exceed it (default: "
        "2)",
    )
    add(
        "--repository",
        metavar="DIR",
        default="",
        help="git repository for commits (default: that of the current folder)",
    )
    add(
        "--same-suite",
        action="store_true",
        help="compile this version of the suite's file on both sides, even if the commits or trees "
        "have their own",
    )
    add(
        "--no-walk",
        action="store_true",
        help="do not search for the commit, pass or option that caused a change",
    )
    add("--json", action="store_true", help="print the report as JSON")
    add(
        "--fail-if",
        dest="gate",
        metavar="EXPR",
        help="exit with status 1 if it holds for a kernel: 'time > +5%%', 'registers > 128', "
        "'spill_instructions > +0'",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the report; 1 where the gate's expression holds for a kernel."""
    parser = _parser()
    args, suite = _parsed(argv, parser)
    _check(args)
    from tileprof.bisecting import Sides, bisect

    settings = _settings(args)
    with Sides(args.repository, args.controls) as sides:
        found = bisect(args.old, args.new, suite, sides, settings, terminal.complain)
    failed = [each.kernel for each in found.changes if args.gate and _fails(each, args.gate)]
    if args.json:
        from tileprof.bisecting.json_form import to_json

        terminal.show(json.dumps(to_json(found)) + "\n")
    else:
        from .bisect_text import text_of

        terminal.show(text_of(found))
    return _ended(found, failed, args.gate)


def _ended(found: Report, failed: Sequence[str], gate: str | None) -> int:
    broken = [each for each in found.changes if each.verdict == "failed"]
    for each in broken:
        terminal.complain(f"{each.kernel}: {each.why}")
    if failed:
        terminal.complain(f"the gate failed for {', '.join(failed)}: {gate}")
    return int(bool(failed or broken))


def _parsed(argv: Sequence[str], parser: Parser) -> tuple[argparse.Namespace, Suite | None]:
    """Return the options and the suite: words behind a script are the script's own."""
    from tileprof.bisecting.suites import read_suite, runs_as_script

    split = split_program(argv, parser)
    words = split.program
    if len(words) > 2 and runs_as_script(words[2]) and "--set" not in argv:
        args = parser.parse_args([*split.options, *words[:3]])
        return args, read_suite(words[2], {}, tuple(words[3:]))
    args = parser.parse_args(argv)
    if args.suite is None:
        return args, None
    return args, read_suite(args.suite, bindings(args.bindings), ())


def _check(args: argparse.Namespace) -> None:
    from tileprof.cli.kernel.kernels import check_target
    from tileprof.profile.transform.gate import parse

    if args.target is not None:
        check_target(args.target)
    if not 0 <= args.floor < 100:
        raise UsageError("`--floor` is a percentage, 0 to 100", hint="For example --floor 2.")
    if args.gate is not None:
        for each in chain.from_iterable(parse(args.gate, _metrics())):
            if each.metric not in _GATED:
                raise UsageError(
                    f"`{each.metric}` is not compared here", hint=f"It has: {', '.join(_GATED)}."
                )
            if each.metric == "time" and args.compile_only:
                raise UsageError("`--compile-only` measures no time", hint="Leave one of them out.")


def _settings(args: argparse.Namespace) -> Settings:
    from tileprof.bisecting import Settings, Timing

    target, device, untimed = _device(args.target, args.compile_only)
    if args.gate and not device and "time" in args.gate:
        raise UsageError(
            f"`{args.gate}` needs times, and {untimed}",
            hint="Gate on registers or instructions, or use --target cpu.",
        )
    return Settings(
        target,
        device,
        untimed,
        args.same_suite,
        not args.no_walk,
        timing=Timing(floor=args.floor / 100),
    )


def _device(target: str | None, compile_only: bool) -> tuple[str, str, str]:
    """Return the target, the device that kernels are timed on, and why there is none."""
    from tileprof.runtime.cuda.device import find_device

    if compile_only:
        return target or "sm_90a", "", "--compile-only was given"
    if target == "cpu":
        return "cpu", "cpu", ""
    try:
        found = find_device(0)
    except TileprofError:
        return target or "sm_90a", "", "there is no GPU here"
    if target not in (None, found.target.name):
        return target or "", "", f"the GPU here needs {found.target.name}"
    return found.target.name, "cuda:0", ""


def _metrics() -> dict[str, Metric]:
    from tileprof.profile import Metric

    return {name: Metric(name, unit) for name, unit in _GATED.items()}


@dataclass(frozen=True)
class _Compared:
    """A kernel on both sides, for a gate's expression."""

    change: Change

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metrics that an expression may name."""
        return _metrics()

    def whole(self, metric: str) -> Delta:
        """Return what became of a number. A time that did not change beyond noise is the same."""
        from tileprof.profile import Change as Delta

        if metric == "time":
            times = self.change.times
            if times is None or times.ratio is None:
                return Delta(float("nan"), float("nan"))
            if self.change.verdict not in ("slower", "faster"):
                return Delta(times.new_ns, times.new_ns)
            return Delta(times.new_ns / times.ratio.value, times.new_ns)
        name = metric.replace("_", " ")
        old, new = (each.get(name) for each in self.change.numbers)
        return Delta(float("nan") if old is None else old, float("nan") if new is None else new)


def _fails(change: Change, gate: str) -> bool:
    from tileprof.profile import fail_if

    return fail_if(_Compared(change), gate)


COMMAND = Command("bisect", "find what changed in kernels between two compilers", main, _parser)
"""The command."""
