"""Random programs with special values on every device: the interpreter says what each one means.

    python -m benchmarks.reliability.devices --runs 20000 --jobs 16 --seconds 500 -o out.json

Draws programs and arguments (`tests/strategies.py`: NaN, infinities, zeros of both signs,
denormals, the ends of integers, extents of 0, loops beyond 2**31), runs each on the interpreter, as
compiled for the cpu and as CUDA text on the emulated GPU (`tileprof/emulator`), and compares: exact
results to the bit, sums and library functions by the tolerances of `tests/test_differential.py`.

Programs are compiled in batches, many to a library.  One batch in `FULL` has the flags that users
get (-O3, and -O1 for the emulator); the others have -O0, which takes a quarter of the time.  Each
program draws how it is lowered: for the cpu as drawn, after all passes, or with measurement; for a
GPU for sm_90a, sm_80, or without the instructions that are particular to one.

A difference is named `SEED:BATCH:INDEX`; `--only SEED:BATCH:INDEX` shows it again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.everywhere import compiled_for
from tests.strategies import Case, random_case
from tests.test_differential import VARIANTS as CPU_VARIANTS
from tests.test_differential import _same
from tileprof import ir
from tileprof.compiler.build import find_compiler
from tileprof.compiler.codegen import CppSource, emit, prelude
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.emulator import emulate
from tileprof.emulator.building import together
from tileprof.errors import BoundsError
from tileprof.instrument.records import c_struct
from tileprof.runtime.cpu import executable as cpu
from tileprof.runtime.interpreter import InterpreterExecutable, OpClock

BATCH = 24
"""Programs in one library."""
FULL = 8
"""One batch in so many is compiled as for users."""
LONGEST = 180
"""Seconds after which a batch that has not ended counts as a hang."""
SHOWN = 20
"""Failures that are written out."""
_MOST_TEXT = 20_000
"""Characters of a failing program that are written out."""
GPU_VARIANTS = {
    "sm_90a": ("sm_90a", Controls(tf32=False)),
    "sm_80": ("sm_80", Controls(tf32=False)),
    "plain": (
        "sm_90a",
        Controls(tf32=False, wgmma=False, tma=False, swizzle=False, vectorize=False),
    ),
}
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


@dataclass
class Found:
    """What a batch came to."""

    programs: int = 0
    full: int = 0
    """Programs whose code for the cpu had the flags that users get."""
    illegal: int = 0
    """Programs that index outside of a tile, which drawing does not rule out for huge loops."""
    special: int = 0
    empty: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Count another batch too."""
        self.programs += other.programs
        self.full += other.full
        self.illegal += other.illegal
        self.special += other.special
        self.empty += other.empty
        self.failures += other.failures


@dataclass
class Program:
    """One drawn program on its way through the devices."""

    name: str
    case: Case
    expected: list[Any]
    cpu_variant: str = ""
    gpu_variant: str = ""
    lowered: ir.Kernel | None = None
    cpp: CppSource | None = None
    cuda: CudaProgram | None = None


def _chosen(names: Sequence[str], index: int) -> str:
    return names[index % len(names)]


