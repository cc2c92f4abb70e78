"""What measuring inside kernels costs, and how right it is: instrumented kernels beside clean ones.

    python benchmarks/instrument.py [--only RE] [--modes MODE,…] [--budget SECONDS] [-o FILE]

Writes a JSON file with every pair, the device, its clocks and all versions, after each row.

overhead  time of the instrumented kernel over that of the clean one, both replayed from CUDA graphs
          of one process in turns; then the geometric mean over kernels, by mode
error     of a scope's time: two lengths of a delay in it differ by what the kernel takes longer,
          which no record tells
shares    of a role's time by op, as samples have it against records of every op
samples   of each role of every case study, after 100 launches
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import gpu_int4
import gpu_kernels as kernels
import instrument_kernels
import measuring
from gpu_peers import normal
from measuring import batch_ms, compare, replayed

import tileprof
from tileprof.remarks.launches import NotSampled

RESULTS = Path(__file__).parent / "results" / "instrument.json"
MODES = ("scopes", "stages", "ops", "sample")
ASKED = {"stages": 1.04, "sample": 1.015, "ops": 1.15}
"""Of the geometric mean over kernels."""
CAPTURED_MS = 5.0
"""Of launches in a graph."""

Run = Callable[[], Any]
Row = dict[str, Any]


def gemm() -> Run:
    """8192³ in bfloat16."""
    a, b = normal(8192, 8192), normal(8192, 8192)
    return lambda: kernels.matmul_nt(a, b)


def attention() -> Run:
    """Forward, 4 × 16 heads, 4096 tokens, 128 wide."""
    q, k, v = (normal(4, 4096, 16, 128) for _ in range(3))
    kernel = instrument_kernels.attention(4, 16, 4096, 128, False)
    return lambda: kernel(q, k, v)


def softmax() -> Run:
    """Rows of 8192."""
    x = normal(32768, 8192)
    return lambda: kernels.softmax(x)


def scoped_softmax() -> Run:
    """The same with scopes."""
    x = normal(32768, 8192)
    return lambda: instrument_kernels.softmax(x)


def int4() -> Run:
    """bfloat16 times packed int4 weights, 8192³."""
    a, scales = normal(8192, 8192), torch.rand(8192, device="cuda") + 0.5
    packed = torch.randint(0, 256, (8192, 4096), device="cuda", dtype=torch.uint8)
    (_, (m, n, k), stages, threads), *_ = gpu_int4.INT4_OURS[8192]
    return lambda: kernels.matmul_int4(a, packed, scales, m, n, k, stages, threads)


KERNELS: dict[str, Callable[[], Run]] = {
    "GEMM 8192³": gemm,
    "attention 4096": attention,
    "softmax 32768×8192": softmax,
    "int4 GEMM 8192³": int4,
}


def graph_of(run: Run, ms: float) -> Run:
    """Some launches as a graph."""
    return replayed([run] * max(1, min(100, round(CAPTURED_MS / ms))))


def warm(run: Run, seconds: float = 0.5) -> Run:
    """Run it for a while, as programs do: more blocks of the first replays are measured."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()
    return run


def overheads(chosen: list[str]) -> Iterator[Row]:
    """A row for each kernel and mode, then the geometric mean of each mode."""
    ratios: dict[str, list[float]] = {mode: [] for mode in chosen}
    for name, make in KERNELS.items():
        run = make()
        run()
        ms = min(batch_ms(run, 3) for _ in range(3))
        clean = graph_of(run, ms)
        for mode in chosen:
            row = overhead(name, run, ms, clean, mode)
            if "ratio" in row:
                ratios[mode].append(row["ratio"])
            yield row
        torch.cuda.empty_cache()
    for mode, found in ratios.items():
        if len(found) == len(KERNELS):
            value = math.exp(statistics.mean(map(math.log, found)))
            asked = ASKED.get(mode)
            met = None if asked is None else value <= asked
            yield {"what": "overhead", "kernel": "geometric mean", "mode": mode, "ratio": value,
                   "asked": asked, "met": met}  # fmt: skip


def overhead(name: str, run: Run, ms: float, clean: Run, mode: str) -> Row:
    """Instrumented over clean; and what was recorded meanwhile."""
    row: Row = {"what": "overhead", "kernel": name, "mode": mode, "clean_ms": ms}
    try:
        with tileprof.profile(context="scopes", instrument=mode) as session:
            run()
            (pairs,) = compare(clean, {mode: warm(graph_of(run, ms))})
        row |= {
            "ratio": pairs.mean,
            "median": pairs.ratio,
            "low": pairs.low,
            "high": pairs.high,
            "pairs": pairs.pairs,
        }
        assert session.profile is not None
        return row | {"inside": inside(session.profile)}
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"[:600]}


def inside(profile: tileprof.Profile) -> list[Row]:
    """What the profile says of the kernels that were recorded."""
    found = []
    for kernel in profile.tables.kernels:
        facts = {k: v for k, v in kernel.attributes.items() if k.split("_")[0] in _FACTS}
        found.append({"name": kernel.name, **facts, "sites": len(kernel.sites)})
    return found


