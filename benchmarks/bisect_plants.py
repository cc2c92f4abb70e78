"""How often `tileprof bisect` names the true first level, and how often it alarms for nothing.

    python -m benchmarks.bisect_plants --triton DIR     what is compiled; no GPU needed
    python -m benchmarks.bisect_plants --time-cpu       noise of times on the processor
    python -m benchmarks.bisect_plants --time           times, on a GPU, in 200 s

`DIR` is a folder that holds the package `triton` of the version that `plants_triton` names, as
`pip install --no-deps --target DIR triton==3.9.0` fills it. Each part writes its own
key of `benchmarks/results/bisect.json`, and the table in `docs/bisect.md` is made of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bisecting import plants_held_out, plants_ours, plants_triton
from benchmarks.bisecting.planting import REPOSITORY, Planted, plant
from benchmarks.bisecting.plants import Null, Plant
from tileprof.bisecting import Report, Settings, Sides, bisect, judged, read_suite
from tileprof.bisecting.culprits import Culprit
from tileprof.bisecting.running import timed_pairs
from tileprof.bisecting.timing import ratio_of
from tileprof.errors import TileprofError
from tileprof.profiler.session.provenance import cpu_model
from tileprof.trying.measuring import LOOKS, Pair

PAGE = REPOSITORY / "docs" / "bisect.md"
HEAD = "| what | tried | of these |"
"""First line of the table on the page."""
PLACE = REPOSITORY / "benchmarks" / "bisecting"
RESULTS = REPOSITORY / "benchmarks" / "results" / "bisect.json"
SIMULATED = 4000
"""Kernels whose times are drawn for each kind of noise."""
NOISES = {
    "0.3 % between rounds, 0.2 % between processes": (0.003, 0.002),
    "2 % between rounds, 1 % between processes": (0.02, 0.01),
    "2 % between rounds, 3 % between processes": (0.02, 0.03),
    "10 % between rounds, 5 % between processes": (0.1, 0.05),
}
"""Standard deviations of the logarithm of a time."""
COMPARED = ("pass", "option")


def main() -> None:
    """Run a part and write its results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--triton", type=Path, help="folder with the package triton")
    parser.add_argument("--engine", choices=("tileprof", "triton"), help="one compiler's plants")
    parser.add_argument("--held-out", action="store_true", help="the plants not in use before")
    parser.add_argument("--only", default="", help="plants whose name holds this text; not written")
    parser.add_argument("--time", action="store_true", help="the part that needs a GPU")
    parser.add_argument("--time-cpu", action="store_true", help="noise of times on the processor")
    args = parser.parse_args()
    if args.time or args.time_cpu:
        part, found = ("gpu", _on_gpu()) if args.time else ("cpu", _on_processor())
        print(json.dumps(found, indent=1))
        _write(part, found)
        return
    packages = {"tileprof": REPOSITORY / "tileprof"}
    if args.triton is not None:
        packages["triton"] = (args.triton / "triton").resolve()
    if args.held_out:
        found = measured("held out", packages, args.only)
        _write("held out", {**found, "rates": _rates([r for r in found["plants"] if r["effect"]])})
        return
    for engine in [args.engine] if args.engine else [*packages]:
        found = measured(engine, packages, args.only)
        if not args.only:
            _write(engine, found)
    if not args.only:
        _write("rates", rates())


def rates() -> dict[str, Any]:
    """Return the rates over all rows that were written, and of simulated noise."""
    held = json.loads(RESULTS.read_text())
    parts = [held[engine] for engine in ("tileprof", "triton") if engine in held]
    rows = [row for part in parts for row in part["plants"]]
    nulls = [row for part in parts for row in part["nulls"]]
    return {**_rates(rows), **_false(nulls), "simulated noise": simulated()}


def _write(part: str, found: Mapping[str, Any]) -> None:
    # Both engines may be measured at the same time, by two processes.
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    held[part] = found
    RESULTS.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), held))
    print(f"wrote {part} to {RESULTS.relative_to(REPOSITORY)}")


def with_table(page: str, held: Mapping[str, Any]) -> str:
    """Return the page with the table of these results in place of the one that it has."""
    begin = page.index(HEAD)
    return page[:begin] + "\n".join(table(held)) + page[page.index("\n\n", begin) :]


