"""`tileprof try`: make suggested changes, compare results, time both, keep or refuse."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, Split, number, split_program
from tileprof.errors import UsageError
from tileprof.progress import working

if TYPE_CHECKING:
    from tileprof.analyzer import Report
    from tileprof.profile import Profile
    from tileprof.trying import Candidate, Settings, Trial, Trials, TriedProgram
    from tileprof.trying.edits import Edit

USAGE = (
    "[OPTIONS] SCRIPT [ARGS…]\n"
    "       tileprof try [OPTIONS] -m MODULE [ARGS…]\n"
    "       tileprof try [OPTIONS] FILE.tprof [SCRIPT [ARGS…]]\n"
    "       tileprof try --log [--ledger FILE] [--json]"
)
_LEDGER = ".tileprof/try.jsonl"


def _parser() -> Parser:
    parser = Parser(
        "try",
        USAGE,
        "Try the changes that a report suggests. Each runs in a separate process: its results are "
        "compared with those of the unchanged program, and steps of both are timed alternately. A "
        "change is kept if it is faster beyond noise and gives the same results. Your files are "
        "changed only with --apply. The program runs many times. Exit code: 0 if a change is worth "
        "keeping, 1 if none is, 2 for wrong use.",
    )
    add = parser.add_argument
    add("--list", action="store_true", help="list the changes that would be tried; try none")
    add(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="try only this finding (its id or rule) or this change (its code); may be repeated",
    )
    add(
        "--change",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="try this change even if the report does not suggest it; may be repeated: fused, "
        "foreach, "
        "workers[=N], pinned, channels-last, tf32, autocast, cudnn-benchmark, zero-grad, "
        "no-checkpoints, sparse-gradients, compile-models, "
        "compile=FILE:FUNCTION, env=NAME=VALUE, control=NAME=VALUE",
    )
    add(
        "--step",
        metavar="FILE:FUNCTION",
        help="a call of this function is a step (default: steps of PyTorch optimizers, or "
        "tileprof.step(); without either, whole runs are timed)",
    )
    add(
        "--compare",
        metavar="FILE:FUNCTION",
        help="compare what this function returns (default: that of --step), in addition to losses, "
        "gradients, parameter updates and printed numbers",
    )
    add(
        "--tolerance",
        type=number(float),
        metavar="X",
        help="largest relative difference of results (default: 1e-6, 2e-5 or 1e-2, depending on "
        "how much the change may affect rounding)",
    )
    add(
        "--keep-uncompared",
        action="store_true",
        help="keep a faster change even if no result could be compared",
    )
    add(
        "--least",
        type=number(float),
        default=1.0,
        metavar="PERCENT",
        help="smallest gain worth keeping (default: 1)",
    )
    add(
        "--compared-steps",
        type=number(int),
        default=5,
        metavar="N",
        help="compare the results of the first N steps (default: 5)",
    )
    add(
        "--warm-up",
        type=number(int),
        default=10,
        metavar="N",
        help="steps before the first timed one (default: 10)",
    )
    add(
        "--seconds",
        type=number(float),
        default=180.0,
        metavar="S",
        help="start no further pair of processes for a change after this time (default: 180)",
    )
    add(
        "--budget",
        type=number(float),
        metavar="S",
        help="begin no further change after this time (default: try all)",
    )
    add(
        "--seed",
        type=number(int),
        default=0,
        metavar="N",
        help="seed of random numbers, for programs that set none (default: 0)",
    )
    add(
        "--apply",
        action="store_true",
        help="write the changes that are worth keeping into the program's files, as in the printed "
        "diff; FILE.orig keeps the old text",
    )
    add(
        "--ledger",
        default=_LEDGER,
        metavar="FILE",
        help=f"file that records every trial (default: {_LEDGER})",
    )
    add("--log", action="store_true", help="show the ledger; try nothing")
    add("--json", action="store_true", help="print the lines of the ledger as JSON, one per trial")
    return parser


def main(argv: Sequence[str]) -> int:
    """Try changes and print what came of each; 0 where one was kept."""
    parser = _parser()
    split = split_program(argv, parser)
    args = parser.parse_args(split.options)
    _check(args, split, parser)
    if args.log:
        return _show_ledger(args)
    program, report = _given(args, split)
    from tileprof.trying import Trials

    # Lines, not a bar: what is drawn meanwhile would disturb times.
    with Trials(program, _settings(args), terminal.complain) as trials:
        candidates = _candidates(args, trials, report)
        if args.list:
            from .try_text import listed

            terminal.show(listed(candidates))
            return 0 if candidates else 1
        if not candidates:
            terminal.complain(
                "no finding has a change that tileprof can make by itself; name one: --change NAME"
            )
            return 1
        return _try(args, program, trials, candidates)


def _check(args: argparse.Namespace, split: Split, parser: Parser) -> None:
    if args.log:
        if split.program or split.module:
            raise UsageError("`--log` takes no program", hint="Leave the program out.")
        return
    if split.module is None and not split.program:
        raise UsageError("no program given", hint=f"usage: {parser.usage}")
    for name, least in (("compared_steps", 1), ("warm_up", 0), ("seconds", 0), ("least", 0)):
        if getattr(args, name) < least:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"`{option}` is {least} at least", hint=f"Leave out {option}.")
    if args.tolerance is not None and not 0 <= args.tolerance < 1:
        raise UsageError("`--tolerance` is a share, 0 to 1", hint="For example 1e-4.")
    if args.only and args.change:
        raise UsageError(
            "`--only` chooses findings, `--change` names changes", hint="Give one of the two."
        )


def _given(args: argparse.Namespace, split: Split) -> tuple[TriedProgram, Report | None]:
    """Return the program, and the report of the profile that was given, if one was."""
    if split.module is not None:
        return _program(args, "module", split.module, split.program), None
    name, *rest = split.program
    if not name.endswith(".tprof"):
        return _script(args, name, rest), None
    from tileprof.profile import load

    profile = load(name)
    words = rest[1:] if rest[:1] == ["--"] else rest
    if words:
        program = _script(args, words[0], words[1:])
    else:
        program = _recorded(args, name, profile.tables.provenance.get("command", ""))
    return program, None if args.change else _analyzed(profile)


def _recorded(args: argparse.Namespace, file: str, command: str) -> TriedProgram:
    """Return the program that a profile was recorded of."""
    from tileprof.cli import run

    words = shlex.split(command)
    if words[:2] == ["tileprof", "run"]:
        found = split_program(words[2:], run.COMMAND.parser())
        if found.module is not None:
            return _program(args, "module", found.module, found.program)
        words = found.program
    elif words[:2] == ["tileprof", "try"]:
        words = []
    if not words or not Path(words[0]).is_file():
        raise UsageError(
            f"`{file}` does not say how to run its program from here",
            hint=f"Add it: tileprof try {file} SCRIPT ARGS….",
        )
    return _script(args, words[0], words[1:])


def _script(args: argparse.Namespace, name: str, arguments: Sequence[str]) -> TriedProgram:
    from tileprof.profiler import ProgramTarget, check_target

    check_target(ProgramTarget("script", name))
    return _program(args, "script", name, arguments)


def _program(
    args: argparse.Namespace, kind: str, name: str, arguments: Sequence[str]
) -> TriedProgram:
    from tileprof.trying import TriedProgram

    from .candidates import parse_function

    step, compared = (
        None if text is None else parse_function(text) for text in (args.step, args.compare)
    )
    return TriedProgram(
        "module" if kind == "module" else "script", name, tuple(arguments), step, compared
    )


def _candidates(args: argparse.Namespace, trials: Trials, report: Report | None) -> list[Candidate]:
    from tileprof.trying import Candidate

    from .candidates import chosen, of_report, parse_change

    if args.change:
        return [Candidate((parse_change(text),)) for text in args.change]
    return chosen(of_report(report or _fresh_report(trials)), args.only)


def _fresh_report(trials: Trials) -> Report:
    """Record the program's first steps and analyse them."""
    from tileprof.profile import load

    with tempfile.TemporaryDirectory(prefix="tileprof-try-") as folder:
        path = Path(folder) / "recorded.tprof"
        with terminal.progress(), working("recording the program"):
            trials.record(path)
        with terminal.progress(), working("analysing its profile"):
            return _analyzed(load(path))


