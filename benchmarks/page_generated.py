"""docs/generated-defects.md: what reports say of generated defects, by split.

In: `results/plant-dev-N.json`, the parts of `results/plant-test-N-*.json`, and
`results/claims.json`.  Out: the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plant.generated import scoring

PAGE = Path(__file__).parent.parent / "docs" / "generated-defects.md"
RESULTS = Path(__file__).parent / "results"
TEXT = """# Advice on generated defects

This page measures how often `tileprof report` names the cause of a performance defect first, and
how good its predicted gain is, on defects that a program generates. Mutation operators change
kernels that were written for other purposes (case studies, public problems in tile code and in
Triton). An operator widens a type, narrows an access, hoists or sinks a computation, drops a
pipeline stage, shrinks or grows a tile, reads twice, guards a load, changes a layout, splits work
badly, spills registers, and so on (`benchmarks/plant/generated/`). The true gain is the ratio of
both kernels' times on a GPU. `python benchmarks/page.py` writes this page from
`benchmarks/results/plant-*.json`.

Terms in the tables:

- **Split**: a set of cases. Rules are developed on `dev` splits; `test` splits are *frozen*. A
  *family* is a group of kernels that are variants of one another.
- **Frozen**: a seed draws the families and operators of a test split, and no family of it is in a
  development split. The hash of its cases and of every source of the analyzer is committed before
  its only run (`benchmarks/plant/generated/splits/`).
- **Held out**: operators that occur in no case of development. Once a test split has run, its
  families and operators are known. A later split therefore has other families, and holds out only
  operators that were added later. Who wrote those of `test-4` had not read the rules, but had seen
  which operators and rules did badly in `test-3`. Who wrote those of
  `test-5` had read neither rules nor results, but knew which operators there were before.
- **Ranked**: defects whose cost exceeds noise. **First**: the report's first suggestion, symptom or
  warning names a cause of this operator. **Placed**: it also names the right operation or line.
- **Error**: |predicted - true| / (true - 1). A missing prediction counts as 1.0×. **Inside**: the
  true gain lies in the predicted interval; a missing prediction counts as outside. An interval
  cannot cover a cause that the report does not see, so the table also gives the share *among the
  stated gains*, which is what a nominal 80 % refers to. Intervals are calibrated on what frozen
  analyzers predicted (`benchmarks.plant.generated.calibrating`), because later rules were made
  with the cases.
- **False**: suggestions with a predicted gain above 1.05× for an unchanged kernel, per kernel. Some
  of them are right, because the kernels have flaws that nobody planted; they count all the same.
- **Unproven**: those of them that no repair by hand has shown to be right. A repair shows it if it
  makes the kernel at least 1.05 times as fast at the lower end of its interval, and its results are
  right. It stands for all suggestions of its rule for that kernel. The last table has all repairs.
  They were written after a split had run, so this number was not frozen: only *false* is compared
  with what is required.
