"""What samples of program counters cost and how right they are, beside other tools' samples.

    python benchmarks/sampling.py [--only RE] [--budget SECONDS] [--seconds S] [-o FILE]

Writes a JSON file with the device, its clocks and all versions, after each row.

slowdown     of launches of a product, and of launch-bound training: processes in turns
ends         what the begin and the end of a recording take
loss         of samples in a minute of work that keeps the GPU busy
lines        share of samples on an instruction with a source line, of kernels that have lines
ncu          shares of stall reasons of the same kernel by Nsight Compute
inside       shares of lines by samples that the compiler put in (`instrument="sample"`)
attribution  of a million samples to instructions and lines, after the run
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import instrument
import overhead_rows
import sampling_checks as checks
from overhead_ratios import ratio_interval, ratios
from overhead_serving import Plan, Taken, Way, take_turns

import tileprof

RESULTS = Path(__file__).parent / "results" / "sampling.json"
SAMPLED = Way("tileprof --pc-sampling", ("--pc-sampling",))
PROTON = Way("Proton, pcsampling", peer="proton-sampling")
AGAIN = overhead_rows.AGAIN
GENERATIONS = 3
"""Sets of fresh processes."""
LOSS_S = 60.0

Row = dict[str, Any]


def slowdowns(seconds: float) -> Iterator[Row]:
    """Two works, plain and sampled."""
    yield slowdown("gemm", (AGAIN, SAMPLED), (700, 6), seconds, 1.1, 1.03)
    yield slowdown("training", (AGAIN, overhead_rows.FULL, SAMPLED), (8, 20), seconds, 1.5, 1.25)


def proton(seconds: float) -> Iterator[Row]:
    """The first work under Proton's sampling."""
    yield slowdown("gemm", (PROTON,), (100, 2), seconds)


def slowdown(
    work: str,
    ways: tuple[Way, ...],
    bursts: tuple[int, int],
    seconds: float,
    asked: float | None = None,
    aim: float | None = None,
) -> Row:
    """Ratios of bursts of so many units, in so many rounds, to plain ones; the upper end of ours is
    held to the bar."""
    units, rounds = bursts
    plain = overhead_rows.PLAIN
    plan = Plan(units, max(1, units // 20), rounds, GENERATIONS, {AGAIN.name: 2}, seconds)
    with tempfile.TemporaryDirectory() as scratch:
        taken = take_turns(work, (plain, *ways), plan, False, Path(scratch).resolve())
    found = {way.name: variant(taken[way.name], taken[plain.name]) for way in ways}
    high = found.get(SAMPLED.name, {}).get("high", math.inf)
    met = None if asked is None else high <= asked
    return {
        "what": "slowdown", "work": work, "ways": found, "asked": asked, "aim": aim, "met": met,
    }  # fmt: skip


def variant(taken: Taken, plain: Taken) -> Row:
    """One way beside the plain program."""
    if not any(taken.generations):
        return {"error": taken.error}
    held = ratio_interval(ratios(taken, plain, "seconds"))
    facts = [end.get("facts", {}) for end in taken.endings][-1:]
    return {
        "value": held.value,
        "low": held.low,
        "high": held.high,
        "pairs": held.pairs,
        "facts": facts,
        "error": taken.error,
    }


def ends(_: float) -> Iterator[Row]:
    """Of a recording of some products, with samples and without."""
    run = instrument.gemm()
    run()
    for sampling in (None, True, None, True):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with tileprof.profile(context="scopes", instrument="off", pc_sampling=sampling):
            entered = time.perf_counter()
            run()
            torch.cuda.synchronize()
            worked = time.perf_counter()
        ended = time.perf_counter()
        yield {
            "what": "ends",
            "sampling": bool(sampling),
            "begin_s": entered - began,
            "first_launch_s": worked - entered,
            "end_s": ended - worked,
        }


def loss(seconds: float) -> Iterator[Row]:
    """In a minute of products."""
    run = instrument.gemm()
    run()
    with tileprof.profile(context="scopes", instrument="off", pc_sampling=True) as session:
        began = time.perf_counter()
        while time.perf_counter() - began < min(LOSS_S, seconds):
            for _ in range(100):
                run()
            torch.cuda.synchronize()
        took = time.perf_counter() - began
    samples = session.profile.tables.pc
    (held,) = samples.recordings
    lost = held.dropped / held.total if held.total else math.nan
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    yield {
        "what": "loss",
        "seconds": took,
        "total": held.total,
        "counted": int(samples.counted.sum()),
        "dropped": held.dropped,
        "overflows": held.overflows,
        "non_user": held.non_user,
        "period": held.period,
        "per_multiprocessor_and_second": held.total / multiprocessors / took,
        "lost": lost,
        "asked": 0.01,
        "met": lost < 0.01 and not held.overflows,
    }


GROUPS: dict[str, Callable[[float], Iterator[Row]]] = {
    # First: what has been disassembled once in a process is kept.
    "attribution": checks.attribution,
    "lines": checks.lines,
    "ncu": checks.beside_ncu,
    "inside": checks.inside,
    "ends": ends,
    "slowdown": slowdowns,
    "proton": proton,
    "loss": loss,
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression over the groups")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a row's bursts, at most")
    parser.add_argument("-o", "--output", default=str(RESULTS))
    args = parser.parse_args()
    start = time.perf_counter()
    torch.manual_seed(0)
    report = instrument.Report(args.output)
    for name, measure in GROUPS.items():
        if not re.search(args.only, name) or time.perf_counter() - start > args.budget:
            continue
        try:
            for row in measure(args.seconds):
                report.add(row)
        except Exception as error:
            report.add({"what": name, "error": f"{type(error).__name__}: {error}"[:600]})


if __name__ == "__main__":
    main()
