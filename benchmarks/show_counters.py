"""Counts of a page of `tileprof show`, beside the hardware counters of the same launches.

    python -m benchmarks.show_counters               writes benchmarks/results/show-counters.json
    python -m benchmarks.show_counters --dry-run     everything but the GPU; prints the plan
    python -m benchmarks.show_counters --only histogram,held-out --out /tmp/some.json
    python -m benchmarks.show_counters --keep tests/data/show-counters.json    counters for a test

Each kernel of `show_counters_kernels` is shown in the interpreter, then launched under counters of
launches (CUPTI's range profiler) and under counts of instructions, each in a process of its own,
because one process does not do both.  A number that cannot be compared has a code (`REASONS`).

Before anything runs, every metric is looked up in CUPTI for the kind of device.  All alternatives
whose names are known are counted; a number is compared with the first one that counted anything.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import tileprof
from benchmarks.show_counters_held_out import HELD_OUT, of_tilelang
from benchmarks.show_counters_kernels import CASES, Case
from tileprof import ir
from tileprof.drawing import Drawing, show
from tileprof.drawing.traffic import Traffic, Way
from tileprof.drawing.watch import LaunchRun
from tileprof.profile.instruction_counts import name_of
from tileprof.runtime.events.access import AccessKind

RESULTS = Path(__file__).parent / "results" / "show-counters.json"
CHIP = "GH100"
"""CUPTI's name of an H100 or H200, for a plan without a device."""
BAR = 0.01
"""Relative difference that the project asks for."""
_PATIENCE_S = 240.0
GROUPS: dict[str, tuple[Case, ...]] = {"first": CASES, "held-out": HELD_OUT}

REASONS = {
    "no-counter": "the device's CUPTI knows none of the metrics",
    "not-measured": "the run gave no value",
    "nothing": "the kernel makes no such access, and none was counted",
    "other-instructions": "matrix instructions or exchanges between threads count there too",
    "held-by-threads": "threads load an element once for several points, or lanes of a request "
    "share it",
    "line-of-neighbour": "instructions that follow each other and come from one line of a header "
    "have one place in ptxas' table, that of the first; the lines together are equal",
    "warps-left-out": "counts of instructions have cp.async of warps in which a guard leaves out "
    "every lane, as if some took part; the L1's own sum of sectors is equal",
    "bytes-by-TMA": "the copy engine moves it in boxes, which no counter of a line has",
}

# -- what is shown, and which metrics count the same


@dataclass(frozen=True)
class Quantity:
    """A number of the page, and CUPTI's metrics whose sum counts the same."""

    name: str
    shown: Callable[[LaunchRun, Traffic], int]
    metrics: tuple[tuple[str, ...], ...]
    """Alternatives in order of preference; each is a sum of metrics."""
    disturbed_by: tuple[str, ...] = ()
    """Kinds of `Traffic.uncounted` that count there too."""
    whole: bool = False
    """Whether it is the bytes of the run's points, which threads may hold and not load again."""


def _moved(
    space: ir.Space, access: AccessKind, field: str, *ways: Way
) -> Callable[[LaunchRun, Traffic], int]:
    def read(launch: LaunchRun, traffic: Traffic) -> int:
        sums = (traffic.total(space, access, way) for way in ways)
        return sum(int(getattr(each, field)) for each in sums)

    return read


_THREADS: tuple[Way, ...] = ("threads", "ldmatrix", "stmatrix")


def _conflicts(access: AccessKind) -> Callable[[LaunchRun, Traffic], int]:
    def read(launch: LaunchRun, traffic: Traffic) -> int:
        ways = (traffic.total("shared", access, way) for way in _THREADS)
        return sum(each.taken - each.needed for each in ways)

    return read


def _atomic_bytes(launch: LaunchRun) -> int:
    return sum(each.bytes for each in launch.sites
               if each.site.access == "atomic" and each.site.space == "global")  # fmt: skip


