"""Measure seconds of tileprof's own work, which tests on a shared machine cannot be held to.

    python benchmarks/costs.py      writes benchmarks/results/costs.json

Tests hold the same work to counts of calls, which do not depend on the machine.  Each figure is the
least of several repetitions, in processor time where threads of others would disturb it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "case_studies")]

import tileprof.profiler as profiler  # noqa: E402


@dataclass(frozen=True)
class Cost:
    """One measured cost beside the most it should be, both in `unit`."""

    what: str
    value: float
    unit: str
    most: float

    @property
    def met(self) -> bool:
        """Whether the cost is within its bar."""
        return self.value <= self.most


def least(work: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time in seconds that `work` takes."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def compiling() -> Iterator[Cost]:
    """Tracing, lowering and NVRTC of attention forward with an empty cache; parts of it."""
    import attention

    from tests.cuda.test_layout_inference import SOFTMAX
    from tests.cuda.test_prelude import HEADERS, OPTIONS
    from tileprof import ir
    from tileprof.compiler.cuda.controls import Controls
    from tileprof.compiler.cuda.lowering import Lowering
    from tileprof.compiler.cuda.nvrtc import compile_text
    from tileprof.compiler.cuda.passes.choice.choose import choose
    from tileprof.compiler.cuda.passes.expand import expand
    from tileprof.compiler.cuda.passes.layout.layouts import infer_layouts
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.prelude import with_dependencies
    from tileprof.compiler.cuda.target import find_target

    hopper = find_target("sm_90a")
    long = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16}

    def whole(causal: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TILEPROF_CACHE"] = folder
            kernel = attention.attention.compile(**long, dim=128, causal=causal)
            assert compile_cuda(kernel.program.kernel, hopper).cubin.bytes

    for causal in (False, True):
        what = f"compile attention forward{', causal' if causal else ''}"
        yield Cost(what, least(lambda causal=causal: whole(causal), 3), "s", 1.0)  # type: ignore[misc]

    def nvrtc(headers: tuple[str, ...]) -> None:
        source = "".join(f'#include "{name}"\n' for name in headers)
        source += 'extern "C" __global__ void kernel(int *p) { *p = 1; }\n'
        options = (*OPTIONS, "--gpu-architecture=sm_90a")
        assert compile_text(source, with_dependencies(headers), options, name="k.cu").ok

    cost = least(lambda: nvrtc(HEADERS), 8) - least(lambda: nvrtc(()), 8)
    yield Cost("all headers of the prelude in NVRTC", cost, "s", 0.03)
    lowering = Lowering(hopper, Controls())
    kernel = expand(choose(ir.parse(SOFTMAX), lowering), lowering)
    yield Cost("layouts of a softmax", least(lambda: infer_layouts(kernel, lowering)), "s", 0.03)


def recording() -> Iterator[Cost]:
    """A step's end, a launch's callbacks, and reading the record of a kernel."""

    def step(rounds: int) -> float:
        def steps() -> None:
            for _ in range(rounds):
                profiler.step()

        return least(steps) / rounds * 1e9

    yield Cost("step without a session", step(100_000), "ns", 300)
    with profiler.profile(context="python", every=10**9):
        profiler.step()
        profiler.step()
        yield Cost("step that changes nothing", step(20_000), "ns", 3_000)
    with profiler.profile(context="python", every=2):
        for k in range(100):
            with profiler.scope(f"{k}"):
                pass
        profiler.step()
        yield Cost("step that begins or ends a recording", step(2_000), "ns", 100_000)

    import tileprof.native._recorder as recorder
    from tests.native.cupti_programs import Fake, build_fake

    fake = Fake(build_fake(), recorder)
    assert fake.start() == (0, "")
    cost = min(fake.time_calls(100_000) for _ in range(5))
    yield Cost("a launch's callbacks", cost, "ns", 600)
    recorder.gpu_pause()
    cost = min(fake.time_calls(100_000) for _ in range(5))
    yield Cost("a launch's callbacks while paused", cost, "ns", 100)
    recorder.gpu_resume()
    for names, streams in ((1, 1), (100, 4)):
        cost = fake.time_reading(500_000, names, streams)
        yield Cost(f"a kernel's record, {names} names on {streams} streams", cost, "ns", 200)
    recorder.gpu_stop()


def reading() -> Iterator[Cost]:
    """Tables of samples, rules about programs, and pages in a browser."""
    from tests.analyzer.test_programs import big
    from tests.binary.support import compile_cuda
    from tests.pc_samples import drawn
    from tileprof.analyzer.cases import Program
    from tileprof.analyzer.rules import PROGRAM_RULES
    from tileprof.profiler.pcs.attribution import Modules, attribute
    from tileprof.profiler.pcs.listings import with_code

    names = ["nest", "divide", "spill", "wgmma"]
    cubins = [compile_cuda(name, "sm_90a")[0] for name in names]
    sizes = [len(c.functions[n].instructions) for c, n in zip(cubins, names)]
    modules = {i: c.data for i, c in enumerate(cubins)}
    counts = drawn(sizes, [*enumerate(names)], 10**6, modules, contexts=0)
    digests = Modules()
    held = attribute(counts, digests, str, lambda c, f: c % 100)
    cost = least(lambda: attribute(counts, digests, str, lambda c, f: c % 100), 3)
    yield Cost("a million rows of samples to tables", cost, "s", 0.6)
    with_code(held, digests.cubins(counts), str)
    cost = least(lambda: with_code(held, digests.cubins(counts), str), 1)
    yield Cost("code of sampled functions, disassembled before", cost, "s", 1.0)

    profile = big(10_000)
    cost = least(lambda: [[*rule.find(Program(profile))] for rule in PROGRAM_RULES], 3)
    yield Cost("all rules about programs, 10,000 nodes", cost, "s", 1.0)


def pages() -> Iterator[Cost]:
    """From the request of a report's file until its view is on the screen."""
    from tests.viewer.browser import Browser, chromium
    from tests.viewer.html_reports import large, report
    from tests.viewer.timelines_made import crowded
    from tileprof.viewer.html import write_html

    made = {
        "a page of 10,000 nodes": (large(), ("", "#tree", "#flame", "#code")),
        "a page of crowded timelines": (
            report(crowded(large().program.profile)),
            ("", "#timelines/cta/1", "#timelines/counters", "#timelines/program"),
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(chromium(), Path(folder))
        ready = "performance.getEntriesByName('ready')[0].startTime"
        for what, (each, places) in made.items():
            path = Path(folder) / "page.html"
            write_html(each, path)
            slowest = 0.0
            for place in places:
                browser.open(path, place)
                slowest = max(slowest, browser.run(ready) / 1000)
            yield Cost(f"opening {what}", slowest, "s", 2.0)
        browser.close()


def main() -> int:
    """Measure all of it and write the file; 1 where a bar is missed."""
    costs = []
    for part in (compiling, recording, reading, pages):
        for cost in part():
            print(f"{cost.what:60} {cost.value:10.4g} {cost.unit} (≤ {cost.most:g})", flush=True)
            costs.append({**asdict(cost), "met": cost.met})
    made = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": platform.processor() or platform.machine(),
                    "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()},
        "costs": costs,
    }  # fmt: skip
    path = ROOT / "benchmarks" / "results" / "costs.json"
    path.write_text(json.dumps(made, indent=1) + "\n")
    return int(not all(each["met"] for each in costs))


if __name__ == "__main__":
    sys.exit(main())
