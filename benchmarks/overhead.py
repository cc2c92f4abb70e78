"""What profiling a program costs: ours and the others', each in its own process, in turns.

    python benchmarks/overhead.py [--cpu] [--only RE] [--budget SECONDS] [-o FILE]
    python benchmarks/overhead.py --join FILE… [-o FILE]

Writes a JSON file with every pair, the device, its clocks and all versions, after each row.  With
`--cpu` the same rows on a machine without a GPU, smaller, without those that need one.  `--join`
makes one file of several runs on one kind of device, each with a part of the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import measuring
import overhead_endings
import overhead_rows as rows
from overhead_serving import Failed, Served

RESULTS = Path(__file__).parent / "results"

GROUPS: dict[str, Callable[[rows.Setting], Iterator[rows.Row]]] = {
    "training": rows.training,
    "launches": rows.launches,
    "deep": rows.deep,
    "gpt": rows.gpt,
    "finishing": overhead_endings.finishing,
    "duty": rows.duty,
}
ON_CPU = ("training", "launches", "deep", "finishing", "duty")


def circumstances(cpu: bool) -> dict[str, Any]:
    """Device, versions and date; PyTorch is not imported, for it would hold the device."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
    }
    if cpu:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        found["device"] = models[0] if models else platform.processor()
    else:
        found["gpu"] = measuring.clocks()
        found["device"] = found["gpu"].get("name", "")
    import tileprof
    from tileprof.profiler.native import why_not

    found["tileprof"] = tileprof.__version__
    found["native recorder"] = why_not() or "there"
    for name in ("torch", "triton"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def clocks(cpu: bool) -> dict[str, str]:
    """What the device does now."""
    return {"load": f"{os.getloadavg()[0]:.2f}"} if cpu else measuring.clocks()


def prepare(setting: rows.Setting) -> str:
    """Run once under tileprof, so that what is built once per machine is built before."""
    began = time.perf_counter()
    served = Served(rows.FULL, "training", setting.cpu, setting.folder)
    try:
        served.answer(300)
        served.burst(1, 1, 300)
        served.end()
    except Failed as failure:
        return f"failed: {failure}"
    finally:
        served.close()
    return f"{time.perf_counter() - began:.1f} s"


class Report:
    """What was measured so far, on the screen and in the file."""

    def __init__(self, path: str, cpu: bool) -> None:
        self.path = Path(path)
        self.cpu = cpu
        self.began = time.perf_counter()
        self.held: dict[str, Any] = {"circumstances": circumstances(cpu), "rows": []}

    def measure(self, name: str, setting: rows.Setting) -> None:
        """All rows of a group."""
        before, began = clocks(self.cpu), time.perf_counter()
        try:
            for row in GROUPS[name](setting):
                now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
                said = {"group": name, "date": now, "clocks": [before, clocks(self.cpu)]}
                self.held["rows"].append(row | said)
                print(shown(row), flush=True)
                self.write()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"[:600]
            self.held["rows"].append({"work": name, "group": name, "error": told})
            print(f"{name}: {told}", flush=True)
        print(f"  {name}: {time.perf_counter() - began:.1f} s", flush=True)
        self.write()

    def write(self) -> None:
        """The file as a whole: a run that is cut off leaves what it has."""
        self.held["seconds"] = time.perf_counter() - self.began
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.held, indent=1, ensure_ascii=False) + "\n")


def join(paths: list[str], output: Path) -> None:
    """Put the rows of several files into one; the devices and versions must be the same.  Pairs of
    a work that was measured in the same way in several of them are pooled."""
    held = [json.loads(Path(path).read_text()) for path in paths]
    same = ("device", "python", "torch", "triton", "tileprof")
    kinds = {tuple(each["circumstances"][key] for key in same) for each in held}
    if len(kinds) > 1:
        raise SystemExit(f"these were not measured on one kind of machine: {sorted(kinds)}")
    alike: dict[tuple[Any, ...], list[rows.Row]] = {}
    for row in (row for each in held for row in each["rows"]):
        # What ends a run is measured once in it: it has no pairs.
        way = (row["units"], row["warm"]) if "units" in row else (len(alike),)
        alike.setdefault((row["work"], *way), []).append(row)
    measured = [rows.pooled(each) if len(each) > 1 else each[0] for each in alike.values()]
    seconds = sum(each["seconds"] for each in held)
    reached = {row["group"] for row in measured}
    wanted = GROUPS if "gpu" in held[0]["circumstances"] else ON_CPU
    skipped = [group for group in wanted if group not in reached]
    whole = held[0] | {"rows": measured, "skipped": skipped, "seconds": seconds}
    output.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def shown(row: rows.Row) -> str:
    """A row as lines of text."""
    bar = "" if row["asked"] is None else f", asked ≤ {row['asked']:g}"
    met = {True: " ok", False: " MISSED", None: ""}[row["met"]]
    lines = [f"{row['work']} ({row['unit']}{bar}){met}"]
    for v in row["variants"]:
        figure = ""
        if "value" in v:
            pairs = sum(map(len, v["pairs"]))
            figure = f"{v['value']:8.3f} [{v['low']:.3f}, {v['high']:.3f}] ({pairs})"
        lines.append(f"   {v['name']:<32}{figure} {v.get('error', '')}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="rows that need no GPU, smaller")
    parser.add_argument("--only", default="", help="a regular expression over the groups")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS",
                        help="start no group after so long")  # fmt: skip
    parser.add_argument("--generations", type=int, default=5, help="sets of fresh processes")
    parser.add_argument("--rounds", type=int, help="in each, in place of the row's own number")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for a row's bursts")
    parser.add_argument("--logs", metavar="DIR", help="keep profiles and messages there")
    parser.add_argument("--join", nargs="+", metavar="FILE", help="measure nothing, join files")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    output = args.output or str(RESULTS / f"overhead{'_cpu' if args.cpu else ''}.json")
    if args.join:
        join(args.join, Path(output))
    else:
        measure(args, output)


def measure(args: argparse.Namespace, output: str) -> None:
    """Run what was chosen."""
    start = time.perf_counter()
    chosen = [g for g in GROUPS if re.search(args.only, g) and (not args.cpu or g in ON_CPU)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.logs or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        setting = rows.Setting(
            args.cpu, folder.resolve(), args.generations, args.rounds, args.seconds
        )
        report = Report(output, args.cpu)
        report.held["preparation"] = prepare(setting)
        print(report.held["circumstances"], "preparation:", report.held["preparation"], flush=True)
        skipped = report.held["skipped"] = []
        for name in chosen:
            if args.budget and time.perf_counter() - start > args.budget:
                skipped.append(name)
                continue
            report.measure(name, setting)
    report.write()
    if skipped:
        print("not measured:", ", ".join(skipped))


if __name__ == "__main__":
    main()
