"""How a matrix product becomes fast, one step at a time: what each step gains, and why.

    python case_studies/gemm_ladder/ladder.py [--size 4096] [-o FILE]     times on this GPU
    python case_studies/gemm_ladder/ladder.py --compile-only              no GPU is needed
    python case_studies/gemm_ladder/ladder.py --readme                    the table of README.md

Every step is compared with PyTorch before it is timed.  A time is the median of batches between two
CUDA events; the steps and cuBLAS take turns, so that a change of the clock meets all of them.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
for folder in (HERE, ROOT / "benchmarks"):
    sys.path.insert(0, str(folder))

import measuring  # noqa: E402
from steps import STEPS, Step  # noqa: E402

import tileprof  # noqa: E402
from tileprof import ir  # noqa: E402
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda  # noqa: E402
from tileprof.compiler.cuda.target import find_target  # noqa: E402
from tileprof.compiler.passes import prove_bounds, simplify  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "gemm_ladder.json"
README = HERE / "README.md"
BEGIN, END = "<!-- begin: ladder.py --readme -->", "<!-- end -->"
TARGET = "sm_90a"
TURNS = 21
BATCH_MS = 10.0
LIMIT = 4e-3
"""Relative error against PyTorch: rounding the result to bfloat16 alone gives 1.7e-3."""


@dataclass
class Row:
    """What is known of a step."""

    step: str
    change: str
    registers: int
    """Of a thread, at the start of the kernel."""
    shared: int
    """Bytes of a block."""
    spills: int
    """Bytes that are spilled to local memory and loaded from there."""
    remarks: list[str]
    """Of all passes and of the assembler."""
    missed: list[str]
    """What was done less well than possible, and the reason: see `Remark.severity`."""
    ms: float | None = None
    tflops: float | None = None


# -- without a GPU


def lowered(kernel: ir.Kernel, forbidden: dict[str, Any]) -> CudaProgram:
    """A traced kernel under lowering controls."""
    kernel = prove_bounds(simplify(kernel))
    return compile_cuda(kernel, find_target(TARGET), tileprof.Controls(**forbidden))


def described(step: Step, size: int) -> Row:
    """A step for square matrices, without its time."""
    program = lowered(step.traced(size, size, size), step.forbidden)
    (launch,) = program.source.launches
    held = program.cubin.resources[launch.function]
    remarks = program.all_remarks
    return Row(
        step.name,
        step.change,
        held.registers,
        launch.shared + held.shared,
        held.spill_stores + held.spill_loads,
        [told(str(r)) for r in remarks],
        [f"{r.subject}: {r.decision}" for r in remarks if r.severity == "missed"],
    )


def told(remark: str) -> str:
    """A remark with the name of the file alone."""
    return remark.replace(f"{HERE}/", "")


# -- on a GPU


def measured(rows: list[Row], size: int) -> dict[str, float]:
    """Fill in the times of all steps; gives ms and TFLOP/s of cuBLAS."""
    import torch

    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda").bfloat16() for _ in range(2))
    calls: list[Callable[[], Any]] = [called(s, a, b) for s in STEPS]
    expected = (a @ b).double()
    for step, call in zip(STEPS, calls):
        error = float((call().double() - expected).norm() / expected.norm())
        if not error < LIMIT:
            raise SystemExit(f"`{step.name}` is wrong: relative error {error:.2e}")
    *ours, theirs = timed([*calls, lambda: a @ b])
    for row, ms in zip(rows, ours, strict=True):
        row.ms, row.tflops = ms, rate(size, ms)
    return {"ms": theirs, "tflops": rate(size, theirs)}


def called(step: Step, a: Any, b: Any) -> Callable[[], Any]:
    """A launch of a step, with its kernel compiled once."""
    kernel = step.kernel()
    return lambda: kernel(a, b)


def timed(calls: list[Callable[[], Any]]) -> list[float]:
    """The median time of each call in ms."""
    once = [measuring.batch_ms(call, 3) for call in calls]
    counts = [max(1, round(BATCH_MS / max(ms, 1e-4))) for ms in once]
    batches = [partial(measuring.batch_ms, *each) for each in zip(calls, counts)]
    return [statistics.median(held) for held in measuring.times(batches, TURNS)]


def rate(size: int, ms: float) -> float:
    """TFLOP/s of a square product."""
    return 2.0 * size**3 / (ms * 1e-3) / 1e12


def need_device() -> None:
    """SystemExit where the steps cannot run."""
    try:
        import torch

        found = torch.cuda.is_available()
    except ImportError:
        found = False
    if not found:
        raise SystemExit("timing needs a GPU and PyTorch; --compile-only needs neither")
    if torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit("wgmma and TMA need compute capability 9.0; --compile-only needs no GPU")


# -- the table


def table(record: dict[str, Any]) -> Iterator[str]:
    """The rows as Markdown; the columns of times only where there are times."""
    rows = record["rows"]
    timed = all(r["ms"] is not None for r in rows)
    heads = ["step", "what is new", *(["ms", "TFLOP/s", "× naive"] if timed else [])]
    heads += ["registers", "shared memory", "spilled bytes", "missed"]
    yield "| " + " | ".join(heads) + " |"
    yield "| " + " | ".join("---" for _ in heads) + " |"
    for number, row in enumerate(rows, 1):
        cells = [f"{number} {row['step']}", row["change"]]
        if timed:
            faster = rows[0]["ms"] / row["ms"]
            cells += [f"{row['ms']:.3f}", f"{row['tflops']:.1f}", f"{faster:.1f}"]
        cells += [str(row["registers"]), f"{row['shared']:,}", str(row["spills"])]
        yield "| " + " | ".join([*cells, "; ".join(row["missed"])]) + " |"
    if record["cublas"]:
        yield ""
        yield f"cuBLAS: {record['cublas']['ms']:.3f} ms, {record['cublas']['tflops']:.1f} TFLOP/s."


def section(record: dict[str, Any]) -> str:
    """What stands between the marks of the README."""
    where = record["circumstances"]
    if where:
        versions = ", ".join(f"{k} {where[k]}" for k in ("python", "torch", "cuda", "tileprof"))
        said = f"{record['size']}³ on {where['device']}, {where['date']} UTC, {versions}."
    else:
        said = f"{record['size']}³, compiled for {TARGET} without a GPU: no times."
    return "\n".join([BEGIN, "", *table(record), "", said, "", END])


def with_section(page: str, made: str) -> str:
    """The page with another table."""
    before, _, rest = page.partition(BEGIN)
    return before + made + rest.partition(END)[2]


def record(size: int, *, time: bool) -> dict[str, Any]:
    """Everything that the results file holds."""
    rows = [described(step, size) for step in STEPS]
    cublas = measured(rows, size) if time else None
    where = measuring.circumstances() if time else None
    made = {"circumstances": where, "size": size, "target": TARGET, "cublas": cublas}
    return {**made, "rows": [asdict(r) for r in rows]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=4096, help="M = N = K (default: 4096)")
    parser.add_argument("--compile-only", action="store_true", help="remarks and resources only")
    parser.add_argument("--readme", action="store_true", help=f"from {RESULTS.relative_to(ROOT)}")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a JSON file to write")
    args = parser.parse_args()
    if args.readme:
        found = RESULTS.exists()
        made = json.loads(RESULTS.read_text()) if found else record(args.size, time=False)
        README.write_text(with_section(README.read_text(), section(made)))
        return
    if not args.compile_only:
        need_device()
    made = record(args.size, time=not args.compile_only)
    for row in made["rows"]:
        print(f"{row['step']}: {row['change']}")
        print("".join(f"  {line}\n" for remark in row["remarks"] for line in remark.splitlines()))
    print("\n".join(table(made)))
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
