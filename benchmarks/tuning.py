"""The tuner beside exhaustive search, and how well its model ranks; results/tuning.json.

    python -m benchmarks.tuning [--seconds 570] [--only RE] [-o FILE]        on an H200
    python -m benchmarks.tuning --shapes 3,4,5 --add --no-cold               more rows of the same
    python -m benchmarks.tuning --device cpu --configurations 8 --small      anywhere, for a look
    python -m benchmarks.tuning --compile-only --configurations 8 --small    without times

First GEMM and attention are tuned from nothing: with an empty cache, in a space that the tuner
proposes itself.  Then, for each kernel and shape, configurations are drawn from its space until so
many of them compile; all are timed, the fastest few again in pairs, and the tuner chooses among
the same ones, with at most ten timed.  A row says how near it comes to the best, after all that it
timed and after five, and Spearman's correlation of the model with the measurement over all of
them.

Kernels by whose times or registers the model's constants were chosen are `development`; all others
are `held-out`.  Each row is written when it is there, so a run that is cut off leaves what it has.
Rows go by shapes: the first shapes of all kernels come before the second ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import tileprof
from benchmarks.tuning_cases import CASES, Case, Shape
from tileprof import ir
from tileprof import lang as T
from tileprof.bench import Timer, read_gpu
from tileprof.bench.arrays import made_array
from tileprof.errors import TileprofError
from tileprof.files import replace_bytes
from tileprof.lang.jit_function import Kernel
from tileprof.tuning import Configuration, KernelSubject, Settings, machine_of, tuned
from tileprof.tuning.guesses import rank_correlation
from tileprof.tuning.model import estimate
from tileprof.tuning.ruled_out import RuledOut
from tileprof.tuning.search import Ready
from tileprof.tuning.timing import Batches, compared, prepared
from tileprof.tuning.trials import Order, Trial
from tileprof.tuning.workers import Workers

RESULT = Path(__file__).parent / "results" / "tuning.json"
CONFIGURATIONS = 208
"""Configurations that are searched exhaustively; 200 are asked for."""
AGAIN = 6
"""Number of the fastest configurations that are timed again in pairs."""
PAIR_SECONDS = 0.4
MOST_LACKING = 64
"""Registers that a thread may lack, by an estimate, for a configuration to be compiled."""
ROUNDS = 2
"""Rounds in which all configurations are timed; the faster one counts."""


# -- one row


@dataclass
class Timed:
    """One configuration of an exhaustive search."""

    configuration: Configuration
    trial: Trial
    model_ns: float
    ns: float = math.nan
    batches: Batches | None = None
    fault: str = ""


class Recorded:
    """Trials that were made already, for the tuner: what it compiles is known."""

    def __init__(self, held: Mapping[tuple[int, str], Trial]) -> None:
        self._held = held

    def trials(self, orders: Sequence[Order], what: str = "") -> list[Trial]:
        """Return the trials of these orders."""
        return [self._held[_key(order)] for order in orders]


def _key(order: Order) -> tuple[int, str]:
    return id(order.kernel), str(order.controls)


class Kept(KernelSubject):
    """A subject whose configurations stay ready, as each is used more than once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ready: dict[Configuration, Any] = {}
        super().__init__(*args, **kwargs)

    def ready(self, configuration: Configuration, binary: Any = None) -> Any:
        """Return a configuration, made ready when it is first asked for."""
        if configuration not in self._ready:
            self._ready[configuration] = super().ready(configuration, binary)
        return self._ready[configuration]


def subject_of(
    case: Case, shape: Shape, device: str, target: str, listed: Sequence[Configuration] = ()
) -> Kept:
    """Return a kernel with arguments for a shape; types alone where nothing runs."""
    tensors = case.tensors(shape)
    if device:
        draw = np.random.default_rng(0)
        arrays = {
            name: made_array(extents, ir.DTYPES[dtype], device, draw)
            for name, (extents, dtype) in tensors.items()
        }
        case.fill(arrays, shape)
    else:
        arrays = {name: T.Tensor(*each) for name, each in tensors.items()}

    def arguments(kernel: Kernel) -> list[Any]:
        return [arrays[name] for name in kernel.arguments]

    fixed = {**arrays, **case.static}
    return Kept(case.function, fixed, arguments, device, machine_of(device, target), listed)


