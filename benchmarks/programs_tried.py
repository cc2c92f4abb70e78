"""What `tileprof try` makes of the real programs; results/programs-tried.json.

    python -m benchmarks.programs_tried [--programs a,b] [--part I/N] [--seconds 560] [-o FILE]
    python -m benchmarks.programs_tried --device cpu --tiny --programs nanogpt_train  anywhere

Each program of `benchmarks.programs` is given to `tileprof try` as a user would: it is recorded,
and the changes of its findings are tried on it.  What is had is the largest gain that was kept.
The truth is that of the files of `benchmarks.programs.run`, where the same changes were made by
hand: the largest gain of a change that `try` knows how to make.  A program is eligible where that
is 1.05 or more and its result was right; it counts as had where the kept gain (S - 1) is at least
0.8 of the true one.  Eligible programs come first, and a program begins only where there is time
for most of it.  Rows are written as they are made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.programs.catalog import PROGRAMS, Program
from benchmarks.programs.run import circumstances, missing
from tileprof.files import replace_bytes

RESULTS = Path(__file__).parent / "results"
OUTPUT = RESULTS / "programs-tried.json"
ROOT = Path(__file__).parents[1]
CHANGES = {
    "compile": "compile",
    "compile-models": "compile",
    "tf32": "tf32",
    "autocast": "bf16",
    "optimizer": "fused-optimizer",
    "workers": "workers",
    "pinned": "pinned",
    "channels-last": "channels-last",
    "sparse-gradients": "sparse-gradients",
    "no-checkpoints": "no-checkpointing",
}
"""Codes of fixes, and the standard change of a program that is the same by hand."""
ELIGIBLE = 1.05
HAD = 0.8
"""Share of the true gain (S - 1) from which on it counts as had."""
EACH_S = 60.0
"""`try` begins no further pair for a change after this time."""
BUDGET_S = 60.0
"""`try` begins no further change of a program after this time, so that others have theirs."""
LIMIT_S = 420.0
EXPECTED_S = 150.0
"""Time that most programs take; `--seconds` is to be enough for the last one that begins."""


def true_gains(files: Iterable[Path]) -> dict[str, dict[str, float]]:
    """Return by program the gains of changes that `try` can make and whose results were right.

    A program that several files measured has the gains of the latest one.
    """
    found: dict[str, dict[str, float]] = {}
    records = [json.loads(path.read_text()) for path in files]
    for record in sorted(records, key=lambda each: str(each["circumstances"]["date"])):
        for row in record["rows"]:
            if "error" in row:
                continue
            found[row["program"]] = {
                name: each["gain"]
                for name, each in row["changes"].items()
                if name in CHANGES.values() and each.get("right")
            }
    return found


def tried(program: Program, device: str, tiny: bool, folder: Path) -> dict[str, Any]:
    """Run `tileprof try` on a program, and return its trials and how long all took."""
    ledger = folder / f"{program.name}.jsonl"
    command = [sys.executable, "-m", "tileprof", "try", "--ledger", str(ledger), "--seconds",
               str(EACH_S), "--budget", str(BUDGET_S), str(program.script)]  # fmt: skip
    environment = {**os.environ, "PROGRAM_DEVICE": device}
    if tiny:
        environment["PROGRAM_TINY"] = "1"
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        said = "" if done.returncode in (0, 1) else (done.stderr.strip() or "?").splitlines()[-1]
    except subprocess.TimeoutExpired:
        said = f"not over after {LIMIT_S:.0f} s"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return {
        "program": program.name,
        "kind": program.kind,
        "seconds": round(time.perf_counter() - began, 1),
        "error": said,
        "trials": [_trial(json.loads(line)) for line in lines],
    }


def _trial(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ledger's line that a row keeps."""
    return {
        "fixes": [each["fix"] for each in entry["fixes"]],
        "text": "; ".join(each["text"] for each in entry["fixes"]),
        "verdict": entry["verdict"],
        "why": entry["why"],
        "predicted": entry["predicted"],
        "measured": entry["measured"],
        "seconds": entry["seconds"],
    }


