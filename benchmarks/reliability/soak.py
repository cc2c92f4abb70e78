"""Eight threads keep a device busy under a recording for a long time; nothing may be lost.

In: seconds, threads, `--device cuda`, `cpu` or `played` (a GPU's records without one).  Out: a JSON
object: for each thread and kind of work what it launched and what the profile counts, their
difference (`lost`), and the memory of the process over time.  A failure is a difference, a check of
the profile that fails, or memory that grows.

Each thread goes through kinds of work in an order of its own, each in a scope of its own:
operations of PyTorch, tile kernels with instrumentation, and on a GPU replays of a graph, launches
on a second stream, and copies in both directions.  All launch a known number of kernels or copies.

    python -m benchmarks.reliability.soak --seconds 600 -o out.json
    python -m benchmarks.reliability.soak --device played --seconds 305 --unrecorded 185 -o out.json

The second plays CUPTI and what warps write of their kernels, and ten minutes in one: what grows
there is the recorder's, or its host's.  With `--unrecorded` the same workers run before without a
recording: what grows then is theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import tileprof
from benchmarks.reliability.heap import told_here
from benchmarks.reliability.memory_watch import resident_mb, watched
from benchmarks.reliability.process_state import held_parts, print_state
from benchmarks.reliability.soaking.kernels import shift_and_scale
from benchmarks.reliability.soaking.work import Worker
from tileprof.bench import read_gpu
from tileprof.profile import Profile, load

__all__ = ["main", "soak"]

WARM_UP_S = 60.0
"""After that memory is to be constant; a run shorter than two of these takes half of its time."""
LOOKS = 600
"""Times that memory is looked at in a run."""
STALL_S = 20.0
"""So long without a launch, and threads count as hung: what they wait for is printed."""
GROWTH_MB = 5.0
"""What memory may differ by afterwards."""


def unrecorded_growth(seconds: float, workers: Sequence[Worker], looks: Path) -> dict[str, Any]:
    """Return how memory grows where the same workers run and nobody records."""
    shift_and_scale(workers[0].x, workers[0].y)
    started = time.monotonic()
    running = [threading.Thread(target=worker.run, args=(started + seconds,)) for worker in workers]
    for thread in running:
        thread.start()
    with watched(looks, max(seconds / LOOKS, 0.05)) as seen:
        watch(running, workers, started, seconds)
    for thread in running:
        thread.join(timeout=120)
    parts = seen.parts_mb or [{}]  # a short run is over before the first look
    return {**growth(seen.memory_mb, seconds), "first": parts[0], "last": parts[-1]}


def soak(
    seconds: float,
    threads: int,
    device: str,
    profile: Path,
    looks: Path,
    unrecorded_s: float = 0,
) -> dict[str, Any]:
    """Record `threads` workers for so many seconds; returns the campaign's JSON object.

    Another process writes what memory it sees into the file `looks`, which is there whatever ends
    this one.
    With `unrecorded_s` the same runs before, for so many seconds without a recording: what grows
    there is not the recorder's.
    """
    began = time.monotonic()
    made: Callable[[int, str], Worker] = Worker
    options: dict[str, Any] = {"instrument": "scopes"}
    if device == "played":
        from benchmarks.reliability.soaking import played

        played.play()
        made = played.PlayedWorker
        options["flush_interval"] = played.FLUSH_S
    unrecorded = None
    if unrecorded_s:
        idle = [made(number, device) for number in range(threads)]
        unrecorded = unrecorded_growth(unrecorded_s, idle, looks)
    session = tileprof.start(profile, **options)
    workers = [made(number, device) for number in range(threads)]
    shift_and_scale(workers[0].x, workers[0].y)  # compiled before threads meet
    if device == "cuda":
        torch.cuda.synchronize()
    held_parts()  # what asking for it takes is taken before memory is looked at
    started = time.monotonic()
    until = started + seconds
    running = [threading.Thread(target=worker.run, args=(until,)) for worker in workers]
    for thread in running:
        thread.start()
    with watched(looks, max(seconds / LOOKS, 0.05)) as seen:
        held = watch(running, workers, started, seconds)
    hangs = 0
    for thread in running:
        thread.join(timeout=120)
        hangs += thread.is_alive()
    if device == "cuda":
        torch.cuda.synchronize()
    session.finalize()
    told_here()
    recorded = load(profile)
    rows = [row for worker in workers for row in compared(recorded, worker)]
    grown = growth(seen.memory_mb, seconds)
    failures = [row for row in rows if row["lost"]]
    failures += [{"thread": w.number, "error": w.error} for w in workers if w.error]
    if grown["range_mb"] > GROWTH_MB:
        failures.append({"memory": grown})
    failures += checked(recorded)
    return {
        "name": "soak",
        "runs": sum(row["launched"] for row in rows),
        "failures": len(failures),
        "hangs": hangs,
        "tracebacks": sum(bool(worker.error) for worker in workers),
        "seconds": round(time.monotonic() - began, 1),
        "details": failures[:20],
        "asked_seconds": seconds,
        "threads": threads,
        "lost": sum(abs(row["lost"]) for row in rows),
        "rows": rows,
        "memory": grown,
        "memory_mb": seen.memory_mb,
        "memory_parts_mb": seen.parts_mb,
        "memory_held_mb": held,
        "unrecorded": unrecorded,
        "file_bytes": profile.stat().st_size,
        "provenance": {
            key: text
            for key, text in recorded.tables.provenance.items()
            if key in ("lost", "gaps", "gpu", "cupti", "idle time")
        },
        **machine(device),
    }


def watch(
    running: Sequence[threading.Thread], workers: Sequence[Worker], began: float, seconds: float
) -> list[dict[str, Any]]:
    """Watch threads while they run, and print where they are once a minute.

    Returns who held memory in these minutes; little, as it is part of the memory that is measured.
    """
    held: list[dict[str, Any]] = []
    told = moved = began
    launched = 0
    while any(thread.is_alive() for thread in running):
        now = time.monotonic()
        if now > began + seconds + 60:
            break
        before, launched = launched, sum(sum([*each.launched.values()]) for each in workers)
        if launched != before:
            moved = now
        elif now - moved >= STALL_S:
            moved = began + seconds + 60  # once
            print(f"{now - began:6.0f} s: stalled at {launched:,} launches", flush=True)
            print_state()
        if now - told >= 60:
            told = now
            held.append({"at_s": round(now - began, 1), **held_parts()})
            resident = resident_mb(os.getpid())
            print(f"{now - began:6.0f} s: {launched:,} launched, {resident:.1f} MB", flush=True)
        running[0].join(timeout=max(seconds / LOOKS, 0.05))
    return held


def growth(memory: Sequence[Sequence[float]], seconds: float) -> dict[str, float]:
    """Return slope in MB per minute and largest less smallest MB after the warm-up."""
    after = min(WARM_UP_S, seconds / 2)
    rows = [(at / 60, mb) for at, mb in memory if at >= after]
    if len(rows) < 2:
        return {"after_s": after, "samples": len(rows), "slope_mb_per_min": 0.0, "range_mb": 0.0}
    mean_at = sum(at for at, _ in rows) / len(rows)
    mean_mb = sum(mb for _, mb in rows) / len(rows)
    spread = sum((at - mean_at) ** 2 for at, _ in rows)
    slope = sum((at - mean_at) * (mb - mean_mb) for at, mb in rows) / spread if spread else 0.0
    sizes = [mb for _, mb in rows]
    return {
        "after_s": after,
        "samples": len(rows),
        "slope_mb_per_min": round(slope, 4),
        "range_mb": round(max(sizes) - min(sizes), 3),
        "least_mb": min(sizes),
        "most_mb": max(sizes),
    }


def compared(profile: Profile, worker: Worker) -> list[dict[str, Any]]:
    """Return for each kind of a thread's work what was launched, counted, and lost."""
    rows = []
    for name in worker.jobs:
        kinds = {"copies": ("memcpy",)}.get(name, ("kernel",))
        if worker.device == "cpu" and name == "torch":
            kinds = ("op",)
        counted = counted_below(profile, f"{name} of thread {worker.number}", kinds)
        launched = worker.launched[name]
        rows.append({"thread": worker.number, "work": name, "launched": launched,
                     "counted": counted, "lost": launched - counted})  # fmt: skip
    return rows