def drawn(subject: KernelSubject, count: int, workers: Workers) -> Iterator[Timed]:
    """Draw configurations until so many of them compile, or none is left; the default is the
    first.

    Those whose fragments need far more registers than a thread has are left out: compiling one
    takes up to ten seconds, and nobody would list it.
    """
    space, machine = subject.space, subject.machine
    everything = list(space.all())
    random.Random(0).shuffle(everything)
    order = list(dict.fromkeys([space.default, *everything]))
    ruled, found = RuledOut(space), 0
    while order and found < count:
        wanted: list[tuple[Configuration, Order]] = []
        while order and len(wanted) < count - found:
            each = order.pop(0)
            if ruled.by(each) is None and (made := _ordered(subject, each)) is not None:
                wanted.append((each, made))
        lowered = workers.trials([made for _, made in wanted])
        kept = []
        for (each, made), trial in zip(wanted, lowered):
            if trial.facts is None:
                ruled.learn(each, trial.refused.resource if trial.refused else None)
            elif max(launch.lacking for launch in trial.facts.launches) <= MOST_LACKING:
                kept.append((each, replace(made, compiled=True, binary=subject.takes_binaries)))
        for (each, _), trial in zip(kept, workers.trials([made for _, made in kept])):
            if trial.facts is None:
                ruled.learn(each, trial.refused.resource if trial.refused else None)
                continue
            predicted = estimate(trial.facts, machine).ns
            if math.isfinite(predicted):
                found += 1
                yield Timed(each, trial, predicted)


def _ordered(subject: KernelSubject, configuration: Configuration) -> Order | None:
    """Return the order of a trial without machine code; None where the kernel cannot be traced."""
    machine = subject.machine
    try:
        kernel = subject.traced(configuration)
    except Exception:  # the author's own, about a value that the kernel cannot have
        return None
    target, sms = getattr(machine, "target", ""), getattr(machine, "sms", 1)
    return Order(kernel, configuration.lowering, target, sms, compiled=False)


def time_all(subject: Kept, held: Sequence[Timed], timer: Timer) -> None:
    """Time all configurations in rounds, then the fastest few in pairs."""
    for each in held:
        try:
            ready: Ready = subject.ready(each.configuration, each.trial.binary)
            each.fault = ready.fault()
            if not each.fault:
                each.batches = prepared(timer, ready.run)
                each.ns = each.batches.first_ns
        except (TileprofError, RuntimeError) as error:
            each.fault = str(error).partition("\n")[0]
    timed = [each for each in held if each.batches is not None]
    for _ in range(ROUNDS - 1):
        for each in timed:
            assert each.batches is not None
            each.ns = min(each.ns, each.batches.taken(timer))
    timed.sort(key=lambda each: each.ns)
    best = timed[0] if timed else None
    for each in timed[1:AGAIN]:
        assert best is not None
        assert best.batches is not None
        assert each.batches is not None
        found = compared(timer, each.batches, best.batches, PAIR_SECONDS)
        best.ns, each.ns = found.other_ns, found.other_ns * found.ratio.value
        if found.ratio.value < 1:
            best = each


def row_of(
    case: Case, shape: Shape, device: str, target: str, count: int, workers: Workers
) -> dict[str, Any]:
    """Return the row of a kernel and a shape."""
    began = time.perf_counter()
    subject = subject_of(case, shape, device, target)
    held = list(drawn(subject, count, workers))
    compiled = time.perf_counter()
    row: dict[str, Any] = {
        "kernel": case.name,
        "split": "development" if case.development else "held-out",
        "shape": dict(shape),
        "space": subject.space.size,
        "configurations": len(held),
        "compile_seconds": compiled - began,
        "compile_seconds_each": statistics.mean([e.trial.seconds for e in held] or [0.0]),
    }
    if not device:
        first = sorted(held, key=lambda each: each.model_ns)[:5]
        row["model_best"] = [{"configuration": e.configuration.as_json(), "ns": e.model_ns}
                             for e in first]  # fmt: skip
        return row
    timer = subject.timer()
    time_all(subject, held, timer)
    over = time.perf_counter()
    timed = sorted((e for e in held if math.isfinite(e.ns)), key=lambda each: each.ns)
    row["timed"] = len(timed)
    row["faults"] = sorted({each.fault for each in held if each.fault})
    row["time_seconds"] = over - compiled
    if not timed:
        return row
    row["rank_correlation"] = rank_correlation([e.model_ns for e in timed], [e.ns for e in timed])
    row |= chosen(case, shape, subject, timed, timer)
    row["tune_seconds"] = time.perf_counter() - over
    row["rows"] = [[each.configuration.as_json(), each.model_ns, each.ns] for each in timed]
    return row


