"""Time TileLang's example kernels, compiled by tileprof and by TileLang, on one GPU.

    python benchmarks/examples.py CHECKOUT --packages FOLDER --seconds 550
    python benchmarks/examples.py CHECKOUT --packages FOLDER --dry both --only gemm
    python benchmarks/examples.py --report

CHECKOUT is a checkout of TileLang outside of this repository.  Its kernels are executed as they
are: only the import lines are made to mean tileprof (`examples_sides.py`).  A row is one run of one
example (`examples_cases`), in a process of its own: several processes compile at the same time,
and one at a time uses the GPU.  Rows are appended to `--rows` when they are made; `--resume` leaves
out those that are there.  At the end, and with `--report`, the table and the JSON are written.

A time is that of CUDA events around one launch, with L2 overwritten before it.  A ratio is the
median over interleaved pairs, TileLang's time over ours, with its 95 % interval.  Results of both
sides are compared with the example's own reference where it has one, and always with each other;
where TileLang's are wrong and ours right, the row says so and the ratio does not count.

FOLDER holds `site`, searched before, and `fallback`, searched after the installed packages.
`--dry` compiles without a GPU: ours, or both.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent):
    sys.path.insert(0, str(folder))

from examples_cases.form import Example, Verdict  # noqa: E402
from examples_cases.listed import CASES  # noqa: E402

RESULTS = HERE / "results" / "examples.json"
ROWS = Path(".carry") / "examples-rows.jsonl"
UNIT_S = 260
"""A process that takes longer than this is ended, in s; most of it is waiting for the GPU."""
GPU_S = 60
"""Longest time that a process may keep the GPU without a break, in s."""
GRACE_S = 15
"""Time that running units have after the budget, in s."""
LOG_LINES = 12


@dataclass(frozen=True, slots=True)
class Unit:
    """One row to make."""

    example: Example
    index: int

    @property
    def key(self) -> tuple[str, int]:
        """Identity of the row."""
        return (self.example.name, self.index)


def units(only: str, shapes: Sequence[int], shard: tuple[int, int]) -> list[Unit]:
    """Return what is to be run: the examples' own shapes first, then the others."""
    every = [
        Unit(example, index)
        for index in shapes
        for example in CASES
        if index < len(example.runs) and re.search(only, example.name)
    ]
    return every[shard[0] :: shard[1]]