def _analyzed(profile: Profile) -> Report:
    """Return the profile's report; rules that fail are complained of and left out."""
    from tileprof.analyzer import Fault, analyze
    from tileprof.viewer.findings.faults import fault_text

    faults: list[Fault] = []
    report = analyze(profile, faults=faults)
    for each in faults:
        terminal.complain(fault_text(each))
    return report


def _settings(args: argparse.Namespace) -> Settings:
    from tileprof.trying import Settings

    return Settings(
        kept_steps=args.compared_steps,
        untimed=args.warm_up,
        least=args.least / 100,
        seconds=args.seconds,
        budget=args.budget,
        tolerance=args.tolerance,
        uncompared=args.keep_uncompared,
        seed=args.seed,
    )


def _try(
    args: argparse.Namespace,
    program: TriedProgram,
    trials: Trials,
    candidates: Sequence[Candidate],
) -> int:
    from tileprof.trying import ledger, worth_keeping
    from tileprof.trying.edits import edits_of

    from .try_text import summary, tried

    path = Path(args.ledger)
    done: list[Trial] = []
    for trial in trials.tried(candidates):
        document = ledger.trial_json(trial, program)
        ledger.add(path, document)
        done.append(trial)
        terminal.show(json.dumps(document) + "\n" if args.json else tried(trial))
    best = worth_keeping(done)
    script = program.name if program.kind == "script" else None
    edits = edits_of(best.candidate.fixes, script, best.places) if best else ()
    if not args.json:
        terminal.show(summary(done, edits))
        terminal.complain(f"added {len(done)} to {path}; see it with `tileprof try --log`")
    if args.apply and best is not None:
        _apply(best, edits)
    return 0 if best is not None else 1


def _apply(best: Trial, edits: Sequence[Edit]) -> None:
    """Write changes into the program's files, and say which have to be made by hand."""
    for each in edits:
        terminal.complain(f"wrote {each.path}; its old text is in {each.apply()}")
    written = {fix for each in edits for fix in each.written}
    for fix in best.candidate.fixes:
        if fix not in written:
            terminal.complain(f"not written, make it by hand: {fix}")


def _show_ledger(args: argparse.Namespace) -> int:
    from tileprof.trying import ledger

    held = list(ledger.documents(Path(args.ledger)))
    if args.json:
        terminal.show("".join(json.dumps(each) + "\n" for each in held))
    else:
        from .try_text import ledger as text_of

        terminal.show(text_of([ledger.entry(each) for each in held]))
    return 0


COMMAND = Command("try", "try suggested changes, compare results, and time them", main, _parser)
"""The command."""