def chosen(
    case: Case, shape: Shape, subject: Kept, timed: Sequence[Timed], timer: Timer
) -> dict[str, Any]:
    """Let the tuner choose among the configurations that were timed, and say how near it comes."""
    best, times = timed[0], {each.configuration: each.ns for each in timed}
    default = subject.space.default
    listed = [c for c in times if c == default] + [c for c in times if c != default]
    among = Kept(
        case.function, subject._fixed, subject._arguments, subject.device, subject.machine, listed
    )
    among._ready, among._kernels = subject._ready, subject._kernels
    trials = {
        (id(subject.traced(each.configuration)), str(each.configuration.lowering)): each.trial
        for each in timed
    }
    outcome = tuned(among, Settings(trials=len(listed)), workers=Recorded(trials))
    order = sorted((e for e in outcome.timed if e.measured), key=lambda e: e.measured.position)  # type: ignore[union-attr]
    after = {
        k: best.ns / min(times[e.configuration] for e in order[:k]) for k in (1, 3, 5, len(order))
    }
    won = outcome.winner.configuration
    ratio = best.ns / times[won]
    if won != best.configuration:
        ours = next(e.batches for e in timed if e.configuration == won)
        assert ours is not None
        assert best.batches is not None
        ratio = 1 / compared(timer, ours, best.batches, PAIR_SECONDS).ratio.value
    return {
        "best": {"configuration": best.configuration.as_json(), "ns": best.ns},
        "default_ns": times.get(default),
        "tuner": {
            "configuration": won.as_json(),
            "ns": times[won],
            "timed": len(order),
            "sure": outcome.sure,
            # Where pairs find the tuner's faster than the best of the search, it is the best.
            "share_of_best": min(1.0, ratio),
            "best_over_tuner_in_pairs": ratio,
            "share_of_best_after": {str(k): value for k, value in after.items()},
            "model_first_share": best.ns
            / times[min(timed, key=lambda e: e.model_ns).configuration],
        },
    }


def cold(case: Case, shape: Shape, device: str, target: str) -> dict[str, Any]:
    """Tune a kernel from nothing: an empty cache, the tuner's own space, processes to start."""
    kept = os.environ.get("TILEPROF_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEPROF_CACHE"] = folder
        try:
            began = time.perf_counter()
            subject = subject_of(case, shape, device, target)
            outcome = tuned(subject, Settings(timed=10 if device else 0))
            spent = time.perf_counter() - began
        finally:
            del os.environ["TILEPROF_CACHE"]
            if kept is not None:
                os.environ["TILEPROF_CACHE"] = kept
    won = outcome.winner
    return {
        "kernel": case.name,
        "shape": dict(shape),
        "seconds": spent,
        "lowering": outcome.seconds.lowering,
        "compiling": outcome.seconds.compiling,
        "timing": outcome.seconds.timing,
        "lowered": sum(1 for each in outcome.looked if each.estimate is not None),
        "timed": len(outcome.timed),
        "sure": outcome.sure,
        "winner": won.configuration.as_json(),
        "ns": won.measured.ns if won.measured else None,
        "model_ns": won.estimate.ns if won.estimate else None,
        "notes": list(outcome.notes),
    }