def run_batch(seed: int, number: int, only: int | None = None) -> Found:
    """Draw and compare the programs of one batch."""
    found = Found()
    full = number % FULL == 0
    programs = []
    for index in range(BATCH) if only is None else [only]:
        case = random_case(f"{seed}:{number}:{index}")
        case = replace(case, kernel=replace(case.kernel, name=f"k{index}"))
        expected = case.arguments()
        try:
            InterpreterExecutable(case.kernel, clock=OpClock()).run(expected, case.extents)
        except BoundsError:
            found.illegal += 1
            continue
        made = Program(f"{seed}:{number}:{index}", case, expected)
        made.cpu_variant = _chosen(list(CPU_VARIANTS), index)
        made.gpu_variant = _chosen(list(GPU_VARIANTS), index // len(CPU_VARIANTS))
        programs.append(made)
        found.special += case.special
        found.empty += 0 in [
            d for p in case.kernel.params if isinstance(p.type, ir.BufferType)
            for d in p.type.shape
        ] or 0 in case.extents  # fmt: skip
    found.programs += len(programs)
    found.full += len(programs) if full else 0
    with tempfile.TemporaryDirectory(prefix="tileprof-devices-") as folder:
        _on_cpu(programs, Path(folder), full, found)
        _on_gpu(programs, Path(folder), full, found)
    return found


def _guarded(program: Program, device: str, found: Found, action: Callable[[], None]) -> bool:
    """Whether an action went well; what did not is a failure of the program."""
    try:
        action()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # The first lines say which array; a fault of the compiler is told by its last frame.
        where = traceback.extract_tb(error.__traceback__)[-1]
        found.failures.append(
            {
                "id": program.name,
                "device": device,
                "what": text[:1500],
                "where": f"{Path(where.filename).name}:{where.lineno}",
                "program": repr(program.case)[:_MOST_TEXT],
            }
        )
        return False
    return True


# -- the cpu


def _on_cpu(programs: Sequence[Program], folder: Path, full: bool, found: Found) -> None:
    ready = []
    for program in programs:

        def lower(program: Program = program) -> None:
            program.lowered = CPU_VARIANTS[program.cpu_variant](program.case.kernel)
            program.cpp = emit(program.lowered)

        if _guarded(program, f"cpu, {program.cpu_variant}", found, lower):
            ready.append(program)
    if not ready:
        return
    built = Path(_compiled_cpp([p.cpp for p in ready if p.cpp], folder, full))
    loaded = (built, ctypes.CDLL(str(built)))
    for at, program in enumerate(ready):

        def run(at: int = at, program: Program = program) -> None:
            assert program.lowered is not None
            assert program.cpp is not None
            entry = f"tileprof_kernel_{at}"
            with mock.patch.multiple(cpu, load=lambda *_, **__: loaded, ENTRY=entry):
                executable = cpu.CpuExecutable(program.lowered, program.cpp)
            arguments = program.case.arguments()
            executable.run(arguments, program.case.extents)
            _same(program.case, arguments, program.expected)

        _guarded(program, f"cpu, {program.cpu_variant}", found, run)


def _compiled_cpp(sources: Sequence[CppSource], folder: Path, full: bool) -> Path:
    """One library of many texts, each in a namespace of its own, its entry by its number."""
    compiler = find_compiler()
    assert compiler is not None
    flags = [f for f in compiler.flags if full or f not in ("-O3", "-g1")]
    headers = dict.fromkeys(h for s in sources for h in s.headers)
    # Texts that measure define these structures, before the headers that use them.
    lines = [c_struct(), *(f'#include "{name}"' for name in headers)]
    for at, source in enumerate(sources):
        body = _INCLUDE.sub("", source.text.replace(c_struct(), ""))
        lines += [f"#define tileprof_kernel tileprof_kernel_{at}", f"namespace text_{at} {{"]
        lines += [body, "}", "#undef tileprof_kernel"]
    (folder / "cpu.cpp").write_text("\n".join(lines))
    made = folder / "cpu.so"
    command = [compiler.path, *flags, *([] if full else ["-O0"]), f"-I{prelude.FOLDER}"]
    subprocess.run([*command, "cpu.cpp", "-o", str(made), "-lm"], cwd=folder, check=True)
    return made


# -- the emulated GPU


def _on_gpu(programs: Sequence[Program], folder: Path, full: bool, found: Found) -> None:
    ready = []
    for program in programs:

        def lower(program: Program = program) -> None:
            target, controls = GPU_VARIANTS[program.gpu_variant]
            kernel = prove_bounds(simplify(program.case.kernel))
            extents = dict(zip(kernel.symbols, program.case.extents, strict=True))
            program.cuda = compiled_for(kernel, target, controls, extents)
            ir.verify(program.cuda.kernel)
            program.lowered = kernel

        if _guarded(program, program.gpu_variant, found, lower):
            ready.append(program)
    if not ready:
        return
    library = together([p.cuda.source for p in ready if p.cuda], folder, ["-O1" if full else "-O0"])
    for at, program in enumerate(ready):

        def run(at: int = at, program: Program = program) -> None:
            _emulated(program, library, at)

        _guarded(program, program.gpu_variant, found, run)


def _emulated(program: Program, library: ctypes.CDLL, seed: int) -> None:
    assert program.lowered is not None
    assert program.cuda is not None
    arguments = program.case.arguments()
    extents = dict(zip(program.lowered.symbols, program.case.extents, strict=True))
    emulate(program.cuda.source, program.lowered, arguments, extents, seed=seed, compiled=library)
    _same(program.case, arguments, program.expected)


# -- many processes


def _worker(seed: int, first: int, step: int, pipe: Connection) -> None:
    number = first
    np.seterr(all="ignore")
    while True:
        pipe.send(("begin", number))
        try:
            pipe.send(("end", run_batch(seed, number)))
        except Exception:
            made = Found(failures=[{"id": f"{seed}:{number}", "what": traceback.format_exc()}])
            pipe.send(("end", made))
        number += step


@dataclass
class _Job:
    """A process and the batch that it works on."""

    process: Any
    pipe: Connection
    number: int
    since: float


class Campaign:
    """Processes that work on batches until there are enough programs, or the time is over."""

    def __init__(self, seed: int, jobs: int, first: int = 0) -> None:
        self.seed, self.jobs = seed, jobs
        self.found = Found()
        self.hangs = 0
        self._context = multiprocessing.get_context("spawn")
        self._jobs = [self._start(first + at) for at in range(jobs)]

    def _start(self, number: int) -> _Job:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_worker, args=(self.seed, number, self.jobs, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return _Job(process, ours, number, time.monotonic())

    def run(self, runs: int, seconds: float) -> None:
        """Work, and say from time to time how far."""
        start = told = time.monotonic()
        while self.found.programs < runs and time.monotonic() - start < seconds:
            for pipe in wait([job.pipe for job in self._jobs], timeout=1):
                self._hear(next(at for at, job in enumerate(self._jobs) if job.pipe is pipe))
            for at, job in enumerate(self._jobs):
                if time.monotonic() - job.since > LONGEST:
                    self.hangs += 1
                    self._lost(at, "did not end")
            if time.monotonic() - told > 10:
                told = time.monotonic()
                rate = self.found.programs / (told - start)
                failed = len(self.found.failures)
                print(
                    f"{self.found.programs} programs, {rate:.1f}/s, {failed} failures", flush=True
                )
        for job in self._jobs:
            job.process.terminate()
            job.process.join()

    def _hear(self, at: int) -> None:
        job = self._jobs[at]
        try:
            what, held = job.pipe.recv()
        except (EOFError, OSError):
            job.process.join(5)
            self._lost(at, f"died with exit code {job.process.exitcode}")
            return
        job.since = time.monotonic()
        if what == "begin":
            job.number = held
        else:
            self.found.add(held)

    def _lost(self, at: int, why: str) -> None:
        job = self._jobs[at]
        job.process.kill()
        job.process.join()
        self.found.failures.append(
            {"id": f"{self.seed}:{job.number}", "what": f"the process of the batch {why}"}
        )
        self._jobs[at] = self._start(job.number + self.jobs)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 where there was a difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=240, help="programs to draw")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=1e9, help="the most it may take")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other programs")
    parser.add_argument("--only", default="", help="SEED:BATCH:INDEX of a program to run again")
    parser.add_argument("-o", dest="output", type=Path, help="file for the result, as JSON")
    options = parser.parse_args(argv)
    start = time.monotonic()
    if options.only:
        seed, number, index = map(int, options.only.split(":"))
        found, hangs = run_batch(seed, number, index), 0
        for each in found.failures:
            print(f"{each['device']} at {each['where']}: {each['what']}\n{each['program']}")
    else:
        campaign = Campaign(options.seed, options.jobs)
        campaign.run(options.runs, options.seconds)
        found, hangs = campaign.found, campaign.hangs
    report = {
        "name": "devices",
        "runs": found.programs,
        "failures": len(found.failures),
        "hangs": hangs,
        "tracebacks": sum("where" not in each for each in found.failures) - hangs,
        "seconds": round(time.monotonic() - start, 1),
        "special": found.special,
        "empty": found.empty,
        "user_flags": found.full,
        "illegal": found.illegal,
        "seed": options.seed,
        "details": found.failures[:SHOWN],
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    print({key: value for key, value in report.items() if key != "details"})
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
