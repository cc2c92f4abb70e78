"""Several processes save profiles to one path while others load it.

In: `--runs N` saves in all, by `--jobs J` writing processes, `--readers R` reading ones.  Out: a
JSON object; a failure is a save that raised, a load that raised, or a profile that nobody wrote.

Each save waits until the disk has it.  `--folder /dev/shm` takes that wait away, so that more saves
meet each other in a second; where the folder is, is in the result.

    python -m benchmarks.reliability.savers --runs 100000 --jobs 8 --folder /dev/shm -o out.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from tileprof.profile import Profile, TreeBuilder, load, save

__all__ = ["campaign", "main"]

_FIRST_FAILURES = 20
"""Failures that are kept with their messages."""


def campaign(
    runs: int, jobs: int, readers: int, seconds: float, folder: str | None = None
) -> dict[str, Any]:
    """Save `runs` times by `jobs` processes, and load by `readers` until they have ended.

    Stops early after `seconds`; `runs` in the result is how many saves were made.
    """
    began = time.monotonic()
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(dir=folder) as held:
        path = str(Path(held) / "p.tprof")
        save(_profile(0, 0), path)
        results: Any = context.Queue()
        over = context.Event()
        shares = [runs // jobs + (job < runs % jobs) for job in range(jobs)]
        writers = [
            context.Process(target=_save, args=(path, job, share, began + seconds, results))
            for job, share in enumerate(shares)
        ]
        loaders = [
            context.Process(target=_load, args=(path, over, results)) for _ in range(readers)
        ]
        for process in [*writers, *loaders]:
            process.start()
        said = [results.get() for _ in writers]
        over.set()
        said += [results.get() for _ in loaders]
        for process in [*writers, *loaders]:
            process.join()
        left = [name for name in os.listdir(held) if name != "p.tprof"]
    failures = [failure for each in said for failure in each["failures"]]
    failures += [f"left behind: {name}" for name in left]
    loads = sum(each["loads"] for each in said)
    return {
        "name": "savers",
        "runs": sum(each["saves"] for each in said),
        "failures": len(failures),
        "hangs": 0,
        "tracebacks": len([each for each in failures if "Error" in each]),
        "seconds": round(time.monotonic() - began, 1),
        "loads": loads,
        "writers": jobs,
        "readers": readers,
        "folder": folder or tempfile.gettempdir(),
        "details": failures[:_FIRST_FAILURES],
    }


def _profile(writer: int, number: int) -> Profile:
    """A profile that says who wrote it at every node, and whose size differs between writers."""
    builder = TreeBuilder()
    for _ in range(3 + writer % 8 * 40):
        node = builder.child(len(builder) - 1, "scope", f"writer {writer}")
        builder.add(node, "count", 1 + number)
    return builder.snapshot()


def _save(path: str, writer: int, count: int, until: float, results: Any) -> None:
    failures: list[str] = []
    saves = 0
    while saves < count and time.monotonic() < until:
        try:
            save(_profile(writer, saves % 2), path)
        except Exception as error:  # what is counted here
            failures.append(f"save {saves} of writer {writer}: {type(error).__name__}: {error}")
        saves += 1
    results.put({"saves": saves, "loads": 0, "failures": failures})


def _load(path: str, over: Event, results: Any) -> None:
    failures: list[str] = []
    loads = 0
    while not over.is_set():
        try:
            _check(load(path))
        except Exception as error:
            failures.append(f"load {loads}: {type(error).__name__}: {error}")
        loads += 1
    results.put({"saves": 0, "loads": loads, "failures": failures})


def _check(profile: Profile) -> None:
    """Raise ValueError where a profile is not all of one writer."""
    names = set(profile.names)
    counts = set(profile.own["count"].tolist())
    if len(names) != 1 or len(counts) != 1:
        raise ValueError(f"a mixture of {sorted(names)} with counts {sorted(counts)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign of the command line, write its result, return 1 where anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000, help="saves in all")
    parser.add_argument("--jobs", type=int, default=4, help="processes that save")
    parser.add_argument("--readers", type=int, default=2, help="processes that load")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long")
    parser.add_argument("--folder", help="where the file is; a folder in memory is faster")
    parser.add_argument("-o", dest="output", help="file for the result")
    args = parser.parse_args(argv)
    result = campaign(args.runs, args.jobs, args.readers, args.seconds, args.folder)
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