_ASKED = "smsp__sass_data_bytes_mem_global_op"
_TAGS = "l1tex__t_{}_pipe_lsu_mem_global_op"
_ATOMICS = "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_{}"
_SASS = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op"
"""Of `op_ld` and `op_st` without matrices (`op_ldsm`, `op_stsm`) and wgmma (`op_gmma`), which
`l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld` and `_st` have in them, too."""
_LDGSTS = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts"
_TMA_LOAD = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld"
_TMA_STORE = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st"
_TMA_ADD = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red"
_READ = (
    (f"{_ASKED}_ld", f"{_ASKED}_ldgsts", _TMA_LOAD),
    ("sm__sass_data_bytes_mem_global_op_ld", "sm__sass_data_bytes_mem_global_op_ldgsts", _TMA_LOAD),
)
_WRITE = (
    (f"{_ASKED}_st", _TMA_STORE),
    ("sm__sass_data_bytes_mem_global_op_st", _TMA_STORE),
)
_EXCHANGES = ("exchange of threads", "copied matrices", "other")

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "bytes read", lambda launch, _: int(launch.read.sum()) - _atomic_bytes(launch),
        _READ, whole=True,
    ),
    Quantity(
        "bytes written", lambda launch, _: int(launch.written.sum()) - _atomic_bytes(launch),
        _WRITE, whole=True,
    ),
    Quantity(
        "bytes asked for by reads", _moved("global", "read", "bytes", "threads", "cp.async", "TMA"),
        _READ,
    ),
    Quantity(
        "bytes asked for by writes", _moved("global", "write", "bytes", "threads", "TMA"), _WRITE
    ),
    Quantity(
        "bytes of atomics", _moved("global", "atomic", "bytes", "threads", "TMA"),
        ((f"{_ASKED}_red", f"{_ASKED}_atom", _TMA_ADD),),
    ),
    # The L1 counts cp.async among the loads.
    Quantity(
        "sectors of loads", _moved("global", "read", "taken", "threads", "cp.async"),
        ((_TAGS.format("sectors") + "_ld",),),
    ),
    Quantity(
        "requests of loads", _moved("global", "read", "requests", "threads", "cp.async"),
        ((_TAGS.format("requests") + "_ld",),),
    ),
    Quantity(
        "sectors of stores", _moved("global", "write", "taken", "threads"),
        ((_TAGS.format("sectors") + "_st",),),
    ),
    Quantity(
        "requests of stores", _moved("global", "write", "requests", "threads"),
        ((_TAGS.format("requests") + "_st",), ("smsp__sass_inst_executed_op_global_st",)),
    ),
    Quantity(
        "sectors of cp.async", _moved("global", "read", "taken", "cp.async"),
        ((_LDGSTS.format("sectors"),),
         ("sm__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass",)),
    ),
    Quantity(
        "requests of cp.async", _moved("global", "read", "requests", "cp.async"),
        ((_LDGSTS.format("requests"),), ("smsp__inst_executed_op_ldgsts",)),
    ),
    Quantity(
        "sectors of atomics", _moved("global", "atomic", "taken", "threads"),
        ((_ATOMICS.format("red"), _ATOMICS.format("atom")),
         (_TAGS.format("sectors") + "_red", _TAGS.format("sectors") + "_atom")),
    ),
    Quantity("bytes read by TMA", _moved("global", "read", "bytes", "TMA"), ((_TMA_LOAD,),)),
    Quantity("bytes written by TMA", _moved("global", "write", "bytes", "TMA"), ((_TMA_STORE,),)),
    Quantity(
        "wavefronts of shared loads", _moved("shared", "read", "taken", "threads"),
        ((f"{_SASS}_ld",),), ("products in threads", *_EXCHANGES),
    ),
    Quantity(
        "wavefronts of ldmatrix", _moved("shared", "read", "taken", "ldmatrix"),
        ((f"{_SASS}_ldsm",),), ("copied matrices",),
    ),
    Quantity(
        "wavefronts of shared stores", _moved("shared", "write", "taken", "threads"),
        ((f"{_SASS}_st",),), _EXCHANGES,
    ),
    Quantity(
        "wavefronts of stmatrix", _moved("shared", "write", "taken", "stmatrix"),
        ((f"{_SASS}_stsm",),), ("copied matrices",),
    ),
    Quantity(
        "wavefronts of cp.async", _moved("shared", "write", "taken", "cp.async"),
        ((f"{_SASS}_ldgsts",),),
    ),
    Quantity(
        "conflicts of shared loads", _conflicts("read"),
        (("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld",),),
        ("products in threads", "matrix operands", *_EXCHANGES),
    ),
    Quantity(
        "conflicts of shared stores", _conflicts("write"),
        (("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st",),),
        ("matrix operands", *_EXCHANGES),
    ),
)  # fmt: skip

