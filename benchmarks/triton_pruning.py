"""Lists of `@triton.autotune` pruned by the model of tiles; results/triton_pruning.json.

    python -m benchmarks.triton_pruning [--seconds 540] [--only RE] [-o FILE]    on a GPU
    python -m benchmarks.triton_pruning --dry [--only RE] [--keep N]             without one: ranks
    python -m benchmarks.triton_pruning --again [-o FILE]        without one: ranks what was timed

For each kernel and shape the list is pruned first, from an empty cache of Triton, so that the time
of pruning is that of a first call.  Then machine code of all configurations is made, in processes
of their own, all are timed in two rounds as Triton's tuner times them (`do_bench`, L2 flushed), and
the fastest of all and of the kept ones again in turns; their results are compared with PyTorch's.
A row says whether the fastest kept one is within 2 % of the fastest of all, by how many times fewer
are timed, how many would have to be kept, and Spearman's correlation of the model with the
measurement.

Rows are written as they are made; a run that finds a file goes on where it ended.  `--again` ranks
the lists of a file by the model as it is now, and compares with the times in the file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.triton_pruning_cases import CASES, Case, Shape, absent, fault, kernel_of, present
from tileprof.files import replace_bytes

if TYPE_CHECKING:
    from tileprof.tuning import Pruned

RESULT = Path(__file__).parent / "results" / "triton_pruning.json"
SAME = 0.02
"""Share by which the fastest kept configuration may be slower than the fastest of all."""
AGAIN = 3
"""Fastest configurations of all, and of the kept ones, that are timed again in turns."""
TURNS = 5
WORKERS = 12
"""Processes that make machine code at once, at most."""
WARM_UP_MS, TIMED_MS = 5, 30
TARGET = ("cuda", 90, 32)
"""Target of a dry run, as Triton writes it."""


# -- machine code ahead of the timing


def _compile(number: int, shape: Shape, at: int, target: tuple[Any, ...]) -> str:
    """Make the machine code of one configuration, in Triton's cache; return what went wrong."""
    from triton.backends.compiler import GPUTarget

    from tileprof.tuning.pruning.configured import NotKnown
    from tileprof.tuning.pruning.programs import Call, Refused, program_of

    case = CASES[number]
    function, configurations = kernel_of(case)
    named = absent(case, shape)
    call = Call(function, named, named["grid"], GPUTarget(*target))
    try:
        program_of(call, configurations[at]).compiled(call.target)
    except (NotKnown, Refused) as error:
        return str(error)
    return ""


# -- one list


@dataclass
class Row:
    """Result of pruning one kernel's list of configurations for one shape."""

    kernel: str
    shape: dict[str, int]
    configurations: int
    """Configurations that ran."""
    refused: int
    kept: int
    best_us: float
    best_kept_us: float
    best: str
    best_kept: str
    same_best: bool
    fewer: float
    """Configurations that ran, over those that are kept."""
    needed: int
    """Configurations of the model's order down to the first that is within 2 % of the best."""
    correlation: float
    pruning_s: float
    pruning_compiled: int
    why_all: str
    times_us: dict[str, float] = field(default_factory=dict)
    model_us: dict[str, float] = field(default_factory=dict)


