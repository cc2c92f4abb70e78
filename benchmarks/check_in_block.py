"""Planted faults inside blocks, and whether `tileprof check` finds them; no GPU is needed.

    python -m benchmarks.check_in_block [--only RE] [--all] [-o FILE]

Each planted fault is a change of the CUDA text that the compiler emitted for a kernel: a wait, a
barrier, a fence or an arrival that is missing, a slot, a phase or a count that is wrong, two steps
in the wrong order.  A fault counts as found where the check of the text gives a finding of the
expected kind and, for races, one of its two accesses is on the expected buffer.  The texts without
a change must have no finding.

`--all` also leaves out every statement that synchronises, one at a time, in every text, and prints
which of them no finding comes of: redundant ones, or misses.  Results go to
`benchmarks/results/check-in-block.json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np

import tileprof
from benchmarks import check_threads
from benchmarks.check_plants import PLANTS as OF_TILES
from benchmarks.check_plants import Plant
from benchmarks.check_plants_threads import THREAD_PLANTS
from benchmarks.studies import QUICK, study
from tileprof import ir
from tileprof.checker.explore import Arguments, Explorer
from tileprof.checker.findings import Finding
from tileprof.checker.in_block import Inside, Plan, emitted, explore_source
from tileprof.cli.kernel.check_text import access_sentence
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.source import CudaSource
from tileprof.emulator.building import compiler
from tileprof.errors import KernelError
from tileprof.runtime.events.access import listening

PLANTS = (*OF_TILES, *THREAD_PLANTS)
HERE = Path(__file__).parent
RESULT = HERE / "results" / "check-in-block.json"
SMALL: Mapping[str, Mapping[str, Any]] = {
    **QUICK,
    "attention": {"length": 300},
    "attention_backward": {"length": 200},
    "attention_varlen": {},
    "chunk_scan": {},
    "flash_attention": {"length": 500, "repeat": 1},
    "matmul": {"m": 300, "n": 200, "k": 448, "repeat": 1},
    "mla_decode": {},
    "paged_attention": {},
    "sparse_attention": {},
}
"""Arguments of the case studies' `main`, with which loops still go around their rings."""


@dataclass(frozen=True)
class Program:
    """One emitted text with arguments."""

    name: str
    target: str
    source: CudaSource
    kernel: ir.Kernel
    arguments: Arguments

    def check(self, text: str | None = None, seeds: Sequence[int] = (0, 1, 2)) -> Inside:
        """Explore the text, or another one in its place."""
        source = self.source if text is None else replace(self.source, text=text)
        return explore_source(source, self.kernel, self.arguments, Plan(self.target, tuple(seeds)))


@dataclass(frozen=True)
class Call:
    """A call that runs kernels, and the GPUs that they are compiled for."""

    name: str
    run: Callable[[], Any]
    targets: tuple[str, ...] = ("sm_90a",)
    controls: Controls | None = None


def recorded(call: Call) -> Iterator[Program]:
    """Yield the kernels that a call runs, each once for each target that can have it."""
    watch = Explorer(keeps_arguments=True)
    with tileprof.device("interpreter"), listening(watch), redirect_stdout(StringIO()):
        call.run()
    for number, run in enumerate(run for run in watch.runs if run.arguments is not None):
        assert run.arguments is not None
        for target in call.targets:
            label = f"{call.name}.{run.kernel.name}.{number}.{target}"
            try:
                source = emitted(run.kernel, run.arguments, Plan(target, controls=call.controls))
            except KernelError as error:
                print(f"{label}: {error.message}", file=sys.stderr)
            else:
                yield Program(label, target, source, run.kernel, run.arguments)


def _normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def programs(wanted: re.Pattern[str]) -> Iterator[Program]:
    """Yield all texts whose calls' names match."""
    for call in (*studies(), *ladder(), *of_benchmarks(), *of_threads()):
        if wanted.search(call.name):
            yield from recorded(call)


def studies() -> Iterator[Call]:
    """Yield the main functions of the case studies."""
    for name, options in SMALL.items():
        yield Call(name, partial(_run_study, name, options), ("sm_90a", "sm_80"))


def _run_study(name: str, options: Mapping[str, Any]) -> None:
    study(name).main(**options)


def ladder() -> Iterator[Call]:
    """Yield the rungs of the ladder of products."""
    steps = importlib.import_module("case_studies.gemm_ladder.steps")
    half = ml_dtypes.bfloat16
    a, b = _normal(512, 512, dtype=half), _normal(512, 512, dtype=half)
    for step in steps.STEPS:
        run = partial(tileprof.jit(step.function), a, b, **step.tile)
        yield Call(f"ladder {step.name}", run, controls=Controls(**step.forbidden))


def of_benchmarks() -> Iterator[Call]:
    """Yield kernels that are measured against others."""
    own = importlib.import_module("benchmarks.gpu_kernels")
    half = ml_dtypes.bfloat16
    a, b = _normal(256, 256, dtype=half), _normal(256, 512, dtype=half)
    few, rows = _normal(16, 4096, dtype=half), _normal(8, 1024, dtype=half)
    packed = np.random.default_rng(0).integers(0, 255, (256, 2048)).astype(np.uint8)
    flat = _normal(4096, dtype=half)
    arguments: dict[str, tuple[Any, ...]] = {
        "softmax": (rows,),
        "rms_norm": (rows, _normal(1024, dtype=half)),
        "matmul": (a, b),
        "matmul_nt": (a, _normal(512, 256, dtype=half)),
        "matmul_tn": (a, b),
        "matmul_skinny": (few, _normal(128, 4096, dtype=half)),
        "matmul_int4_split": (few, packed, np.ones(256, np.float32)),
        "transpose": (_normal(512, 256, dtype=half),),
        "add": (flat, flat),
    }
    for name, given in arguments.items():
        yield Call(f"bench {name}", partial(getattr(own, name), *given))


