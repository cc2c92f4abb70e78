"""From a report to a change to what it gains, beside what was predicted: three programs.

    python case_studies/advice/study.py [--only RE] [--quick] [--keep DIR] [-o FILE]

Needs a GPU whose counters may be read. Each story runs in a process of its own: the program is
recorded and analysed, the finding that asks for a change is taken, the change is made, and so on;
then all versions are timed in turns. Writes `benchmarks/results/advice.json` after each story, and
the reports beside this file. Exits with 1 where a change was not asked for, or something failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from case_studies.advice.stories import FOLDER, STORIES, Story  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "advice.json"
LIMIT_S = 900
"""Of one story."""


def main() -> int:
    """Run stories, write what was found."""
    args = arguments()
    if args.one:
        (story,) = (each for each in STORIES if each.name == args.one)
        one(story, args)
        return 0
    import measuring

    output = args.output or RESULTS
    output.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(output.read_text()) if output.exists() and args.only else {}
    rows = {row["study"]: row for row in kept.get("studies", [])}
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for story in (each for each in STORIES if re.search(args.only, each.name)):
            row = ran(story, folder, args)
            row["circumstances"] = measuring.circumstances()
            rows[story.name] = row
            failed |= "error" in row or any("error" in step for step in row["steps"])
            ordered = [rows[each.name] for each in STORIES if each.name in rows]
            output.write_text(json.dumps({"studies": ordered}, indent=1) + "\n")
            print("\n".join(said(row)), flush=True)
    return 1 if failed else 0


def one(story: Story, args: argparse.Namespace) -> None:
    """What the process of a story does."""
    from case_studies.advice import telling
    from case_studies.advice.runs import runs_of
    from tileprof.runtime.roofs import measured_roofs

    measured_roofs(0)  # kept for all later profiles; the first takes some seconds
    row = telling.told(story, runs_of(story, args.quick), args.keep, args.reports)
    (args.keep / f"{story.name}.json").write_text(json.dumps({**row, "quick": args.quick}))


def ran(story: Story, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The row of a story from a new process, or why there is none."""
    command = [sys.executable, __file__, "--one", story.name, "--keep", folder.resolve(),
               "--reports", args.reports, *(["--quick"] if args.quick else [])]  # fmt: skip
    path = folder / f"{story.name}.json"
    path.unlink(missing_ok=True)
    try:
        done = subprocess.run([*map(str, command)], stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S)  # fmt: skip
        error = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        error = f"not over after {LIMIT_S} s"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    print(error, file=sys.stderr)
    return {"study": story.name, "title": story.title, "steps": [], "error": _cause(error)}


def _cause(error: str) -> str:
    """The line of a traceback that says what happened, without folders of the machine."""
    lines = error.splitlines() or ["it ended without a result"]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return re.sub(r"\S*/(?=\S)", "", (named or lines)[-1])


def said(row: dict[str, Any]) -> list[str]:
    """Lines on the screen."""
    if "error" in row:
        return [f"{row['study']}: FAILED: {row['error']}"]
    lines = []
    for number, step in enumerate(row["steps"], 1):
        measured = "{ratio:.3f}× [{low:.3f}, {high:.3f}]".format(**step["measured"])
        predicted = "{1:.2f}× ({0:.2f}–{2:.2f})".format(*step["predicted"] or (0, 0, 0))
        asked = f"predicted {predicted}" if step["predicted"] else "NOT ASKED FOR"
        lines.append(f"{row['study']} {number} {step['change']:<12} {asked}, measured {measured}")
        if "error" in step:
            lines.append(f"  {step['error']}. What was found:")
            lines += [f"    {each['severity']} {each['rule']}: {each['title']} {each['gain'] or ''}"
                      for each in step["found"]]  # fmt: skip
    wrong = [name for name, apart in row["apart"].items() if not apart <= 1]
    return lines + [f"{row['study']}: WRONG RESULTS of {name}" for name in wrong]


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression over names of stories")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and samples")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where profiles stay")
    parser.add_argument("--reports", type=Path, default=FOLDER / "reports", metavar="DIR",
                        help="where reports go (default: beside this file)")  # fmt: skip
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
