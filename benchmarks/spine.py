"""Every figure that the machine without a GPU is held to, measured side by side in one run.

    python benchmarks/spine.py      writes benchmarks/results/spine.json and docs/benchmarks.md

Each figure is the median of repeated calls after a warm-up.  Ratios are medians of interleaved
pairs, so that a change of the machine's speed meets both sides.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import tileprof

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "case_studies"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import matmul as matmul_study  # noqa: E402
import rms_norm as rms_norm_study  # noqa: E402
import softmax as softmax_study  # noqa: E402
import vector_add as vector_add_study  # noqa: E402
from page import with_sections  # noqa: E402

THREADS = int(os.environ.get("TILEPROF_NUM_THREADS", len(os.sched_getaffinity(0))))


@dataclass(frozen=True)
class Figure:
    """One row of the table: what was measured, in which unit, and what was asked for."""

    what: str
    value: float
    unit: str
    asked: str
    met: bool
    peer: str = ""


def at_most(what: str, value: float, unit: str, bar: float, peer: str = "") -> Figure:
    """A figure that should be small."""
    return Figure(what, value, unit, f"≤ {bar:g} {unit}", value <= bar, peer)


def at_least(what: str, value: float, bar: float, peer: str = "") -> Figure:
    """A ratio that should be large."""
    return Figure(what, value, "×", f"≥ {bar:g} ×", value >= bar, peer)


def median(call: Callable[[], Any], repeat: int = 9, warm: int = 2) -> float:
    """Median seconds of a call."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], pairs: int = 15) -> tuple[float, str]:
    """Median of their time over ours in interleaved pairs, and both medians as text.

    Each side of a pair is the median of three calls after a pause: the idle threads of a BLAS spin
    for a while after its last call, on the processors that the other side is to use.
    """

    def side(call: Callable[[], Any]) -> float:
        time.sleep(0.2)
        return median(call, 3, 1)

    both = [(side(ours), side(theirs)) for _ in range(pairs)]
    mine, other = (statistics.median(column) for column in zip(*both))
    shown = f"ours {mine * 1e3:.2f} ms, theirs {other * 1e3:.2f} ms"
    return statistics.median(b / a for a, b in both), shown


def per_call_us(statement: str, setup: str, number: int = 20_000) -> float:
    """Median microseconds of a statement, as `timeit` counts them."""
    import timeit

    timer = timeit.Timer(statement, setup, globals={"tileprof": tileprof})
    return statistics.median(timer.repeat(7, number)) / number * 1e6


# -- start-up and compile time


def start_up() -> Iterator[Figure]:
    """Import and frontend to emitted C++, each in fresh processes."""
    code = "import time; t = time.perf_counter(); import tileprof; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(9)
    ]
    yield at_most("`import tileprof`", statistics.median(runs), "s", 0.25)

    from tileprof.compiler import compile_kernel

    def to_cpp() -> str:
        # A new function object has no caches: parsing and rewriting its source counts too.
        fresh = tileprof.jit(matmul_study.matmul.function)
        return compile_kernel(fresh.compile(M=1024, N=1024, K=1024).traced).cpp.text

    yield at_most("matmul: Python function to emitted C++", median(to_cpp) * 1e3, "ms", 50)


# -- interpreter