def of_threads() -> Iterator[Call]:
    """Yield kernels that are written for single threads."""
    numbers = np.random.default_rng(0).integers(0, 64, (4, 256)).astype(np.int32)
    arguments: dict[str, tuple[Any, ...]] = {
        "rows_of_threads": (_normal(16, 512), _normal(512)),
        "neighbours_of_threads": (_normal(4, 128),),
        "counted_by_threads": (numbers, np.zeros(64, np.int32)),
        "roles_of_threads": (_normal(4, 4, 64),),
    }
    for name, given in arguments.items():
        yield Call(f"threads {name}", partial(getattr(check_threads, name), *given))


SYNCHRONIZES = re.compile(
    r"^\s*(?:if \([^{]*?\) )?(?:tp_(?:barrier|warp_barrier|cp_async_wait|cp_async_commit"
    r"|fence_async|mbarrier_wait|mbarrier_arrive\w*|mbarrier_expect|fence_mbarrier_init|bulk_wait_read"
    r"|bulk_wait|bulk_commit|wgmma_wait|wgmma_fence|wgmma_commit|turn_\w+|cluster_barrier)\b).*;$"
)
"""A line that is one statement that synchronises."""


def left_out(program: Program) -> Iterator[tuple[int, str]]:
    """Yield each line that synchronises, with the text without it."""
    lines = program.source.text.split("\n")
    for at, line in enumerate(lines):
        if SYNCHRONIZES.match(line):
            yield at, "\n".join([*lines[:at], "", *lines[at + 1 :]])


def sweep(wanted: re.Pattern[str]) -> None:
    """Leave out every statement that synchronises, and print what no finding comes of."""
    for program in programs(wanted):
        found = missed = 0
        for at, text in left_out(program):
            result = program.check(text, (0,))
            if result.findings:
                found += 1
                continue
            missed += 1
            print(f"  {program.name}:{at + 1}: {program.source.text.splitlines()[at].strip()}")
        print(f"{program.name}: {found} found, {missed} not", flush=True)


@dataclass(frozen=True)
class Row:
    """The result for one planted fault."""

    what: str
    family: str
    program: str
    found: bool
    finding: str
    """The counterexample, or what was found instead."""
    seconds: float


def check_plant(plant: Plant, program: Program) -> Row:
    """Check one changed text."""
    text = plant.apply(program.source.text)
    start = time.perf_counter()
    findings = program.check(text).findings
    taken = time.perf_counter() - start
    true = [each for each in findings if is_true(plant, each)]
    shown = sentence(next(iter(true or findings), None))
    return Row(plant.what, plant.family, plant.program, bool(true), shown, round(taken, 2))


def is_true(plant: Plant, finding: Finding) -> bool:
    """Return whether a finding is the planted fault: its kind, and its buffer where one is named.

    A fault of another kind has no buffer.
    """
    if finding.code not in plant.codes:
        return False
    has_buffer = finding.code in ("shared-memory-race", "missing-fence")
    return not (has_buffer and plant.buffers) or finding.buffer in plant.buffers


def sentence(finding: Finding | None) -> str:
    """Return a finding in one line."""
    if finding is None:
        return ""
    said = [access_sentence(finding.buffer, each) for each in finding.accesses[:2]]
    return f"{finding.code}: {'; '.join(said)}"


def measure(wanted: re.Pattern[str]) -> dict[str, Any]:
    """Check all texts without and with planted faults."""
    rows: list[Row] = []
    clean: list[dict[str, Any]] = []
    done: set[str] = set()
    for program in programs(re.compile("")):
        plants = [p for p in PLANTS if p.program == program.name and wanted.search(p.what)]
        start = time.perf_counter()
        result = program.check()
        taken = round(time.perf_counter() - start, 2)
        alarms = [sentence(each) for each in result.findings]
        reasons = sorted({v.reason for v in result.verdicts if v.reason})
        clean.append(
            {"program": program.name, "alarms": alarms, "seconds": taken, "unchecked": reasons}
        )
        print(f"{program.name}: {len(alarms)} alarms, {taken} s", flush=True)
        for plant in plants:
            row = check_plant(plant, program)
            rows.append(row)
            print(f"  {'found' if row.found else 'MISSED'}: {row.what}: {row.finding}", flush=True)
        done.add(program.name)
    missing = {plant.program for plant in PLANTS} - done
    if missing:
        raise SystemExit(f"no text is called {', '.join(sorted(missing))}")
    return {
        "date": date.today().isoformat(),
        "versions": {
            "tileprof": tileprof.__version__,
            "python": platform.python_version(),
            "compiler": compiler().version.splitlines()[0],
        },
        "planted": len(rows),
        "found": sum(row.found for row in rows),
        "texts": len(clean),
        "false_alarms": sum(len(each["alarms"]) for each in clean),
        "plants": [asdict(row) for row in rows],
        "clean": clean,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", default="", metavar="RE", help="planted faults, or with --all texts"
    )
    parser.add_argument("--all", action="store_true", help="leave out each statement instead")
    parser.add_argument("-o", type=Path, default=RESULT, metavar="FILE")
    args = parser.parse_args()
    if args.all:
        sweep(re.compile(args.only))
        return
    with TemporaryDirectory() as folder:
        # Nothing was compiled before, so that times are those of a first check.
        os.environ["TILEPROF_CACHE"] = folder
        result = measure(re.compile(args.only))
    print(
        f"{result['found']} of {result['planted']} planted faults found, {result['false_alarms']}"
        f" false alarms in {result['texts']} texts"
    )
    if not args.only:
        args.o.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
