"""The part of docs/benchmarks.md about the overhead of profiling, from overhead*.json.

In: what `benchmarks/overhead.py` measured on a GPU, on the CPU, or both.  Out: a section; no number
is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_rows import measured

RESULTS = Path(__file__).parent / "results"
FILES = ("overhead.json", "overhead_cpu.json")
TITLE = "## What profiling costs"
TEXT = f"""{TITLE}

`python benchmarks/overhead.py` runs the same programs (`benchmarks/overhead_programs.py`) plain,
under `tileprof run`, and with other profilers inside, and writes `benchmarks/results/overhead.json`
after each row; `--cpu` does so on a machine without a GPU, smaller, into `overhead_cpu.json`.
`--only RE` chooses rows, `--budget SECONDS` starts none later than that.
`python benchmarks/page.py` then writes this section.

- Each way to run a program is a process of its own. All of them are alive at once and take turns:
  one works for a burst of steps or launches, the others wait for their next turn. A pair is a burst
  and that of the plain program in the same round. The order in a round is drawn; ways that only
  stand beside ours take part in some of the rounds.
- A figure is the mean over all pairs, for ratios the geometric mean, from several sets of fresh
  processes. In brackets is its 95 % interval, by a bootstrap over sets and over the pairs in each.
  The upper end is held to the bar.
- A burst ends when the device is idle. What a profiler does at its end is not part of a burst; it
  is in the rows about finishing, whose brackets hold the smallest and the largest of single runs.
- The training that fills the GPU is waited for after ten steps; with more waits profiling costs
  more, as the first launches behind each are late.
- `plain again` is the plain program in another process: what comes out where there is nothing.
- Records of kernels that are dropped, an observer of operations that returns at once, and CUPTI
  that has stopped recording are floors: whoever records kernels or sees operations pays that much.
- On the CPU, time is that of the processor, all threads together, for such machines are shared.
"""


def section() -> str:
    """From the title on; nothing where nothing was measured."""
    paths = [RESULTS / name for name in FILES if (RESULTS / name).exists()]
    if not paths:
        return ""
    parts = [one_machine(json.loads(path.read_text())) for path in paths]
    return "\n".join([TEXT, *parts])


def one_machine(record: dict[str, Any]) -> str:
    """Where it was measured, and the table."""
    where = record["circumstances"]
    names = [n for n in ("python", "torch", "triton", "tileprof") if where[n] != "not installed"]
    versions = ", ".join(f"{name} {where[name]}" for name in names)
    driver = f", driver {where['gpu']['driver_version']}" if "gpu" in where else ""
    said = f"{where['device']}{driver}, {where['cores']} cores, {where['date']} UTC, {versions}."
    dated = (row for row in record["rows"] if "date" in row)
    said += measured((" and ".join(row.get("dates", [row["date"]])), row["work"]) for row in dated)
    left = [f"- {name}: not reached in the time given" for name in record.get("skipped", [])]
    told = ["", *left] if left else []
    return "\n".join([said, "", *table(record["rows"]), *told, ""])


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A row for each work and way."""
    yield "| work | under | measured | asked | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        if "error" in row:
            yield f"| {row['work']} | – | not measured | | {clean(row['error'])} |"
            continue
        ours = row["ours"] and row["ours"]["name"]
        for number, variant in enumerate(ordered(row["variants"], ours)):
            mine = variant["name"] == ours
            cells = [
                row["work"] if number == 0 else "",
                variant["name"],
                figure(variant, row["unit"]),
                bar(row) if mine else "",
                "missed" if mine and row["met"] is False else clean(variant.get("error", "")),
            ]
            yield f"| {' | '.join(cells)} |"


def ordered(variants: list[dict[str, Any]], ours: str | None) -> list[dict[str, Any]]:
    """Ours first."""
    return sorted(variants, key=lambda variant: variant["name"] != ours)


def figure(variant: dict[str, Any], unit: str) -> str:
    """The value and its interval."""
    if "value" not in variant:
        return "not measured"
    value, low, high = (number(variant[key], unit) for key in ("value", "low", "high"))
    sign = "+" if unit.startswith("µs") and variant["value"] >= 0 else ""
    return f"{sign}{value} {unit} [{low}, {high}]"


def number(value: float, unit: str) -> str:
    """Three digits behind the point for ratios, else three that count."""
    return f"{value:.3f}" if unit == "×" else f"{value:.3g}"


def bar(row: dict[str, Any]) -> str:
    """What is asked, and aimed for."""
    if row["asked"] is None:
        return ""
    peers = ", below other profilers" if row["below_peers"] else ""
    aim = "" if row["aim"] is None else f" (aim {row['aim']:g})"
    return f"≤ {row['asked']:g} {row['unit']}{peers}{aim}"


def clean(text: str) -> str:
    """The first line, as a cell."""
    return (text.splitlines()[0] if text else "").replace("|", "\\|")[:160]