# -- all


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return medians and extremes over rows, held-out kernels and others apart."""
    made = {}
    for split in ("held-out", "development"):
        held = [r for r in rows if r["split"] == split and "tuner" in r]
        if not held:
            continue
        shares = [r["tuner"]["share_of_best"] for r in held]
        fives = [r["tuner"]["share_of_best_after"].get("5", r["tuner"]["share_of_best"])
                 for r in held]  # fmt: skip
        ranks = [r["rank_correlation"] for r in held if not math.isnan(r["rank_correlation"])]
        made[split] = {
            "rows": len(held),
            "kernels": len({r["kernel"] for r in held}),
            "share_of_best_median": statistics.median(shares),
            "share_of_best_least": min(shares),
            "share_of_best_mean": statistics.mean(shares),
            "share_after_five_median": statistics.median(fives),
            "share_after_five_least": min(fives),
            "timed_mean": statistics.mean(r["tuner"]["timed"] for r in held),
            "rank_correlation_median": statistics.median(ranks) if ranks else None,
            "rank_correlation_least": min(ranks) if ranks else None,
        }
    return made


def circumstances(device: str, target: str, seconds: float) -> dict[str, Any]:
    """Return where and when this runs."""
    gpu = read_gpu() if device.startswith("cuda") else None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device or f"none; model for {target}",
        "gpu": gpu and {"name": gpu.name, "driver": gpu.driver, "sm_mhz": gpu.sm_mhz,
                        "celsius": gpu.celsius, "watts": gpu.watts},
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "tileprof": tileprof.__version__,
        "seconds_allowed": seconds,
    }  # fmt: skip


def _write(path: Path, held: Mapping[str, Any]) -> None:
    replace_bytes(path, (json.dumps(_finite(held), indent=1) + "\n").encode())


def _finite(held: Any) -> Any:
    """Return the same with None in place of numbers that JSON has not."""
    match held:
        case dict():
            return {name: _finite(value) for name, value in held.items()}
        case list() | tuple():
            return [_finite(value) for value in held]
        case float() if not math.isfinite(held):
            return None
        case _:
            return held


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.tuning", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--seconds", type=float, default=570.0, help="begin no row after this time")
    add("--device", default="cuda:0", help="cuda:N or cpu")
    add("--compile-only", action="store_true", help="rank by the model for --target")
    add("--target", default="sm_90a")
    add("--configurations", type=int, default=CONFIGURATIONS)
    add("--only", default="", help="regular expression on kernels")
    add("--shapes", default="1,2,3,4,5", help="which shapes of each kernel, in this order")
    add("--add", action="store_true", help="keep the rows of an output file that is there")
    add("--small", action="store_true", help="one small shape of each kernel")
    add("--no-cold", action="store_true", help="leave out tuning from nothing")
    add("--workers", type=int, default=None, help="processes that compile at once")
    add("-o", "--output", type=Path, default=RESULT)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the results after each row."""
    args = _parser().parse_args(arguments)
    began = time.perf_counter()
    device = "" if args.compile_only else args.device
    target = args.target if args.compile_only else ""
    if device.startswith("cuda"):
        import torch

        torch.cuda.init()
    cases = [case for case in CASES if re.search(args.only, case.name)]
    held: dict[str, Any] = {
        "schema": 1,
        "circumstances": circumstances(device, target, args.seconds),
        "configurations": args.configurations,
        "cold": [],
        "summary": {},
        "rows": [],
        "failed": [],
    }

    if args.add and args.output.exists():
        earlier = json.loads(args.output.read_text())
        held |= {name: earlier[name] for name in ("cold", "rows", "failed")}
        held["earlier"] = [*earlier.get("earlier", []), earlier["circumstances"]]
    chosen_shapes = [1] if args.small else [int(each) for each in args.shapes.split(",")]

    def left() -> float:
        return float(args.seconds - (time.perf_counter() - began))

    if not args.no_cold:
        for case in cases:
            if case.name in ("gemm-nt", "attention") and left() > 0:
                shape = case.small if args.small else case.shapes[0]
                held["cold"].append(cold(case, shape, device, target))
                print(f"cold {case.name}: {held['cold'][-1]['seconds']:.1f} s", flush=True)
                _write(args.output, held)
    last = 30.0
    with Workers(args.workers) as workers:
        for at in chosen_shapes:
            for case in cases:
                if left() < 1.2 * last:
                    break
                shape = case.small if args.small else case.shapes[at - 1]
                done = {(r["kernel"], json.dumps(r["shape"])) for r in held["rows"]}
                if (case.name, json.dumps(dict(shape))) in done:
                    continue
                start = time.perf_counter()
                try:
                    row = row_of(case, shape, device, target, args.configurations, workers)
                except Exception as error:  # the other rows are worth having all the same
                    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
                    held["failed"].append({"kernel": case.name, "shape": dict(shape),
                                           "reason": reason})  # fmt: skip
                    print(f"{case.name} {dict(shape)}: {reason}", flush=True)
                    continue
                last = max(last * 0.7, time.perf_counter() - start)
                held["rows"].append(row)
                held["summary"] = summary(held["rows"])
                held["seconds"] = time.perf_counter() - began
                _write(args.output, held)
                print(_line(row), flush=True)
                if device.startswith("cuda"):
                    import torch

                    torch.cuda.empty_cache()
    held["seconds"] = time.perf_counter() - began
    _write(args.output, held)
    print(json.dumps(_finite(held["summary"]), indent=1))


def _line(row: Mapping[str, Any]) -> str:
    shape = " ".join(f"{name}={value}" for name, value in row["shape"].items())
    count, seconds = row["configurations"], row["compile_seconds"]
    text = f"{row['kernel']} {shape}: {count} compiled in {seconds:.1f} s"
    if "tuner" in row:
        tuner = row["tuner"]
        text += (
            f", {row['timed']} timed in {row['time_seconds']:.1f} s; tuner "
            f"{tuner['share_of_best']:.3f} of the best with {tuner['timed']} timed, rank "
            f"correlation {row['rank_correlation']:.2f}"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
