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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

Shape = Mapping[str, int]
_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Tensor:
    """Tensor to be made: element type and extents."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A kernel with what it is called with."""

    name: str
    kernel: str
    configurations: str
    shapes: tuple[Shape, ...]
    arguments: Callable[[Shape], dict[str, Any]]
    grid: Callable[[Shape], Callable[[Mapping[str, Any]], tuple[int, ...]]]


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _matmul(s: Shape) -> dict[str, Any]:
    m, n, k = s["M"], s["N"], s["K"]
    return {
        "a": Tensor("float16", (m, k)), "b": Tensor("float16", (k, n)),
        "c": Tensor("float16", (m, n)), "M": m, "N": n, "K": k, "sam": k, "sak": 1, "sbk": n,
        "sbn": 1, "scm": n, "scn": 1,
    }  # fmt: skip


def _grouped(s: Shape) -> dict[str, Any]:
    g, m, n, k = s["groups"], s["M"], s["N"], s["K"]
    return {
        "a": Tensor("float16", (g, m, k)), "b": Tensor("float16", (g, k, n)),
        "c": Tensor("float16", (g, m, n)), "groups": g, "M": m, "N": n, "K": k,
    }  # fmt: skip


def _softmax(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["M"], s["N"]))
    return {
        "x": held, "y": held, "rows": s["M"], "columns": s["N"], "stride": s["N"],
        "BLOCK": 1 << (s["N"] - 1).bit_length(),
    }  # fmt: skip


def _norm(s: Shape) -> dict[str, Any]:
    held, row = Tensor("float16", (s["M"], s["N"])), Tensor("float32", (s["N"],))
    return {"x": held, "y": held, "w": row, "b": row, "columns": s["N"], "stride": s["N"],
            "eps": 1e-5}  # fmt: skip


def _attention(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["heads"], s["length"], s["dim"]))
    return {
        "q": held, "k": held, "v": held, "o": held, "scale": s["dim"] ** -0.5,
        "length": s["length"], "CAUSAL": bool(s["causal"]), "DIM": s["dim"],
    }  # fmt: skip


def _dropout(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["n"],))
    return {"x": held, "residual": held, "y": held, "n": s["n"], "p": 0.1, "seed": 7}


def _gelu(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["n"],))
    return {"x": held, "y": held, "n": s["n"]}


def _matvec(s: Shape) -> dict[str, Any]:
    m, k = s["M"], s["K"]
    return {"a": Tensor("float16", (m, k)), "x": Tensor("float16", (k,)),
            "y": Tensor("float16", (m,)), "M": m, "K": k}  # fmt: skip


CASES = (
    Case(
        "matmul", "matmul", "MATMUL",
        ({"M": 4096, "N": 4096, "K": 4096}, {"M": 1024, "N": 8192, "K": 2048},
         {"M": 512, "N": 1024, "K": 4096}),
        _matmul, lambda s: lambda c: (_up(s["M"], c["BM"]) * _up(s["N"], c["BN"]),),
    ),
    Case(
        "grouped matmul", "grouped_matmul", "GROUPED",
        ({"groups": 8, "M": 1024, "N": 4096, "K": 1024},
         {"groups": 16, "M": 256, "N": 2048, "K": 4096},
         {"groups": 4, "M": 2048, "N": 2048, "K": 2048}),
        _grouped, lambda s: lambda c: (c["PROGRAMS"],),
    ),
    Case(
        "softmax", "softmax", "SOFTMAX",
        ({"M": 8192, "N": 4096}, {"M": 32768, "N": 1000}, {"M": 2048, "N": 16384}),
        _softmax, lambda s: lambda c: (_up(s["M"], c["ROWS"]),),
    ),
    Case(
        "layer norm", "layer_norm", "LAYER_NORM",
        ({"M": 8192, "N": 4096}, {"M": 32768, "N": 1024}, {"M": 4096, "N": 12288}),
        _norm, lambda s: lambda c: (s["M"],),
    ),
    Case(
        "attention", "attention", "ATTENTION",
        ({"heads": 64, "length": 4096, "dim": 128, "causal": 0},
         {"heads": 64, "length": 4096, "dim": 64, "causal": 1},
         {"heads": 256, "length": 1024, "dim": 128, "causal": 1}),
        _attention, lambda s: lambda c: (_up(s["length"], c["BM"]), s["heads"]),
    ),
    Case(
        "dropout", "dropout", "DROPOUT",
        ({"n": 1 << 20}, {"n": 1 << 24}, {"n": 1 << 27}),
        _dropout, lambda s: lambda c: (_up(s["n"], c["BLOCK"]),),
    ),
    Case(
        "gelu", "gelu", "GELU",
        ({"n": 1 << 20}, {"n": 1 << 24}, {"n": 1 << 27}),
        _gelu, lambda s: lambda c: (_up(s["n"], c["BLOCK"]),),
    ),
    Case(
        "matvec", "matvec", "MATVEC",
        ({"M": 8192, "K": 8192}, {"M": 32768, "K": 2048}, {"M": 1024, "K": 16384}),
        _matvec, lambda s: lambda c: (_up(s["M"], c["BM"]),),
    ),
)  # fmt: skip


