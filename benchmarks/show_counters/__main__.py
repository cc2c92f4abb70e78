"""Counts of a page of `tileprof show`, beside the hardware counters of the same launches.

    python -m benchmarks.show_counters               writes benchmarks/results/show-counters.json
    python -m benchmarks.show_counters --dry-run     everything but the GPU; prints the plan
    python -m benchmarks.show_counters --only histogram,held-out --out /tmp/some.json
    python -m benchmarks.show_counters --sass        loads and stores of the machine code, by line
    python -m benchmarks.show_counters --counted     requests of machine code that is run here
    python -m benchmarks.show_counters --freeze      pages of kernels that no GPU has run yet
    python -m benchmarks.show_counters --freeze --again fresh    once more, after a change of pages
    python -m benchmarks.show_counters --keep tests/data/show-counters.json    counters for a test

Each kernel of `kernels` is shown in the interpreter, then launched under counters of
launches (CUPTI's range profiler) and under counts of instructions, each in a process of its own,
because one process does not do both.  A number that cannot be compared has a code (`REASONS`).

Before anything runs, every metric is looked up in CUPTI for the kind of device.  All alternatives
whose names are known are counted; a number is compared with the first one that counted anything.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tileprof
from benchmarks.show_counters import machine_code
from benchmarks.show_counters.comparing import REASONS, beside, summary
from benchmarks.show_counters.freezing import (
    FROZEN_PAGES,
    changed,
    code_of_pages,
    codes_of,
    freeze,
    frozen_pages,
)
from benchmarks.show_counters.fresh import FRESH
from benchmarks.show_counters.frozen import FROZEN, frozen_of_tilelang
from benchmarks.show_counters.frozen_fifth import FROZEN_FIFTH
from benchmarks.show_counters.frozen_fourth import FROZEN_FOURTH
from benchmarks.show_counters.frozen_products import FROZEN_SECOND
from benchmarks.show_counters.frozen_seventh import FROZEN_SEVENTH
from benchmarks.show_counters.frozen_sixth import FROZEN_SIXTH
from benchmarks.show_counters.frozen_third_products import FROZEN_THIRD
from benchmarks.show_counters.held_out import HELD_OUT, of_tilelang
from benchmarks.show_counters.kernels import CASES, Case
from benchmarks.show_counters.pages import Shown, shown
from benchmarks.show_counters.planning import CHIP, Plan, plan, plan_text
from benchmarks.show_counters.recording import (
    counter_facts,
    of_launches,
    of_lines,
    record,
    recorded,
)

RESULTS = Path(__file__).parents[1] / "results" / "show-counters.json"
GROUPS: dict[str, tuple[Case, ...]] = {
    "first": CASES, "held-out": HELD_OUT, "frozen": FROZEN, "frozen-second": FROZEN_SECOND,
    "frozen-third": FROZEN_THIRD, "frozen-fourth": FROZEN_FOURTH, "frozen-fifth": FROZEN_FIFTH,
    "frozen-sixth": FROZEN_SIXTH, "frozen-seventh": FROZEN_SEVENTH, "fresh": FRESH,
}  # fmt: skip


def kept(
    pages: Mapping[str, Shown],
    made: Plan,
    launches: Mapping[str, Mapping[str, float]],
    lines: Mapping[str, Mapping[int, Mapping[str, int]]],
) -> dict[str, Any]:
    """Return what a test needs to compare pages with counters where there is no GPU: counts that
    are not 0, those of lines by their distance from the launch; of kernels in this repository."""
    here = {case.name for cases in GROUPS.values() for case in cases}
    return {
        "names": list(made.metrics),
        "counters": {
            kernel: {name: value for name, value in found.items() if value}
            for kernel, found in launches.items()
            if kernel in here
        },
        "line_counters": {
            kernel: {line - pages[kernel].first: counts for line, counts in found.items()}
            for kernel, found in lines.items()
            if kernel in here
        },
    }


def circumstances() -> dict[str, Any]:
    """Return device, versions and date."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import measuring

    return dict(measuring.circumstances())


