"""Costs of an operator's call beside PyTorch's addmm, and a GPT of operators beside PyTorch's.

    python -m benchmarks.operator_cost           writes benchmarks/results/operators.json
    python -m benchmarks.operator_cost --only calls

Calls: processor time of a call with three small tensors that gives a new one, in µs: the kernel
alone, as an operator, as an operator under autograd, and with its backward.  Batches fit into the
GPU's queue and are taken in turns, so that a change of the clock meets all of them.

Model: steps of a GPT of 124 M parameters in bfloat16, of operators or of PyTorch's functions, eager
or through `torch.compile`.  All begin with the same weights and see the same batches; their steps
are taken in turns.  Losses are compared with those of PyTorch's eager model.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tileprof
from benchmarks import gpu_kernels as kernels
from benchmarks.measuring import circumstances
from case_studies.operators import gpt

RESULTS = Path(__file__).parent / "results" / "operators.json"
EXTENT = 64
"""Extent of the square matrices: the GPU works on them for less time than a call takes."""
BATCH = 400
"""Calls that fit into the GPU's queue together."""
ROUNDS = 60
STEPS = 30
"""Steps of each model that are measured, after as many that are not as `WARM`."""
WARM = 5
SAME = 0.02
"""Nats by which losses of a step may differ where `torch.compile` alone moves them less."""

multiply_add = tileprof.op("benchmarks::multiply_add", backward=kernels.multiply_add_backward)(
    kernels.multiply_add
)


@dataclass(frozen=True)
class Time:
    """Middle and middle 90 % of a time over the rounds."""

    what: str
    median: float
    low: float
    high: float
    unit: str

    @classmethod
    def of(cls, what: str, found: Sequence[float], unit: str) -> Time:
        """Return it for the times of all rounds."""
        held = sorted(found)
        last = len(held) - 1
        return cls(
            what, statistics.median(held), held[round(0.05 * last)], held[round(0.95 * last)], unit
        )

    def __str__(self) -> str:
        return f"{self.what:<44} {self.median:8.3f} [{self.low:.3f}, {self.high:.3f}] {self.unit}"


def ratio(what: str, peer: Sequence[float], ours: Sequence[float]) -> Time:
    """Return the peer's time over ours, pair by pair: above 1 we are faster."""
    return Time.of(what, [p / o for p, o in zip(peer, ours, strict=True)], "×")


# -- calls


def calls(device: str) -> Mapping[str, Callable[[], Any]]:
    """Return the calls by name."""
    flat = [torch.randn(EXTENT * EXTENT, device=device) for _ in range(3)]
    square = [x.view(EXTENT, EXTENT).clone() for x in flat]
    flat_leaves = [x.clone().requires_grad_() for x in flat]
    leaves = [x.clone().requires_grad_() for x in square]
    slope, flat_slope = torch.ones_like(square[0]), torch.ones_like(flat[0])
    short = [x.bfloat16() for x in flat]
    grad = torch.autograd.grad
    return {
        "kernel, three tensors that are there": lambda: kernels.add_into(*short),
        "kernel": lambda: kernels.multiply_add(*flat),
        "operator": lambda: multiply_add(*flat),
        "operator under autograd": lambda: multiply_add(*flat_leaves),
        "operator and its backward": lambda: grad(
            multiply_add(*flat_leaves), flat_leaves, flat_slope
        ),
        "addmm": lambda: torch.addmm(*square),
        "addmm under autograd": lambda: torch.addmm(*leaves),
        "addmm and its backward": lambda: grad(torch.addmm(*leaves), leaves, slope),
        "addcmul under autograd": lambda: torch.addcmul(*flat_leaves),
    }


def times_of_calls(device: str, rounds: int = ROUNDS, batch: int = BATCH) -> dict[str, Any]:
    """Return µs a call and the ratios to addmm."""
    runs = calls(device)
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(20):
            run()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in runs.items():
                _wait(device)
                began = time.perf_counter()
                for _ in range(batch):
                    run()
                found[name].append((time.perf_counter() - began) / batch * 1e6)
    finally:
        gc.enable()
    _wait(device)
    rows = [Time.of(name, each, "µs") for name, each in found.items()]
    rows += [
        ratio(f"addmm{kind} / operator{kind}", found[f"addmm{kind}"], found[f"operator{kind}"])
        for kind in ("", " under autograd", " and its backward")
    ]
    return _shown("calls", rows)


# -- model


def times_of_models(device: str, size: gpt.Size, steps: int, *, small: bool) -> dict[str, Any]:
    """Return ms a step, ratios to PyTorch's, and how far losses are apart."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    kinds = {
        "operators": (gpt.OURS, False),
        "operators, torch.compile": (gpt.OURS, True),
        "PyTorch": (gpt.PYTORCH, False),
        "PyTorch, torch.compile": (gpt.PYTORCH, True),
    }
    models = {
        name: gpt.trainer(use, size, device, dtype, compiled, rate=3e-3 if small else 3e-4)
        for name, (use, compiled) in kinds.items()
    }
    found: dict[str, list[float]] = {name: [] for name in models}
    losses: dict[str, list[float]] = {name: [] for name in models}
    for number, pieces in enumerate(gpt.batches(size, WARM + steps, device)):
        for name, step in models.items():
            _wait(device)
            began = time.perf_counter()
            loss = step(pieces)
            _wait(device)
            if number >= WARM:
                found[name].append((time.perf_counter() - began) * 1e3)
            losses[name].append(loss.item())
    rows = [Time.of(name, each, "ms") for name, each in found.items()]
    theirs = "PyTorch, torch.compile"
    rows += [
        ratio(f"{theirs} / {name}", found[theirs], found[name])
        for name in ("operators", "operators, torch.compile")
    ]
    rows.append(ratio("PyTorch / operators", found["PyTorch"], found["operators"]))
    made = _shown("model", rows)
    apart = {
        name: max(abs(a - b) for a, b in zip(each, losses["PyTorch"], strict=True))
        for name, each in losses.items()
    }
    allowed = max(SAME, 2 * apart[theirs])
    same = all(apart[name] <= allowed for name in apart)
    first, last = losses["PyTorch"][0], losses["PyTorch"][-1]
    print(
        f"losses: {first:.3f} to {last:.3f}, apart at most {apart}: {'same' if same else 'OTHER'}"
    )
    return {
        **made, "size": asdict(size), "steps": WARM + steps, "dtype": str(dtype),
        "losses": losses, "apart": apart, "allowed": allowed, "same": same,
    }  # fmt: skip


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _shown(part: str, rows: Sequence[Time]) -> dict[str, Any]:
    print(f"-- {part}")
    for row in rows:
        print(row, flush=True)
    return {"rows": [asdict(row) for row in rows]}


def parts(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the parts that are wanted."""
    on_gpu = args.device == "cuda"
    if args.only != "model":
        yield "calls", times_of_calls(args.device, *(() if on_gpu else (10, 100)))
    if args.only != "calls":
        size = gpt.SIZES["small" if on_gpu else "tiny"]
        steps = STEPS if on_gpu else 3
        yield "model", times_of_models(args.device, size, steps, small=not on_gpu)


def main() -> int:
    """Measure and write the file; 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", choices=("calls", "model"))
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    before = json.loads(args.output.read_text()) if args.output.exists() else {}
    made = dict(parts(args))
    if args.device == "cuda":
        for each in made.values():
            each["circumstances"] = circumstances()
        args.output.write_text(json.dumps({**before, **made}, indent=1) + "\n")
    return int(not made.get("model", {"same": True})["same"])


if __name__ == "__main__":
    sys.exit(main())
