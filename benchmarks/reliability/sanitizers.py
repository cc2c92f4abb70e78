"""The C++ of tileprof under AddressSanitizer with UBSan, and under ThreadSanitizer.

In: a C++ compiler with its sanitizers (g++ 12 or later), CMake, nanobind.  Out: a JSON object; a
failure is a step that ends badly or a report of a sanitizer that no suppression covers.

For each sanitizer the native recorder is built in a folder of its own; kernels, thread pool,
launcher and observer are compiled with it (`TILEPROF_CXXFLAGS`, in a cache of their own).  Then run
the programs in C++ of `tests/native/sanitized` and `tests/native/fake_cupti`, the tests of Python
that use what was built, and those of the readers of files, in processes that preload the sanitizer.

    python -m benchmarks.reliability.sanitizers --jobs 4 --seconds 60 -o out.json
    python -m benchmarks.reliability.sanitizers --only thread --steps pool_stress races

`--runs` is how many buffers of records are drawn; `--seconds` how long each stress takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["REPORT", "environment", "main"]

ROOT = Path(__file__).parents[2]
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
SUPPRESSIONS = Path(__file__).with_name("sanitizers.supp")
REPORT = re.compile(r"(?:ERROR|WARNING): \w+Sanitizer: .*|.*runtime error: .*")
PYTHON_TESTS = (
    "tests/native/cupti/test_native_cupti.py",
    "tests/native/cupti/test_native_cupti_idle.py",
    "tests/native/cupti/test_native_cupti_launches.py",
    "tests/native/cupti/test_native_cupti_status.py",
    "tests/native/cupti/test_native_cupti_work.py",
    "tests/native/counters/test_native_counters.py",
    "tests/native/pcs/test_native_kept_samples.py",
    "tests/native/host/test_native_nvtx.py",
    "tests/native/pcs/test_native_pc_sampling.py",
    "tests/native/counters/test_native_pm_sampling.py",
    "tests/native/counters/test_native_sass_metrics.py",
    "tests/native/host/test_native_timeline.py",
    "tests/native/host/test_native_timeline_sessions.py",
    "tests/profiler/device/test_profiler_gpu_faults.py",
    "tests/profiler/device/test_profiler_gpu_records.py",
    "tests/profiler/session/test_profiler_sessions.py",
    "tests/profiler/host/test_profiler_launches.py",
    "tests/profiler/host/test_profiler_sampling.py",
    "tests/cpu",
    "tests/instrument",
)
"""Tests that use the recorder, the pool and compiled kernels."""
READER_TESTS = (
    "tests/binary/test_hostile_cubins.py",
    "tests/cuda/test_saved_trust.py",
    "tests/lang/test_foreign_operations.py",
    "tests/profile/test_profile_hostile.py",
    "tests/test_fuzz.py::test_mutants_end_in_a_sentence_or_a_result",
)
"""Tests that read hostile profiles, cubins, saved kernels and texts.  The readers are Python; the
sanitizer sees what they hand to SQLite, zlib and the native parts."""
TORCH_TESTS = (
    "tests/cuda/test_launcher.py", "tests/profiler/frameworks/test_profiler_observer.py",
    "tests/profiler/frameworks/test_profiler_observer_attaching.py",
    "tests/profiler/frameworks/test_profiler_observer_backward.py",
)  # fmt: skip
"""Tests of the launcher and the observer.  They are left out under ThreadSanitizer: PyTorch's own
threads are not built with it, so what they synchronise is not seen."""
IN_PYTHON = ("python", "readers", "torch")
"""Steps that load the recorder into Python."""
SITE = '''
"""Loads the recorder that TILEPROF_SANITIZED names in place of the installed one, and leaves the
address space of children unlimited: a sanitizer reserves terabytes of it."""

import os
import resource
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import spec_from_file_location

NAME = "tileprof.native._recorder"


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != NAME:
            return None
        file = os.environ["TILEPROF_SANITIZED"]
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


prlimit = resource.prlimit


def without_address_space(pid, kind, *limits):
    return prlimit(pid, kind, *(() if kind == resource.RLIMIT_AS else limits))


resource.prlimit = without_address_space
sys.meta_path.insert(0, Finder)
'''


@dataclass
class Step:
    """One thing that is run, and what became of it."""

    name: str
    work: Callable[[], str]
    """Returns what is wrong, '' for nothing."""
    problem: str = ""
    reports: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def run(self) -> Step:
        """Do it, and note how long it took."""
        began = time.monotonic()
        try:
            self.problem = self.work()
        except subprocess.TimeoutExpired as error:
            self.problem = f"hangs: {error}"
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        self.seconds = round(time.monotonic() - began, 1)
        print(f"{self.name}: {self.problem[:300] or 'clean'} ({self.seconds} s)", flush=True)
        return self


class Build:
    """What is built and run with one sanitizer."""

    def __init__(self, name: str, folder: Path, seconds: float, runs: int) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.seconds = seconds
        self.runs = runs
        self.log = self.folder / "report"
        self.building = threading.Lock()
        self.built: Path | None = None

    def recorder(self) -> str:
        """Build the recorder; '' or the end of the compiler's output."""
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(self.folder / "build"),
            f"-DTILEPROF_SANITIZE={SANITIZERS[self.name]}", f"-DPython_EXECUTABLE={sys.executable}",
            "-DCMAKE_BUILD_TYPE=Debug",
        ]  # fmt: skip
        for command in (configure, ["cmake", "--build", str(self.folder / "build"), "-j", "2"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return (done.stdout + done.stderr)[-3000:]
        site = self.folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(SITE)
        return ""

    def environment(self) -> dict[str, str]:
        """Return the environment of a Python that loads the recorder which was built here."""
        (built,) = (self.folder / "build").glob("_recorder*.so")
        paths = [str(self.folder / "site"), str(ROOT)]
        return environment(self.name, self.folder) | {
            "PYTHONPATH": os.pathsep.join(paths), "TILEPROF_SANITIZED": str(built),
        }  # fmt: skip

    def tests(self, paths: Sequence[str]) -> str:
        """Run tests of Python; '' or the end of their output.

        Tests marked `alone` compare times, which a sanitizer changes.
        """
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m"]
        command += ["not gpu and not alone", *paths]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment(), capture_output=True, text=True,
            timeout=3600, check=False,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]

    def stress(self, name: str, *arguments: object) -> str:
        """Build and run a program of `tests/native/sanitized`."""
        from tests.native.sanitized_programs import build, run

        program = build(name, self.folder, SANITIZERS[self.name])
        numbers = run(program, *arguments, timeout=600 + 10 * self.seconds)
        wrong = numbers[1:] if name == "pool_stress" else []
        return f"{name} printed {numbers}" if any(wrong) else ""

    def races(self, name: str, least: int) -> str:
        """Build and run a program of `tests/native/fake_cupti`, whose output tests check."""
        folder = self.programs()
        command = [folder / "races", name, folder / "libfake.so", str(self.seconds), str(least)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600 + 10 * self.seconds, check=False,
            env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        )  # fmt: skip
        return "" if done.returncode == 0 and not done.stderr else done.stderr[:3000] or "failed"

    def programs(self) -> Path:
        """Return the folder of the programs and the played CUPTI, which are built once."""
        from tests.native.sanitized_programs import build_played, build_races

        with self.building:
            if self.built is None:
                folder = self.folder / "races"
                folder.mkdir(exist_ok=True)
                flags = ("-O0", "-g1", f"-fsanitize={SANITIZERS[self.name]}")
                build_races(folder, *flags)
                build_played(folder, *flags)
                self.built = folder
        return self.built

    def steps(self) -> list[Step]:
        """Return all that is run once the recorder is built."""
        seconds = self.seconds
        found = [
            Step("pool_stress", lambda: self.stress("pool_stress", seconds, 60, 0)),
            Step("races", lambda: self.races("races", 10_000)),
            Step("counter_races", lambda: self.races("counter_races", 1000)),
            Step("pm_races", lambda: self.races("pm_races", 1000)),
            Step("python", lambda: self.tests(PYTHON_TESTS)),
            Step("readers", lambda: self.tests(READER_TESTS)),
        ]
        if self.name == "address":
            found.append(Step("records_fuzz", lambda: self.stress("records_fuzz", self.runs, 1)))
            found.append(Step("fork_stress", self.forks))
            found.append(Step("torch", lambda: self.tests(TORCH_TESTS)))
        return found

    def forks(self) -> str:
        """Fork under UBSan alone: AddressSanitizer's allocator is not safe in a forked child."""
        from tests.native.sanitized_programs import UNDEFINED, build, run

        often = 100 + int(20 * self.seconds)
        (bad,) = run(build("fork_stress", self.folder, UNDEFINED), often)
        pool = build("pool_stress", self.folder, UNDEFINED)
        _, wrong, children = run(pool, 0, 60, often, timeout=600 + 10 * self.seconds)
        return f"{bad + children} of {often} children failed" if bad + wrong + children else ""

    def reports(self) -> list[str]:
        """Return the first line of each report that processes wrote, with its place in our code."""
        found = []
        for file in sorted(self.folder.glob("report.*")):
            text = file.read_text(errors="replace")
            for match in REPORT.finditer(text):
                ours = re.search(r"tileprof/\S+:\d+", text[match.end() :])
                found.append(f"{match[0]} at {ours[0] if ours else 'no place of ours'} ({file})")
        return found


def environment(sanitizer: str, folder: Path) -> dict[str, str]:
    """Return the environment of a Python whose kernels, pool, launcher and observer are checked.

    They are built with the sanitizer in a cache below `folder`, which also gets its reports:
    `report.NUMBER`.
    """
    preload = [_library(LIBRARIES[sanitizer]), _library("libstdc++.so")]
    # An allocation that is too large is refused, as it is without a sanitizer.
    common = f"log_path={folder / 'report'}:allocator_may_return_null=1"
    return os.environ | {
        "LD_PRELOAD": " ".join(preload),
        # A sanitizer's `dlopen` does not look beside the library that calls it, as NVRTC does.
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, _nvrtc_folders())),
        "PYTHONPATH": str(ROOT),
        "PYTHONMALLOC": "malloc",
        "TILEPROF_CACHE": str(folder / "cache"),
        "TILEPROF_CXXFLAGS": f"-fsanitize={SANITIZERS[sanitizer]} -fno-omit-frame-pointer",
        # CPython frees little at its end, and a child of a fork is no new program.
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"{common}:suppressions={SUPPRESSIONS}:die_after_fork=0:exitcode=0"
        ":report_thread_leaks=0",
    }


