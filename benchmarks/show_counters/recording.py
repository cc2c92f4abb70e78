"""Runs of the kernels under counters, and what is found in their profiles.

In: cases and metrics.  Out: counters by kernel, and counts of instructions by kernel and line.
Each run is a process of its own, because one process does not count both.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tileprof
from benchmarks.show_counters.kernels import Case
from benchmarks.show_counters.pages import Shown
from benchmarks.show_counters.quantities import LINE_METRICS
from tileprof.profile.instruction_counts import name_of

_PATIENCE_S = 240.0


def on_device(case: Case) -> Callable[[], Any]:
    """Return a launch of a kernel on the first GPU, with the arguments that are shown."""
    import torch

    def moved(value: Any) -> Any:
        array = np.asarray(value)
        kinds = {"bfloat16": (np.int16, torch.bfloat16),
                 "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
                 "float8_e5m2": (np.uint8, torch.float8_e5m2)}  # fmt: skip
        bits, kind = kinds.get(array.dtype.name, (None, None))
        tensor = torch.from_numpy(array if bits is None else array.view(bits))
        return (tensor if kind is None else tensor.view(kind)).cuda()

    given = [moved(each) for each in case.arguments(np.random.default_rng(0))]
    return lambda: case.kernel(*given, **case.options)


def record(path: Path, cases: Sequence[Case], metrics: Sequence[str], warm: bool) -> None:
    """Launch each kernel once under counters, and write the profile."""
    import torch

    runs = {each.name: on_device(each) for each in cases}
    if warm:
        for run in runs.values():
            run()
        torch.cuda.synchronize()
    with tileprof.profile(path, context="scopes", instrument="off", metrics=list(metrics)):
        for run in runs.values():
            run()
            torch.cuda.synchronize()


def recorded(path: Path, chosen: Sequence[str], metrics: Sequence[str], warm: bool) -> Any:
    """Record in a process of its own; return the profile, or why there is none."""
    command = [sys.executable, "-m", "benchmarks.show_counters", "--record", str(path)]
    command += [*chosen, "--metrics", ",".join(metrics)]
    command += ["--warm"] if warm else []
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], timeout=_PATIENCE_S, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {_PATIENCE_S:.0f} s"
    sys.stderr.write(done.stderr)
    if done.returncode or not path.exists():
        return f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"
    profile = tileprof.load(path)
    facts = profile.tables.provenance
    return facts.get("counters not read", profile)


def counter_facts(profile: Any) -> dict[str, str]:
    """Return what a profile says of its counters: what was lost, what could not be told apart."""
    facts: dict[str, str] = profile.tables.provenance
    return {name: fact for name, fact in facts.items() if "count" in name}


def owner(name: str, names: Iterable[str]) -> str:
    """Return the kernel whose name is in that of a node or function, the longest; '' for none."""
    return max((each for each in names if each in name), key=len, default="")


def of_launches(
    profile: Any, names: Sequence[str], metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return CUPTI's metrics by kernel; a profile leaves out those that are 0 everywhere."""
    found: dict[str, dict[str, float]] = {}
    for index in profile.find(None, "kernel"):
        node = profile.node(index)
        if kernel := owner(node.name, names):
            held = found.setdefault(kernel, dict.fromkeys(metrics, 0.0))
            for metric in set(metrics) & set(profile.metrics):
                held[metric] += float(node.own(metric))
    return found


def of_lines(profile: Any, pages: Mapping[str, Shown]) -> dict[str, dict[int, dict[str, int]]]:
    """Return counts of instructions by kernel and line of its own file."""
    pc = profile.tables.pc
    found: dict[str, dict[int, dict[str, int]]] = {}
    for number, function in enumerate(pc.functions):
        kernel = owner(function.name, pages)
        if not kernel:
            continue
        places = {each.offset: _line(each.place, pages[kernel].file) for each in function.code}
        rows = pc.counts.rows_of(number)
        zeros = dict.fromkeys(map(name_of, LINE_METRICS), 0)
        lines = found.setdefault(kernel, {line: dict(zeros) for line in pages[kernel].lines})
        for offset, values in zip(pc.counts.offset[rows].tolist(), pc.counts.values[rows].tolist()):
            held = lines.setdefault(places.get(offset, 0), {})
            for metric, value in zip(pc.counts.metrics, values):
                held[metric] = held.get(metric, 0) + value
    return found


def _line(place: Any, file: str) -> int:
    """Return the innermost line of a file; code of headers counts for the line that calls it."""
    while place is not None and place.file != file:
        place = place.caller
    return place.line if place is not None else 0
