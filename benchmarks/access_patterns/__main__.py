"""Counts the launches of all patterns on a GPU.

    python -m benchmarks.access_patterns -o FILE [--seconds 60] [--only copies,boxes]
    python -m benchmarks.access_patterns --dry-run

Each group of patterns is counted in a process of its own with metrics of its own, because CUPTI
runs a launch as often as the metrics have passes.  A process writes what it has after every `CHUNK`
patterns, and begins none when the time is over: the JSON says how many patterns are in it.  At the
end a process counts some copies instruction by instruction, which no other process can do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import tileprof
from benchmarks.access_patterns.bodies import BODIES
from benchmarks.access_patterns.catalogue import by_name, catalogue
from benchmarks.access_patterns.compiling import compiled, unexpected
from benchmarks.access_patterns.launching import Launches
from benchmarks.access_patterns.metrics import METRICS, passes
from benchmarks.access_patterns.patterns import Group, Pattern
from benchmarks.measuring import circumstances
from tileprof.errors import TileprofError
from tileprof.profile.instruction_counts import name_of
from tileprof.runtime.cuda.driver import DriverFailure

CHUNK = 60
"""Patterns of one recording."""
Launch = Callable[[Pattern], object]
_ROOT = Path(__file__).parents[2]
_INSTRUCTIONS = ("smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",
                 "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal",
                 "smsp__sass_sectors_mem_global")  # fmt: skip
"""Metrics of instructions, which add up by function: each pattern then has a kernel of its own."""
_BY_INSTRUCTION_S, _START_S, _LATE_S = 8.0, 3.0, 15.0
"""Time that is kept for counts of instructions and for the start of each process, and how late a
process may be before it is ended."""
_BREAKING = (700, 714, 715, 716, 717, 718, 719)
"""`CUresult` of faults of a kernel, after which every call in the process fails."""
_MOST_BROKEN = 3
"""Patterns of a group that may break their process before the group is given up."""
_SHARES: dict[Group, float] = {
    "copies": 0.35, "boxes": 0.1, "shared atomics": 0.12, "matrices": 0.08, "shared": 0.15,
    "global": 0.15, "local": 0.05,
}  # fmt: skip
"""Share of the time that each group may take; what one leaves the next ones have."""


def named(patterns: Mapping[str, Pattern]) -> dict[str, Pattern]:
    """Return the copies that are counted instruction by instruction, by their kernels' names."""
    of_body = [each for each in patterns.values() if each.body == "cg16"]
    chosen = [each for each in of_body if "zeros" in each.name or "pitch" in each.name][::6]
    return {f"copy_{number:03d}": each for number, each in enumerate(chosen)}


def record(group: Group, cubin: Path, out: Path, seconds: float) -> None:
    """Count a group's patterns on the first GPU; write the counters."""
    from tileprof.runtime.cuda.device import find_device

    device = find_device(0)
    with device.current():
        launch = Launches(device, cubin.read_bytes())
        record_launches(catalogue()[group], METRICS[group], launch, out, seconds)


