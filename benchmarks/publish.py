"""Put what a run of `on_gpu.py` measured into the published results.

    python -m benchmarks.publish FOLDER [--beside TEXT] [--historical WHY] [--dry]

In: the JSON files that steps wrote into FOLDER.  Out: files in `benchmarks/results`, a line for
each, and what was left out and why.  `python benchmarks/page.py` then writes the pages.

- Rows of kernels and of overhead replace the published ones of the same work and say when and where
  they were measured.  A row that lost a peer, as where TileLang could not be imported, does not
  replace one that has it.
- A file of samples, claims, agents or control replaces the published one, unless it has fewer rows.
- A part of the real programs, or of the generated defects, is published as it is; the part that was
  published before keeps its place under the date of its run.
- Counters of fresh kernels get a file with the next number.

`--beside` says what else ran on the host, `--historical` why results of programs are no longer of
this analyzer.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.analyzer_hash import analyzer_hash

__all__ = ["Change", "main", "publish"]

RESULTS = Path(__file__).parent / "results"
_WHOLE = {
    "access-patterns": "access-patterns", "agent-sessions": "agent-sessions", "claims": "claims",
    "instrument": "instrument", "overhead-live": "overhead_live",
    "tuning_tilelang": "tuning_tilelang", "triton-pruning": "triton-pruning",
    "kernel_profiles": "kernel_profiles",
    **{name: name for name in (f"programs-tried-{part}of3" for part in (1, 2, 3))},
}  # fmt: skip
"""Files that replace the published one: their name in the folder and in the results."""
_ROWS = ("rows", "kernels")
"""Under which names such files have their rows."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A published file as it will be, or as it stays."""

    path: Path
    record: Record | None
    """None where nothing changes."""
    said: str
    renamed: Path | None = None
    """Where the file of an earlier run goes."""


def _read(path: Path) -> Record:
    found: Record = json.loads(path.read_text())
    return found


def _merged(
    old: Record, new: Record, keyed: Callable[[Record], Record]
) -> tuple[list[Record], list[str]]:
    """Return all rows, a new one in place of the old one of its work, and what is said of them."""
    rows = {row["work"]: row for row in old["rows"]}
    said = []
    for row in new["rows"]:
        name = row["work"]
        lost = _peers(rows.get(name, {})) - _peers(row)
        if lost:
            said.append(f"kept {name}: the new row lacks {', '.join(sorted(lost))}")
            continue
        rows[name] = keyed(row)
    return list(rows.values()), said


def _peers(row: Mapping[str, Any]) -> set[str]:
    return {each["peer"] for each in row.get("peers", ())}


def _kernels(path: Path, new: Record, _: argparse.Namespace) -> Change:
    old = _read(path)
    there = new["circumstances"]
    rows, said = _merged(old, new, lambda row: {**row, "circumstances": there})
    return Change(path, {**old, "rows": rows}, _said(len(new["rows"]) - len(said), said))


def _overhead(path: Path, new: Record, args: argparse.Namespace) -> Change:
    old = _read(path)
    when = f"{new['circumstances']['date']} {args.beside}".strip()
    rows, said = _merged(old, new, lambda row: {**row, "date": when})
    said += [f"not measured: {name}" for name in new.get("skipped", ())]
    return Change(path, {**old, "rows": rows}, _said(len(new["rows"]), said))


def _said(rows: int, more: Sequence[str]) -> str:
    return "; ".join([f"{rows} rows", *more])


def _whole(path: Path, new: Record, _: argparse.Namespace) -> Change:
    before = _count(_read(path)) if path.exists() else 0
    if (now := _count(new)) < before:
        return Change(path, None, f"left out: {now} rows, {before} are published")
    return Change(path, new, f"{now} rows in place of {before}")


def _count(record: Record) -> int:
    return max((len(record[name]) for name in _ROWS if name in record), default=0)


def _programs(path: Path, new: Record, args: argparse.Namespace) -> Change:
    new = {**new, "historical": args.historical} if args.historical else new
    return Change(path, new, f"{len(new['rows'])} programs", _free(path))


def _free(path: Path) -> Path | None:
    """Return a name of no file yet for what was published before; None where nothing was."""
    if not path.exists():
        return None
    day, number = _read(path)["circumstances"]["date"][:10], 1
    renamed = path.with_name(f"{path.stem}-{day}.json")
    while renamed.exists():
        number += 1
        renamed = path.with_name(f"{path.stem}-{day}-{number}.json")
    return renamed


def _defects(path: Path, new: Record, _: argparse.Namespace) -> Change:
    claims = "current" if new["analyzer"] == analyzer_hash() else "history"
    said = f"{len(new['rows'])} rows, {claims}"
    return Change(path, {**new, "claims": claims}, said, _free(path))


def _counters(path: Path, new: Record, _: argparse.Namespace) -> Change:
    name = re.compile(rf"{path.stem}-(\d+)")
    taken = [int(m[1]) for each in path.parent.glob("*.json") if (m := name.fullmatch(each.stem))]
    return Change(path.with_name(f"{path.stem}-{max(taken, default=0) + 1}.json"), new,
                  f"{len(new['kernels'])} kernels")  # fmt: skip


def _way(name: str) -> tuple[str, Callable[[Path, Record, argparse.Namespace], Change]] | None:
    """Return the published name of a file and how it is published; None where it is not."""
    if name in ("kernels", "attention"):
        return name, _kernels
    if name == "overhead":
        return name, _overhead
    if name == "counters":
        return "show-counters-fresh", _counters
    if re.fullmatch(r"(programs|problems|architectures)-\dof\d", name):
        return name, _programs
    if re.fullmatch(r"plant-test-\d+-\dof\d", name):
        return name, _defects
    return (_WHOLE[name], _whole) if name in _WHOLE else None


def publish(folder: Path, results: Path, args: argparse.Namespace) -> Iterator[Change]:
    """Yield what changes in the results for each file of a folder, in the order of their names."""
    for file in sorted(folder.glob("*.json")):
        if way := _way(file.stem):
            yield way[1](results / f"{way[0]}.json", _read(file), args)
        else:
            yield Change(file, None, "no step's result that is published")


def main(arguments: Sequence[str] | None = None, results: Path = RESULTS) -> int:
    """Publish the results of a folder; the exit status is 1 where something was left out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beside", default="", help="what else ran on the host")
    parser.add_argument("--historical", default="", help="why programs are of an earlier analyzer")
    parser.add_argument("--dry", action="store_true", help="say what would change")
    args = parser.parse_args(arguments)
    left = False
    for change in publish(args.folder, results, args):
        print(f"{change.path.name}: {change.said}")
        left |= change.record is None
        if change.record is None or args.dry:
            continue
        if change.renamed is not None:
            change.path.rename(change.renamed)
        change.path.write_text(json.dumps(change.record, indent=1, ensure_ascii=False) + "\n")
    return int(left)


if __name__ == "__main__":
    sys.exit(main())
