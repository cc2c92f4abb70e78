"""`tileprof learn`: puzzles that are checked by hidden tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprof.errors import UsageError

from . import terminal
from .parsing import Command, Parser

if TYPE_CHECKING:
    from tileprof.learn import Result

USAGE = "[NAME] [--check | --hint] [--dir FOLDER] [--json]"


def _parser() -> Parser:
    parser = Parser(
        "learn",
        USAGE,
        "Learn to write and judge tile kernels with puzzles; no GPU needed. Without NAME, list "
        "them. With NAME, explain the task and write NAME.py, which is never overwritten. Exit "
        "with status 1 if a checked solution is not right yet.",
    )
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="name, number or file of an exercise")
    add(
        "--check",
        action="store_true",
        help="run the hidden tests of the exercise; without NAME, of all exercises with a file",
    )
    add("--hint", action="store_true", help="give the next hint")
    add(
        "--dir",
        default=".",
        metavar="FOLDER",
        help="folder for solutions and progress (default: the current one)",
    )
    add("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: Sequence[str]) -> int:
    """List, explain, check or give a hint; return 1 where a solution is not right yet."""
    args = _parser().parse_args(arguments)
    if args.check and args.hint:
        raise UsageError("`--check` and `--hint` exclude each other", hint="Give one of them.")
    if args.hint and args.name is None:
        raise UsageError("`--hint` needs NAME", hint="For example tileprof learn add --hint.")
    if args.name is not None and args.name.endswith(".py"):
        # The file of an exercise names its folder too.
        args.dir = str(Path(args.dir, args.name).parent)
    if args.check:
        return _check(args)
    from tileprof import learn

    if args.name is None:
        course = learn.course(args.dir)
        held: Any = course
        facts: Any = [
            {"number": at, "name": e.name, "title": e.title, "track": e.track, "solved": done}
            for at, e, done in course.rows
        ]
    elif args.hint:
        held = learn.hint(args.name, args.dir)
        count = len(held.exercise.hints)
        facts = {"name": held.exercise.name, "hint": held.at + 1, "hints": count}
        facts["text"] = held.exercise.hints[held.at].shown()
    else:
        held = learn.start(args.name, args.dir)
        each = held.exercise
        facts = {"name": each.name, "file": str(held.file), "written": held.written}
        facts |= {"task": each.task, "spec": each.spec_text()}
        facts |= {"conditions": list(each.judge.conditions), "uses": list(each.uses)}
    _show(facts, f"{held!r}\n", args.json)
    return 0


def _check(args: Any) -> int:
    from tileprof import learn
    from tileprof.learn.face import started

    if args.name is not None:
        results = [learn.check(args.name, folder=args.dir)]
    else:
        held = learn.course(args.dir).folder
        results = [learn.check(each.name, folder=args.dir) for each in started(held)]
        if not results:
            raise UsageError(
                f"{args.dir} has no file of an exercise",
                hint="Start one: tileprof learn add, or name its folder with --dir.",
            )
    facts = [_facts(each) for each in results]
    text = "\n\n".join(each.text() for each in results)
    _show(facts if args.name is None else facts[0], f"{text}\n", args.json)
    return 0 if all(each.passed for each in results) else 1


def _facts(result: Result) -> dict[str, Any]:
    facts = asdict(result)
    failure = facts["failure"]
    if failure is not None and failure["location"] is not None:
        failure["location"] = {key: failure["location"][key] for key in ("file", "line", "column")}
    return {"passed": result.passed, **facts}


def _show(facts: Any, text: str, as_json: bool) -> None:
    terminal.show(json.dumps(facts, indent=1) + "\n" if as_json else text)


COMMAND = Command("learn", "learn to write kernels with puzzles and hidden tests", main, _parser)