# -- arguments without a device


class Absent:
    """Tensor without data, as far as Triton's compiler looks at one."""

    def __init__(self, tensor: Tensor) -> None:
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.nbytes = math.prod(tensor.shape) * _SIZES[tensor.dtype]

    def data_ptr(self) -> int:
        """Return an aligned address."""
        return 1 << 12

    def is_contiguous(self) -> bool:
        """Return whether elements follow each other without gaps."""
        return True

    def stride(self) -> tuple[int, ...]:
        """Return the strides, in elements."""
        return tuple(math.prod(self.shape[at + 1 :]) for at in range(len(self.shape)))


def absent(case: Case, shape: Shape) -> dict[str, Any]:
    """Return arguments by name, with tensors that have no data, and the grid."""
    made = case.arguments(shape)
    held = {name: Absent(each) if isinstance(each, Tensor) else each for name, each in made.items()}
    return {**held, "grid": case.grid(shape)}


def present(case: Case, shape: Shape, device: str) -> dict[str, Any]:
    """Return arguments by name, with tensors of normal random numbers."""
    import torch

    torch.manual_seed(0)
    made: dict[str, Any] = {}
    for name, each in case.arguments(shape).items():
        if isinstance(each, Tensor):
            dtype = getattr(torch, each.dtype)
            made[name] = torch.randn(each.shape, dtype=dtype, device=device)
        else:
            made[name] = each
    return made


def kernel_of(case: Case) -> tuple[Any, list[Any]]:
    """Return a case's function and its configurations."""
    from benchmarks import triton_tuned

    return getattr(triton_tuned, case.kernel), list(getattr(triton_tuned, case.configurations))


def fault(case: Case, given: Mapping[str, Any]) -> str:
    """Compare what a kernel wrote with what PyTorch computes; '' where they agree."""
    import torch

    made = given[{"matmul": "c", "grouped matmul": "c", "attention": "o"}.get(case.name, "y")]
    if case.name == "dropout":
        # Which elements are dropped is the generator's business; how many, and what is kept, not.
        apart = made.float() - given["residual"].float()
        kept = given["x"].float() / (1 - given["p"])
        dropped = apart.abs() < 0.02
        right = (dropped | ((apart - kept).abs() < 0.02)).all()
        share = float((dropped & (kept.abs() > 0.1)).sum() / (kept.abs() > 0.1).sum())
        return "" if right and abs(share - given["p"]) < 0.02 else f"dropout: {share:.3f} dropped"
    expected = _expected(case, given)
    apart = (made.float() - expected.float()).abs()
    scale = expected.float().abs().mean()
    most = float((apart / (expected.float().abs() + scale)).max())
    del apart, expected
    torch.cuda.empty_cache()
    return "" if most < 0.02 else f"{case.name}: results differ by {most:.3f} of their size"


def _expected(case: Case, given: Mapping[str, Any]) -> Any:
    import torch
    from torch.nn import functional

    match case.name:
        case "matmul" | "grouped matmul":
            return given["a"] @ given["b"]
        case "softmax":
            return torch.softmax(given["x"].float(), dim=-1)
        case "layer norm":
            x = given["x"].float()
            return functional.layer_norm(x, x.shape[-1:], given["w"], given["b"], given["eps"])
        case "attention":
            q, k, v = (given[name][None] for name in "qkv")
            made = functional.scaled_dot_product_attention(q, k, v, is_causal=given["CAUSAL"])
            return made[0]
        case "gelu":
            return functional.gelu(given["x"].float())
        case "matvec":
            return given["a"] @ given["x"]
    raise AssertionError(f"no reference for {case.name}")


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