_EXECUTED = "smsp__sass_inst_executed_op"
LINE_QUANTITIES = {
    "global_sectors": ("smsp__sass_sectors_mem_global",),
    "global_requests": (f"{_EXECUTED}_global", f"{_EXECUTED}_ldgsts"),
    "shared_wavefronts": ("smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",),
    "shared_wavefronts_ideal": ("smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal",),
}
"""Numbers of a line of the page, each with the counts of instructions that add up to it."""
OTHERS = tuple(f"{_EXECUTED}_{each}" for each in ("shared_gmma",))
"""Instructions whose wavefronts count at a line, too.  ptxas often gives a wgmma the line of a
neighbour, so that the lines of the program do not say where they are."""
LINE_METRICS = (*(each for found in LINE_QUANTITIES.values() for each in found), *OTHERS)


@dataclass(frozen=True)
class Compared:
    """A number of the page beside the counter's."""

    shown: int
    measured: float | None
    reason: str = ""
    """Code of `REASONS` where the two cannot be compared."""
    metrics: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """Difference as a share of the measured number; None where they are not compared."""
        if self.reason or self.measured is None:
            return None
        if self.measured == self.shown:
            return 0.0
        return abs(self.shown - self.measured) / max(abs(self.measured), abs(self.shown))

    def row(self) -> dict[str, Any]:
        """Return it as JSON values."""
        made: dict[str, Any] = {"shown": self.shown, "measured": self.measured}
        made["difference"] = self.difference
        if self.metrics:
            made["metrics"] = list(self.metrics)
        if self.reason:
            made["reason"] = self.reason
        return made


# -- the page


@dataclass(frozen=True)
class Shown:
    """Numbers of a kernel's page."""

    quantities: dict[str, int]
    uncounted: frozenset[str]
    lines: dict[int, dict[str, int]]
    """Sectors and requests of global memory, wavefronts taken and needed, of each source line."""
    by_engine: frozenset[int]
    """Lines whose global accesses the copy engine makes."""
    disturbed: frozenset[int]
    """Lines at which other instructions access shared memory."""
    file: str
    first: int
    """Line of the launch."""

    @property
    def is_held(self) -> bool:
        """Whether threads load elements once and use them for several points."""
        held = self.quantities
        return held["bytes read"] != held["bytes asked for by reads"]


def drawn(case: Case) -> Drawing:
    """Show a kernel."""
    return show(case.kernel, *case.arguments(np.random.default_rng(0)), **case.options)


def shown(case: Case) -> Shown:
    """Show a kernel; return what its page says of the launch."""
    drawing = drawn(case)
    (launch,) = drawing.watch.launches
    (machine,) = drawing.machines
    traffic = launch.traffic
    if traffic is None:
        raise SystemExit(f"{case.name} has no requests on {machine.target}: {machine.problem}")
    lines: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(LINE_QUANTITIES, 0))
    for place, moved in traffic.places.items():
        held = lines[place.line]
        if place.space == "global":
            held["global_sectors"] += moved.taken
            held["global_requests"] += moved.requests
        else:
            held["shared_wavefronts"] += moved.taken
            held["shared_wavefronts_ideal"] += moved.needed
    span = launch.op.span
    return Shown(
        {each.name: each.shown(launch, traffic) for each in QUANTITIES},
        frozenset(kind for _, _, kind in traffic.uncounted),
        dict(lines),
        frozenset(p.line for p in traffic.places if p.way == "TMA" and p.space == "global"),
        frozenset(line for line, _, _ in traffic.uncounted),
        span.file if span else "",
        span.line if span else 0,
    )


# -- metrics that the device knows


@dataclass(frozen=True)
class Plan:
    """Metrics that are counted."""

    chip: str
    chosen: Mapping[str, tuple[tuple[str, ...], ...]]
    """Alternatives of each quantity that CUPTI knows, in order, with `.sum`."""
    unknown: tuple[str, ...]
    """Metrics of alternatives that CUPTI does not know."""
    passes: int
    lines: tuple[str, ...]
    """Metrics of instructions; all that are wanted where no device could be asked."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics of launches, each once."""
        alternatives = (each for found in self.chosen.values() for each in found)
        return tuple(dict.fromkeys(name for each in alternatives for name in each))


