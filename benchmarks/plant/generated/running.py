"""Run a split on a GPU: each mutant beside its clean kernel, then a profile of the mutant.

    python -m plant.generated.running --split dev-1          in `benchmarks`
        [--part 1/2] [--only RE] [--jobs N] [--budget SECONDS] [--keep DIR] [-o FILE]
    python -m plant.generated.running --again FILE --keep DIR [--own] [-o FILE]
        kept profiles, read again; `--own`: with intervals of gains as before calibration
    python -m plant.generated.running --score FILE [FILE ...]   scores of files, pooled

Each case is a process of its own. Processes start, compile and analyse side by side; one at a time
has the GPU. Writes one JSON file, after each case: truth, findings, hashes of cases and analyzer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[3]))

from . import drawing, freezing, scoring
from .families import FAMILIES, Family
from .mutants import Mutant

__all__ = ["floor_ms", "items_of", "main", "results_path"]

CLEAN = "clean"
"""Operator's name in the case of a kernel as it is."""
LIMIT_S = 150
"""Longest time of one process."""
BUDGET_S = 540.0
"""Time after which no case is started."""
SLOWEST_MS = 60.0
"""A launch that takes longer is not measured: 15 pairs of it would take a second each."""


def items_of(mutants: Sequence[Mutant]) -> list[str]:
    """Return names of cases: each family's clean kernel before the first of its mutants."""
    names: dict[str, None] = {}
    for mutant in mutants:
        names[f"{mutant.family.name}/{CLEAN}/0"] = None
        names[mutant.name] = None
    return list(names)


def floor_ms(family: Family, shape: dict[str, int], moved: int, roofs: dict[str, float]) -> float:
    """Return the least time of a family at measured roofs: its bytes, or its products.

    Args:
        family: whose formulas are used.
        shape: extents.
        moved: bytes of all inputs and results, used where the family has no formula.
        roofs: bytes a second as `memory`, operations a second as `product`.
    """
    names: dict[str, Any] = {"__builtins__": {}, **shape}
    touched = eval(family.touched, names) if family.touched else moved
    flops = eval(family.flops, names)
    return 1e3 * float(max(touched / roofs["memory"], flops / roofs["product"]))


# -- one case, in a process of its own


def _one(name: str, folder: Path) -> None:
    """Compile, wait for the GPU, measure, and analyse."""
    import torch

    from plant import measure

    family_name, operator, _ = name.split("/")
    family = FAMILIES[family_name]
    mutant = None if operator == CLEAN else _mutant(name)
    shape = dict(mutant.shape if mutant else family.shape)
    texts = {"defective": mutant.text} if mutant else {}
    texts["fixed"] = family.text
    modules = {twin: _loaded(family, text, folder / twin) for twin, text in texts.items()}
    torch.cuda.init()
    for module in modules.values():
        _compiled(family, module, shape)
    with measure._alone(folder.parent):
        row = _measured(family, modules, shape, folder)
    profiled = folder / "profiled.tprof"
    if profiled.exists():
        row |= _findings(profiled, family, mutant)
    (folder / "row.json").write_text(json.dumps(row))


def _mutant(name: str) -> Mutant:
    from .mutants import mutants_of

    return next(each for each in mutants_of(FAMILIES[name.split("/")[0]]) if each.name == name)


def _loaded(family: Family, text: str, folder: Path) -> Any:
    from . import problems

    return problems.imported(family, text, folder / f"{family.path.stem}.py")


def _compiled(family: Family, module: Any, shape: dict[str, int]) -> None:
    """Compile into caches, without running anything."""
    from . import problems

    if family.language == "triton":
        hollow = [
            _hollow(each) for each in problems.inputs_of(family, problems.small(family), "cuda")
        ]
        sizes = _shapes(family, shape)
        with _without_launches():
            problems.called(family, module, [t.expand(s) for t, s in zip(hollow, sizes)])
        return
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    kernel = getattr(module, family.entry).compile(**shape).program.kernel
    # The binary, too: it is made when it is first asked for, which would be while others wait.
    assert compile_cuda(kernel, find_target("sm_90a"), None).cubin


def _hollow(tensor: Any) -> Any:
    """Return a tensor with one element of the same kind, which is expanded to any extents."""
    return tensor.new_empty(1)


