"""Writer of docs/advice-accuracy.md: how good the advice is, measured with PLANT.

It reads those of `plant-SPLIT.json` that exist. No number is typed by hand; misses are listed as
well as hits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from plant import scores

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "advice-accuracy.md"
Record: TypeAlias = Mapping[str, Any]
TEXT = """# How good the advice is

This page measures how often `tileprof report` names the right cause, and how exact its predicted
gains are. The benchmark PLANT (`benchmarks/plant/`) has pairs of kernels that differ in one planted
defect. Both kernels of a pair are timed, so the cost of the defect is known. To measure again on a
GPU, run `python benchmarks/plant.py --split dev`; `python benchmarks/page.py` writes this page.

- **True gain**: time of the defective kernel divided by time of the fixed one. It is the median
  of 15 pairs of batches, measured alternately, with a bootstrap interval. Before that, the results
  of both kernels are compared with PyTorch's in float64. Each case runs in its own process.
- **Findings**: what `tileprof.analyze` reports for a profile with samples of program counters.
  If a lowering control planted the defect, that control is first removed from the profile. The
  compiled sources do not mark the defect.
- **Clean kernels**: the fixed kernels, kernels at the roof, and *decoys*, whose pattern is present
  but costs nothing. Any suggestion for a clean kernel counts as false.
- **Splits**: rules were tuned on `dev`. `test` has other combinations of kernels and defects, at
  other shapes, written by an author who did not know the rules. The SHA-256 of its sources was
  committed before its first run (`benchmarks/plant/frozen.json`), and a test compares it. `valid`,
  `first-test`, `second-test` and `third-test` were test splits earlier. Their tables date from
  their first run; rules have been tuned on them since.
- **Gain error**: |predicted - true| / (true - 1). A missing prediction counts as 1.0×. Defects
  that cost less than 2 % are listed but not scored.
- **Rank** (`first`, `top three`): position among suggestions, symptoms and warnings in the
  report's order. A rule that repeats another finding in other words takes no position.
- **Placed**: the finding names the right operation, or a line within 2 of it. **Inside**: the
  true gain lies in the predicted interval. **Silent after**: no finding of that rule for the
  fixed kernel.
"""
AIMS: tuple[tuple[str, str, str, float, bool], ...] = (
    ("first", "the planted defect is ranked first", "GPA 7/17", 0.75, True),
    ("top_three", "the planted defect is in the top three", "GPA 15/17", 0.92, True),
    ("placed", "right operation, or a line within 2", "–", 0.90, True),
    ("false_by_clean", "false suggestions per clean kernel", "–", 0.2, False),
    ("decoys_rejected", "decoys rejected", "–", 0.85, True),
    ("gain_error", "median error of the predicted gain", "GPA 49 %", 0.30, False),
    ("inside", "true gain inside [low, high]", "–", 0.80, True),
    ("silent", "silent on the fixed kernel", "–", 0.95, True),
)
"""Key, meaning, nearest published result, aim, and whether larger is better."""
_SPLITS = ("dev", "valid", "first-test", "second-test", "third-test", "test", "triton")


def write() -> None:
    """Write the page from the splits that were measured; do nothing without any."""
    files = {split: RESULTS / f"plant-{split}.json" for split in _SPLITS}
    held = {split: json.loads(path.read_text()) for split, path in files.items() if path.exists()}
    if held:
        PAGE.write_text("\n".join(page(held)))


def page(records: Mapping[str, Record]) -> Iterator[str]:
    """Yield the page's lines."""
    yield TEXT
    for split, record in records.items():
        where = record.get("circumstances") or {}
        if where:
            yield f"- `{split}`: {where['device']}, {where['date']} UTC, torch {where['torch']}."
    yield ""
    yield from _aims(records)
    yield from _baselines(records)
    for split, record in records.items():
        yield from _by_rule(split, record)
        yield from _cases(split, record)


