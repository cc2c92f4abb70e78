"""How good advice is: PLANT's twins measured, recorded, analysed, and scored.

    python benchmarks/plant.py [--split dev|valid|first-test|second-test|third-test|test|triton]
                               [--only RE] [--budget SECONDS] [--jobs N] [--counts] [--keep DIR]
                               [-o FILE]
    python benchmarks/plant.py --split dev --from DIR    read kept profiles again, without a GPU

Each case runs in a process of its own; the next ones get ready while one has the GPU. Writes a
JSON file with every case's truth (the measured ratio of its twins), what was found for each twin,
sizes and times, after each case; then scores.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from plant import (
    analysing,
    cases_dev,
    cases_first_test,
    cases_second_test,
    cases_test,
    cases_third_test,
    cases_valid,
    scores,
    triton_pairs,
)
from plant.triton_pairs import TritonCase
from plant.twins import Case

RESULTS = Path(__file__).parent / "results"
SPLITS: dict[str, Sequence[Case | TritonCase]] = {
    "dev": cases_dev.CASES, "valid": cases_valid.CASES, "first-test": cases_first_test.CASES,
    "second-test": cases_second_test.CASES, "third-test": cases_third_test.CASES,
    "test": cases_test.CASES, "triton": triton_pairs.CASES,
}  # fmt: skip
LIMIT_S = 300
"""Of one process."""


def folder_of(case: Case | TritonCase, kept: Path) -> Path:
    """Where a case's profiles are."""
    return kept / re.sub(r"\W+", "_", case.name)


def one(case: Case | TritonCase, folder: Path, counts: bool) -> None:
    """What the process of a case does."""
    from plant import measure

    (measure.count if counts else measure.measure)(case, folder)


def ran(case: Case | TritonCase, split: str, folder: Path, counts: bool) -> str:
    """Measure in new processes; why it failed, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--split", split, "--one", case.name, "--keep", folder]
    for more in ([], ["--counts"]) if counts else ([],):
        try:
            done = subprocess.run(
                [*map(str, command), *more], capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return f"not over after {LIMIT_S} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return ""


def row_of(case: Case | TritonCase, split: str, folder: Path, error: str) -> dict[str, Any]:
    """The row of a case, or why there is none."""
    if not error:
        try:
            return analysing.analysed(case, split, folder)
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"
    return {**analysing.described(case, split), "error": error}


def told(row: dict[str, Any]) -> str:
    """A line on the screen."""
    if "error" in row:
        return f"{row['case']:<60} {row['error']}"[:200]
    held, true = scores.score(row), row["time"].get("ratio")
    gain = f"{held.gain[1]:.2f}" if held.gain else "–"
    wrong = "" if row["correct"] else " WRONG RESULTS"
    truth = f"{true:.3f}×" if true else "–"
    return f"{row['case']:<60} {truth:>8} predicted {gain:>6} rank {held.rank}{wrong}"


def scored(record: dict[str, Any], dev: Path) -> None:
    """Add scores of the rows that were measured and are right."""
    rows = [row for row in record["rows"] if "error" not in row and row["correct"]]
    held = json.loads(dev.read_text())["rows"] if dev.exists() else []
    known = [row for row in held if "error" not in row and row["correct"]]
    record["constant"] = scores.constant(known or (rows if record["split"] == "dev" else []))
    record["scores"] = scores.summary(rows, record["constant"])
    record["by_rule"] = scores.by_rule(rows)


def main() -> int:
    """Measure, analyse, score, write."""
    args = arguments()
    cases = [case for case in SPLITS[args.split] if re.search(args.only, case.name)]
    if args.one:
        (case,) = (each for each in cases if each.name == args.one)
        one(case, args.keep, args.counts)
        return 0
    begin = time.perf_counter()
    output = args.output or RESULTS / f"plant-{args.split}.json"
    rows: list[dict[str, Any]] = []
    record: dict[str, Any] = {"split": args.split, "rows": rows, "skipped": []}
    if not args.read:
        import measuring

        record["circumstances"] = measuring.circumstances()
    elif output.exists():
        record["circumstances"] = json.loads(output.read_text()).get("circumstances")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        kept = args.read or args.keep or Path(scratch)

        def measured(case: Case | TritonCase) -> str | None:
            """Why a case failed, or nothing; None where there was no time."""
            if args.read:
                return ""
            if args.budget and time.perf_counter() - begin > args.budget:
                return None
            return ran(case, args.split, folder_of(case, kept), args.counts)

        for case, error in zip(cases, pool.map(measured, cases)):
            if error is None:
                record["skipped"].append(case.name)
                continue
            rows.append(row_of(case, args.split, folder_of(case, kept), error))
            print(told(rows[-1]), flush=True)
            write(output, record)
    scored(record, RESULTS / "plant-dev.json")
    write(output, record)
    print(json.dumps(record["scores"], indent=1))
    return 0 if rows and not record["skipped"] and not any("error" in row for row in rows) else 1


def write(path: Path, record: dict[str, Any]) -> None:
    """The file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1))


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=SPLITS, default="dev")
    parser.add_argument("--only", default="", help="a regular expression over names of cases")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS",
                        help="start no case after so long")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=3, help="processes; one at a time measures")
    parser.add_argument("--counts", action="store_true", help="count instructions too")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where profiles stay")
    parser.add_argument("--from", dest="read", type=Path, metavar="DIR",
                        help="profiles that were kept: analyse them again")  # fmt: skip
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