def interpreter() -> Iterator[Figure]:
    """Warm calls on the interpreter, with every check on."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(1 << 20, dtype=np.float32) for _ in range(2))
    c, d = (generator.standard_normal((1024, 1024), dtype=np.float32) for _ in range(2))
    x = generator.standard_normal((1024, 1000), dtype=np.float32)
    small = {"block_M": 64, "block_N": 64, "block_K": 32}
    with tileprof.device("interpreter"):
        yield at_most(
            "interpreter: vector add, 1 M elements, blocks of 128",
            median(lambda: vector_add_study.vector_add(a, b), 7),
            "s",
            0.2,
            "Triton's interpreter 3.44 s",
        )
        yield at_most(
            "interpreter: matmul 1024³, 64×64×32 tiles",
            median(lambda: matmul_study.matmul(c, d, **small), 7),
            "s",
            0.8,
            "Triton's interpreter 4.06 s",
        )
        yield at_most(
            "interpreter: softmax 1024×1000",
            median(lambda: softmax_study.softmax(x, block_M=1), 7),
            "s",
            0.1,
            "Triton's interpreter 1.0 s",
        )


# -- CPU backend


def cpu() -> Iterator[Figure]:
    """The CPU backend beside NumPy's BLAS and PyTorch, the same number of threads."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((1024, 1024), dtype=np.float32) for _ in range(2))
    out, shown = ratio(lambda: matmul_study.matmul(a, b, **MATMUL_TILES), lambda: a @ b)
    yield at_least(f"cpu: fp32 matmul 1024³ / NumPy's BLAS, {THREADS} threads", out, 0.5, shown)

    x = generator.standard_normal((4096, 4096), dtype=np.float32)
    w = generator.standard_normal(4096, dtype=np.float32)
    try:
        import torch
    except ImportError:
        soft, norm = softmax_numpy, rms_norm_numpy
        peer, bar, args = "NumPy", 3.0, (x, w)
    else:
        torch.set_num_threads(THREADS)
        soft, norm = softmax_torch, rms_norm_torch
        peer, bar, args = "PyTorch CPU", 1.0, (torch.from_numpy(x), torch.from_numpy(w))
    out, shown = ratio(lambda: softmax_study.softmax(args[0]), lambda: soft(args[0]))
    yield at_least(f"cpu: softmax 4096×4096 / {peer}", out, bar, shown)
    out, shown = ratio(lambda: rms_norm_study.rms_norm(*args), lambda: norm(*args))
    yield at_least(f"cpu: RMSNorm 4096×4096 / {peer}", out, bar, shown)


MATMUL_TILES = {"block_M": 128, "block_N": 128, "block_K": 256}


def softmax_torch(x: Any) -> Any:
    """PyTorch's softmax."""
    return x.softmax(dim=1)


def rms_norm_torch(x: Any, w: Any) -> Any:
    """PyTorch's RMS normalisation."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-6)


def softmax_numpy(x: Any) -> Any:
    """Softmax in NumPy."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def rms_norm_numpy(x: Any, w: Any) -> Any:
    """RMS normalisation in NumPy."""
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-6)) * w


# -- profiling


DEEP = """
def run(depth, timer, number):
    return timer.timeit(number) if depth == 0 else run(depth - 1, timer, number)
"""


def overhead() -> Iterator[Figure]:
    """What profiling costs at each scope and each launch."""
    import timeit

    empty = "with tileprof.scope('step'): pass"
    number = 20_000
    yield at_most("scope, no profile running", per_call_us(empty, "pass"), "µs", 0.15)
    with tileprof.profile(context="scopes"):
        yield at_most("scope, `--context scopes`", per_call_us(empty, "pass"), "µs", 1.0)
    names: dict[str, Any] = {}
    exec(DEEP, names)
    timer = timeit.Timer(empty, globals={"tileprof": tileprof})
    # Below the scope's own: `run` at each level, and two frames of timeit.
    more = 20 - depth() - 3
    with tileprof.profile(context="full"):
        deep = [names["run"](more, timer, number) / number * 1e6 for _ in range(7)]
    yield at_most("scope, frames 20 deep", statistics.median(deep), "µs", 3.0)
    yield launch_overhead()


def depth() -> int:
    """Frames from the caller to the outermost one."""
    count, frame = 0, sys._getframe(1)
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