def _shapes(family: Family, shape: dict[str, int]) -> list[list[int]]:
    """Return the extents of a family's inputs."""
    from . import problems

    parts = {f"{name}/{by}": -(-n // by) for name, n in shape.items() for by in (2, 32, 64, 128)}
    known = {**shape, **parts}
    return [
        [known[w] if w in known else int(w) for w in spec.split() if w in known or w.isdigit()]
        for spec in problems.problem(family).extents
    ]


@contextmanager
def _without_launches() -> Iterator[None]:
    """Let Triton compile what is launched, and launch nothing."""
    from triton.runtime.jit import JITFunction

    held = JITFunction.run

    def warmed(self: Any, *args: Any, **options: Any) -> Any:
        return held(self, *args, **{**options, "warmup": True})

    JITFunction.run = warmed
    try:
        yield
    finally:
        JITFunction.run = held


def _measured(family: Family, modules: dict[str, Any], shape: dict[str, int],
              folder: Path) -> dict[str, Any]:  # fmt: skip
    """Compare results, take times in turns, and record samples of the first twin."""
    import measuring
    import torch

    from plant import measure

    from . import problems

    work, inputs = problems.problem(family), problems.inputs_of(family, shape, "cuda")
    roofs = _roofs(inputs)
    runs: dict[str, Callable[[], Any]] = {
        twin: (lambda module=module: problems.called(family, module, inputs))
        for twin, module in modules.items()
    }
    expected, apart, moved = work.reference(*inputs), {}, 0
    for twin, run in runs.items():
        problems.reset(work, inputs)
        result = run()
        apart[twin] = problems.difference(result, expected)
        moved = sum(t.numel() * t.element_size() for t in (*inputs, result))
    del expected, result
    torch.cuda.empty_cache()
    row: dict[str, Any] = {
        "differences": apart, "correct": all(each <= work.limit for each in apart.values()),
        "floor_ms": floor_ms(family, shape, moved, roofs),
    }  # fmt: skip
    slowest = max(measuring.batch_ms(run, 1) for run in runs.values())
    if slowest > SLOWEST_MS or not row["correct"]:
        return {**row, "error": f"{slowest:.0f} ms a launch" if row["correct"] else "wrong results"}
    row["time"] = measure._times(runs)
    first = next(iter(runs))
    measure._recorded(
        runs[first], folder / "profiled.tprof", row["time"][f"{first}_ms"], pc_sampling=True
    )
    return row


def _roofs(inputs: Sequence[Any]) -> dict[str, float]:
    """Return measured roofs for what a family's inputs are made of."""
    from tileprof.runtime.roofs import measured_roofs

    held = {each.name: each.value for each in measured_roofs(0)}
    memory = max((v for name, v in held.items() if name.startswith("hbm_")), default=4e12)
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    wanted = {"float32": "tf32", "float8_e4m3fn": "float8"}.get(dtype, dtype)
    products = [v for name, v in held.items() if name.startswith("tensor_") and wanted in name]
    products = products or [v for name, v in held.items() if name.startswith("tensor_")]
    return {"memory": memory, "product": max(products, default=9e14)}


def _findings(path: Path, family: Family, mutant: Mutant | None) -> dict[str, Any]:
    """Return what is said of a profile."""
    from dataclasses import replace

    from plant import analysing
    from tileprof.analyzer import analyze
    from tileprof.profile import PcSamples, load

    profile = load(path)
    began = time.perf_counter()
    found = analyze(profile).findings
    took = time.perf_counter() - began
    static = replace(profile, tables=replace(profile.tables, pc=PcSamples()))
    remarks = [each for kernel in profile.tables.kernels for each in kernel.remarks]
    guilty = mutant.guilty if mutant else ()
    return {
        "findings": [analysing._plain(each, (family.kernel,)) for each in found],
        "static": [analysing._plain(each, (family.kernel,)) for each in analyze(static).findings],
        "ops": sorted({e.subject for e in remarks if e.location and e.location.line in guilty}),
        "largest_stall": analysing._largest_stall(profile),
        "samples": int(profile.tables.pc.counted.sum()), "analysis_s": took,
        "profile_bytes": path.stat().st_size,
    }  # fmt: skip


def _factors() -> dict[str, list[float]]:
    """Return by what the analyzer stretches intervals."""
    from tileprof.analyzer import calibrated

    return {kind: list(each) for kind, each in calibrated.FACTORS.items()}


# -- all of them


def _described(name: str, mutants: dict[str, Mutant]) -> dict[str, Any]:
    family, operator, _ = name.split("/")
    row: dict[str, Any] = {"case": name, "family": family, "operator": operator, "kind": CLEAN,
                           "language": FAMILIES[family].language, "rules": [], "causes": [],
                           "guilty": []}  # fmt: skip
    if name in mutants:
        held = mutants[name]
        row |= {"kind": held.operator.kind, "rules": list(held.rules), "digest": held.digest,
                "causes": list(held.site.causes), "guilty": list(held.guilty),
                "note": held.site.note, "shape": dict(held.shape)}  # fmt: skip
    return row


def _ran(name: str, kept: Path, end: float) -> dict[str, Any]:
    """Run one case in a new process; what it wrote, or why it did not."""
    if time.perf_counter() > end:
        return {"error": "not reached in the time given"}
    folder = kept / re.sub(r"\W+", "_", name)
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "plant.generated.running",
        "--one",
        name,
        "--keep",
        str(folder),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"not over after {LIMIT_S} s"}
    path = folder / "row.json"
    if done.returncode or not path.exists():
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": said[-1][:300]}
    held: dict[str, Any] = json.loads(path.read_text())
    return held


def results_path(split: str, part: int = 1, parts: int = 1) -> Path:
    """Return where results of a part of a split are kept, each part in a file of its own."""
    ending = f"-{part}of{parts}" if parts > 1 else ""
    return Path(__file__).parents[2] / "results" / f"plant-{split}{ending}.json"


def _shown() -> frozenset[tuple[str, str]]:
    """Return the true suggestions for clean kernels that the kept record of repairs shows."""
    record = json.loads((Path(__file__).parents[2] / "results" / "claims.json").read_text())
    return scoring.proven(record["rows"])


def run(args: argparse.Namespace) -> int:
    """Run a split, or a part of it."""
    import measuring

    record, mutants = drawing.read(args.split)
    now = freezing.analyzer_hash()
    changed = [m.name for m in mutants if record["cases"][m.name] != m.digest]
    if changed:
        sys.exit(f"changed since the split was drawn: {', '.join(changed[:5])}")
    if record.get("analyzer", now) != now:
        sys.exit("the split was frozen with another analyzer: draw one with another seed")
    by_name = {each.name: each for each in mutants}
    part, parts = map(int, args.part.split("/"))
    names = [each for each in items_of(mutants) if re.search(args.only, each)]
    names = names[part - 1 :: parts]
    begin = time.perf_counter()
    output = args.output or results_path(args.split, part, parts)
    result: dict[str, Any] = {
        "split": args.split, "part": args.part, "analyzer": now, "claims": "current",
        "factors": _factors(),
        "held_out": record["held_out"], "circumstances": measuring.circumstances(), "rows": [],
    }  # fmt: skip
    from tileprof.runtime.roofs import measured_roofs

    measured_roofs(0)  # kept for all processes; the first takes some seconds
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        kept = args.keep or Path(scratch)
        for name, row in zip(
            names, pool.map(lambda name: _ran(name, kept, begin + args.budget), names)
        ):
            result["rows"].append({**_described(name, by_name), **row})
            result["seconds"] = time.perf_counter() - begin
            output.write_text(json.dumps(result, indent=1) + "\n")
            print(scoring.told(result["rows"][-1]), flush=True)
    print(scoring.page(scoring.pooled([result]), scoring.dev_gains([]), _shown()))
    print(f"{output}: {result['seconds']:.0f} s")
    return 0


def again(path: Path, kept: Path, only: str, output: Path | None) -> int:
    """Read a split's kept profiles by the analyzer as it is; times are those of the file."""
    result: dict[str, Any] = json.loads(path.read_text())
    _, mutants = drawing.read(result["split"])
    by_name = {each.name: each for each in mutants}
    for row in result["rows"]:
        profiled = kept / re.sub(r"\W+", "_", row["case"]) / "profiled.tprof"
        if re.search(only, row["case"]) and profiled.exists():
            row |= _findings(profiled, FAMILIES[row["family"]], by_name.get(row["case"]))
            print(scoring.told(row), flush=True)
    result |= {"analyzer": freezing.analyzer_hash(), "read_again": True, "factors": _factors()}
    if output:
        output.write_text(json.dumps(result, indent=1) + "\n")
    print(scoring.page(scoring.pooled([result]), scoring.dev_gains([]), _shown()))
    return 0


def main() -> int:
    """Run, read again, or score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", help="the name of a file in `splits`")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--only", default="", help="a regular expression over names of cases")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where profiles stay")
    parser.add_argument("--own", action="store_true", help="intervals before calibration")
    parser.add_argument("--again", type=Path, metavar="FILE", help="results of kept profiles")
    parser.add_argument("--score", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="FILE",
                        help="results of development, for baselines")  # fmt: skip
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.one:
        _one(args.one, args.keep)
        return 0
    if args.score:
        held = [json.loads(path.read_text()) for path in args.score]
        known = scoring.dev_gains([json.loads(path.read_text()) for path in args.dev])
        print(scoring.page(scoring.pooled(held), known, _shown()))
        return 0
    if args.again:
        if not args.keep:
            parser.error("--again needs --keep")
        if args.own:
            from tileprof.analyzer import calibrated

            calibrated.FACTORS = {}
        return again(args.again, args.keep, args.only, args.output)
    if not args.split:
        parser.error("--split, --again or --score is needed")
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
