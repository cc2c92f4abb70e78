"""Programs in C++ that stress parts of tileprof without Python, built with sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.native.cupti_programs import FAKE, RECORDER, compile_cpp, joined, played
from tileprof.compiler.codegen import prelude
from tileprof.instrument.records import c_struct

PROGRAMS = Path(__file__).parent / "sanitized"
THREAD, UNDEFINED = "thread", "undefined"
READERS = (
    "records/activities", "records/framework_memory", "records/idle", "records/memory",
    "records/totals", "records/variants", "host/contexts",
    "records/correlations", "records/graphs", "pcs/pc_modules", "host/clock",
)  # fmt: skip
"""Sources of the recorder that `records_fuzz` reads with."""
RECORDER_OF_GPUS = (
    *READERS, "records/buffers", "cupti/cupti_loading", "cupti/gpu",
    "cupti/subscriber", "pcs/pc_context", "pcs/pc_counts", "pcs/pc_sampling",
    "counters/counters", "counters/sass_metrics", "pm/pm_device", "pm/pm_sampling",
)  # fmt: skip
"""The recorder of GPUs, which needs no interpreter."""
_OPTIONS = {
    # Data of torn records is nobody's to free.
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # A pool's threads live as long as the process.
    "TSAN_OPTIONS": "report_thread_leaks=0",
}


def build(name: str, folder: Path, sanitizers: str, optimise: str = "-O1") -> Path:
    """Compile a program of `sanitized/` into a folder; returns its path."""
    parts = [f'#include "{PROGRAMS / name}.cpp"\n']
    if name == "pool_stress":
        parts.insert(0, c_struct())
    if name == "records_fuzz":
        parts += [f'#include "{RECORDER / each}.cpp"\n' for each in READERS]
    source = folder / f"{name}_of.cpp"
    source.write_text("".join(parts))
    program = folder / f"{name}-{sanitizers.replace(',', '-')}"
    flags = [optimise, "-g1", f"-fsanitize={sanitizers}", f"-I{prelude.FOLDER}"]
    if "undefined" in sanitizers:
        flags.append("-fno-sanitize-recover=undefined")
    compile_cpp([source], program, *flags, f"-I{RECORDER}", f"-I{FAKE}", "-ldl")
    return program


def build_races(folder: Path, *flags: str) -> None:
    """Compile `races`, which runs the recorder of GPUs without Python, into a folder."""
    sources = (*(RECORDER / each for each in RECORDER_OF_GPUS), FAKE / "all_races")
    program = joined(folder / "races.cpp", *sources)
    compile_cpp([program], folder / "races", *flags, f"-I{RECORDER}", "-ldl")


def build_played(folder: Path, *flags: str) -> None:
    """Compile `libfake.so`, the CUPTI that `races` is given, into a folder."""
    compile_cpp([played(folder)], folder / "libfake.so", "-fPIC", "-shared", *flags)


def run(program: Path, *arguments: object, timeout: float = 120) -> list[int]:
    """Return the numbers that a program prints; it must end well and without a report."""
    command = [str(program), *map(str, arguments)]
    environment = {**os.environ, **_OPTIONS}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[:10_000]
    assert done.stderr == ""
    return [int(number) for number in done.stdout.split()]
