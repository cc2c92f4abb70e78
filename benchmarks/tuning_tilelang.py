"""The tuner beside TileLang's own, on TileLang's own spaces; results/tuning_tilelang.json.

    python -m benchmarks.tuning_tilelang CHECKOUT --packages DIR [--seconds 560]     on a GPU
    python -m benchmarks.tuning_tilelang CHECKOUT --packages DIR --dry               without one
    … --only grid --configurations 144           a part of a space, for a machine that is slow

CHECKOUT is a checkout of TileLang, from whose examples the spaces are read: of the matrix product
both its grid and what its carver recommends, of attention the grid of its variable-length example.
The kernels are those of `benchmarks.tuning_tilelang_kernels`, the same text for both.  DIR holds
`site`, searched before, and `fallback`, searched after the installed packages.

Each search runs in a process of its own with an empty cache; the clock starts when everything is
imported and the GPU is initialised.  TileLang's tuner compiles all configurations, then times all;
it runs with the settings of its examples.  Ours stops when it is sure, and then, off the clock, all
configurations are timed, so that the best one is known.  For each side a row says after how many
seconds a configuration within 2 % of the best of its own compiler was timed, how long the whole
search took until it gave out its winner, and how fast the winner is.  Times of kernels are by each
side's own measurement.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import json
import math
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tileprof.files import replace_bytes

RESULT = Path(__file__).parent / "results" / "tuning_tilelang.json"
NEAR = 0.02
"""Share by which a configuration may be slower than the best to count as found."""
SIDES = ("tilelang", "ours")
TIMED = 10
"""Configurations that our tuner times at most."""
DRY = 3
"""Configurations that a dry run compiles."""
DRY_TARGET = {"kind": "cuda", "arch": "sm_90a"}

Shape = Mapping[str, int]
Listed = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A kernel, a space, and how TileLang's example tunes it."""

    name: str
    factory: str
    """Function of `benchmarks.tuning_tilelang_kernels`."""
    example: str
    """File of the checkout whose `get_configs` gives the space."""
    space: Mapping[str, Any]
    """Arguments of `get_configs`, beside the shape where it takes it."""
    shape: Shape
    run: Mapping[str, int]
    """Arguments of `AutoTuner.run` in the example."""
    checks: bool
    """Whether the example compares results of each configuration with a reference."""


_GEMM = {"M": 4096, "N": 4096, "K": 4096}
_EXAMPLE = "gemm/example_gemm_autotune.py"
CASES = (
    Case("gemm, carver", "gemm", _EXAMPLE, {"with_roller": True, "topk": 20}, _GEMM,
         {"warmup": 3, "rep": 20}, True),
    Case("attention, grid", "attention", "flash_attention/example_mha_fwd_varlen.py", {},
         {"batch": 4, "heads": 32, "length": 4096, "dim": 128}, {"warmup": 10, "rep": 10}, False),
    Case("gemm, grid", "gemm", _EXAMPLE, {"with_roller": False}, _GEMM,
         {"warmup": 3, "rep": 20}, True),
)  # fmt: skip


def space_of(case: Case, checkout: Path, *, dry: bool = False) -> Listed:
    """Return the configurations that an example lists, by its own function; `dry`: for an H200 that
    is not there."""
    path = checkout / "examples" / case.example
    tree = ast.parse(path.read_text())
    body = [e for e in tree.body if isinstance(e, ast.FunctionDef) and e.name == "get_configs"]
    if not body:
        raise SystemExit(f"{path} has no function get_configs")
    names: dict[str, Any] = {"itertools": itertools}
    if case.space.get("with_roller"):
        import tilelang.language as T
        import torch
        from tilelang.carver.arch import CDNA, CUDA
        from tilelang.carver.roller.rasterization import NoRasterization
        from tilelang.carver.template import MatmulTemplate

        if dry:
            _describe_absent(CUDA)
        names |= {"T": T, "torch": torch, "CUDA": CUDA, "CDNA": CDNA,
                  "NoRasterization": NoRasterization, "MatmulTemplate": MatmulTemplate}  # fmt: skip
    exec(compile(ast.Module(list(body), []), str(path), "exec"), names)
    function: Callable[..., Listed] = names["get_configs"]
    taken = [each.arg for each in body[0].args.args]
    given = {name: value for name, value in case.shape.items() if name in taken}
    made = function(**given, **case.space)
    # The carver may recommend one thing twice, and has whole numbers of its own.
    plain = [
        tuple((n, v if isinstance(v, bool) else int(v)) for n, v in sorted(each.items()))
        for each in made
    ]
    return [dict(each) for each in dict.fromkeys(plain)]


