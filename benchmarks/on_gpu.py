"""Benchmarks and tests that need a GPU, in one run of a known length.

    python -m benchmarks.on_gpu FOLDER [--seconds 1600] [--steps soak,tests,counters]
        [--packages FOLDER] [--beside soak]

In: names of `STEPS`, in the order in which they run; those that `--beside` names begin first and
run beside all others, on the last GPU where there are several.  Out: in FOLDER each step's JSON and
what it printed, and `steps.txt`: when each began, how long it took, its exit status.  A step gets
the time that is left and no more than its own; one for which none is left is not begun.

`--packages` is a folder whose `site` has TileLang, which the steps with peers import.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--durations=5")
LEAST_S = 30.0
"""Time below which no step is begun."""


@dataclass(frozen=True)
class Step:
    """A command of this Python; `{out}` is the folder, `{seconds}` what the step may take."""

    seconds: float
    """The most it may take."""
    arguments: tuple[str, ...]
    peers: bool = False
    """Whether TileLang is imported where there is one."""
    environment: tuple[tuple[str, str], ...] = ()


def _kernels(only: str, name: str) -> tuple[str, ...]:
    """Return arguments that measure some groups of kernels beside their peers."""
    return ("benchmarks/kernels.py", "--only", only, "--budget", "{seconds}",
            "-o", "{out}/" + name)  # fmt: skip


STEPS = {
    "soak": Step(700, ("-m", "benchmarks.reliability.soak", "--seconds", "605",
                       "-o", "{out}/soak.json")),
    "tests": Step(600, (*_PYTEST, "-m", "gpu", "tests/cuda")),
    "tests-operators": Step(600, (*_PYTEST, "-m", "gpu", "tests/operators", "tests/learn",
                                  "tests/tuning", "tests/analyzer", "tests/bench")),
    "tests-profiler": Step(900, (*_PYTEST, "-m", "gpu", "tests/profiler", "tests/native",
                                 "tests/stalls")),
    "tests-language": Step(
        300, ("-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider", "tests/lang",
              "tests/cuda/test_odd_warps.py", "tests/cuda/test_shifted.py",
              "tests/test_special_values.py", "tests/test_overlapping_tiles.py"),
        environment=(("TILEPROF_TEST_GPU", "1"),)),
    "counters": Step(240, ("-m", "benchmarks.show_counters", "--only", "fresh",
                           "--out", "{out}/counters.json", "--keep", "{out}/counters-keep.json")),
    "overhead": Step(600, ("benchmarks/overhead.py", "--only", "^(training|launches|deep)$",
                           "--budget", "{seconds}", "-o", "{out}/overhead.json")),
    "overhead-live": Step(150, ("benchmarks/overhead_live.py", "-o", "{out}/overhead-live.json")),
    "kernels": Step(600, _kernels("^(gemm|memory|launch|compile|int4)", "kernels.json"), True),
    "attention": Step(600, _kernels("^attention", "attention.json"), True),
    "defects": Step(760, ("-m", "plant.generated.running", "--split", "test-3", "--part", "1/2",
                          "--budget", "{seconds}", "--keep", "{out}/defects",
                          "-o", "{out}/plant-test-3-1of2.json"),
                    environment=(("PYTHONPATH", str(ROOT / "benchmarks")),)),
    "tuner": Step(600, ("-m", "benchmarks.tuning", "--no-cold", "--seconds", "{seconds}",
                        "-o", "{out}/tuning.json")),
}  # fmt: skip
"""Steps by name, in the order in which they run where none are named."""


def devices() -> int:
    """Return how many GPUs there are; the driver's library is not opened in this process."""
    try:
        told = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    return told.stdout.count("GPU ")


def started(
    name: str, out: Path, left: float, packages: Path | None, gpu: int | None
) -> subprocess.Popen[bytes]:
    """Start a step, on that GPU or on all."""
    step = STEPS[name]
    seconds = min(step.seconds, left)
    # A step stops measuring 20 s before it is ended, so that it can write its results.
    known = {"out": str(out), "seconds": str(int(seconds) - 20)}
    paths = [str(ROOT), *dict(step.environment).get("PYTHONPATH", "").split(os.pathsep)]
    if step.peers and packages is not None:
        paths.insert(0, str(packages / "site"))
    paths.append(os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, **dict(step.environment), "PYTHONUNBUFFERED": "1",
                   "PYTHONPATH": os.pathsep.join(filter(None, paths))}  # fmt: skip
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
    command = ["timeout", "-k", "5", str(int(seconds)), sys.executable,
               *(each.format_map(known) for each in step.arguments)]  # fmt: skip
    with (out / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run steps until the time is over; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.on_gpu")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1600, help="for all steps")
    parser.add_argument("--steps", default=",".join(STEPS), help="names, joined by commas")
    parser.add_argument("--beside", default="", help="names of steps that run beside the others")
    parser.add_argument("--packages", type=Path, help="a folder with `site`")
    args = parser.parse_args(arguments)
    beside = [name for name in args.beside.split(",") if name]
    names = [name for name in args.steps.split(",") if name and name not in beside]
    if unknown := [name for name in (*beside, *names) if name not in STEPS]:
        parser.error(f"no such step: {', '.join(unknown)}; known: {', '.join(STEPS)}")
    if not (gpus := devices()):
        parser.error("nvidia-smi sees no GPU")
    out = args.folder.resolve()
    out.mkdir(parents=True, exist_ok=True)
    begin, failed, several = time.monotonic(), False, gpus > 1

    def say(text: str) -> None:
        line = f"{time.monotonic() - begin:6.0f} s: {text}"
        print(line, flush=True)
        with (out / "steps.txt").open("a") as file:
            file.write(line + "\n")

    def left() -> float:
        return float(args.seconds - (time.monotonic() - begin))

    gpu = (gpus - 1, 0) if several else (None, None)
    others = {name: started(name, out, left(), args.packages, gpu[0]) for name in beside}
    for name in names:
        if left() < LEAST_S:
            say(f"{name} is not begun")
            continue
        say(f"{name} begins")
        code = started(name, out, left(), args.packages, gpu[1]).wait()
        failed |= bool(code)
        say(f"{name} ends with {code}")
    for name, process in others.items():
        code = process.wait()
        failed |= bool(code)
        say(f"{name}, beside the others, ends with {code}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