def _aims(records: Mapping[str, Record]) -> Iterator[str]:
    yield f"## Results and aims\n\n| | nearest published result | aim | {' | '.join(records)} |"
    yield f"| --- | --- | --- |{' --- |' * len(records)}"
    for key, what, nearest, aim, more in AIMS:
        values = [record["scores"][key] for record in records.values()]
        cells = [f"{_number(key, value)}{_met(value, aim, more)}" for value in values]
        bound = f"{'≥' if more else '≤'} {_number(key, aim)}"
        yield f"| {what} | {nearest} | {bound} | {' | '.join(cells)} |"
    ranked = [f"{each['scores']['ranked']} of {each['scores']['defects']}"
              for each in records.values()]  # fmt: skip
    yield f"| defects that cost at least 2 % | | | {' | '.join(ranked)} |\n"


def _met(value: float | None, aim: float, more: bool) -> str:
    if value is None:
        return ""
    return "" if (value >= aim if more else value <= aim) else " **missed**"


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if key == "false_by_clean" else f"{value:.0%}"


def _baselines(records: Mapping[str, Record]) -> Iterator[str]:
    """Yield one row per baseline, below ours."""
    yield "## Comparison with baselines\n"
    yield f"| median error of the gain | {' | '.join(records)} |"
    yield f"| --- |{' --- |' * len(records)}"
    rows = {
        "ours": lambda s: s["gain_error"],
        "always predict 1.0×": lambda s: s["baselines"]["always_1"],
        "always predict the geometric mean of `dev`": lambda s: s["baselines"]["constant"],
        "remove the largest stall": lambda s: s["baselines"]["largest_stall"],
    }
    for what, of in rows.items():
        cells = [_number("gain_error", of(record["scores"])) for record in records.values()]
        yield f"| {what} | {' | '.join(cells)} |"
    yield f"\n| ranked first, in the top three | {' | '.join(records)} |"
    yield f"| --- |{' --- |' * len(records)}"
    for what, keys in {"ours": ("first", "top_three"), "without samples": (
        "static_first", "static_top_three")}.items():  # fmt: skip
        cells = []
        for record in records.values():
            held = {**record["scores"], **record["scores"]["baselines"]}
            cells.append(", ".join(_number(key, held[key]) for key in keys))
        yield f"| {what} | {' | '.join(cells)} |"
    yield ""


def _by_rule(split: str, record: Record) -> Iterator[str]:
    yield f"## By rule: {split}\n"
    yield "| rule | cases | first | top three | placed | gain's error | inside | silent after |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    keys = ("first", "top_three", "placed", "gain_error", "inside", "silent")
    for rule, held in record["by_rule"].items():
        cells = " | ".join(_number(key, held[key]) for key in keys)
        yield f"| `{rule}` | {held['ranked']} of {held['defects']} | {cells} |"
    yield ""


def _cases(split: str, record: Record) -> Iterator[str]:
    yield f"## Cases: {split}\n"
    yield "| case | true gain | predicted gain | rank | place | on the fixed kernel |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in record["rows"]:
        yield _case(row)
    yield ""
    for name in record["skipped"]:
        yield f"- `{name}`: not reached in the time given"


def _case(row: Record) -> str:
    """Return the row of a case: its result, or why it has none."""
    if "error" in row:
        return f"| {row['case']} | – | – | – | – | {row['error'][:120].replace('|', ' ')} |"
    if not row["correct"]:
        return f"| {row['case']} | – | – | – | – | wrong results: not scored |"
    held, time = scores.score(row), row["time"]
    true = f"{time['ratio']:.3f} [{time['low']:.3f}, {time['high']:.3f}]" if held.true else "–"
    gain = "{1:.2f} [{0:.2f}, {2:.2f}]".format(*held.gain) if held.gain else "–"
    said = "silent" if not held.false else f"{held.false} false"
    if row["kind"] in ("decoy", "clean"):
        return f"| {row['case']} | {true} | | | | {said} |"
    place = "right" if held.placed else "wrong"
    return f"| {row['case']} | {true} | {gain} | {held.rank or '–'} | {place} | {said} |"