"""
_ASKED = {
    "first": ("the right cause first", 0.80),
    "top_three": ("in the first three", None),
    "placed": ("at the right place", None),
    "gap_placed": ("no right cause, but the gap to the least time, at the right place", None),
    "gain_error": ("median error of the gain", 0.35),
    "inside": ("true gain inside the interval", 0.77),
    "inside_of_told": ("… among the stated gains", None),
    "false_by_clean": ("false suggestions per kernel", 0.1),
    "unproven_by_clean": ("… not shown to be right by a repair", None),
    "decoys_rejected": ("decoys rejected", 0.90),
    "static_first": ("the right cause first, without samples", None),
    "error_to_floor": ("error when predicting the distance to the floor", None),
    "error_mean_of_rule": ("error when predicting a rule's mean gain in development", None),
}
"""Words of the table for each key of a summary, and the share or number that is asked of a frozen
split; None where nothing is."""
_PLAIN = ("false_by_clean", "unproven_by_clean")
"""Keys whose values are no shares."""


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(*_read()))


def _read() -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Return the records of each split, development first, by its name; and that of repairs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in ("dev", "test"):
        for path in sorted(RESULTS.glob(f"plant-{kind}-[0-9]*.json")):
            record = json.loads(path.read_text())
            found.setdefault(record["split"], []).append(record)
    return found, json.loads((RESULTS / "claims.json").read_text())


def page(splits: Mapping[str, Sequence[Mapping[str, Any]]], claims: Mapping[str, Any]) -> str:
    """Return the page's text.

    Args:
        splits: records of each split, by its name.
        claims: the record of repairs by hand that `benchmarks.claims` wrote.
    """
    return "\n".join(_lines(splits, claims)).rstrip("\n") + "\n"


def _lines(
    splits: Mapping[str, Sequence[Mapping[str, Any]]], claims: Mapping[str, Any]
) -> Iterator[str]:
    yield TEXT
    shown = scoring.proven(claims["rows"])
    development = [r for name, held in splits.items() if name.startswith("dev") for r in held]
    known = scoring.dev_gains(development)
    columns: dict[str, dict[str, Any]] = {}
    for name, records in splits.items():
        about = records[0]["circumstances"]
        yield f"- `{name}`: {about['device']}, {about['date']}, {_kind(name, records)}."
        cases = scoring.pooled(records)
        columns[f"`{name}`"] = scoring.summary(cases, known, shown)
        if held := [each for each in cases if not each.known]:
            columns[f"`{name}`, operators held out"] = scoring.summary(held, known, shown)
    yield ""
    yield f"| | required | {' | '.join(columns)} |"
    yield f"| --- | --- |{' --- |' * len(columns)}"
    counts = (f"{each['ranked']} of {each['families']}" for each in columns.values())
    yield f"| defects ranked, of families | 150 of 25 | {' | '.join(counts)} |"
    for key, (words, asked) in _ASKED.items():
        values = (_number(key, each[key]) for each in columns.values())
        yield f"| {words} | {_number(key, asked)} | {' | '.join(values)} |"
    for name, records in splits.items():
        if name.startswith("test"):
            yield from _by_operator(name, scoring.pooled(records))
    yield from _claims(claims)


def _claims(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of suggestions for unchanged kernels that were made by hand and timed."""
    about = record["circumstances"]
    yield from ("", "## Suggestions for unchanged kernels, made by hand", "")
    yield f"{about['device']}, {about['date']}, `python -m benchmarks.claims`. Ratio: time of"
    yield "the kernel divided by that of its repair, in interleaved pairs; above 1, it is faster."
    yield from ("", "| kernel | rule | change | ratio |", "| --- | --- | --- | --- |")
    for row in record["rows"]:
        kernel, rule, change = row["claim"].split("/", 2)
        yield (f"| {kernel} | `{rule}` | {change} | "
               f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}] |")  # fmt: skip


def _kind(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Say how a split was judged."""
    if name.startswith("test"):
        return f"frozen, analyzer `{records[0]['analyzer'][:12]}`"
    return "analyzer from before any rule was developed on it"


def _by_operator(name: str, cases: Sequence[scoring.Judged]) -> Iterator[str]:
    """Yield a table of operators, the one that is missed most first."""
    ranked: dict[str, list[scoring.Judged]] = {}
    for each in cases:
        if each.ranked:
            ranked.setdefault(each.operator, []).append(each)
    yield from ("", f"## `{name}` by operator", "")
    yield "| operator | in development | ranked | first | no finding | first finding instead |"
    yield "| --- | --- | --- | --- | --- | --- |"

    def missed(item: tuple[str, list[scoring.Judged]]) -> tuple[int, str]:
        return -sum(each.rank != 1 for each in item[1]), item[0]

    for operator, held in sorted(ranked.items(), key=missed):
        first = sum(each.rank == 1 for each in held)
        silent = sum(not each.first for each in held)
        instead = sorted({f"`{each.first}`" for each in held if each.rank != 1 and each.first})
        where = "yes" if held[0].known else "no"
        yield (f"| {operator} | {where} | {len(held)} | {first} | {silent} | "
               f"{', '.join(instead) or '–'} |")  # fmt: skip


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if key in _PLAIN else f"{100 * value:.0f} %"