_FACTS = {
    "record", "recorded", "skipped", "unread", "lost", "instrumented", "clean", "sampled",
    "instrument",
}  # fmt: skip


# -- how right


def errors() -> Iterator[Row]:
    """Of the time of a scope around a delay, in modes that record it."""
    x = torch.rand(132 * 128, device="cuda")
    lengths = (250, 750)
    for mode in ("scopes", "ops"):
        times, scopes, measured = [], [], []
        for inside in lengths:

            def run(inside: int = inside) -> Any:
                return instrument_kernels.delayed(x, inside=inside)

            run()
            times.append(statistics.median(batch_ms(run, 10) for _ in range(5)) * 1e6)
            with tileprof.profile(context="scopes", instrument=mode) as session:
                for _ in range(20):
                    run()
                torch.cuda.synchronize()
            assert session.profile is not None
            scopes.append(mean_visit_ns(session.profile, "delay"))
            measured.append(mean_launch_ns(session.profile, "delayed"))
        true = (times[1] - times[0]) / VISITS
        told = scopes[1] - scopes[0]
        yield {"what": "error", "mode": mode, "true_ns": true, "told_ns": told,
               "error": told / true - 1, "asked": 0.02, "met": abs(told / true - 1) <= 0.02,
               "error_of_same_launches": told / ((measured[1] - measured[0]) / VISITS) - 1,
               "visit_ns": scopes, "clean_ns": times, "measured_ns": measured}  # fmt: skip


def shares() -> Iterator[Row]:
    """Of a kernel's time by op, as samples have it and as records have it; in turns."""
    for name, make in KERNELS.items():
        run = make()
        run()
        torch.cuda.synchronize()
        seen: dict[str, list[dict[str, float]]] = {"ops": [], "sample": []}
        for mode in 3 * tuple(seen):
            seen[mode].append(shares_of(run, mode))
        paths = sorted({path for both in seen.values() for each in both for path in each})
        ops = {
            path: {mode: [each.get(path, 0.0) for each in both] for mode, both in seen.items()}
            for path in paths
        }
        large = {path: of for path, of in ops.items() if statistics.mean(of["ops"]) >= LARGE}
        apart = {
            path: statistics.mean(of["sample"]) - statistics.mean(of["ops"])
            for path, of in large.items()
        }
        worst = max(map(abs, apart.values()), default=math.nan)
        yield {"what": "shares", "kernel": name, "apart": apart, "most_apart": worst,
               "asked": 0.03, "met": worst <= 0.03, "ops": ops}  # fmt: skip
        torch.cuda.empty_cache()
    for name, make in SCOPED.items():
        run = make()
        run()
        yield against_scopes(name, run)


def against_scopes(name: str, run: Run) -> Row:
    """The same of the kernel's own scopes with what is inside, where fewer marks are."""
    seen: dict[str, list[dict[str, float]]] = {"scopes": [], "sample": []}
    for mode in 3 * tuple(seen):
        profile = profiled(run, mode)
        (kernel,) = [
            node
            for node in map(profile.node, profile.find(None, "kernel"))
            if node.total("time") and any(child.kind == "site" for child in node.children)
        ]
        of: dict[str, float] = defaultdict(float)
        for node in map(profile.node, profile.find(None, "site")):
            if node.name in SCOPES[name]:
                of[node.name] += node.total("time") / kernel.total("time")
        seen[mode].append(of)
    ops = {scope: {mode: [each[scope] for each in several] for mode, several in seen.items()}
           for scope in SCOPES[name]}  # fmt: skip
    apart = {scope: statistics.mean(of["sample"]) - statistics.mean(of["scopes"])
             for scope, of in ops.items() if statistics.mean(of["scopes"]) >= LARGE}  # fmt: skip
    worst = max(map(abs, apart.values()))
    return {"what": "shares", "kernel": f"{name}, its scopes", "apart": apart,
            "most_apart": worst, "asked": 0.03, "met": worst <= 0.03, "ops": ops}  # fmt: skip


SCOPES = {
    "attention 4096": ("scores", "softmax", "values"),
    "softmax 32768×8192": ("load", "top", "exponentials", "total", "write"),
}
"""None lies in another."""
SCOPED = {"attention 4096": attention, "softmax 32768×8192": scoped_softmax}
LARGE = 0.05
"""Ops whose shares are compared."""
LAUNCHES = 100
"""Of which shares are measured."""


def profiled(run: Run, mode: str) -> tileprof.Profile:
    """What is recorded of some launches, the first of which was before."""
    run()
    torch.cuda.synchronize()
    with tileprof.profile(context="scopes", instrument=mode) as session:
        for _ in range(LAUNCHES):
            run()
        torch.cuda.synchronize()
    assert session.profile is not None
    return session.profile


