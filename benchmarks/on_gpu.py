"""Benchmarks and tests that need a GPU, in one run of a known length.

    python -m benchmarks.on_gpu FOLDER [--seconds 1600] [--steps soak,tests,counters]
        [--packages FOLDER]

In: names of `STEPS`, in the order in which they begin, each with `=SECONDS` where it may take less
than its own time.  Out: in FOLDER each step's JSON and what it
printed, and `steps.txt`: when each began, on which GPU, how long it took, its exit status.  Where
there are several GPUs, each takes the next step when it is free, with processors of its own.  A
step gets the time that is left and no more than its own; one for which too little is left is not
begun.

`--packages` is a folder whose `site` has TileLang, which steps with peers import, whose `checkout`
has TileLang's sources, and whose `kernelbench` is a checkout of KernelBench.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PYTEST = ("-m", "pytest", "-q", "--workers", "0", "-p", "no:cacheprovider", "--durations=5")
LEAST_S = 40.0
"""Time below which no step is begun."""
END_S = 20.0
"""Time before its end at which a step stops measuring, so that it can write its results."""


@dataclass(frozen=True)
class Step:
    """A command of this Python.

    `{out}` is the folder, `{packages}` that of the packages, `{seconds}` what the step may take.
    """

    seconds: float
    """The most it may take."""
    arguments: tuple[str, ...]
    peers: bool = False
    """Whether TileLang is imported where there is one."""
    environment: tuple[tuple[str, str], ...] = ()


def _kernels(only: str, name: str) -> Step:
    """Return the step that measures some groups of kernels beside their peers."""
    return Step(600, ("benchmarks/kernels.py", "--only", only, "--budget", "{seconds}",
                      "-o", "{out}/" + name), True)  # fmt: skip


def _defects(part: str) -> Step:
    """Return the step that runs one of two parts of the newest split of generated defects."""
    splits = (ROOT / "benchmarks" / "plant" / "generated" / "splits").glob("test-*.json")
    split = max((path.stem for path in splits), key=lambda name: int(name.removeprefix("test-")))
    return Step(
        800, ("-m", "plant.generated.running", "--split", split, "--part", f"{part}/2",
              "--budget", "{seconds}", "--keep", "{out}/defects-" + part,
              "-o", "{out}/plant-" + f"{split}-{part}of2.json"),
        environment=(("PYTHONPATH", str(ROOT / "benchmarks")),))  # fmt: skip


def _programs(part: str) -> Step:
    """Return the step that measures every third program, from the one with this number on."""
    return Step(900, ("-m", "benchmarks.programs.run", "--part", f"{part}/3",
                      "--budget", "{seconds}", "--keep", "{out}/programs-" + part,
                      "-o", "{out}/programs-" + f"{part}of3.json"))  # fmt: skip


def _problems(part: str) -> Step:
    """Return the step that measures every second model of KernelBench that was never measured."""
    measured = sorted((ROOT / "benchmarks" / "results").glob("problems-*.json"))
    without = ("--without", *map(str, measured)) if measured else ()
    return Step(900, ("-m", "benchmarks.programs.run", "--problems", "{packages}/kernelbench",
                      *without, "--part", f"{part}/2", "--budget", "{seconds}",
                      "--keep", "{out}/problems-" + part,
                      "-o", "{out}/problems-" + f"{part}of2.json"))  # fmt: skip


def _architectures(part: str) -> Step:
    """Return the step that measures every second drawn architecture of transformers that was never
    measured."""
    measured = sorted((ROOT / "benchmarks" / "results").glob("architectures-*.json"))
    without = ("--without", *map(str, measured)) if measured else ()
    return Step(900, ("-m", "benchmarks.programs.run", "--architectures", *without,
                      "--part", f"{part}/2", "--budget", "{seconds}",
                      "--keep", "{out}/architectures-" + part,
                      "-o", "{out}/architectures-" + f"{part}of2.json"))  # fmt: skip


def _tried(part: str) -> Step:
    """Return the step that tries the changes of every third program, from this number on."""
    return Step(900, ("-m", "benchmarks.programs_tried", "--part", f"{part}/3",
                      "--seconds", "{seconds}",
                      "-o", "{out}/programs-tried-" + f"{part}of3.json"))  # fmt: skip


STEPS = {
    "soak": Step(700, ("-m", "benchmarks.reliability.soak", "--seconds", "605",
                       "-o", "{out}/soak.json")),
    "tests": Step(600, (*_PYTEST, "-m", "gpu", "tests/cuda")),
    "tests-operators": Step(600, (*_PYTEST, "-m", "gpu", "tests/operators", "tests/learn",
                                  "tests/tuning", "tests/analyzer", "tests/bench",
                                  "tests/bisecting")),
    "tests-profiler": Step(900, (*_PYTEST, "-m", "gpu", "tests/profiler", "tests/native",
                                 "tests/stalls")),
    "tests-language": Step(
        300, ("-m", "pytest", "-q", "--workers", "4", "-p", "no:cacheprovider", "tests/lang",
              "tests/cuda/test_odd_warps.py", "tests/cuda/test_shifted.py",
              "tests/test_special_values.py", "tests/test_overlapping_tiles.py"),
        environment=(("TILEPROF_TEST_GPU", "1"),)),
    "counters": Step(450, ("-m", "benchmarks.show_counters", "--only", "fresh",
                           "--out", "{out}/counters.json", "--keep", "{out}/counters-keep.json")),
    "access-patterns": Step(80, ("-m", "benchmarks.access_patterns", "--seconds", "{seconds}",
                                 "-o", "{out}/access-patterns.json")),
    "defects-1": _defects("1"),
    "defects-2": _defects("2"),
    "claims": Step(150, ("-m", "benchmarks.claims", "--seconds", "{seconds}",
                         "-o", "{out}/claims.json")),
    "overhead": Step(600, ("benchmarks/overhead.py", "--only", "^(training|launches|deep)$",
                           "--budget", "{seconds}", "-o", "{out}/overhead.json")),
    "overhead-live": Step(300, ("benchmarks/overhead_live.py", "-o", "{out}/overhead-live.json")),
    "programs-1": _programs("1"),
    "programs-2": _programs("2"),
    "programs-3": _programs("3"),
    "problems-1": _problems("1"),
    "problems-2": _problems("2"),
    "architectures-1": _architectures("1"),
    "architectures-2": _architectures("2"),
    "programs-tried-1": _tried("1"),
    "programs-tried-2": _tried("2"),
    "programs-tried-3": _tried("3"),
    "kernels": _kernels("^(gemm|memory|launch|compile|int4)", "kernels.json"),
    "attention": _kernels("^attention", "attention.json"),
    "instrument": Step(500, ("benchmarks/instrument.py", "--budget", "{seconds}",
                             "-o", "{out}/instrument.json")),
    "sampling": Step(200, ("benchmarks/sampling.py", "--only", "^(lines|inside)$",
                           "--budget", "{seconds}", "-o", "{out}/sampling.json")),
    "kernel-profiles": Step(500, ("benchmarks/kernel_profiles.py", "--keep", "{out}/kernels",
                                  "-o", "{out}/kernel_profiles.json")),
    "tuner": Step(800, ("-m", "benchmarks.tuning", "--no-cold", "--seconds", "{seconds}",
                        "-o", "{out}/tuning.json")),
    "tuner-tilelang": Step(600, ("-m", "benchmarks.tuning_tilelang", "{packages}/checkout",
                                 "--packages", "{packages}", "--seconds", "{seconds}",
                                 "-o", "{out}/tuning_tilelang.json")),
    "tuner-triton": Step(300, ("-m", "benchmarks.triton_pruning", "--seconds", "{seconds}",
                               "-o", "{out}/triton-pruning.json")),
    "agents": Step(500, ("-m", "benchmarks.agent_sessions", "-o", "{out}/agent-sessions.json")),
}  # fmt: skip
"""Steps by name, in the order in which they begin where none are named."""


def devices() -> int:
    """Return how many GPUs there are; the driver's library is not opened in this process."""
    try:
        told = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    return told.stdout.count("GPU ")