def plan(chip: str | None) -> Plan:
    """Look all metrics up in CUPTI for a kind of device, by default this machine's."""
    from tileprof.profile.counters import TIME
    from tileprof.profiler.counters.host import CuptiFailure, Host
    from tileprof.profiler.counters.lookup import find_chip, find_instruction_metrics
    from tileprof.profiler.counters.planning import open_found

    path, library = open_found()
    lines = LINE_METRICS
    if chip is None:
        chip = find_chip(path)
        known = find_instruction_metrics(path)[1]
        lines = tuple(each for each in lines if each in known)

    def passes(names: Sequence[str]) -> int:
        try:
            with Host(library, chip) as host:
                return host.passes(host.plan([TIME, *names]))
        except CuptiFailure:
            return 0

    every = dict.fromkeys(f"{n}.sum" for q in QUANTITIES for each in q.metrics for n in each)
    unknown = tuple(name for name in every if not passes([name]))
    chosen: dict[str, tuple[tuple[str, ...], ...]] = {}
    together: list[str] = []
    for quantity in QUANTITIES:
        found: list[tuple[str, ...]] = []
        for each in quantity.metrics:
            names = tuple(f"{name}.sum" for name in each)
            joined = list(dict.fromkeys([*together, *names]))
            # Counters that the device knows one by one may still not be counted together.
            if not set(names) & set(unknown) and passes(joined):
                found.append(names)
                together = joined
        chosen[quantity.name] = tuple(found)
    return Plan(chip, chosen, unknown, passes(together), lines)


def plan_text(made: Plan) -> str:
    """Return the plan in words: what counts each quantity."""
    text = [f"{made.chip}: {len(made.metrics)} metrics of launches in {made.passes} passes"]
    for name, found in made.chosen.items():
        text.append(f"  {name}: {'; else '.join(map(' + '.join, found)) or 'no counter'}")
    text.append(f"  by line: {', '.join(made.lines) or 'no counts of instructions'}")
    if made.unknown:
        text.append(f"  not known: {', '.join(made.unknown)}")
    return "\n".join(text)


# -- runs on the device