def shares_of(run: Run, mode: str) -> dict[str, float]:
    """Share of each op in the time of its role, of the only kernel that has any, by its path."""
    profile = profiled(run, mode)
    nodes = [profile.node(at) for at in profile.find(None, "site")]
    times = {path_of(node): node.own("time") for node in nodes}
    roles: dict[str, float] = defaultdict(float)
    for path, spent in times.items():
        roles[role_of(path)] += spent
    return {path: spent / roles[role_of(path)] for path, spent in times.items() if spent}


def role_of(path: str) -> str:
    """Of the warps that are there: producer, consumer, or all alike."""
    first = path.split(" / ")[0]
    return first if first in {"producer", "consumer"} else ""


def path_of(node: Any) -> str:
    """Names of a site and of those around it."""
    names = []
    while node is not None and node.kind == "site":
        names.insert(0, node.name)
        node = node.parent
    return " / ".join(names)


# -- all case studies


FEWEST = 1000
"""Samples that each role is to have."""


def studies() -> dict[str, Run]:
    """Every kernel of `case_studies/`, with inputs on the device at the size that it runs with."""
    from case_studies import flash_attention, int4_matmul, matmul, rms_norm, softmax, vector_add
    from case_studies.gemm_ladder import ladder

    def floats(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    q, k, v = (floats(2, 500, 4, 64) for _ in range(3))
    a, b = normal(1024, 1024), normal(1024, 1024)
    packed = torch.randint(0, 256, (320, 256), device="cuda", dtype=torch.uint8)
    operands = (normal(256, 512), packed, floats(320, 512 // int4_matmul.GROUP))
    return {
        "vector_add": partial(vector_add.vector_add, floats(1_000_000), floats(1_000_000)),
        "matmul": partial(matmul.matmul, floats(1000, 1000), floats(1000, 1000)),
        "softmax": partial(softmax.softmax, floats(2048, 2048)),
        "rms_norm": partial(rms_norm.rms_norm, floats(2048, 2048), floats(2048)),
        "int4_matmul": partial(int4_matmul.int4_matmul, *operands),
        "flash_attention": partial(flash_attention.flash_attention(2, 4, 500, 64, False), q, k, v),
        "flash_attention, causal": partial(
            flash_attention.flash_attention(2, 4, 500, 64, True), q, k, v
        ),
        **{f"gemm_ladder: {s.name}": ladder.called(s, a, b) for s in ladder.STEPS},
    }


def rooms() -> Iterator[Row]:
    """How many samples each role of each case study has after some launches."""
    enough = []
    for name, run in studies().items():
        profile = profiled(run, "sample")
        roles: dict[str, float] = defaultdict(float)
        for at in profile.find(None, "site"):
            node = profile.node(at)
            roles[role_of(path_of(node)) or "block"] += node.own("kernel_samples")
        refused = [
            str(remark)
            for kernel in profile.tables.kernels
            for remark in kernel.remarks
            if isinstance(remark.decision, NotSampled)
        ]
        enough.append(bool(roles) and min(roles.values()) >= FEWEST)
        yield {"what": "samples", "kernel": name, "launches": LAUNCHES, "roles": roles,
               "met": enough[-1], "refused": refused}  # fmt: skip
    share = sum(enough) / len(enough)
    yield {"what": "samples", "kernel": "share of case studies", "share": share, "asked": 0.9,
           "met": share >= 0.9}  # fmt: skip


VISITS = 64
"""Of the delay, by each warp."""


def mean_visit_ns(profile: tileprof.Profile, name: str) -> float:
    """Time of a warp's visit of the sites of that name."""
    nodes = [profile.node(at) for at in profile.find(name, "site")]
    visits = sum(node.own("count") for node in nodes)
    return sum(node.total("block_time") for node in nodes) / visits if visits else math.nan


def mean_launch_ns(profile: tileprof.Profile, name: str) -> float:
    """Time of a launch of the kernel, as the driver has it."""
    nodes = [profile.node(at) for at in profile.find(name, "kernel")]
    return sum(n.total("time") for n in nodes) / sum(n.own("count") for n in nodes)


class Report:
    """What was measured so far, on the screen and in the file."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.held: Row = {"circumstances": measuring.circumstances(), "rows": []}

    def add(self, row: Row) -> None:
        """A row, with the clocks after it."""
        self.held["rows"].append(row | {"clocks": measuring.clocks()})
        shown = {k: v for k, v in row.items() if k != "inside"}
        print(json.dumps(shown), *row.get("inside", []), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.held, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression over the groups")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("-o", "--output", default=str(RESULTS))
    args = parser.parse_args()
    start = time.perf_counter()
    torch.manual_seed(0)
    report = Report(args.output)
    groups: dict[str, Callable[[], Iterator[Row]]] = {
        "overhead": lambda: overheads(args.modes.split(",")),
        "error": errors,
        "shares": shares,
        "samples": rooms,
    }
    for name, measure in groups.items():
        if not re.search(args.only, name):
            continue
        for row in measure():
            report.add(row)
            if time.perf_counter() - start > args.budget:
                return


if __name__ == "__main__":
    main()
