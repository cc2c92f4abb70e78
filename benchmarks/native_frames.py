"""Measure what native frames add to a launch: `--context native` beside `full`.

    python benchmarks/native_frames.py      writes benchmarks/results/native_frames.json

Launches are those of a played driver, so that nothing but the recorder's work is in the time. They
are made in stacks of known depth, and in an operation of PyTorch's where it is installed. Figures
are medians of processor time; those of the two modes come from bursts in turn.
"""

from __future__ import annotations

import ctypes as C
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from tests.native.cupti_programs import Fake, build_fake  # noqa: E402
from tileprof.native import _recorder as recorder  # noqa: E402
from tileprof.profiler.session.provenance import cpu_model  # noqa: E402

SOURCE = Path(__file__).with_name("native_frames.cpp")
LAUNCHES, BURSTS = 20_000, 15
NATIVE = 9


@dataclass(frozen=True)
class Row:
    """Times of a launch in one stack, in ns."""

    stack: str
    frames: int
    """Native frames of a launch's path."""
    launch: float
    """A launch without them."""
    launch_native: float
    """A launch with them."""
    frame: float
    """Time that each frame adds."""
    slow: int
    """Stacks that were left to the compiler's runtime library."""
    backtrace: float
    """The same stack out to the thread's start, with glibc's `backtrace`."""
    unwind_backtrace: float
    """The same with libgcc's `_Unwind_Backtrace`."""
    outer_frames: int
    """Frames out to the thread's start."""


def measure(stack: str, library: C.CDLL, fake: Fake, run: Callable[[], object]) -> Row:
    """Measure launches in one stack; `run` leads to it."""
    took = (C.c_double * 4)()
    plain, native, others = list[float](), list[float](), list[tuple[float, ...]]()
    before = recorder.native_slow()
    for _ in range(BURSTS):
        for wanted, into in ((False, plain), (True, native)):
            recorder.set_native(wanted)
            library.frames_ask(fake.c.fake_call, C.c_uint64(LAUNCHES), took)
            run()
            into.append(took[0])
            others.append(tuple(took))
    recorder.set_native(False)
    frames = _frames_of_last_launch()
    launch, with_frames = statistics.median(plain), statistics.median(native)
    _, backtrace, unwind, outer = map(statistics.median, zip(*others))
    added = (with_frames - launch) / max(frames, 1)
    slow = recorder.native_slow() - before
    return Row(stack, frames, launch, with_frames, added, slow, backtrace, unwind, int(outer))


def _frames_of_last_launch() -> int:
    contexts = [(0, 0, 0, 0), *recorder.contexts(1)]
    parent, frames = contexts[-1][0], 0
    while contexts[parent][1] == NATIVE:
        frames, parent = frames + 1, contexts[parent][0]
    return frames


def rows(library: C.CDLL, fake: Fake) -> Iterator[Row]:
    """Measure all stacks."""
    for depth in (0, 10, 20, 40):
        yield measure(f"nested {depth}", library, fake, getattr(library, f"frames_nested_{depth}"))
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    x = torch.randn(64, 64, requires_grad=True)
    torch.nn.functional.gelu(x)
    yield measure("torch.nn.functional.gelu", library, fake, lambda: torch.nn.functional.gelu(x))


def main() -> None:
    """Measure and write the file."""
    built = Path(tempfile.gettempdir()) / f"native_frames-{os.getuid()}.so"
    if "libnative_frames" not in os.environ.get("FRAMES_PRELOADED", ""):
        command = ["g++", "-std=c++20", "-O2", "-fPIC", "-shared", str(SOURCE), "-o", str(built)]
        subprocess.run(command, check=True)
        environment = {"LD_PRELOAD": str(built), "FRAMES_PRELOADED": "libnative_frames"}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **environment})
    fake = Fake(build_fake(), recorder)
    recorder.set_epoch(1)
    assert fake.start() == (0, "")
    found = []
    for row in rows(C.CDLL(str(built)), fake):
        found.append({key: round(v, 1) if isinstance(v, float) else v
                      for key, v in asdict(row).items()})  # fmt: skip
        print(found[-1], flush=True)
    made = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": cpu_model(), "cores": len(os.sched_getaffinity(0)),
                    "python": platform.python_version(), "libc": platform.libc_ver()[1]},
        "rows": found,
    }  # fmt: skip
    (ROOT / "benchmarks" / "results" / "native_frames.json").write_text(
        json.dumps(made, indent=1) + "\n"
    )
    recorder.gpu_stop()


if __name__ == "__main__":
    main()
