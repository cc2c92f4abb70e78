"""One case on a GPU, in a process of its own: results, times in turns, and a profile of each twin.

In: a case, a folder.  Out: `row.json` with what is true of it, and `defective.tprof` and
`fixed.tprof` (with `--counts`, `…-counts.tprof`) there. Samples and counts exclude each other in a
process, so they are two calls.
"""

from __future__ import annotations

import fcntl
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import torch

import tileprof
from tileprof import Controls
from tileprof.bench import median_interval, replayed
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target

from .triton_pairs import TritonCase
from .twins import Case, load
from .works import WORKS, call, difference, reset

__all__ = ["count", "measure"]

Run = Callable[[], Any]
ROUNDS = 15
"""Pairs of batches, in turns."""
_SAMPLED_MS = 80.0
"""Of launches under samples: some 100,000 samples on a whole device."""
_COUNTED_MS = 2.0
"""Longer launches are not counted: patched kernels run hundreds of times as long."""


def measure(case: Case | TritonCase, folder: Path) -> None:
    """Check, time and sample both twins."""
    torch.cuda.init()
    _compiled(case, folder)
    with _alone(folder.parent):
        _measure(case, folder)


def _compiled(case: Case | TritonCase, folder: Path) -> None:
    """Compile into the cache, while others measure."""
    if isinstance(case, TritonCase):
        return
    for twin, text in case.twins():
        kernel = load(case, text, folder).compile(**case.shape).program.kernel
        controls = Controls(**case.controls) if twin == "defective" else None
        compile_cuda(kernel, find_target("sm_90a"), controls)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """No other case of this place is on the GPU meanwhile."""
    with (place / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _measure(case: Case | TritonCase, folder: Path) -> None:
    from tileprof.runtime.roofs import measured_roofs

    measured_roofs(0)  # kept for all later profiles; the first takes some seconds
    held = _prepared(case, folder)
    apart, runs = held.apart(), held.runs
    right = all(each <= held.limit for each in apart.values())
    del held
    torch.cuda.empty_cache()
    row: dict[str, Any] = {"differences": apart, "correct": right, "time": _times(runs)}
    for twin, run in runs.items():
        ms = row["time"][f"{twin}_ms"]
        _recorded(run, folder / f"{twin}.tprof", ms, pc_sampling=True)
    row["clocks"] = measuring.clocks()
    (folder / "row.json").write_text(json.dumps(row, indent=1))


def count(case: Case | TritonCase, folder: Path) -> None:
    """Counts of instructions of both twins, of a launch each, where that is cheap."""
    with _alone(folder.parent):
        _count(case, folder)


def _count(case: Case | TritonCase, folder: Path) -> None:
    row = json.loads((folder / "row.json").read_text())
    runs = _prepared(case, folder).runs
    for twin, run in runs.items():
        if row["time"][f"{twin}_ms"] <= _COUNTED_MS:
            path = folder / f"{twin}-counts.tprof"
            with tileprof.profile(path, context="scopes", instrument="off", metrics="instructions"):
                run()
                torch.cuda.synchronize()


def _prepared(case: Case | TritonCase, folder: Path) -> _Prepared:
    """A call of each twin; both have the same inputs."""
    if isinstance(case, TritonCase):
        from . import triton_cases

        return _Prepared(*triton_cases.prepared(case))
    work = WORKS[case.kernel]
    inputs = work.inputs(case.shape, "cuda")
    runs: dict[str, Run] = {}
    for twin, text in case.twins():
        made = load(case, text, folder)
        if case.controls and twin == "defective":
            made = tileprof.jit(made.function, controls=dict(case.controls))
        runs[twin] = partial(call, made, inputs)
    expected = work.reference(*inputs)
    return _Prepared(runs, expected, work.limit, partial(reset, work, inputs))


@dataclass(frozen=True)
class _Prepared:
    runs: Mapping[str, Run]
    expected: torch.Tensor
    limit: float
    reset: Run
    """Before a result is looked at."""

    def apart(self) -> dict[str, float]:
        """How far the result of each twin is from the right one."""
        found = {}
        for twin, run in self.runs.items():
            self.reset()
            found[twin] = difference(run(), self.expected)
        return found


def _times(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Times in turns, of CUDA graphs: no host is waited for; of a kernel without twin, its time."""
    counts = measuring.launches([*runs.values()])
    graphs = [replayed([run] * count) for run, count in zip(runs.values(), counts)]
    batches = [partial(measuring.batch_ms, graph, 1) for graph in graphs]
    times = zip(measuring.times(batches, ROUNDS), counts)
    taken = {twin: [ms / count for ms in each] for twin, (each, count) in zip(runs, times)}
    found: dict[str, Any] = {f"{twin}_ms": statistics.median(ms) for twin, ms in taken.items()}
    if "defective" in taken:
        ratios = [bad / good for bad, good in zip(taken["defective"], taken["fixed"])]
        ratio = median_interval(ratios)
        found |= {"ratio": ratio.value, "low": ratio.low, "high": ratio.high, "ratios": ratios}
    return found


def _recorded(run: Run, path: Path, ms: float, **options: Any) -> None:
    run()
    torch.cuda.synchronize()
    with tileprof.profile(path, context="scopes", instrument="off", **options):
        for _ in range(max(3, min(500, round(_SAMPLED_MS / ms)))):
            run()
        torch.cuda.synchronize()