def _nvrtc_folders() -> list[Path]:
    found = (each for path in sys.path for each in Path(path).glob("nvidia/*/lib/libnvrtc.so*"))
    return sorted({each.parent for each in found})


def _library(name: str) -> str:
    command = ["g++", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(SANITIZERS), nargs="+", default=list(SANITIZERS))
    parser.add_argument("--steps", nargs="+", help="names of steps; all unless given")
    parser.add_argument("--seconds", type=float, default=30, help="of each stress")
    parser.add_argument("--runs", type=int, default=20_000, help="buffers of records that are read")
    parser.add_argument("--jobs", type=int, default=2, help="steps at once")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "sanitizers")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(argv)
    began = time.monotonic()
    builds = [Build(name, options.folder, options.seconds, options.runs) for name in options.only]
    steps: list[tuple[str, Step]] = []
    reports: list[str] = []
    for build in builds:
        for old in build.folder.glob("report.*"):
            old.unlink()
        wanted = [s for s in build.steps() if not options.steps or s.name in options.steps]
        if any(step.name in IN_PYTHON for step in wanted):
            made = Step("recorder", build.recorder).run()
            steps.append((build.name, made))
            if made.problem:
                wanted = [step for step in wanted if step.name not in IN_PYTHON]
        with ThreadPoolExecutor(options.jobs) as pool:
            steps += [(build.name, step) for step in pool.map(Step.run, wanted)]
        reports += build.reports()
    failed = [
        {"sanitizer": name, "step": step.name, "problem": step.problem}
        for name, step in steps
        if step.problem
    ]
    result: dict[str, Any] = {
        "name": "sanitizers",
        "runs": len(steps),
        "failures": len(failed) + len(reports),
        "hangs": sum(each["problem"].startswith("hangs") for each in failed),
        "tracebacks": len(reports),
        "seconds": round(time.monotonic() - began, 1),
        "details": [*failed, *({"report": each} for each in reports)][:20],
        "steps": [
            {"sanitizer": name, "step": step.name, "seconds": step.seconds} for name, step in steps
        ],
    }
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(steps)} steps, {len(failed)} failed, {len(reports)} reports")
    return 1 if failed or reports else 0


if __name__ == "__main__":
    sys.exit(main())
