"""Run programs with pools of processes under `tileprof run`, on a machine that is kept busy.

    python -m benchmarks.reliability.pools --runs 2000 --jobs 16 -o pools.json

Each run is a small program with `multiprocessing.Pool` or `ProcessPoolExecutor`, whose children are
forked, spawned or made by a fork server, and whose pool is closed, terminated, or left to the end
of the process.  A run fails if it does not end, if its exit code or output is another one than
without a profiler, if a file does not load or is left in parts, or if a child that was allowed to
end has no file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof.profile import load

METHODS = ("fork", "spawn", "forkserver")
POOLS = ("pool-close", "pool-with", "pool-left", "executor")
"""How the pool ends: `close` and `join`; terminated by a `with` block; by the interpreter."""
WORKERS = 2
HANG_S = 90.0
"""After this long a run hangs, in seconds: some fifty times what one takes on an idle machine."""
_SHOWN = 20
_ROOT = Path(__file__).parents[2]
_PROGRAM = """\
import multiprocessing, os, sys, time
import tileprof
from concurrent.futures import ProcessPoolExecutor

def work(n):
    with tileprof.scope("child"):
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
    return n

if __name__ == "__main__":
    method, kind, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    context = multiprocessing.get_context(method)
    if kind == "executor":
        with ProcessPoolExecutor(workers, context) as pool:
            print(sum(pool.map(work, range(8))))
    elif kind == "pool-with":
        with context.Pool(workers) as pool:
            print(sum(pool.map(work, range(8))))
    else:
        pool = context.Pool(workers)
        print(sum(pool.map(work, range(8))))
        if kind == "pool-close":
            pool.close()
            pool.join()
"""


@dataclass
class Running:
    """One run of the program."""

    number: int
    method: str
    kind: str
    folder: Path
    process: subprocess.Popen[bytes]
    began: float

    def __str__(self) -> str:
        return f"run {self.number}: {self.method} {self.kind}"


def _start(number: int, top: Path, chosen: list[tuple[str, str]]) -> Running:
    method, kind = chosen[number % len(chosen)]
    folder = top / str(number)
    folder.mkdir()
    (folder / "program.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", "out.tprof", "program.py"]
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(
            [*command, method, kind, str(WORKERS)],
            cwd=folder, stdout=out, stderr=err, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )  # fmt: skip
    return Running(number, method, kind, folder, process, time.monotonic())


def _verdict(run: Running) -> tuple[str, int]:
    """What is wrong with a run that has ended, and how many files its children left."""
    said = (run.folder / "stderr").read_text(errors="replace")
    printed = (run.folder / "stdout").read_text(errors="replace")
    if (run.process.returncode, printed) != (0, "28\n"):
        return f"exit code {run.process.returncode}, {printed!r}: {said[-1500:]}", 0
    if "Traceback" in said or "tileprof:" in said:
        return said[-1500:], 0
    names = {path.name for path in run.folder.iterdir()} - {"program.py", "stdout", "stderr"}
    profiles = {name for name in names if name.endswith(".tprof")}
    if others := names - profiles - {"__pycache__"}:
        return f"left behind: {sorted(others)}", 0
    visits = 0.0
    for name in sorted(profiles):
        try:
            profile = load(run.folder / name)
            profile.check()
        except Exception as error:
            return f"{name}: {error}", 0
        visits += sum(profile.node(n).own("count") for n in profile.find("child", "scope"))
    if "out.tprof" not in profiles:
        return "the parent left no file", 0
    # A worker that its pool ends by SIGTERM before it records loses nothing: it leaves no file.
    if visits != 8:
        return f"files of {len(profiles) - 1} children hold {visits:g} of 8 visits", 0
    return "", len(profiles) - 1


def campaign(
    runs: int,
    jobs: int,
    seconds: float,
    methods: tuple[str, ...] = METHODS,
    busy: int | None = None,
) -> dict[str, Any]:
    """Run programs, several at a time beside `busy` spinning processes, until all are done."""
    began = time.monotonic()
    chosen = list(itertools.product(methods, POOLS))
    failures: list[dict[str, str]] = []
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    hangs = tracebacks = children = started = 0
    spin = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(jobs if busy is None else busy)]
    try:
        with tempfile.TemporaryDirectory() as name:
            running: list[Running] = []
            while running or (started < runs and time.monotonic() - began < seconds):
                while started < runs and len(running) < jobs and time.monotonic() - began < seconds:
                    running.append(_start(started, Path(name), chosen))
                    started += 1
                for run in running[:]:
                    hung = time.monotonic() - run.began > HANG_S
                    if run.process.poll() is None and not hung:
                        continue
                    wrong, files = ("hangs", 0) if hung else _verdict(run)
                    if hung:
                        os.killpg(run.process.pid, signal.SIGKILL)
                        run.process.wait()
                    running.remove(run)
                    done[run.method] += 1
                    failed[run.method] += bool(wrong)
                    hangs += hung
                    tracebacks += "Traceback" in wrong
                    children += files
                    if wrong:
                        failures.append({"run": str(run), "what": wrong})
                    if done.total() % 100 == 0:
                        print(f"{done.total()} of {runs}: {failed.total()} failures, {hangs} hangs",
                              flush=True)  # fmt: skip
                time.sleep(0.005)
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    return {
        "name": "pools",
        "runs": done.total(),
        "failures": failed.total(),
        "hangs": hangs,
        "tracebacks": tracebacks,
        "seconds": round(time.monotonic() - began, 1),
        "details": failures[:_SHOWN],
        "methods": {each: {"runs": done[each], "failures": failed[each]} for each in methods},
        "children": children,
    }


def main(argv: list[str]) -> int:
    """Run the campaign; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--busy", type=int, help="spinning processes (default: as many as jobs)")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("-o", dest="output")
    args = parser.parse_args(argv)
    methods = tuple(args.methods.split(","))
    result = campaign(args.runs, args.jobs, args.seconds, methods, args.busy)
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