def judged(row: Mapping[str, Any], true: Mapping[str, float]) -> dict[str, Any]:
    """Return whether a program's gain was had, beside the truth; `had` is None where there is none.

    A program whose trials were cut off or failed as a whole is had only by what was kept.
    """
    best = max(true, key=lambda name: true[name], default="")
    kept = [
        each["measured"]["speedup"]
        for each in row["trials"]
        if each["verdict"] == "kept" and each["measured"]
    ]
    most = max(kept, default=1.0)
    eligible = bool(best) and true[best] >= ELIGIBLE
    return {
        "best": best,
        "best_gain": true.get(best),
        "kept_gain": most,
        "had": most - 1 >= HAD * (true[best] - 1) if eligible else None,
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many programs are eligible, and the share whose gain was had."""
    eligible = [each for each in rows if each["had"] is not None]
    had = sum(each["had"] for each in eligible)
    return {
        "programs": len(rows),
        "eligible": len(eligible),
        "had": had,
        "share": had / len(eligible) if eligible else None,
    }


def part(
    programs: Sequence[Program], true: Mapping[str, Mapping[str, float]], share: str
) -> list[Program]:
    """Return every N-th program from the I-th on for `I/N`, with those first that are eligible."""
    number, of = (int(each) for each in share.split("/"))
    ordered = sorted(
        programs, key=lambda each: max(true.get(each.name, {}).values(), default=1.0) < ELIGIBLE
    )
    return ordered[number - 1 :: of]


def main() -> int:
    """Try, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="", help="names with commas")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="sizes of a test")
    parser.add_argument("--seconds", type=float, default=560.0, help="be over by then, mostly")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th from the I-th on")
    parser.add_argument("--add", action="store_true", help="to the rows of the file")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    names = {name for name in args.programs.split(",") if name}
    if unknown := names - {each.name for each in PROGRAMS}:
        parser.error(f"no program {', '.join(sorted(unknown))}")
    true = true_gains(
        each for each in RESULTS.glob("programs-*.json") if not each.stem.startswith(OUTPUT.stem)
    )
    record: dict[str, Any] = {"circumstances": circumstances(args.device), "rows": []}
    if args.add and args.output.exists():
        record["rows"] = json.loads(args.output.read_text())["rows"]
    known = {each["program"] for each in record["rows"]}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tried") as scratch:
        for program in part(PROGRAMS, true, args.part):
            wanted = (not names or program.name in names) and program.name not in known
            if not wanted or missing(program):
                continue
            if time.perf_counter() - began > args.seconds - EXPECTED_S:
                break
            row = tried(program, args.device, args.tiny, Path(scratch))
            row |= judged(row, true.get(program.name, {}))
            record["rows"].append(row)
            record["summary"] = summary(record["rows"])
            replace_bytes(args.output, (json.dumps(record, indent=1) + "\n").encode())
            print(_told(row), flush=True)
    print(json.dumps(record.get("summary", {})))
    return 0


def _told(row: Mapping[str, Any]) -> str:
    """A row on the screen."""
    by_hand = f"{row['best'] or '–'} {row['best_gain'] or 1:.2f}×"
    lines = [f"{row['program']}: kept {row['kept_gain']:.2f}×, best by hand {by_hand}, "
             f"had {row['had']} ({row['seconds']:.0f} s)"]  # fmt: skip
    for each in row["trials"]:
        measured = f" {each['measured']['speedup']:.2f}×" if each["measured"] else ""
        lines.append(f"  {each['verdict']}{measured}: {each['text']} {each['why']}".rstrip())
    return "\n".join([*lines, *([f"  {row['error']}"] if row["error"] else [])])


if __name__ == "__main__":
    sys.exit(main())