def read_rows(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows of a file by example and shape, the last of each."""
    if not path.exists():
        return {}
    made = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {(row["example"], row["index"]): row for row in made}


# -- processes


@dataclass
class Running:
    """A process that makes a row."""

    unit: Unit
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    begin: float

    @property
    def row(self) -> dict[str, Any] | None:
        """The row, once it is written."""
        path = Path(self.folder.name) / "row.json"
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def log(self) -> str:
        """The last lines of what it printed."""
        text = (Path(self.folder.name) / "log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])

    def failed(self, why: str) -> dict[str, Any]:
        """Return a row that says why there is none."""
        example = self.unit.example
        return {
            "example": example.name,
            "shape": str(example.runs[self.unit.index]),
            "index": self.unit.index,
            "status": "error",
            "error": f"{why}: {self.log}"[-1500:],
            "kernels": [],
            "ratio": None,
        }


def start(unit: Unit, args: argparse.Namespace, lock: Path) -> Running:
    """Start the process of a unit."""
    folder = tempfile.TemporaryDirectory()
    command = [sys.executable, str(Path(__file__)), str(args.checkout), "--unit", unit.example.name,
               "--index", str(unit.index), "--into", f"{folder.name}/row.json"]  # fmt: skip
    command += ["--lock", str(lock)]
    if args.packages:
        command += ["--packages", str(args.packages)]
    if args.dry:
        command += ["--dry", args.dry]
    with (Path(folder.name) / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(args)
        )
    return Running(unit, process, folder, time.monotonic())


def _environment(args: argparse.Namespace) -> dict[str, str]:
    made = {
        "TILELANG_PRINT_ON_COMPILATION": "0",
        "TILELANG_CACHE_DIR": str(Path(tempfile.gettempdir()) / "examples-tilelang-cache"),
        "OMP_NUM_THREADS": "2",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    if args.dry:
        made["TILELANG_DEFAULT_TARGET"] = '{"kind": "cuda", "arch": "sm_90a"}'
    return {**made, **os.environ}


def run_all(todo: Sequence[Unit], args: argparse.Namespace) -> None:
    """Make the rows of these units, as far as the time goes."""
    waiting = collections.deque(todo)
    running: list[Running] = []
    end = time.monotonic() + args.seconds
    made = 0
    with tempfile.TemporaryDirectory() as folder, args.rows.open("a") as out:
        lock = Path(folder) / "gpu"

        def keep(row: dict[str, Any]) -> None:
            nonlocal made
            made += 1
            out.write(json.dumps(row) + "\n")
            out.flush()
            left = max(end - time.monotonic(), 0)
            print(f"[{made}/{len(todo)}, {left:.0f} s left] {line(row)}", flush=True)

        while waiting or running:
            late = time.monotonic() > end
            if late and waiting:
                print(f"{len(waiting)} rows are left for --resume", flush=True)
                waiting.clear()
            while waiting and len(running) < args.workers:
                running.append(start(waiting.popleft(), args, lock))
            for each in list(running):
                if each.process.poll() is not None:
                    row = each.row
                    keep(row or each.failed(f"the process ended with {each.process.returncode}"))
                elif time.monotonic() > each.begin + args.unit_seconds:
                    each.process.kill()
                    keep(each.failed(f"longer than {args.unit_seconds} s"))
                elif time.monotonic() > end + GRACE_S:
                    each.process.kill()
                    print(f"left for --resume: {each.unit.key}", flush=True)
                else:
                    continue
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.process.wait(10)
                each.folder.cleanup()
                running.remove(each)
            time.sleep(0.05)


def run_one(args: argparse.Namespace) -> None:
    """Make one row, in this process."""
    use_packages(args.packages)
    example = next(e for e in CASES if e.name == args.unit)
    import torch
    from examples_turns import Turn
    from examples_unit import compile_unit, run_unit

    if args.dry:
        row = compile_unit(example, args.index, args.checkout, args.dry == "both")
    else:
        torch.zeros(1, device="cuda")

        def leave() -> None:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

        turn = Turn(args.lock, leave, GPU_S)
        row = run_unit(example, args.index, args.checkout, turn)
    partial = args.into.with_suffix(".part")
    partial.write_text(json.dumps(row.as_json()))
    partial.replace(args.into)


def use_packages(folder: Path | None) -> None:
    """Search a folder's packages: `site` first, `fallback` last."""
    if folder is not None:
        sys.path.insert(2, str(folder / "site"))
        sys.path.append(str(folder / "fallback"))


# -- what comes out


def line(row: dict[str, Any]) -> str:
    """One row for the terminal."""
    name = f"{row['example']} #{row['index']}"
    if row.get("compiled"):
        notes = [f"{c['kernel']}: {c.get('error') or c['registers']}" for c in row["compiled"]]
        return f"{row['status']:5} {name}: {'; '.join(notes)} {row['notes']}"
    if not row.get("kernels"):
        return f"{row['status']:5} {name}: {row.get('error', '')[-400:]}"
    parts = ", ".join(
        f"{k['kernel']} {k['ours_us']:.1f} / {k['tilelang_us']:.1f} µs = {k['ratio']:.3f} "
        f"[{k['low']:.3f}, {k['high']:.3f}]"
        for k in row["kernels"]
    )
    return f"{row['status']:5} {name}: {parts}; {row['checked']} {row['error']} {row['notes']}"


def timed(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each kernel with its row, of rows whose results agree."""
    for row in rows:
        if row["status"] == "ok":
            for kernel in row["kernels"]:
                yield row, kernel


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many there are, the geometric mean of all ratios, and the worst, of kernels whose
    results TileLang has right; the others stand apart."""
    every = list(timed(rows))
    # A kernel that computes something else is no measure.
    good = [(r, k) for r, k in every if r.get("tilelang") != Verdict.WRONG]
    if not good:
        return {"rows": len(rows), "timed": 0}
    ratios = [k["ratio"] for _, k in good]
    by_example: dict[str, list[float]] = collections.defaultdict(list)
    for row, kernel in good:
        by_example[row["example"]].append(kernel["ratio"])
    means = {name: statistics.geometric_mean(found) for name, found in by_example.items()}
    worst_row, worst = min(good, key=lambda each: each[1]["ratio"])
    return {
        "rows": len(rows),
        "timed": len(good),
        "examples": len(by_example),
        "example_files": len({name.partition(" (")[0] for name in by_example}),
        "checked_by_reference": sum(r["checked"] == "reference" for r, _ in good),
        "geometric_mean": statistics.geometric_mean(ratios),
        "geometric_mean_of_examples": statistics.geometric_mean(list(means.values())),
        "geometric_mean_of_own_shapes": statistics.geometric_mean(
            [k["ratio"] for r, k in good if r["index"] == 0] or [1.0]
        ),
        "worst": worst["ratio"],
        "worst_kernel": f"{worst_row['example']} #{worst_row['index']}: {worst['kernel']}",
        "worst_example": min(means, key=lambda name: means[name]),
        "behind_by_more_than_3_percent": sorted(
            [k["ratio"], f"{r['example']} #{r['index']}: {k['kernel']}"]
            for r, k in good
            if k["high"] < 0.97
        ),
        "tilelang_wrong": sorted(
            [k["ratio"], f"{r['example']} #{r['index']}: {k['kernel']}"]
            for r, k in every
            if r.get("tilelang") == Verdict.WRONG
        ),
        "not_timed": {
            f"{r['example']} #{r['index']}": r["error"][-300:] for r in rows if r["status"] != "ok"
        },
    }


def report(args: argparse.Namespace, circumstances: dict[str, Any]) -> int:
    """Write the JSON and print the summary; 1 where nothing was timed."""
    rows = list(read_rows(args.rows).values())
    found = summary(rows)
    text = json.dumps({"circumstances": circumstances, "summary": found, "rows": rows}, indent=1)
    args.results.write_text(text + "\n")
    print(json.dumps(found, indent=1))
    return int(not found["timed"])


def circumstances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the device, versions and how times were taken; asked of a process of its own."""
    code = (
        "import json, sys; sys.path[:0] = sys.argv[1:3]\n"
        "import examples; examples.use_packages(__import__('pathlib').Path(sys.argv[3]))\n"
        "from measuring import circumstances\n"
        "import examples_unit as u\n"
        "print(json.dumps({**circumstances(), 'pairs': u.PAIRS, 'flush_bytes': u.FLUSH_BYTES}))"
    )
    paths = [str(HERE), str(HERE.parent), str(args.packages or HERE)]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr[-500:]}
    return {**json.loads(done.stdout.splitlines()[-1]), "checkout": commit_of(args.checkout)}


def commit_of(checkout: Path | None) -> str:
    """Return the commit of the examples: a file `COMMIT`, or the checkout's history."""
    if checkout is None:
        return ""
    if (checkout / "COMMIT").exists():
        return (checkout / "COMMIT").read_text().strip()
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--packages", type=Path, help="folder with `site` and `fallback`")
    parser.add_argument("--only", default="", help="regular expression on names of examples")
    parser.add_argument("--shapes", default="0,1,2", help="which runs of each, 0 is the example's")
    parser.add_argument("--shard", default="0/1", help="part i of n of the rows, as i/n")
    parser.add_argument("--seconds", type=float, default=540, help="no row begins after this")
    parser.add_argument("--unit-seconds", type=float, default=UNIT_S, help="the most for one row")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of rows")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out rows that are there")
    parser.add_argument("--retry", action="store_true", help="with --resume: again what failed")
    parser.add_argument("--dry", choices=("ours", "both"), help="compile only, without a GPU")
    parser.add_argument("--report", action="store_true", help="only write what rows say")
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.checkout is None and not args.report:
        parser.error("a checkout of TileLang is needed")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Make rows, then the results."""
    args = parse(argv)
    if args.unit:
        run_one(args)
        return 0
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    if not args.report:
        found = read_rows(args.rows) if args.resume else {}
        if not args.resume:
            args.rows.unlink(missing_ok=True)
        done = {k for k, row in found.items() if row["status"] != "error" or not args.retry}
        part, _, parts = args.shard.partition("/")
        shapes = [int(x) for x in args.shapes.split(",")]
        todo = [u for u in units(args.only, shapes, (int(part), int(parts))) if u.key not in done]
        run_all(todo, args)
    if args.dry:
        return 0
    return report(args, circumstances(args))


if __name__ == "__main__":
    sys.exit(main())
