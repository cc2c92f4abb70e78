"""All campaigns at once within a time, and the soak of a GPU beside them.

In: a folder, seconds, cores.  Out: in the folder one JSON file with the result of each campaign,
`campaigns.json`, which `python -m benchmarks.reliability.page FOLDER` reads, and of each that ended
badly what it said last.

    python -m benchmarks.reliability.all FOLDER --seconds 560 --jobs 15

Cores are shared out in lanes.  In a lane campaigns follow each other, each with a part of the time:
it stops there, or when it has reached its aim, and what it leaves goes to those behind it.  What
"at least" takes decided the shares, so that all come about equally far beyond it.

The soak is a process of its own that outlasts this command if it has to: on a machine that ends
with the command, `--wait` waits for it.  `--collect` gathers once more, with what came later.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability.page import CAMPAIGNS, COMBINED, ROOT

GRACE_S = 45
"""After its time a campaign ends what it has begun; then it is killed."""
UNRECORDED_S = 60
"""Seconds of the soak before it records; growth in them is not the recorder's."""
TOLD = 4_000
"""Characters of what a campaign said that are kept where it ended badly."""


@dataclass(frozen=True)
class Part:
    """One campaign in a lane."""

    name: str
    share: float
    """Share of the lane's time, relative to the shares of the others."""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lane:
    """Cores, as a part of all, and the campaigns that use them in turn."""

    cores: float
    parts: tuple[Part, ...]


LANES = (
    Lane(0.7, (Part("devices", 1.0),)),
    Lane(0.15, (Part("profiles", 1.0),)),
    Lane(0.2, (Part("pools", 1.0),)),
    Lane(0.2, (
        Part("load", 0.04),
        Part("ir_text", 0.08),
        Part("saved_kernels", 0.22),
        Part("cubins", 0.25),
        Part("coverage", 0.05, ("--runs=3000",)),
        Part("savers", 0.36),
    )),
    Lane(0.2, (
        Part("first_launch.first", 0.6),
        Part("first_launch.cold", 0.08),
        Part("first_launch.fork", 0.12),
        Part("signals", 0.2),
    )),
    # Its seconds are those of each stress: building the recorder twice takes most of the time.
    Lane(0.2, (Part("sanitizers", 1.0, ("--seconds=10", "--runs=20000")),)),
)  # fmt: skip
"""More than all cores: some campaigns wait most of the time."""


def command_of(part: Part, jobs: int, seconds: float, output: Path) -> list[str]:
    """Return the command of a campaign that goes toward its aim until its time is over."""
    module, _, mode = part.name.partition(".")
    aim = next(each for each in CAMPAIGNS if each.name == part.name)
    runs = 15 if aim.small else int(aim.aim)
    command = [sys.executable, "-m", f"benchmarks.reliability.{module}"]
    command += [f"--mode={mode}"] if mode else []
    command += [f"--runs={runs}", f"--jobs={jobs}", f"--seconds={seconds:.0f}", *part.options]
    return [*command, "-o", str(output)]


def run_lane(lane: Lane, jobs: int, seconds: float, folder: Path, names: Sequence[str]) -> None:
    """Run a lane's campaigns one after another until its time is over."""
    until = time.monotonic() + seconds
    left = [part for part in lane.parts if part.name in names]
    while left:
        part, shares = left[0], sum(each.share for each in left)
        time_s = max((until - time.monotonic()) * part.share / shares, 1.0)
        run_part(part, max(1, round(lane.cores * jobs)), time_s, folder)
        left = left[1:]


def run_part(part: Part, jobs: int, seconds: float, folder: Path) -> None:
    """Run one campaign; what it said is in a file beside its result."""
    output = folder / f"{part.name}.json"
    began = time.monotonic()
    with (folder / f"{part.name}.txt").open("w") as said:
        process = subprocess.Popen(
            command_of(part, jobs, seconds, output),
            cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, env=environment(),
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | str = process.wait(seconds + GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            code = "killed: did not stop at its time"
    print(f"{part.name}: {time.monotonic() - began:.0f} s, exit code {code}", flush=True)


def environment() -> dict[str, str]:
    """Return the environment of a campaign, in which libraries start no threads of their own."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def start_soak(seconds: float, folder: Path) -> subprocess.Popen[bytes]:
    """Start the soak in a session of its own, so that it may outlast this process."""
    command = [sys.executable, "-m", "benchmarks.reliability.soak", f"--seconds={seconds:.0f}"]
    command += [f"--unrecorded={UNRECORDED_S}"]
    with (folder / "soak.txt").open("w") as said:
        return subprocess.Popen(
            [*command, "-o", str(folder / "soak.json")],
            cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def collect(folder: Path) -> dict[str, Any]:
    """Gather the results of a folder into one file; returns them by campaign."""
    results: dict[str, Any] = {}
    for each in CAMPAIGNS:
        path = folder / f"{each.name}.json"
        try:
            results[each.name] = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
    (folder / COMBINED).write_text(json.dumps(results, indent=1) + "\n")
    lost = [path for path in sorted(folder.glob("*.txt")) if path.stem not in results]
    said = [f"== {path.stem}\n{path.read_text(errors='replace')[-TOLD:]}" for path in lost]
    (folder / "said.log").write_text("\n".join(said))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run all campaigns, or gather their results; 1 where something failed or has no result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help=f"for {COMBINED}")
    parser.add_argument("--work", type=Path, help="for all other files; else the folder too")
    parser.add_argument("--seconds", type=float, default=560, help="for all campaigns together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cores")
    parser.add_argument("--soak", type=float, default=600, help="seconds of the soak; 0: none")
    parser.add_argument("--only", nargs="+", help="campaigns; all unless given")
    parser.add_argument("--wait", action="store_true", help="wait for the soak too")
    parser.add_argument("--collect", action="store_true", help="gather alone, of an earlier run")
    options = parser.parse_args(argv)
    work: Path = (options.work or options.folder).resolve()
    for folder in (work, options.folder):
        folder.mkdir(parents=True, exist_ok=True)
    names = options.only or [part.name for lane in LANES for part in lane.parts]
    if not options.collect:
        soak = start_soak(options.soak, work) if options.soak else None
        lanes = [
            threading.Thread(
                target=run_lane, args=(lane, options.jobs, options.seconds, work, names)
            )
            for lane in LANES
        ]
        for each in lanes:
            each.start()
        for each in lanes:
            each.join()
        if soak is not None and options.wait:
            soak.wait()
        names = [*names, *(["soak"] if options.soak and options.wait else [])]
    results = collect(work)
    if work != options.folder.resolve():
        for name in (COMBINED, "said.log"):
            (options.folder / name).write_text((work / name).read_text())
    for name, found in results.items():
        print(f"{name}: {found['runs']:,} runs, {found['failures']} failures, "
              f"{found['hangs']} hangs, {found['seconds']} s")  # fmt: skip
    missing = [name for name in names if name not in results]
    if missing:
        print(f"without a result: {', '.join(missing)}")
    return 1 if missing or any(r["failures"] or r["hangs"] for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