def launch_overhead() -> Figure:
    """A small kernel's warm call under a profile over the same call without.

    One block: waking the other threads of the pool takes longer than the launch, and varies more.
    """
    a = np.ones(4096, dtype=np.float32)
    pairs = []
    for _ in range(15):
        without = median(lambda: vector_add_study.vector_add(a, a, 4096), 400, 20)
        with tileprof.profile():
            within = median(lambda: vector_add_study.vector_add(a, a, 4096), 400, 20)
        pairs.append((within / without, without * 1e6))
    added = (statistics.median(p for p, _ in pairs) - 1) * 100
    shown = f"a call takes {statistics.median(u for _, u in pairs):.1f} µs"
    return at_most("launch under a profile, added", added, "%", 20, shown)


def trees() -> Iterator[Figure]:
    """A tree of 100,000 nodes: load and first screen."""
    from tileprof.profile import TreeBuilder, load, save
    from tileprof.viewer import ViewOptions, render_view

    generator = np.random.default_rng(0)
    builder = TreeBuilder()
    nodes = [-1]
    for number in range(100_000):
        parent = nodes[int(generator.integers(max(0, len(nodes) - 400), len(nodes)))]
        node = builder.child(parent, "frame", f"function_{number % 9_000}_{number % 7}")
        builder.add(node, "time", float(generator.integers(1, 10_000)))
        builder.add(node, "count", 1)
        nodes.append(node)
    profile = builder.snapshot()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.tprof"
        save(profile, path)
        size = f"{len(profile):,} nodes, {path.stat().st_size / 1e6:.1f} MB"
        yield at_most("load a tree of 100,000 nodes", median(lambda: load(path), 5), "s", 1.0, size)
        loaded = load(path)
        options = ViewOptions()
        yield at_most(
            "`view` of it, first screen", median(lambda: render_view(loaded, options), 5), "s", 0.5
        )


# -- the report


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    from tileprof.compiler.build import find_compiler

    compiler = find_compiler()
    versions = {"numpy": np.__version__}
    if "torch" in sys.modules:
        versions["torch"] = sys.modules["torch"].__version__
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": f"{model}, {THREADS} threads",
        "python": platform.python_version(),
        "compiler": compiler.version.splitlines()[0] if compiler else "none",
        **versions,
    }


SECTIONS = {
    "start-up and compile time": start_up,
    "interpreter": interpreter,
    "CPU backend": cpu,
    "profiling": overhead,
    "large profiles": trees,
}


def page(where: dict[str, str], results: dict[str, list[Figure]]) -> str:
    """The Markdown page with every figure beside what was asked for."""
    lines = [
        "# Measured figures",
        "",
        "This page compares measured figures with what is required of them. The first table is",
        "written by `python benchmarks/spine.py`, from `benchmarks/results/spine.json`. "
        + ", ".join(f"{k}: {v}" for k, v in where.items())
        + ".",
        "",
        "| what | measured | required | |",
        "| --- | --- | --- | --- |",
    ]
    for figures in results.values():
        for f in figures:
            peer = f" ({f.peer})" if f.peer else ""
            met = "" if f.met else "missed"
            lines.append(f"| {f.what}{peer} | {f.value:.3g} {f.unit} | {f.asked} | {met} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure everything, print it, and write both files."""
    wanted = sys.argv[1:]
    results: dict[str, list[Figure]] = {}
    for name, section in SECTIONS.items():
        if wanted and not any(w in name for w in wanted):
            continue
        results[name] = []
        for figure in section():
            results[name].append(figure)
            mark = "ok    " if figure.met else "MISSED"
            print(
                f"{mark} {figure.what}: {figure.value:.3g} {figure.unit} (asked {figure.asked}) "
                f"{figure.peer}",
                flush=True,
            )
    if wanted:
        return
    where = machine()
    record = {"machine": where, "figures": {k: [asdict(f) for f in v] for k, v in results.items()}}
    (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
    (ROOT / "benchmarks" / "results" / "spine.json").write_text(json.dumps(record, indent=1) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(with_sections(page(where, results)))


if __name__ == "__main__":
    main()