def counted_below(profile: Profile, scope: str, kinds: Sequence[str]) -> int:
    """Return how many launches of some kinds are below the scopes of a name."""
    below = set(profile.find(scope, "scope"))
    count = 0
    for kind in kinds:
        for found in profile.find(kind=kind):
            if below & set(profile.path(found)):
                count += int(profile.node(found).own("count"))
    return count


def checked(profile: Profile) -> list[dict[str, str]]:
    """Return why the profile's own checks fail; nothing where they hold."""
    try:
        profile.check()
    except Exception as error:
        return [{"check": f"{type(error).__name__}: {error}"}]
    return []


def machine(device: str) -> dict[str, Any]:
    """Return what ran: device, driver, versions, clocks, date."""
    found: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tileprof": tileprof.__version__,
        "cores": os.cpu_count(),
    }
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name()
        state = read_gpu()
        found["gpu"] = "NVML knows no GPU" if state is None else dataclasses.asdict(state)
    return found


def write(result: dict[str, Any], output: Path | None) -> None:
    """Write a campaign's JSON object, where a file is asked for."""
    if output:
        output.write_text(json.dumps(result, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 where something was lost or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", "--jobs", type=int, default=8)
    parser.add_argument("--device", choices=("cuda", "cpu", "played"), default="cuda")
    parser.add_argument(
        "--unrecorded", type=float, default=0, help="seconds without recording first"
    )
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as held:
        profile = Path(held) / "soak.tprof"

        # Beside the result, so that a run that is cut off tells something.
        looks = options.output.with_suffix(".memory.jsonl") if options.output else Path(held) / "m"
        result = soak(
            options.seconds, options.threads, options.device, profile, looks, options.unrecorded
        )
    write(result, options.output)
    print(f"{result['runs']:,} launched, {result['lost']:,} lost, memory within "
          f"{result['memory']['range_mb']} MB, {result['failures']} failures")  # fmt: skip
    return 1 if result["failures"] or result["hangs"] else 0


if __name__ == "__main__":
    sys.exit(main())