def main(arguments: Sequence[str] | None = None) -> int:
    """Show, count and compare all kernels."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.show_counters")
    parser.add_argument("--dry-run", action="store_true", help="do everything but the GPU's part")
    parser.add_argument("--sass", action="store_true", help="print machine code beside pages")
    parser.add_argument(
        "--counted", action="store_true", help="run the machine code here and count its requests"
    )
    parser.add_argument("--freeze", action="store_true", help="write down new pages, without a GPU")
    parser.add_argument(
        "--again",
        default="",
        metavar="GROUPS",
        help="with --freeze: write the pages of these groups anew, which no GPU has run",
    )
    parser.add_argument("--only", default="", help=f"kernels or groups: {', '.join(GROUPS)}")
    parser.add_argument("--checkout", type=Path, help="of TileLang, for kernels of its examples")
    parser.add_argument("--out", type=Path, help=f"JSON to write (default: {RESULTS.name})")
    parser.add_argument("--keep", type=Path, help="JSON for the counters alone, for a test")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--metrics", default="", help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    groups = {**GROUPS, "tilelang": (), "tilelang-frozen": ()}
    if args.checkout:
        groups["tilelang"] = of_tilelang(args.checkout)
        groups["tilelang-frozen"] = frozen_of_tilelang(args.checkout)
    every = {each.name: each for cases in groups.values() for each in cases}
    only = [each for each in args.only.split(",") if each] or list(groups)
    if unknown := set(only) - set(every) - set(groups):
        parser.error(f"no such kernel or group: {', '.join(sorted(unknown))}")
    wanted = {each.name for name in only for each in groups.get(name, ())} | set(only)
    cases = [each for name, each in every.items() if name in wanted]
    if args.counted:
        from benchmarks.show_counters import code_beside

        for each in code_beside.text(cases):
            print(each, flush=True)
        return 0
    if args.sass:
        for each in machine_code.text(cases):
            print(each, flush=True)
        return 0
    names = [each.name for each in cases]
    if args.freeze:
        again = {each.name for name in args.again.split(",") for each in groups.get(name, ())}
        added = freeze((*groups["frozen"], *groups["tilelang-frozen"], *groups["fresh"]), again)
        print(f"added to {FROZEN_PAGES}: {', '.join(added) or 'nothing'}")
        return 0
    if args.record:
        record(args.record, cases, args.metrics.split(","), args.warm)
        return 0
    chosen = ["--only", ",".join(names)]
    chosen += ["--checkout", str(args.checkout.resolve())] if args.checkout else []

    made = plan(CHIP if args.dry_run else None)
    print(plan_text(made), flush=True)
    pages: dict[str, Shown] = {}
    for case in cases:
        pages[case.name] = shown(case)
        print(f"shown: {case.name}", flush=True)
    problems: dict[str, str] = {}
    facts: dict[str, str] = {}
    launches: dict[str, dict[str, float]] = {}
    lines: dict[str, dict[int, dict[str, int]]] = {}
    if not args.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            counted = recorded(Path(folder) / "launches.tprof", chosen, made.metrics, warm=True)
            if isinstance(counted, str):
                problems["counters of launches"] = counted
            else:
                launches = of_launches(counted, names, made.metrics)
                facts |= counter_facts(counted)
            counted = recorded(Path(folder) / "lines.tprof", chosen, made.lines, warm=False)
            if isinstance(counted, str):
                problems["counts of instructions"] = counted
            else:
                lines = of_lines(counted, pages)
                facts |= counter_facts(counted)
    frozen = frozen_pages(pages)
    predicted = {
        name: beside(page, made, launches.get(name), lines.get(name))
        for name, page in frozen.items()
    }
    kernels = {
        case.name: {
            "about": case.about,
            "group": next(name for name, found in groups.items() if case in found),
            **beside(pages[case.name], made, launches.get(case.name), lines.get(case.name)),
        }
        for case in cases
    }
    result = {
        "description": "Numbers that `tileprof show` gives for a launch (bytes, requests, sectors, "
        "wavefronts, conflicts), beside hardware counters of the same launch and, by line, counts "
        "of its instructions. `difference` is relative; a code in `reason` says why two numbers "
        "are not compared.",
        **({"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "device": "none: dry run"}
           if args.dry_run else circumstances()),
        "chip": made.chip,
        "passes": made.passes,
        "metrics": {name: list(map(list, each)) for name, each in made.chosen.items()},
        "counters": launches,
        "line_counters": lines,
        "metrics_not_known": list(made.unknown),
        "reasons": REASONS,
        "problems": problems,
        "facts": facts,
        "summary": summary(kernels),
        "summaries": {
            group: summary({n: each for n, each in kernels.items() if each["group"] == group})
            for group in groups
        },
        "frozen": {
            "description": "Pages as they were written down before any run, beside these counters.",
            "changed since": changed(pages, frozen),
            "code": codes_of(frozen),
            "code now": code_of_pages(),
            "summary": summary(predicted),
        },
        "kernels": kernels,
    }  # fmt: skip
    for name, held in (("pages", result), ("frozen pages", result["frozen"])):
        print(f"{name}: {json.dumps(held['summary'], indent=1)}")
    for name, why in problems.items():
        print(f"{name}: {why}")
    out = args.out or (None if args.dry_run else RESULTS)
    if out is not None:
        out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {out}")
    if args.keep is not None and not problems and not args.dry_run:
        told = {key: result[key] for key in ("date", "device")}
        args.keep.write_text(json.dumps({**told, **kept(pages, made, launches, lines)}) + "\n")
        print(f"wrote {args.keep}")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except tileprof.TileprofError as error:
        raise SystemExit(f"show_counters: {error}") from None