@dataclass(frozen=True)
class Place:
    """Where a step runs: a GPU, and processors that no other step has, where there are enough."""

    gpu: int
    processors: tuple[int, ...]


def places(gpus: int) -> list[Place]:
    """Return a place for each GPU; processors with neighbouring numbers stay together."""
    held = sorted(os.sched_getaffinity(0))
    each = max(1, len(held) // gpus)
    return [Place(g, tuple(held[g * each : (g + 1) * each] or held)) for g in range(gpus)]


def run(name: str, out: Path, most: float, packages: Path | None, place: Place) -> int:
    """Run a step at a place for `most` seconds, and return its exit status, 124 at their end."""
    step = STEPS[name]
    seconds = min(step.seconds, most)
    known = {"out": str(out), "seconds": str(int(seconds - END_S)), "packages": str(packages)}
    paths = [str(ROOT), *dict(step.environment).get("PYTHONPATH", "").split(os.pathsep)]
    if step.peers and packages is not None:
        paths.insert(0, str(packages / "site"))
    paths.append(os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, **dict(step.environment), "PYTHONUNBUFFERED": "1",
                   "CUDA_VISIBLE_DEVICES": str(place.gpu),
                   "PYTHONPATH": os.pathsep.join(filter(None, paths))}  # fmt: skip
    command = ["taskset", "-c", ",".join(map(str, place.processors)),
               "timeout", "-k", "5", str(int(seconds)), sys.executable,
               *(each.format_map(known) for each in step.arguments)]  # fmt: skip
    with (out / f"{name}.log").open("wb") as log:
        return subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, env=environment).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run steps until the time is over; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.on_gpu")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1600, help="for all steps")
    parser.add_argument("--steps", default=",".join(STEPS), help="names, joined by commas")
    parser.add_argument("--packages", type=Path, help="a folder with `site` and `checkout`")
    args = parser.parse_args(arguments)
    asked = [name.partition("=")[::2] for name in args.steps.split(",") if name]
    if unknown := [name for name, _ in asked if name not in STEPS]:
        parser.error(f"no such step: {', '.join(unknown)}; known: {', '.join(STEPS)}")
    if wrong := [most for _, most in asked if most and not most.isdecimal()]:
        parser.error(f"not a number of seconds: {', '.join(wrong)}")
    if not (gpus := devices()):
        parser.error("nvidia-smi sees no GPU")
    out = args.folder.resolve()
    out.mkdir(parents=True, exist_ok=True)
    begin, failed, lock = time.monotonic(), list[str](), threading.Lock()

    def say(text: str) -> None:
        line = f"{time.monotonic() - begin:6.0f} s: {text}"
        print(line, flush=True)
        with (out / "steps.txt").open("a") as file:
            file.write(line + "\n")

    def work(place: Place) -> None:
        while True:
            with lock:
                left = args.seconds - (time.monotonic() - begin)
                if not asked:
                    return
                name, most = asked.pop(0)
                begins = left >= LEAST_S
                say(f"{name} {f'begins on GPU {place.gpu}' if begins else 'is not begun'}")
            if not begins:
                continue
            code = run(name, out, min(left, float(most or left)), args.packages, place)
            with lock:
                say(f"{name} ends with {code}")
                if code:
                    failed.append(name)

    threads = [threading.Thread(target=work, args=(place,)) for place in places(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
