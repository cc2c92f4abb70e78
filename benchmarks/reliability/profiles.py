"""Damaged profiles: each is loaded, shown, analysed, compared and exported.

In: `--runs N` damaged files, made from sound ones by seeds 0 to N - 1, in `--jobs J` processes.
Out: a JSON object.  A file passes when each step gives a result or refuses with a sentence, within
10 s and 1 GB.  `--first S --runs 1` repeats seed S.

    python -m benchmarks.reliability.profiles --runs 20000 --jobs 16 -o out.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.exercise import failure
from benchmarks.reliability.mutate import bomb, mutated
from tileprof.profile import Profile, load
from tileprof.profile.storage.writing import to_bytes

__all__ = ["campaign", "drawn", "main", "sound_profiles"]

_DATA = Path(__file__).parents[2] / "tests" / "data"
_SECONDS = 10
"""Longest time for one damaged file, all steps together, in s."""
_KILL_SECONDS = 60
"""Time after which a process that does not answer its alarm is killed, in s."""
_MEMORY = 1 << 30
"""Memory that a process may take beyond what it has when it begins, in bytes."""
_FIRST_FAILURES = 20
_FEW = 100
"""Damaged files among which no bomb is worth the seconds that making one takes."""
_BATCH = 25
"""Seeds that a process takes at once."""


class _TooLong(BaseException):
    """Raised by the alarm; no step catches it."""


@cache
def sound_profiles() -> tuple[tuple[str, bytes], ...]:
    """Return the bytes of sound profiles that have something in every table, by name."""
    from tests.profile_samples import full_profile
    from tests.viewer.gpu_samples import training
    from tests.viewer.pc_profile import pc_profile
    from tests.viewer.samples import matmul
    from tests.viewer.timelines_made import all_kinds

    full, kinds = full_profile(), all_kinds()
    both = replace(
        kinds,
        tables=replace(
            kinds.tables, pc=full.tables.pc.moved(np.array([0, 1, 1])), series=full.tables.series,
            device_peaks=full.tables.device_peaks,
        ),
    )  # fmt: skip
    made = {
        "full": full, "kinds": kinds, "both": both, "pc": pc_profile(), "training": training(),
        "matmul": matmul(),
    }  # fmt: skip
    return tuple((name, to_bytes(profile)) for name, profile in made.items())


@cache
def _recorded() -> tuple[tuple[str, bytes], ...]:
    """Profiles of real programs: larger, so they are drawn seldom."""
    return tuple((path.name, path.read_bytes()) for path in sorted(_DATA.glob("*.tprof")))


def drawn(seed: int) -> tuple[str, bytes]:
    """Return the name of a sound profile and a damaged copy of it."""
    chance = random.Random(seed)
    among = _recorded() if chance.random() < 0.03 else sound_profiles()
    name, content = chance.choice(among)
    return name, mutated(content, chance)


def campaign(runs: int, jobs: int, seconds: float, first: int = 0) -> dict[str, Any]:
    """Try the seeds from `first` on; stop early after `seconds`."""
    began = time.monotonic()
    context = multiprocessing.get_context("fork")
    batch = max(min(_BATCH, runs // jobs), 1)
    seeds = iter(range(first, first + runs, batch))
    last = first + runs
    said: list[dict[str, Any]] = []
    # What all processes need is made once, before they are forked.
    sound_profiles(), _recorded()
    if runs > _FEW:
        bomb()
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        workers = [_Worker(context, f"{folder}/{job}.tprof") for job in range(jobs)]
        while workers:
            for worker in list(workers):
                if (result := worker.result()) is not None:
                    said.append(result)
                if worker.is_idle:
                    start = next(seeds, None) if time.monotonic() - began < seconds else None
                    if start is None:
                        worker.stop()
                        workers.remove(worker)
                    else:
                        worker.begin(start, min(start + batch, last))
            time.sleep(0.002)
    failures = sorted((each for result in said for each in result["failures"]), key=_seed)
    kinds = [each["kind"] for each in failures]
    return {
        "name": "profiles",
        "runs": sum(result["runs"] for result in said),
        "failures": len(failures),
        "hangs": kinds.count("hang"),
        "tracebacks": kinds.count("traceback"),
        "memory": kinds.count("memory"),
        "crashes": kinds.count("crash"),
        "refused": sum(result["refused"] for result in said),
        "seconds": round(time.monotonic() - began, 1),
        "slowest": max((result["slowest"] for result in said), default=0.0),
        "details": failures[:_FIRST_FAILURES],
    }


def _seed(each: dict[str, Any]) -> int:
    return int(each["seed"])


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class _Worker:
    """A process that tries seeds, and is replaced where it dies or hangs."""

    def __init__(self, context: Any, path: str) -> None:
        self._context, self._path = context, path
        self._start()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._at = self._context.Value("q", -1, lock=False)
        self._since = self._context.Value("d", time.monotonic(), lock=False)
        self._process = self._context.Process(
            target=_work, args=(other, self._path, self._at, self._since), daemon=True
        )
        self._process.start()
        other.close()
        self.is_idle = True
        self._end = 0

    def begin(self, start: int, end: int) -> None:
        """Try the seeds from `start` up to `end`."""
        self.is_idle, self._end = False, end
        self._since.value = time.monotonic()
        self._pipe.send((start, end))

    def result(self) -> dict[str, Any] | None:
        """Return what a batch ended with; None while it goes on."""
        if self.is_idle:
            return None
        try:
            if self._pipe.poll(0):
                self.is_idle = True
                found: dict[str, Any] = self._pipe.recv()
                return found
        except (EOFError, ConnectionResetError):
            return self._lost("crash")
        if not self._process.is_alive() and not self._pipe.poll(0.2):
            return self._lost("crash")
        if time.monotonic() - self._since.value > _KILL_SECONDS:
            self._process.kill()
            return self._lost("hang")
        return None

    def _lost(self, kind: str) -> dict[str, Any]:
        """The process is gone: go on behind the seed that it was at, in a new one."""
        self._process.join()
        seed, end = int(self._at.value), self._end
        how = f"exit code {self._process.exitcode}"
        self._start()
        if seed + 1 < end:
            self.begin(seed + 1, end)
        failures = [{"seed": seed, "kind": kind, "file": "", "text": how}]
        return {"runs": 1, "failures": failures, "refused": 0, "slowest": 0.0}

    def stop(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()


def _work(pipe: Any, path: str, at: Any, since: Any) -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    other = _sound(path)
    failure(path, other)  # imports and caches, before memory is limited
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    while (batch := pipe.recv()) is not None:
        failures: list[dict[str, Any]] = []
        refused, slowest = 0, 0.0
        for seed in range(*batch):
            at.value, since.value = seed, time.monotonic()
            name, content = drawn(seed)
            Path(path).write_bytes(content)
            began = time.monotonic()
            found = _tried(path, other)
            slowest = max(slowest, time.monotonic() - began)
            refused += found == ""
            if isinstance(found, dict):
                failures.append({"seed": seed, "file": name, **found})
        pipe.send(
            {"runs": len(range(*batch)), "failures": failures, "refused": refused,
             "slowest": round(slowest, 2)}
        )  # fmt: skip


def _sound(path: str) -> Profile:
    Path(path).write_bytes(sound_profiles()[0][1])
    return load(path)


def _alarm(_signal: int, _frame: object) -> None:
    raise _TooLong


def _tried(path: str, other: Profile) -> dict[str, str] | str | None:
    """How a file failed; None where it did not, an empty text where it was refused."""
    try:
        with _limited(_SECONDS):
            text = failure(path, other)
    except _TooLong:
        import traceback

        return {"kind": "hang", "text": traceback.format_exc()}
    except MemoryError:
        return {"kind": "memory", "text": "MemoryError"}
    if not text:
        return text
    return {"kind": "memory" if "MemoryError" in text else "traceback", "text": text}


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign of the command line, write its result, return 1 where anything failed."""
    parser = argparse.ArgumentParser(description="Damage profiles and use them.")
    parser.add_argument("--runs", type=int, default=500, help="damaged files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("-o", dest="output", help="file for the result")
    args = parser.parse_args(argv)
    result = campaign(args.runs, args.jobs, args.seconds, args.first)
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
