"""What the compiler and the profiler say of our kernels of attention and what goes with it.

    python benchmarks/kernel_profiles.py [--only RE] [--keep FOLDER] [-o FILE]

Needs a GPU whose counters may be read. Each kernel of `profiled_kernels.py` has a process of its
own: it is compiled in a few ways, the fastest is timed and recorded with samples of program
counters. Remarks, report and annotated listing are written as text to
`benchmarks/results/kernel_profiles.json` after each kernel, so that pages need no profile;
`--keep` keeps those. One kernel is on the GPU at a time, while the next ones compile. Exits with 1
where one failed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from profiled_kernels import KERNELS, ROOT, Kernel, Options

RESULTS = Path(__file__).parent / "results" / "kernel_profiles.json"
BATCHES = 9
SAMPLED_MS = 60.0
"""Of launches under samples: some 200,000 samples on a whole device."""
LIMIT_S = 240
"""Of one process, with its turns."""
JOBS = 4


def main() -> int:
    """Record, write, say what failed."""
    args = arguments()
    if args.one:
        one(next(each for each in KERNELS if each.name == args.one), args.keep)
        return 0
    import measuring

    chosen = [each for each in KERNELS if re.search(args.only, each.name)]
    output = args.output
    rows = held(output) if args.only else {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(JOBS) as pool:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        done = pool.map(partial(ran, folder=folder), chosen)
        where = measuring.circumstances()
        for row in done:
            print(said(row), flush=True)
            row.pop("trace", None)  # it has folders of the machine
            rows[row["name"]] = {**row, "circumstances": where}
            write(output, rows)
    return int(any("error" in rows[each.name] for each in chosen))


def held(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of a file by their names; none where there is no file."""
    record = json.loads(path.read_text()) if path.exists() else {"kernels": []}
    return {row["name"]: row for row in record["kernels"]}


def write(path: Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """The file as a whole, kernels in their order."""
    ordered = [rows[each.name] for each in KERNELS if each.name in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"kernels": ordered}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n")


def ran(kernel: Kernel, folder: Path) -> dict[str, Any]:
    """The row of a kernel from a new process, or why there is none."""
    folder = folder.resolve()
    path = folder / f"{kernel.name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).resolve()), "--one", kernel.name, "--keep",
               str(folder)]  # fmt: skip
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
        error = ended.stderr.strip()
    except subprocess.TimeoutExpired:
        error = f"not over after {LIMIT_S} s"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {"name": kernel.name, "error": cause(error), "trace": error[-2000:]}


def cause(error: str) -> str:
    """The line of a traceback that says what happened, without folders of the machine."""
    lines = error.splitlines() or ["it ended without a result"]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return re.sub(r"\S*/(?=\S)", "", (named or lines)[-1])


def said(row: Mapping[str, Any]) -> str:
    """A line on the screen."""
    if "error" in row:
        return f"{row['name']}: FAILED: {row['error']}\n{row.get('trace', '')}"
    first = next((each["title"] for each in row["findings"]), "nothing found")
    return (
        f"{row['name']:<20} {row['ms']:8.3f} ms  {row['samples']:>9,} samples  "
        f"{row['bytes'] >> 10:>5} KB  {row['seconds']:5.1f} s  {shown(row['options'])}; {first}"
    )


def shown(options: Options) -> str:
    """`block_N 128, stages 2`."""
    return ", ".join(f"{name} {value}" for name, value in options.items()) or "as it is"


# -- the process of a kernel


def one(kernel: Kernel, folder: Path) -> None:
    """Compile, measure, record, and say what there is to say; write its row."""
    row: dict[str, Any] = {"name": kernel.name}
    try:
        row |= told(kernel, folder)
    except Exception as error:
        print(traceback.format_exc(), file=sys.stderr)
        row |= {"error": cause(f"{type(error).__name__}: {error}"),
                "trace": traceback.format_exc()[-2000:]}  # fmt: skip
    (folder / f"{kernel.name}.json").write_text(json.dumps(row))


def told(kernel: Kernel, folder: Path, device: str = "cuda") -> dict[str, Any]:
    """The row of a kernel; profile and row stay in the folder."""
    import kernel_texts
    import measuring

    from tileprof.profile import load

    began = time.perf_counter()
    ways, problems = compiled(kernel)
    path = folder / f"{kernel.name}.tprof"
    with alone(folder):
        before = measuring.clocks()
        best, ms = recorded(kernel, [options for options, _ in ways], path, device)
        after = measuring.clocks()
    profile, (options, remarks) = load(path), ways[best]
    return {
        "options": dict(options), "command": kernel.command(options), "ms": ms,
        "remarks": remarks, "problems": problems,
        "samples": int(profile.tables.pc.by_function.sum()), "bytes": path.stat().st_size,
        "clocks": [before, after], **kernel_texts.texts_of(profile, path.name),
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def compiled(kernel: Kernel) -> tuple[list[tuple[Options, str]], list[str]]:
    """The ways that compile with their remarks, and what is wrong with the others; the compiled
    kernels are in the cache then."""
    import kernel_texts

    from tileprof.errors import TileprofError

    found, problems = list[tuple[Options, str]](), list[str]()
    for way in kernel.ways:
        try:
            found.append((way, kernel_texts.printed(kernel.command(way))))
        except TileprofError as error:
            problems.append(f"{shown(way)}: {error}")
    if not found:
        raise TileprofError("; ".join(problems))
    return found, problems


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other kernel of this folder is on the GPU meanwhile."""
    with (folder / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def recorded(kernel: Kernel, ways: Sequence[Options], path: Path, device: str) -> tuple[int, float]:
    """Write a profile of the fastest way; which it is, and its time in ms."""
    import measuring
    import torch

    import tileprof

    if device == "cuda":
        from tileprof.runtime.roofs import measured_roofs

        measured_roofs(0)  # kept for all later profiles; the first takes some seconds
    torch.manual_seed(0)
    call = kernel.made(kernel.sizes, device)
    calls = {str(number): partial(call, **way) for number, way in enumerate(ways)}
    best = next(iter(measuring.alone(calls)))
    ms = timed(calls[best])
    _wait()
    with tileprof.profile(path, context="scopes", instrument="off", pc_sampling=True):
        for _ in range(max(3, min(500, round(SAMPLED_MS / ms)))):
            calls[best]()
        _wait()
    return int(best), ms


def timed(run: Callable[[], Any]) -> float:
    """The median time of a launch over batches, in ms."""
    import measuring

    (launches,) = measuring.launches([run])
    return statistics.median(measuring.batch_ms(run, launches) for _ in range(BATCHES))


def _wait() -> None:
    """For the GPU, where there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression over names of kernels")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where profiles stay")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