def on_device(case: Case) -> Callable[[], Any]:
    """Return a launch of a kernel on the first GPU, with the arguments that are shown."""
    import torch

    def moved(value: Any) -> Any:
        array = np.asarray(value)
        kinds = {"bfloat16": (np.int16, torch.bfloat16),
                 "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn)}  # fmt: skip
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
            command, cwd=Path(__file__).parents[1], timeout=_PATIENCE_S, check=False,
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


# -- comparing


def compared(page: Shown, made: Plan, measured: Mapping[str, float] | None) -> dict[str, Compared]:
    """Return each number of a kernel's page beside the counters of its launch."""
    found: dict[str, Compared] = {}
    left_out = warps_left_out(page, measured or {})
    for quantity in QUANTITIES:
        number, alternatives = page.quantities[quantity.name], made.chosen[quantity.name]
        metrics, value = _counted(alternatives, measured or {})
        if not alternatives:
            reason = "no-counter"
        elif value is None:
            reason = "not-measured"
        elif page.uncounted & set(quantity.disturbed_by):
            reason = "other-instructions"
        elif quantity.whole and quantity.name == "bytes read" and page.is_held:
            reason = "held-by-threads"
        elif number == value == 0:
            reason = "nothing"
        elif number != value and left_out and quantity.name in _OF_CP_ASYNC:
            reason = "warps-left-out"
        else:
            reason = ""
        found[quantity.name] = Compared(number, value, reason, metrics)
    return found


_OF_CP_ASYNC = (
    "bytes read", "bytes asked for by reads", "sectors of cp.async", "wavefronts of cp.async",
)  # fmt: skip


def warps_left_out(page: Shown, measured: Mapping[str, float]) -> bool:
    """Return whether warps run cp.async in which a guard leaves out every lane."""
    executed = measured.get("smsp__inst_executed_op_ldgsts.sum", 0.0)
    requests = measured.get("sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum", 0.0)
    sectors = measured.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    return executed > requests > 0 and sectors == page.quantities["sectors of loads"]


def _counted(
    alternatives: Sequence[tuple[str, ...]], measured: Mapping[str, float]
) -> tuple[tuple[str, ...], float | None]:
    """Return the first alternative that counted anything, and its sum; where all counted nothing,
    the first one that was counted."""
    sums = [
        (each, sum(measured[name] for name in each))
        for each in alternatives
        if all(name in measured and not math.isnan(measured[name]) for name in each)
    ]
    counted = [row for row in sums if row[1]] or sums
    return counted[0] if counted else ((), None)


def compared_lines(
    page: Shown, measured: Mapping[int, Mapping[str, int]] | None, left_out: bool = False
) -> dict[int, dict[str, Compared]]:
    """Return each line's requests beside the counts of its instructions; `left_out`: whether warps
    run cp.async in which no lane takes part."""
    found: dict[int, dict[str, Compared]] = {}
    alike = {} if measured is None else {
        name: _sum(measured, name) == sum(each[name] for each in page.lines.values())
        for name in LINE_QUANTITIES
    }  # fmt: skip
    for line, numbers in sorted(page.lines.items()):
        found[line] = {}
        for name, number in numbers.items():
            counts = {} if measured is None else measured.get(line, {})
            has_all = all(name_of(each) in counts for each in LINE_QUANTITIES[name])
            value = _sum({line: counts}, name) if has_all else None
            others = any(counts.get(name_of(each)) for each in OTHERS)
            is_global = name.startswith("global")
            if value is None:
                reason = "not-measured"
            elif not is_global and (others or line in page.disturbed):
                reason = "other-instructions"
            elif is_global and line in page.by_engine and not number:
                reason = "bytes-by-TMA"
            elif number == value == 0:
                reason = "nothing"
            elif number != value and alike[name]:
                reason = "line-of-neighbour"
            elif number != value and left_out and counts.get(name_of(f"{_EXECUTED}_ldgsts")):
                reason = "warps-left-out"
            else:
                reason = ""
            found[line][name] = Compared(number, value, reason)
    return found


def _sum(lines: Mapping[int, Mapping[str, int]], quantity: str) -> int:
    """Return the sum of a quantity's counts over lines."""
    names = [name_of(each) for each in LINE_QUANTITIES[quantity]]
    return sum(counts.get(name, 0) for counts in lines.values() for name in names)


def beside(
    page: Shown,
    made: Plan,
    launch: Mapping[str, float] | None,
    lines: Mapping[int, Mapping[str, int]] | None,
) -> dict[str, Any]:
    """Return all numbers of a kernel's page beside counters, as JSON values."""
    left_out = warps_left_out(page, launch or {})
    return {
        "launch": {name: each.row() for name, each in compared(page, made, launch).items()},
        "lines": {
            str(line): {name: each.row() for name, each in found.items()}
            for line, found in compared_lines(page, lines, left_out).items()
        },
    }


def kept(
    pages: Mapping[str, Shown],
    made: Plan,
    launches: Mapping[str, Mapping[str, float]],
    lines: Mapping[str, Mapping[int, Mapping[str, int]]],
) -> dict[str, Any]:
    """Return what a test needs to compare pages with counters where there is no GPU: counts that
    are not 0, those of lines by their distance from the launch."""
    return {
        "names": list(made.metrics),
        "counters": {
            kernel: {name: value for name, value in found.items() if value}
            for kernel, found in launches.items()
        },
        "line_counters": {
            kernel: {line - pages[kernel].first: counts for line, counts in found.items()}
            for kernel, found in lines.items()
        },
    }


def summary(kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many numbers were compared, how many are within the bar, and the worst ones."""
    rows = [
        (each["difference"], f"{kernel}, {where}: {name}")
        for kernel, held in kernels.items()
        for where, numbers in (
            ("launch", held["launch"]),
            *((f"line {line}", found) for line, found in held["lines"].items()),
        )
        for name, each in numbers.items()
        if each["difference"] is not None
    ]
    off = sorted((row for row in rows if row[0] > BAR), reverse=True)
    return {
        "compared": len(rows),
        "exact": sum(row[0] == 0 for row in rows),
        "within_1_percent": len(rows) - len(off),
        "beyond": [f"{what} {difference:.1%}" for difference, what in off],
    }


def circumstances() -> dict[str, Any]:
    """Return device, versions and date."""
    sys.path.insert(0, str(Path(__file__).parent))
    import measuring

    return dict(measuring.circumstances())


def main(arguments: Sequence[str] | None = None) -> int:
    """Show, count and compare all kernels."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.show_counters")
    parser.add_argument("--dry-run", action="store_true", help="do everything but the GPU's part")
    parser.add_argument("--only", default="", help=f"kernels or groups: {', '.join(GROUPS)}")
    parser.add_argument("--checkout", type=Path, help="of TileLang, for kernels of its examples")
    parser.add_argument("--out", type=Path, help=f"JSON to write (default: {RESULTS.name})")
    parser.add_argument("--keep", type=Path, help="JSON for the counters alone, for a test")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--metrics", default="", help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    groups = {**GROUPS, "tilelang": of_tilelang(args.checkout) if args.checkout else ()}
    every = {each.name: each for cases in groups.values() for each in cases}
    only = [each for each in args.only.split(",") if each] or list(groups)
    if unknown := set(only) - set(every) - set(groups):
        parser.error(f"no such kernel or group: {', '.join(sorted(unknown))}")
    wanted = {each.name for name in only for each in groups.get(name, ())} | set(only)
    cases = [each for name, each in every.items() if name in wanted]
    names = [each.name for each in cases]
    if args.record:
        record(args.record, cases, args.metrics.split(","), args.warm)
        return 0
    chosen = ["--only", ",".join(names)]
    chosen += ["--checkout", str(args.checkout.resolve())] if args.checkout else []

    made = plan(CHIP if args.dry_run else None)
    print(plan_text(made), flush=True)
    pages: dict[str, Shown] = {}
    for case in cases:
        pages[case.name] = shown(case)
        print(f"shown: {case.name}", flush=True)
    problems: dict[str, str] = {}
    facts: dict[str, str] = {}
    launches: dict[str, dict[str, float]] = {}
    lines: dict[str, dict[int, dict[str, int]]] = {}
    if not args.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            counted = recorded(Path(folder) / "launches.tprof", chosen, made.metrics, warm=True)
            if isinstance(counted, str):
                problems["counters of launches"] = counted
            else:
                launches = of_launches(counted, names, made.metrics)
                facts |= counter_facts(counted)
            counted = recorded(Path(folder) / "lines.tprof", chosen, made.lines, warm=False)
            if isinstance(counted, str):
                problems["counts of instructions"] = counted
            else:
                lines = of_lines(counted, pages)
                facts |= counter_facts(counted)
    kernels = {
        case.name: {
            "about": case.about,
            "group": next(name for name, found in groups.items() if case in found),
            **beside(pages[case.name], made, launches.get(case.name), lines.get(case.name)),
        }
        for case in cases
    }
    result = {
        "description": "Numbers that `tileprof show` gives for a launch (bytes, requests, sectors, "
        "wavefronts, conflicts), beside hardware counters of the same launch and, by line, counts "
        "of its instructions. `difference` is relative; a code in `reason` says why two numbers "
        "are not compared.",
        **({"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "device": "none: dry run"}
           if args.dry_run else circumstances()),
        "chip": made.chip,
        "passes": made.passes,
        "metrics": {name: list(map(list, each)) for name, each in made.chosen.items()},
        "counters": launches,
        "line_counters": lines,
        "metrics_not_known": list(made.unknown),
        "reasons": REASONS,
        "problems": problems,
        "facts": facts,
        "summary": summary(kernels),
        "summaries": {
            group: summary({n: each for n, each in kernels.items() if each["group"] == group})
            for group in groups
        },
        "kernels": kernels,
    }  # fmt: skip
    print(json.dumps(result["summary"], indent=1))
    for name, why in problems.items():
        print(f"{name}: {why}")
    out = args.out or (None if args.dry_run else RESULTS)
    if out is not None:
        out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {out}")
    if args.keep is not None and not problems and not args.dry_run:
        told = {key: result[key] for key in ("date", "device")}
        args.keep.write_text(json.dumps({**told, **kept(pages, made, launches, lines)}) + "\n")
        print(f"wrote {args.keep}")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except tileprof.TileprofError as error:
        raise SystemExit(f"show_counters: {error}") from None
