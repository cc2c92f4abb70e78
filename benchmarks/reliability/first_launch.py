"""Starts public entry points from many threads at once in processes that have done nothing yet.

In: how many runs.  Out: a JSON object with hangs, exceptions and wrong results, each with the seed
that draws its threads' work again: `--first SEED --runs 1`.

    python -m benchmarks.reliability.first_launch --runs 2000 --jobs 16 -o first.json
    python -m benchmarks.reliability.first_launch --mode fork --runs 500 --jobs 16

Modes: `first`: 20 threads wait at a barrier and then make their first calls, in most runs of one
kernel and in the others of entry points that are drawn for each thread.  `cold`: the same with an
empty cache of compiled kernels.  `fork`: threads launch kernels while the process forks at random
times; each child launches a kernel that the process knows and one that it does not.

Most runs are children of a process that has imported everything and called nothing, which costs
milliseconds; one in 20 is the child of a new interpreter that has imported nothing of tileprof, so
its threads also import together.  The output says how many there were of each.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import pkgutil
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from .first_calls import ENTRIES, compile_function, launch, launch_scalar, record

THREADS = 20
FRESH_ONE_IN = 20
"""One run in this many is a new interpreter."""
MIXED_ONE_IN = 4
"""One run in this many draws its threads' entry points; others call one kernel on `cpu`."""
TIMEOUT_S = 60.0
"""After that a run hangs: it takes about a second on an idle machine."""
FORKS = 8
"""Children of one run of `--mode fork`."""
KEPT = 20
"""Failures that are described in the output."""


_Part = tuple[list[int], bool]
"""Seeds of one worker, and whether it is a new interpreter."""


# -- one run


def run_once(mode: str, seed: int, folder: Path) -> list[str]:
    """One run in this process; what went wrong."""
    return _fork_between(seed, folder) if mode == "fork" else _together(mode, seed, folder)


def _together(mode: str, seed: int, folder: Path) -> list[str]:
    draw = random.Random(seed)
    if mode == "short" or draw.randrange(MIXED_ONE_IN):
        chosen = [draw.choice(ENTRIES[:2])] * THREADS
    else:
        some = draw.sample(ENTRIES, draw.randint(1, len(ENTRIES)))
        chosen = [draw.choice(some) for _ in range(THREADS)]
    wrong: list[str] = []
    start = threading.Barrier(THREADS)

    def call(entry: Callable[[int, Path], None]) -> None:
        start.wait()
        try:
            entry(seed, folder)
        except BaseException:
            wrong.append(f"{entry.__name__}: {traceback.format_exc()}")

    threads = [threading.Thread(target=call, args=(entry,), daemon=True) for entry in chosen]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return wrong


def _fork_between(seed: int, folder: Path) -> list[str]:
    """Fork while threads make their first and later calls."""
    # Python cannot import in a child what another thread was importing at the fork; tileprof sees
    # to its own modules, and a program to its own.
    for name in ("benchmarks.reliability.launch_kernels", "numpy.random"):
        importlib.import_module(name)
    draw = random.Random(seed)
    wrong: list[str] = []
    over = threading.Event()

    def go_on(entry: Callable[[int, Path], None]) -> None:
        while not over.is_set():
            try:
                entry(seed, folder)
            except BaseException:
                wrong.append(f"{entry.__name__}: {traceback.format_exc()}")
                return

    entries = [draw.choice((launch, launch_scalar, compile_function, record)) for _ in range(4)]
    threads = [threading.Thread(target=go_on, args=(entry,), daemon=True) for entry in entries]
    for each in threads:
        each.start()
    for number in range(FORKS):
        # Short ones first: the process is still importing, compiling and loading.
        time.sleep(draw.random() ** 3 * 0.3)
        child = os.fork()
        if child == 0:
            _end_child(seed + number, folder)
        wrong += waited(child, f"child {number}", TIMEOUT_S)
        if wrong:
            break
    over.set()
    for each in threads:
        each.join()
    return wrong


