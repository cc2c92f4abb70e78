"""Threads replay CUDA graphs and launch kernels while CUPTI's records are handed over all the time.

In: seconds, threads, milliseconds between two hand-overs.  Out: a JSON object: what was launched,
how often records were handed over, and after which time nothing went on (`hung_after_s`), with the
stacks of all threads printed.  A failure is a hang.

A recording hands records over every two seconds, so that a hang which needs a launch and a
hand-over at the same moment takes minutes to show. Here it takes seconds.

    python -m benchmarks.reliability.graph_flushes --seconds 60 -o out.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import tileprof
from benchmarks.reliability.process_state import print_state
from benchmarks.reliability.soak import Worker, compared, machine
from tileprof.native import _recorder as _native
from tileprof.profile import load

__all__ = ["flushed_beside_graphs", "main"]

STALL_S = 12.0
"""So long without a launch, and threads count as hung. A launch waits at most ten seconds for
records to be handed over."""
JOBS = ("torch", "graph", "stream", "copies")


class Flusher(threading.Thread):
    """Hands records over again and again."""

    def __init__(self, pause_s: float) -> None:
        super().__init__(daemon=True, name="flusher")
        self.pause_s = pause_s
        self.count = self.failed = 0
        self.longest_s = 0.0
        self.ended = False

    def run(self) -> None:
        """Go on until `ended`."""
        while not self.ended:
            began = time.monotonic()
            code, _ = _native.gpu_flush(False)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.count += 1
            self.failed += code != 0
            time.sleep(self.pause_s)


def flushed_beside_graphs(
    seconds: float, threads: int, flush_ms: float, jobs: Sequence[str]
) -> dict[str, Any]:
    """Launch from threads and hand records over for so many seconds; returns the JSON object.

    With `flush_ms` below 0 records are handed over by the recording alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        session = tileprof.start(Path(folder) / "flushes.tprof")
        workers = [Worker(number, "cuda") for number in range(threads)]
        for worker in workers:
            worker.jobs = {name: worker.jobs[name] for name in jobs}
        torch.cuda.synchronize()
        used = device_mb()
        began = time.monotonic()
        running = [
            threading.Thread(target=worker.run, args=(began + seconds,), daemon=True)
            for worker in workers
        ]
        flusher = Flusher(flush_ms / 1e3)
        for thread in running:
            thread.start()
        if flush_ms >= 0:
            flusher.start()
        hung = watched(running, workers, began)
        flusher.ended = True
        result = {
            "name": "graph flushes",
            "asked_seconds": seconds,
            "threads": threads,
            "jobs": list(jobs),
            "flush_ms": flush_ms,
            "launched": sum(sum(worker.launched.values()) for worker in workers),
            "flushes": flusher.count,
            "failed_flushes": flusher.failed,
            "longest_flush_s": round(flusher.longest_s, 4),
            "hung_after_s": hung,
            "errors": [worker.error for worker in workers if worker.error],
            **machine("cuda"),
        }
        if hung is None:
            session.finalize()
            recorded = load(Path(folder) / "flushes.tprof")
            rows = [row for worker in workers for row in compared(recorded, worker)]
            result["lost"] = sum(abs(row["lost"]) for row in rows)
            result["not counted"] = {
                key: text
                for key, text in recorded.tables.provenance.items()
                if key in ("lost", "gaps", "gpu")
            }
            result["device_mb"] = [used, device_mb()]
        return result


def device_mb() -> float:
    """Return MB of device memory in use, by all programs."""
    free, total = torch.cuda.mem_get_info()
    return round((total - free) / 2**20, 1)


def watched(
    running: Sequence[threading.Thread], workers: Sequence[Worker], began: float
) -> float | None:
    """Wait for threads to end; returns seconds until nothing went on, None where they ended."""
    launched, moved = 0, began
    while any(thread.is_alive() for thread in running):
        time.sleep(0.2)
        now = time.monotonic()
        before, launched = launched, sum(sum(worker.launched.values()) for worker in workers)
        if launched != before:
            moved = now
        elif now - moved > STALL_S:
            print(f"hung after {moved - began:.1f} s and {launched:,} launches", flush=True)
            print_state()
            return round(moved - began, 1)
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 1 after a hang."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", "--jobs", type=int, default=8)
    parser.add_argument("--flush-ms", type=float, default=1, help="between hand-overs; -1: none")
    parser.add_argument("--work", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(argv)
    result = flushed_beside_graphs(options.seconds, options.threads, options.flush_ms, options.work)
    text = json.dumps(result, indent=1)
    print(text, flush=True)
    if options.output:
        options.output.write_text(text + "\n")
    if result["hung_after_s"] is not None:
        os._exit(1)  # threads that hang do not end
    return 0


if __name__ == "__main__":
    sys.exit(main())