def measured(case: Case, shape: Shape, pool: ProcessPoolExecutor, keep: int | None) -> Row:
    """Prune one list, time all of it, and compare."""
    import torch
    from triton.testing import do_bench

    from tileprof.tuning import TritonPruner
    from tileprof.tuning.pruning.programs import current_target

    function, configurations = kernel_of(case)
    device = torch.device("cuda", torch.cuda.current_device())
    arguments = present(case, shape, str(device))
    grid = case.grid(shape)
    outcome = TritonPruner(keep).ranked(function, configurations, {**arguments, "grid": grid})
    found = current_target()
    target = found.backend, found.arch, found.warp_size
    number = CASES.index(case)
    done = [
        pool.submit(_compile, number, dict(shape), at, target) for at in range(len(configurations))
    ]
    for each in done:
        each.result()

    def run(at: int) -> float:
        config = configurations[at]
        time_ms = do_bench(
            lambda: function[grid](**arguments, **config.all_kwargs()),
            warmup=WARM_UP_MS, rep=TIMED_MS, return_mode="median",
        )  # fmt: skip
        return float(time_ms) * 1e3

    times: dict[int, float] = {}
    for _ in range(2):
        for at in range(len(configurations)):
            if times.get(at) == math.inf:
                continue
            try:
                times[at] = min(times.get(at, math.inf), run(at))
            except Exception as error:
                # What Triton's tuner leaves out; anything else is a fault of this benchmark.
                if type(error).__name__ not in ("OutOfResources", "PTXASError"):
                    raise
                times[at] = math.inf
    ran = [at for at, each in times.items() if math.isfinite(each)]
    kept = [at for at in outcome.kept if at in ran]
    first = sorted(ran, key=lambda at: times[at])[:AGAIN]
    closer = dict.fromkeys([*first, *sorted(kept, key=lambda at: times[at])[:AGAIN]])
    turns: dict[int, list[float]] = {at: [] for at in closer}
    for _ in range(TURNS):
        for at in closer:
            turns[at].append(run(at))
    times |= {at: statistics.median(each) for at, each in turns.items()}
    # Wrong kernels would be fast for nothing.
    for at in (first[0], min(kept, key=lambda at: times[at])):
        function[grid](**arguments, **configurations[at].all_kwargs())
        if wrong := fault(case, arguments):
            raise RuntimeError(f"{configurations[at]}: {wrong}")
    names = [each.name for each in outcome.configurations]
    ran_us = {names[at]: round(times[at], 3) for at in ran}
    return judged(case.name, shape, outcome, ran_us)