def _end_child(seed: int, folder: Path) -> None:
    _answer_signals()
    code = 1
    try:
        for entry in (launch, compile_function):
            entry(seed, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _answer_signals() -> None:
    """Print what all threads are at when SIGUSR1 comes, and where the process dies of a fault."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)


def waited(pid: int, name: str, timeout_s: float) -> list[str]:
    """Wait for a child; a hanging one says what it is at and is killed."""
    until = time.monotonic() + timeout_s
    pause = 0.001
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return [] if code == 0 else [f"{name}: exit code {code}"]
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    with suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return [f"{name}: hang"]


def _end_group(pid: int) -> None:
    """Kill what a run may have left: children that hang."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


# -- many runs: a worker forks a process for each


def _serve(mode: str, seeds: Sequence[int], bare: bool, seconds: float) -> None:
    """Run seeds in children of this process, which initialises nothing; a line of JSON each.

    After `seconds` no further run is started.
    """
    until = time.monotonic() + seconds
    if not bare:
        _import_all()
    for seed in seeds:
        if time.monotonic() > until:
            return
        with tempfile.TemporaryDirectory(prefix="first-launch-") as held:
            folder = Path(held)
            said = folder / "said"
            child = os.fork()
            if child == 0:
                _run_child(mode, seed, folder, said)
            ended = waited(child, "process", TIMEOUT_S * (3 if mode == "fork" else 1))
            _end_group(child)
            text = said.read_text(errors="replace") if said.exists() else ""
        print(json.dumps({"seed": seed, "ended": ended, "said": text}), flush=True)


def _run_child(mode: str, seed: int, folder: Path, said: Path) -> None:
    os.setsid()
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(handle, standard)
    _answer_signals()
    if mode == "cold":
        os.environ["TILEPROF_CACHE"] = str(folder / "cache")
    wrong = [traceback.format_exc()]
    try:
        wrong = run_once(mode, seed, folder)
    except BaseException:
        wrong = [traceback.format_exc()]
    finally:
        for each in wrong:
            sys.stderr.write(each + "\n")
        sys.stderr.flush()
        os._exit(3 if wrong else 0)


def _import_all() -> None:
    """Import every module, without which most of a run would be that."""
    import tileprof

    for module in pkgutil.walk_packages(tileprof.__path__, "tileprof."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("pandas", "plotly.graph_objects"):
        with suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("benchmarks.reliability.launch_kernels")


def _campaign(mode: str, seeds: Sequence[int], jobs: int, seconds: float) -> dict[str, Any]:
    """Share the seeds among workers, of which one in `FRESH_ONE_IN` is a new interpreter."""
    began = time.monotonic()
    each = 1 if mode == "short" else FRESH_ONE_IN
    fresh = [seed for seed in seeds if seed % each == 0]
    forked = [seed for seed in seeds if seed % each]
    results: list[dict[str, Any]] = []
    size = max(1, min(50, -(-len(forked) // jobs))) if forked else 1
    parts = [(forked[at : at + size], False) for at in range(0, len(forked), size)]
    # Spread evenly: a campaign that ends early has its share of both.
    parts = _spread([([seed], True) for seed in fresh], parts) if forked else [(fresh, True)]

    def work(part: _Part) -> None:
        some, bare = part
        left = began + seconds - time.monotonic()
        if left <= 0:
            return
        made = _worked(mode, some, bare, left)
        results.extend(made)
        done = len(results)
        if done // 100 != (done - len(made)) // 100:
            bad = sum(1 for each in results if each["ended"])
            print(f"{done} of {len(seeds)} runs, {bad} failed", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(work, parts):
            pass
    return _summary(mode, results, set(fresh), time.monotonic() - began)


def _spread(some: list[_Part], others: list[_Part]) -> list[_Part]:
    """Return both lists as one, each in its order and evenly spread."""
    places = [
        ((at + 0.5) / len(each), part) for each in (some, others) for at, part in enumerate(each)
    ]
    return [part for _, part in sorted(places, key=lambda each: each[0])]


def _worked(mode: str, seeds: Sequence[int], bare: bool, seconds: float) -> list[dict[str, Any]]:
    """Run seeds in a worker, as many of them as it starts in so many seconds."""
    command = [sys.executable, "-m", "benchmarks.reliability.first_launch", "--mode", mode]
    command += ["--seconds", str(seconds), "--serve", json.dumps(list(seeds))]
    command += ["--bare"] if bare else []
    # Threads of BLAS would be in a process that has done nothing.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    made = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        seed = seeds[min(len(made), len(seeds) - 1)]
        lost = {"seed": seed, "ended": [f"worker: exit code {done.returncode}"]}
        made.append({**lost, "said": ""})
    return made


def _summary(
    mode: str, results: list[dict[str, Any]], fresh: set[int], seconds: float
) -> dict[str, Any]:
    failed = [each for each in results if each["ended"]]
    hangs = [r for r in failed if any("hang" in e for e in r["ended"]) or ": hang" in r["said"]]
    return {
        "name": f"first_launch.{mode}",
        "runs": len(results),
        "failures": len(failed),
        "hangs": len(hangs),
        "tracebacks": sum("Traceback" in each["said"] for each in failed),
        "seconds": round(seconds, 1),
        "details": [{**each, "said": each["said"][-6000:]} for each in failed[:KEPT]],
        "threads": THREADS,
        "forked_before_any_import": sum(each["seed"] in fresh for each in results),
        "forked_after_all_imports": sum(each["seed"] not in fresh for each in results),
        "forks_in_each_run": FORKS if mode == "fork" else 0,
        "runs_per_second": round(len(results) / max(seconds, 1e-9), 2),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit code is 1 where something failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=("first", "cold", "fork", "short"), default="first")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run later")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--short", action="store_true", help="kernels on cpu alone, new processes")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.serve is not None:
        _serve(given.mode, given.serve, given.bare, given.seconds)
        return 0
    if given.mode != "cold" and not given.short:
        _warm_cache()
    seeds = range(given.first, given.first + given.runs)
    made = _campaign("short" if given.short else given.mode, seeds, given.jobs, given.seconds)
    text = json.dumps(made, indent=1)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(text)
    return 1 if made["failures"] else 0


def _warm_cache() -> None:
    """Compile what all runs take from the cache, in a process of its own."""
    folder = tempfile.mkdtemp(prefix="first-launch-")
    code = (
        "import pathlib\nfrom benchmarks.reliability import first_calls\n"
        f"for entry in first_calls.ENTRIES: entry(1, pathlib.Path({folder!r}))"
    )
    try:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