def record_launches(
    patterns: Sequence[Pattern],
    metrics: Mapping[str, str],
    launch: Launch,
    out: Path,
    seconds: float,
) -> None:
    """Launch patterns under counters, `CHUNK` at a time, until the seconds are over; write the
    counters by pattern, anew after each time.

    Each recording has patterns from all over the group, so that a run that ends early has some of
    every kind.  SystemExit where a pattern breaks the context, in which nothing runs any more: its
    name is then in a file beside `out`, and the next process leaves it out.
    """
    begin, counted = time.monotonic(), dict[str, dict[str, float]]()
    broken = broken_of(out)
    parts = -(-len(patterns) // CHUNK)
    for number in range(parts):
        spent = time.monotonic() - begin
        # The next recording likely takes as long as those before it did on average.
        if number and spent * (1 + 1 / number) > seconds:
            break
        path = out.with_suffix(f".{number}.tprof")
        chosen = [
            each
            for each in patterns[number::parts]
            if each.name not in broken and _runs(each, launch, out)
        ]
        with tileprof.profile(
            path, context="scopes", instrument="off", metrics=list(metrics.values())
        ):
            for each in chosen:
                with tileprof.scope(each.name):
                    launch(each)
        counted |= of_scopes(tileprof.load(path), chosen, metrics)
        out.write_text(json.dumps(counted))


def broken_of(out: Path) -> list[str]:
    """Return the patterns that broke the context of an earlier process with this output."""
    path = out.with_suffix(".broken")
    return path.read_text().splitlines() if path.exists() else []


def _runs(pattern: Pattern, launch: Launch, out: Path) -> bool:
    """Launch a pattern without counters; return whether the driver takes it, or say why not.
    SystemExit where it breaks the context, after its name is noted."""
    try:
        launch(pattern)
    except DriverFailure as failure:
        print(f"{pattern.name}: {failure}", flush=True)
        if failure.code in _BREAKING:
            out.with_suffix(".broken").write_text("\n".join([*broken_of(out), pattern.name]))
            raise SystemExit(f"{pattern.name} broke the context") from None
        return False
    except TileprofError as error:
        print(f"{pattern.name}: {error}", flush=True)
        return False
    return True


def of_scopes(
    profile: Any, patterns: Sequence[Pattern], metrics: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the metrics of the launch in each pattern's scope; SystemExit where a recording has
    none.  A profile leaves out a metric that is 0 everywhere."""
    _check_read(profile)
    known = set(profile.metrics)
    found = {}
    for pattern in patterns:
        at = profile.find(pattern.name, "scope")
        if len(at) == 1:
            found[pattern.name] = {
                short: float(profile.total(name)[at[0]]) if name in known else 0.0
                for short, name in metrics.items()
            }
    return found


def record_instructions(cubin: Path, out: Path) -> None:
    """Count the instructions of some copies; write wavefronts and their fewest by pattern."""
    from tileprof.runtime.cuda.device import find_device

    chosen, device = named(by_name(catalogue().values())), find_device(0)
    path = out.with_suffix(".tprof")
    with device.current():
        launches = Launches(device, cubin.read_bytes())
        with tileprof.profile(path, context="scopes", instrument="off",
                              metrics=list(_INSTRUCTIONS)):  # fmt: skip
            for name, each in chosen.items():
                launches(each, name)
    profile = tileprof.load(path)
    _check_read(profile)
    held, found = profile.tables.pc, {}
    for number, function in enumerate(held.functions):
        if function.name in chosen:
            sums = held.counts.values[held.counts.rows_of(number)].sum(axis=0).tolist()
            found[chosen[function.name].name] = dict(zip(held.counts.metrics, sums))
    out.write_text(json.dumps(found))


def _check_read(profile: Any) -> None:
    """SystemExit where a recording has no counters, with the reason."""
    facts = profile.tables.provenance
    if "counters not read" in facts:
        raise SystemExit(facts["counters not read"])


def ran(arguments: Sequence[str], seconds: float) -> str:
    """Run this module in a process of its own; return why it did not succeed, or ''."""
    command = [sys.executable, "-m", "benchmarks.access_patterns", *arguments]
    try:
        done = subprocess.run(
            command, cwd=_ROOT, timeout=seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {seconds:.0f} s"
    print(done.stdout, end="", flush=True)
    return "" if not done.returncode else f"{done.returncode}: {done.stderr.strip()[-600:]}"


def count(groups: Sequence[Group], seconds: float, folder: Path) -> dict[str, Any]:
    """Count groups of patterns, each in its process; return counters, and what went wrong."""
    begin = time.monotonic()
    patterns = catalogue()
    cubin = folder / "patterns.cubin"
    chosen = named(by_name(patterns.values()))
    cubin.write_bytes(compiled({name: each.body for name, each in chosen.items()}))
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)
    counters, problems = dict[str, dict[str, dict[str, float]]](), dict[str, str]()
    took = dict[str, float]()
    left_shares = sum(_SHARES[group] for group in groups)
    for number, group in enumerate(groups):
        now = time.monotonic()
        left = max(seconds - (now - begin) - _BY_INSTRUCTION_S, 1.0)
        counting = max(left - _START_S * (len(groups) - number), 0.0)
        allowed = counting * _SHARES[group] / left_shares
        left_shares -= _SHARES[group]
        out = folder / f"{group.replace(' ', '-')}.json"
        arguments = ("--record", group, "--cubin", str(cubin), "-o", str(out))
        patience = min(left, allowed + _START_S + _LATE_S)
        why, broken = "", -1
        # A pattern that breaks the context costs its process, but neither the group nor others.
        while broken < len(broken_of(out)) <= _MOST_BROKEN:
            broken = len(broken_of(out))
            rest = patience - (time.monotonic() - now)
            why = ran((*arguments, "--seconds", str(allowed)), max(rest, 1.0)) if rest > 0 else why
        if why:
            problems[group] = why
        found = json.loads(out.read_text()) if out.exists() else {}
        counters[group] = found
        took[group] = round(time.monotonic() - now, 1)
        print(f"{group}: {len(found)} of {len(patterns[group])} patterns in {took[group]} s"
              f"{', ' + problems[group] if group in problems else ''}", flush=True)  # fmt: skip
    out = folder / "instructions.json"
    left = max(seconds - (time.monotonic() - begin), 1.0)
    if why := ran(("--record", "instructions", "--cubin", str(cubin), "-o", str(out)), left):
        problems["instructions"] = why
    instructions = json.loads(out.read_text()) if out.exists() else {}
    print(f"instructions: {len(instructions)} of {len(chosen)} patterns", flush=True)
    rows = [
        {"group": group, "pattern": name, "counters": each}
        for group, held in counters.items()
        for name, each in held.items()
    ]
    return {"rows": rows, "instructions": instructions, "problems": problems, "took": took}


def dry_run() -> int:
    """Compile, check the machine code, plan the passes; return the exit status."""
    patterns = catalogue()
    chosen = named(by_name(patterns.values()))
    cubin = compiled({name: each.body for name, each in chosen.items()})
    wrong = unexpected(cubin)
    for each in wrong:
        print(each)
    print(f"{len(BODIES)} bodies, {len(chosen)} kernels of copies by themselves")
    for group, held in patterns.items():
        print(f"{group}: {len(held)} patterns, {len(METRICS[group])} metrics, "
              f"{passes(group)} passes")  # fmt: skip
    print(f"by instruction: {', '.join(map(name_of, _INSTRUCTIONS))}")
    return int(bool(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    """Count patterns, or check what can be checked without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access_patterns")
    parser.add_argument("--dry-run", action="store_true", help="do everything but the GPU's part")
    parser.add_argument("--only", default=",".join(METRICS), help="groups, joined by commas")
    parser.add_argument("--seconds", type=float, default=60.0, help="for everything")
    parser.add_argument("-o", "--out", type=Path, default=Path("access-patterns.json"))
    parser.add_argument("--record", help=argparse.SUPPRESS)
    parser.add_argument("--cubin", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.dry_run:
        return dry_run()
    if args.record == "instructions":
        record_instructions(args.cubin, args.out)
        return 0
    if args.record:
        record(args.record, args.cubin, args.out, args.seconds)
        return 0
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(get_args(Group)):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; known: {', '.join(METRICS)}")
    groups = [group for group in catalogue() if group in wanted]
    with tempfile.TemporaryDirectory() as folder:
        found = count(groups, args.seconds, Path(folder))
    result = {
        "description": "Hardware counters of launches of one warp with one memory instruction, by "
        "group and pattern; `instructions`: counts by CUPTI's instrumented machine code.",
        "circumstances": circumstances(),
        "metrics": METRICS,
        **found,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {args.out}")
    return int(bool(found["problems"]))


if __name__ == "__main__":
    raise SystemExit(main())