def table(held: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of results."""
    yield HEAD
    yield "| --- | ---: | ---: |"
    for what, tried, found in _figures(held):
        yield f"| {what} | {tried:,} | {found:,} |"


def _figures(held: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    for name, engine in (("tileprof", "tileprof"), ("Triton", "triton")):
        rows = held[engine]["plants"]
        right = sum(row["right_step"] for row in rows)
        yield f"regressions planted in {name}: level and step are right", len(rows), right
    rows = [row for row in held["held out"]["plants"] if row["effect"]]
    right = sum(row["right_step"] for row in rows)
    yield "the same, written down before their first run", len(rows), right
    rates = held["rates"]
    causes = rates["culprits without which the old code comes back"]
    what = "causes named, and the old code comes back without them"
    yield what, causes["tried"], causes["restored"]
    without = rates["edits without effect"]
    what = "edits without effect on the machine code: named"
    yield what, without["tried"], without["false alarms"]
    for noise, found in rates["simulated noise"].items():
        what = f"simulated kernels that did not change, {noise}: named"
        yield what, found["kernels"], found["alarms"]
    for part in ("cpu", "gpu"):
        if part in held:
            found = held[part]
            what = f"the same code timed on both sides, {found['device']}: named"
            yield what, found["decisions"], found["false alarms"]


# -- compilers


def measured(engine: str, packages: Mapping[str, Path], only: str = "") -> dict[str, Any]:
    """Return what bisect names for each plant and each edit without effect of a compiler."""
    plants: Sequence[Plant | Null] = {
        "tileprof": (*plants_ours.PLANTS, *plants_ours.NULLS),
        "triton": (*plants_triton.PLANTS, *plants_triton.NULLS),
        "held out": plants_held_out.PLANTS,
    }[engine]
    chosen = [each for each in plants if only in each.name]
    rows, nulls = [], []
    for at, each in enumerate(chosen):
        row = _row(each, packages)
        print(f"{at + 1}/{len(chosen)} {each.engine} · {each.name}: {_said(row)}", flush=True)
        (rows if isinstance(each, Plant) else nulls).append(row)
    return {
        "device": f"no GPU: compiled for sm_90a and not run; {cpu_model()}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": _versions(packages),
        "plants": rows,
        "nulls": nulls,
    }


def _versions(packages: Mapping[str, Path]) -> dict[str, str]:
    from tileprof.compiler.cuda import nvrtc

    found = {"NVRTC": nvrtc.identity()}
    for name, package in packages.items():
        if "triton" in name:
            for line in (package / "__init__.py").read_text().splitlines():
                if line.startswith("__version__"):
                    found[name] = line.split("'")[1]
    return found


def _row(which: Plant | Null, packages: Mapping[str, Path]) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="tileprof-plant-"))
    row: dict[str, Any] = {"name": which.name, "engine": which.engine, "kernel": which.suite}
    if isinstance(which, Plant):
        row |= {"level": which.level, "steps": list(which.steps)}
    try:
        made = plant(which, packages, folder / "sides")
        found = compared(made, which, packages)
        row |= _named(found)
    except (TileprofError, ValueError) as error:
        row |= _error(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(which, Plant):
        row["right"] = row["changed"] and row["named"] == which.level
        named = {each.strip() for each in row["step"].split(",")}
        row["right_step"] = row["right"] and (not which.steps or bool(named & {*which.steps}))
    return row


def _error(text: str) -> dict[str, Any]:
    return {"named": "error", "step": "", "changed": False, "effect": True, "text": text[:300],
            "restored": None}  # fmt: skip


def compared(made: Planted, which: Plant | Null, packages: Mapping[str, Path]) -> Report:
    """Return the report on both sides of a plant, compiled and not run."""
    settings = Settings("sm_90a", "", "a benchmark of what is compiled")
    with _inside(made.folder), Sides(str(made.folder)) as sides:
        suite = read_suite(made.suite, dict(which.values), ())
        if made.old != "default":
            return bisect(made.old, made.new, suite, sides, settings, lambda _: None)
        with _in_front(packages[which.engine].parent):
            return bisect(made.old, made.new, suite, sides, settings, lambda _: None)


def _named(found: Report) -> dict[str, Any]:
    if len(found.changes) != 1:
        names = ", ".join(each.kernel for each in found.changes)
        return _error(f"{len(found.changes)} kernels: {names}")
    (change,) = found.changes
    difference = change.difference
    culprits: Sequence[Culprit] = [c for c in change.culprits if c.kind in COMPARED]
    return {
        "named": difference.level if difference else "error",
        "step": difference.step if difference else "",
        "changed": change.verdict == "changed",
        "effect": not change.same_code,
        "text": (difference.text if difference else change.why)[:300],
        "restored": any(each.restores for each in culprits) if culprits else None,
    }


def _said(row: Mapping[str, Any]) -> str:
    named = f"{row['named']} {row['step']}".strip()
    if "right" not in row:
        return f"FALSE ALARM, {named}: {row['text']}" if row["changed"] else "unchanged"
    return (
        named
        if row["right_step"]
        else f"WRONG: {named}, not {row['level']} {row['steps']}: {row['text']}"
    )


def _rates(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, of in (("all", rows), *((e, [r for r in rows if r["engine"] == e])
                                      for e in ("tileprof", "triton"))):  # fmt: skip
        if of:
            found[name] = {
                "plants": len(of),
                "right level": sum(row["right"] for row in of) / len(of),
                "right level and step": sum(row["right_step"] for row in of) / len(of),
            }
    tried = [row for row in rows if row["restored"] is not None]
    found["culprits without which the old code comes back"] = {
        "tried": len(tried), "restored": sum(row["restored"] for row in tried)
    }  # fmt: skip
    return found


def _false(nulls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    alarms = [row["name"] for row in nulls if row["changed"] or row["named"] == "error"]
    return {"edits without effect": {"tried": len(nulls), "false alarms": len(alarms)}}


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _in_front(folder: Path) -> Iterator[None]:
    """Let both sides import from a folder, as an installed package."""
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), before])
    try:
        yield
    finally:
        os.environ["PYTHONPATH"] = before


# -- noise


def simulated(count: int = SIMULATED, floor: float = 0.02) -> dict[str, Any]:
    """Return how often a kernel that did not change is named, for drawn times."""
    drawn = random.Random(0)
    found: dict[str, Any] = {}
    for name, (rounds, processes) in NOISES.items():
        alarms = sum(_alarms(drawn, rounds, processes, floor) for _ in range(count))
        found[name] = {"kernels": count, "alarms": alarms, "rate": alarms / count}
    return found


def _alarms(drawn: random.Random, rounds: float, processes: float, floor: float) -> bool:
    pairs: list[Pair] = []
    for number in range(LOOKS[-1]):
        shift = drawn.gauss(0, processes) - drawn.gauss(0, processes)
        times = [(1.0, 2.718281828 ** (shift + drawn.gauss(0, rounds) - drawn.gauss(0, rounds)))
                 for _ in range(6)]  # fmt: skip
        pairs.append(Pair(tuple(times)))
        if number + 1 in LOOKS:
            verdict = judged(ratio_of(pairs), floor)
            if verdict != "undecided":
                return verdict in ("slower", "faster")
    return False


# -- a GPU

PAIRS = 6
"""Pairs of processes without a change: two independent decisions of each kernel."""
_LIMIT_S = 190.0


def _on_gpu() -> dict[str, Any]:
    """Return false alarms and found regressions of kernels that are timed on the GPU here."""
    began = time.monotonic()
    settings = Settings(_target(), "cuda:0", "", walk=False)
    found = {"device": _device_name(), **_unchanged("kernels_launched.py:same", settings)}
    regressions: dict[str, Any] = {}
    with Sides(str(REPOSITORY)) as sides:
        suite = read_suite(f"{PLACE}/kernels_launched.py:few", {}, ())
        for given in ("stages=1", "vectorize=off"):
            if time.monotonic() - began > _LIMIT_S * 0.7:
                regressions[given] = "left out: no time"
                continue
            made = bisect("default", given, suite, sides, settings, print)
            regressions[given] = [_timed_row(each) for each in made.changes]
    return {**found, "seconds": time.monotonic() - began, "regressions": regressions}


def _on_processor() -> dict[str, Any]:
    """Return false alarms of kernels that are timed on the processor here."""
    settings = Settings("cpu", "cpu", "", walk=False)
    return {"device": cpu_model(), **_unchanged("kernels_cpu.py:launched", settings)}


def _unchanged(name: str, settings: Settings) -> dict[str, Any]:
    """Time both sides of nothing, and return how often a kernel is named."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    with Sides(str(REPOSITORY)) as sides:
        side, suite = sides.side("default"), read_suite(f"{PLACE}/{name}", {}, ())
        same = timed_pairs(side, side, suite, sides, settings, PAIRS)
    decisions = [
        judged(ratio_of(group), settings.timing.floor)
        for pairs in same.values()
        for group in _groups(pairs)
    ]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "load of a core before": load,
        "kernels": len(same),
        "decisions": len(decisions),
        "false alarms": sum(each in ("slower", "faster") for each in decisions),
        "undecided": decisions.count("undecided"),
        "spread of pairs": {n: statistics.stdev(p.speedup for p in pairs)
                            for n, pairs in same.items()},
    }  # fmt: skip


def _groups(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    for at in range(0, len(pairs) - LOOKS[0] + 1, LOOKS[0]):
        yield pairs[at : at + LOOKS[0]]


def _timed_row(change: Any) -> dict[str, Any]:
    ratio = change.times.ratio if change.times else None
    return {
        "kernel": change.kernel, "verdict": change.verdict, "same code": change.same_code,
        "level": change.difference.level if change.difference else "",
        "ratio": ratio and [ratio.low, ratio.value, ratio.high],
    }  # fmt: skip


def _target() -> str:
    from tileprof.runtime.cuda.device import find_device

    return find_device(0).target.name


def _device_name() -> str:
    from tileprof.bench import read_gpu

    found = read_gpu()
    return found.name if found else "unknown"


if __name__ == "__main__":
    main()