def _describe_absent(cuda: Any) -> None:
    """Let TileLang's description of a GPU be that of an H200, without asking for one."""

    def begun(found: Any, target: Any) -> None:
        from tilelang.backend.target import determine_target

        found.target = determine_target(DRY_TARGET, return_object=True)
        found.sm_version, found.compute_capability, found.platform = 90, "90", "CUDA"
        found.name, found.device = "NVIDIA H200", None
        found.smem_cap, found.max_smem_usage, found.reg_cap = 227 << 10, 454 << 10, 65536
        found.compute_max_core, found.warp_size, found.sm_partition = 132, 32, 4
        found.l2_cache_size_bytes, found.transaction_size = 50 << 20, [32, 128]
        found.bandwidth, found.available_tensor_instructions = [750, 12080], None

    cuda.__init__ = begun


# -- one side, in a process of its own


def tilelang_side(case: Case, args: argparse.Namespace) -> dict[str, Any]:
    """Run TileLang's tuner, or compile a few configurations."""
    import tilelang
    import torch
    from tilelang.autotuner import AutoTuner

    from benchmarks import tuning_tilelang_kernels as kernels

    listed = space_of(case, args.checkout, dry=args.dry)
    whole = len(listed)
    if args.configurations and args.configurations < whole:
        drawn = random.Random(0).sample(range(whole), args.configurations)
        listed = [listed[at] for at in sorted(drawn)]
    found: dict[str, Any] = {"version": tilelang.__version__, "space": whole, "listed": listed}
    factory = getattr(kernels, case.factory)
    shape = dict(case.shape)
    if args.dry:
        began = time.perf_counter()
        refused: list[str] = []
        for each in listed[:: max(1, len(listed) // DRY)]:
            try:
                program = factory(**shape, **each)
                tilelang.compile(program, out_idx=[-1], target=DRY_TARGET)
            except Exception as error:  # its tuner leaves such a configuration out
                refused.append(f"{each}: {type(error).__name__}")
        seconds = time.perf_counter() - began
        return {**found, "refused": refused, "seconds": seconds}
    torch.zeros(1, device="cuda")
    trace: list[dict[str, Any]] = []
    began = 0.0

    class Noting:
        """A queue of results that notes when each came."""

        def __init__(self, queue: Any) -> None:
            self.queue = queue

        def put(self, item: Any) -> None:
            at, _, _, latency, _, status, _ = item
            trace.append({
                "seconds": time.perf_counter() - began, "at": at,
                "us": None if latency is None else latency * 1e3, "status": status,
            })  # fmt: skip
            self.queue.put(item)

    class Watched(AutoTuner):  # type: ignore[misc]
        """TileLang's tuner, whose results are noted as they come."""

        def _benchmark_worker_loop(
            self, worker_device: Any, worker_queue: Any, result_queue: Any, *more: Any, **named: Any
        ) -> None:
            super()._benchmark_worker_loop(
                worker_device, worker_queue, Noting(result_queue), *more, **named
            )

    reference = _reference if case.checks else None
    # The tuner takes the shape from the closure, as in its examples.
    tuner = Watched.from_kernel(kernel=_closed(case), configs=listed)
    tuner = tuner.set_compile_args(out_idx=[-1], target="auto").set_profile_args(
        supply_type=tilelang.TensorSupplyType.Auto, ref_prog=reference, skip_check=reference is None
    )
    began = time.perf_counter()
    result = tuner.run(**case.run)
    seconds = time.perf_counter() - began
    times = {each["at"]: each["us"] for each in trace if each["us"] is not None}
    return {
        **found, "seconds": seconds, "trace": trace, "timed": len(times),
        "failed": len(listed) - len(times), "winner": result.config,
        "winner_us": result.latency * 1e3,
    }  # fmt: skip


def _reference(a: Any, b: Any) -> Any:
    return a @ b.T


def _closed(case: Case) -> Callable[..., Any]:
    """Return a function of the tuned arguments alone, with the shape in its closure."""
    if case.factory == "gemm":
        M, N, K = (case.shape[name] for name in "MNK")

        def product(
            block_M: Any = None, block_N: Any = None, block_K: Any = None, num_stages: Any = None,
            thread_num: Any = None, enable_rasteration: Any = None,
        ) -> Any:  # fmt: skip
            return _factory("gemm")(M, N, K, block_M, block_N, block_K, num_stages, thread_num,
                                    enable_rasteration)  # fmt: skip

        return product
    batch, heads, length, dim = (case.shape[n] for n in ("batch", "heads", "length", "dim"))

    def forward(
        block_M: Any = None, block_N: Any = None, num_stages: Any = None, threads: Any = None
    ) -> Any:
        return _factory("attention")(
            batch, heads, length, dim, block_M, block_N, num_stages, threads
        )

    return forward


def _factory(name: str) -> Callable[..., Any]:
    from benchmarks import tuning_tilelang_kernels as kernels

    made: Callable[..., Any] = getattr(kernels, name)
    return made


def our_side(case: Case, args: argparse.Namespace) -> dict[str, Any]:
    """Run our tuner on the same list; then, off the clock, time all of it."""
    import tileprof
    from benchmarks import tuning
    from tileprof.tuning import Configuration, Settings, machine_of, tuned
    from tileprof.tuning.workers import Workers

    listed = [Configuration.from_json(each) for each in json.loads(args.listed.read_text())]
    function = tileprof.jit(_factory(case.factory), out_idx=[-1])
    device = "" if args.dry else "cuda:0"
    machine = machine_of(device, "sm_90a" if args.dry else "")
    arrays = _arrays(case, device)
    if device:
        import torch

        torch.zeros(1, device="cuda")
    found: dict[str, Any] = {"version": tileprof.__version__}

    def subject() -> tuning.Kept:
        return tuning.Kept(function, dict(case.shape), lambda kernel: arrays, device, machine,
                           listed)  # fmt: skip

    trace: list[dict[str, Any]] = []
    began = time.perf_counter()

    class Noted:
        """A context around each configuration, which notes when its time is known."""

        def __init__(self, configuration: Configuration) -> None:
            self.configuration = configuration

        def __enter__(self) -> None:
            return None

        def __exit__(self, *error: object) -> None:
            trace.append({
                "seconds": time.perf_counter() - began,
                "configuration": self.configuration.as_json(),
            })  # fmt: skip

    settings = Settings(timed=0 if args.dry else TIMED, trials=len(listed))
    outcome = tuned(subject(), settings, around=Noted)
    seconds = time.perf_counter() - began
    won, correlation = outcome.winner, outcome.rank_correlation
    found |= {
        "seconds": seconds, "trace": trace, "timed": len(outcome.timed), "sure": outcome.sure,
        "winner": won.configuration.as_json(),
        "lowering": outcome.seconds.lowering, "compiling": outcome.seconds.compiling,
        "timing": outcome.seconds.timing,
        "model_us": won.estimate.ns / 1e3 if won.estimate else None,
        "rank_correlation": None if math.isnan(correlation) else correlation,
    }  # fmt: skip
    if args.dry:
        return found
    found["winner_us"] = won.measured.ns / 1e3 if won.measured else None
    # Off the clock: how fast each of them is.
    whole = subject()
    with Workers() as workers:
        held = list(tuning.drawn(whole, len(listed), workers))
    tuning.time_all(whole, held, whole.timer())
    found["all"] = [
        {"configuration": e.configuration.as_json(), "us": e.ns / 1e3, "model_us": e.model_ns / 1e3}
        for e in held
        if math.isfinite(e.ns)
    ]
    found["exhaustive_seconds"] = time.perf_counter() - began - seconds
    return found


def _arrays(case: Case, device: str) -> list[Any]:
    """Return the arguments of a call, in the order of the kernel's; none without a device."""
    if not device:
        return []
    import torch

    torch.manual_seed(0)
    if case.factory == "gemm":
        m, n, k = (case.shape[name] for name in "MNK")
        return [torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n)]
    shape = [case.shape[name] for name in ("batch", "length", "heads", "dim")]
    return [torch.randn(shape, device="cuda", dtype=torch.float16) for _ in "QKV"]


# -- both


def found_after(
    trace: Sequence[Mapping[str, Any]], us: Callable[[Mapping[str, Any]], float | None], best: float
) -> float | None:
    """Return the seconds after which a configuration near the best was timed; None: never."""
    for each in trace:
        time_us = us(each)
        if time_us is not None and time_us <= best * (1 + NEAR):
            return float(each["seconds"])
    return None


def row_of(case: Case, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Compare what the two sides did."""
    their_best = min(each["us"] for each in theirs["trace"] if each["us"] is not None)
    known = {_key(each["configuration"]): each["us"] for each in ours["all"]}
    our_best = min(known.values())
    their_s = found_after(theirs["trace"], lambda each: each["us"], their_best)
    our_s = found_after(ours["trace"], lambda e: known.get(_key(e["configuration"])), our_best)
    both = min(their_best, our_best)
    winner_us = known.get(_key(ours["winner"]), ours["winner_us"])
    return {
        "case": case.name,
        "shape": dict(case.shape),
        "configurations": len(theirs["listed"]),
        "space": theirs["space"],
        "theirs": {
            "near_best_s": their_s, "seconds": theirs["seconds"], "timed": theirs["timed"],
            "failed": theirs["failed"], "best_us": their_best, "winner": theirs["winner"],
            "near_best_of_both_s": found_after(theirs["trace"], lambda each: each["us"], both),
        },
        "ours": {
            "near_best_s": our_s, "seconds": ours["seconds"], "timed": ours["timed"],
            "best_us": our_best, "winner": ours["winner"], "winner_us": winner_us,
            "winner_over_best": winner_us / our_best, "sure": ours["sure"],
            "rank_correlation": ours["rank_correlation"],
            "near_best_of_both_s": found_after(
                ours["trace"], lambda e: known.get(_key(e["configuration"])), both
            ),
        },
        "faster_to_near_best": their_s / our_s if their_s and our_s else None,
        "faster_to_the_end": theirs["seconds"] / ours["seconds"],
    }  # fmt: skip


def _key(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)


def child(case: Case, side: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one side in a process of its own with empty caches."""
    into, listed = folder / f"{side}.json", folder / "listed.json"
    environment = {
        **os.environ, "TUNING_SIDE": side, "TILELANG_CACHE_DIR": str(folder / "tilelang"),
        "TILEPROF_CACHE": str(folder / "tileprof"), "TVM_FFI_CACHE_DIR": str(folder / "tvm"),
    }  # fmt: skip
    command = [
        sys.executable, "-m", "benchmarks.tuning_tilelang", str(args.checkout), "--side", side,
        "--case", case.name, "--into", str(into), "--listed", str(listed),
        *(["--packages", str(args.packages)] if args.packages else []),
        *(["--dry"] if args.dry else []),
        *(["--configurations", str(args.configurations)] if args.configurations else []),
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not into.exists():
        return {"error": (done.stderr or done.stdout)[-2000:]}
    found: dict[str, Any] = json.loads(into.read_text())
    if "listed" in found:
        listed.write_text(json.dumps(found["listed"]))
    return found


def run_side(args: argparse.Namespace) -> int:
    """Run one side of one case in this process, and write what it found."""
    if args.packages is not None:
        sys.path.insert(0, str(args.packages / "site"))
        sys.path.append(str(args.packages / "fallback"))
    case = next(each for each in CASES if each.name == args.case)
    side = tilelang_side if args.side == "tilelang" else our_side
    args.into.write_text(json.dumps(side(case, args)))
    return 0


def circumstances(args: argparse.Namespace) -> dict[str, Any]:
    """Return device, versions, clocks and date."""
    commit = args.checkout / "COMMIT"
    made: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "checkout": commit.read_text().strip() if commit.exists() else "",
    }
    if args.dry or importlib.util.find_spec("torch") is None:
        return made
    import torch

    from tileprof.bench import read_gpu

    return {**made, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "gpu": str(read_gpu())}  # fmt: skip


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("checkout", type=Path, help="checkout of TileLang")
    parser.add_argument("--packages", type=Path, help="folder with `site` and `fallback`")
    parser.add_argument("--seconds", type=float, default=560.0, help="begin no case after this")
    parser.add_argument("--only", default="", metavar="RE", help="cases that match")
    parser.add_argument(
        "--configurations", type=int, help="draw so many of a space (default: all of it)"
    )
    parser.add_argument("--dry", action="store_true", help="everything up to the launches")
    parser.add_argument("-o", dest="output", type=Path, default=RESULT)
    for name in ("--side", "--case"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--into", "--listed"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return run_side(args)
    end = time.monotonic() + args.seconds
    data = json.loads(args.output.read_text()) if args.output.is_file() else {"rows": []}
    there = {row["case"] for row in data["rows"]}
    failed = 0
    for case in CASES:
        if not re.search(args.only, case.name) or (not args.dry and case.name in there):
            continue
        if time.monotonic() > end:
            print(f"{case.name}: left for another run")
            continue
        with tempfile.TemporaryDirectory(prefix="tuning-") as folder:
            sides = {side: child(case, side, args, Path(folder)) for side in SIDES}
        errors = {side: each["error"] for side, each in sides.items() if "error" in each}
        if errors or args.dry:
            for side, each in sides.items():
                told = {n: v for n, v in each.items() if n not in ("listed", "trace")}
                print(f"{case.name}, {side}: {len(each.get('listed', []))} listed, {told}")
            failed += bool(errors)
            continue
        row = row_of(case, sides["tilelang"], sides["ours"])
        data["rows"].append(row)
        data["circumstances"] = circumstances(args)
        data.setdefault("details", {})[case.name] = sides
        replace_bytes(args.output, (json.dumps(data, indent=1) + "\n").encode())
        print(json.dumps(row, indent=1), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