def judged(kernel: str, shape: Shape, outcome: Pruned, times: Mapping[str, float]) -> Row:
    """Compare a pruned list with the times in µs of all configurations that ran, by name."""
    from tileprof.tuning.guesses import rank_correlation

    ranked = {each.name: each for each in outcome.configurations}
    kept = [outcome.configurations[at].name for at in outcome.kept]
    kept = [name for name in kept if name in times]
    if not kept:
        raise RuntimeError("none of the configurations that are kept runs")
    best = min(times, key=lambda name: times[name])
    best_kept = min(kept, key=lambda name: times[name])
    limit = times[best] * (1 + SAME)
    placed = [name for name in times if ranked[name].place >= 0]
    order = sorted(placed, key=lambda name: ranked[name].place)
    needed = next((n for n, name in enumerate(order, 1) if times[name] <= limit), len(times))
    predicted = {
        name: each.model.ns / 1e3
        for name, each in ranked.items()
        if name in times and each.model is not None and math.isfinite(each.model.ns)
    }
    both = [*predicted]
    correlation = rank_correlation([predicted[each] for each in both], [times[e] for e in both])
    return Row(
        kernel, dict(shape), len(times), len(ranked) - len(times), len(kept), times[best],
        times[best_kept], best, best_kept, times[best_kept] <= limit,
        round(len(times) / len(kept), 2), needed, round(correlation, 3),
        round(outcome.seconds, 2), outcome.compiled, str(outcome.why_all or ""), dict(times),
        {name: round(each, 3) for name, each in predicted.items()},
    )  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the rows come to."""
    if not rows:
        return {}
    within = [row["best_kept_us"] / row["best_us"] for row in rows]
    for_all = [row["configurations"] / row["needed"] for row in rows]
    return {
        "lists": len(rows),
        "same_best": sum(row["same_best"] for row in rows),
        "worst_kept_over_best": round(max(within), 4),
        "fewer_timed": round(
            sum(row["configurations"] for row in rows) / sum(row["kept"] for row in rows), 2
        ),
        "fewer_if_known": round(statistics.geometric_mean(for_all), 2),
        "median_correlation": round(statistics.median(row["correlation"] for row in rows), 3),
        "pruning_s": round(sum(row["pruning_s"] for row in rows), 1),
    }


def circumstances() -> dict[str, Any]:
    """Return device, versions, clocks and date."""
    from benchmarks import measuring

    return {**measuring.circumstances(), "triton": importlib.metadata.version("triton")}


# -- runs


def dry(only: str, keep: int | None) -> None:
    """Rank all lists for a target without a GPU, and print what is kept."""
    from triton.backends.compiler import GPUTarget

    from tileprof.tuning import TritonPruner

    for case in CASES:
        for shape in case.shapes:
            if re.search(only, f"{case.name} {dict(shape)}"):
                function, configurations = kernel_of(case)
                pruner = TritonPruner(keep)
                named = absent(case, shape)
                outcome = pruner.ranked(function, configurations, named, GPUTarget(*TARGET))
                print(dict(shape), outcome, flush=True)


def again(path: Path, only: str, keep: int | None) -> None:
    """Rank the lists of a file by the model as it is, and compare with the times in the file."""
    from triton.backends.compiler import GPUTarget

    from tileprof.tuning import TritonPruner

    rows = []
    by_name = {case.name: case for case in CASES}
    for row in json.loads(path.read_text())["rows"]:
        if not re.search(only, f"{row['kernel']} {row['shape']}"):
            continue
        case = by_name[row["kernel"]]
        function, configurations = kernel_of(case)
        named = absent(case, row["shape"])
        outcome = TritonPruner(keep).ranked(function, configurations, named, GPUTarget(*TARGET))
        made = judged(case.name, row["shape"], outcome, row["times_us"])
        rows.append(vars(made))
        print(line(made), flush=True)
    print(json.dumps(summary(rows), indent=1))


def line(row: Row) -> str:
    """Return a row as a line of text."""
    return (
        f"{row.kernel:15} {row.shape}: {row.kept} of {row.configurations} kept, best kept "
        f"{row.best_kept_us / row.best_us:.3f} of the best, {row.needed} needed, "
        f"correlation {row.correlation}, pruned in {row.pruning_s} s {row.why_all}"
    )


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--only", default="", metavar="RE", help="kernels and shapes that match")
    parser.add_argument("--keep", type=int, help="configurations to keep (default: a sixth)")
    parser.add_argument("--dry", action="store_true", help="rank without a GPU")
    parser.add_argument("--again", action="store_true", help="rank the lists of a file again")
    parser.add_argument("--workers", type=int, default=min(WORKERS, os.cpu_count() or 1))
    parser.add_argument("-o", dest="output", type=Path, default=RESULT)
    args = parser.parse_args()
    if args.dry:
        dry(args.only, args.keep)
        return 0
    if args.again:
        again(args.output, args.only, args.keep)
        return 0
    end = time.monotonic() + args.seconds
    # A cache of its own: pruning is measured from nothing.
    kept = tempfile.TemporaryDirectory(prefix="triton-pruning-")
    os.environ["TRITON_CACHE_DIR"] = kept.name
    data = json.loads(args.output.read_text()) if args.output.is_file() else {"rows": []}
    here = circumstances()
    if data["rows"] and data["circumstances"]["device"] != here["device"]:
        print(f"{args.output} is of another device; give another file by -o", file=sys.stderr)
        return 2
    data["circumstances"] = here
    # Those of an earlier run are tried again.
    failed: list[dict[str, Any]] = []
    data["failed"] = failed
    there = {(row["kernel"], json.dumps(row["shape"])) for row in data["rows"]}
    left = 0
    # The first shapes of all kernels come first.
    todo = [(case, case.shapes[n]) for n in range(3) for case in CASES]
    with kept, ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        for case, shape in todo:
            if (case.name, json.dumps(dict(shape))) in there:
                continue
            if not re.search(args.only, f"{case.name} {dict(shape)}"):
                continue
            if time.monotonic() > end:
                left += 1
                continue
            try:
                row = measured(case, shape, pool, args.keep)
            except Exception as error:  # the other rows are worth having all the same
                reason = f"{type(error).__name__}: {error}"
                failed.append({"kernel": case.name, "shape": dict(shape), "reason": reason})
                print(f"{case.name} {dict(shape)}: {reason}", flush=True)
                continue
            data["rows"].append(vars(row))
            data["summary"] = summary(data["rows"])
            replace_bytes(args.output, (json.dumps(data, indent=1) + "\n").encode())
            print(line(row), flush=True)
    print(json.dumps(data.get("summary", {}), indent=1), f"{left} lists are left", sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
