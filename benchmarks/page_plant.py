"""docs/advice-accuracy.md: how good advice is, from PLANT.

In: `plant-dev.json`, `plant-test.json` and `plant-triton.json`, as far as they were measured.  Out:
the page; no number is typed by hand, and misses are listed as well as hits.
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

`tileprof report` names a cause and says what a change would bring. Here that is measured. PLANT
(`benchmarks/plant/`) has twin kernels that differ in one planted defect; what the defect costs is
known, because both twins are timed. `python benchmarks/plant.py --split dev` measures them again
on a GPU, `python benchmarks/page.py` writes this page.

- **Truth** is the time of the defective twin by that of the fixed one: the median of 15 pairs of
  batches in turns, with a bootstrap interval. Results of both are compared with PyTorch's in
  float64 before. Each case runs in a process of its own.
- **Findings** are those of `tileprof.analyze` on a profile with samples of program counters.
  Where a lowering control planted the defect, it is taken out of the profile before; the sources
  that are compiled have no marks.
- **Clean kernels** are the fixed twins, kernels at the roof, and *decoys*: a warning that is true
  and costs nothing. Any suggestion for one of them is counted as false.
- **The development split** is what rules were tuned on. **The test split** has other
  combinations of kernels and defects at other shapes, drawn by somebody who did not know the
  rules; the SHA-256 of its sources was committed before it was first run
  (`benchmarks/plant/frozen.json`), and a test compares. **The validation split** and **the first
  three test splits** were looked at once in the same way. Their tables are of that time; rules have
  been tuned on them since.
- The **gain's error** is |predicted - true| / (true - 1); no prediction counts as 1.0×. Defects
  that turned out to cost less than 2 % are listed, and not scored.
- Of `first` and `top three`, suggestions, symptoms and warnings count, in the report's order. A
  rule that says the same in other words takes no place.
"""
AIMS: tuple[tuple[str, str, str, float, bool], ...] = (
    ("first", "the planted defect is ranked first", "GPA 7/17", 0.75, True),
    ("top_three", "… in the top three", "GPA 15/17", 0.92, True),
    ("placed", "the right op, or a line within 2", "–", 0.90, True),
    ("false_by_clean", "false suggestions for a clean kernel", "–", 0.2, False),
    ("decoys_rejected", "decoys rejected", "–", 0.85, True),
    ("gain_error", "median error of the predicted gain", "GPA 49 %", 0.30, False),
    ("inside", "true gain inside [low, high]", "–", 0.80, True),
    ("silent", "silent on the fixed twin", "–", 0.95, True),
)
"""Key, what it is, the nearest published, at least (or at most), whether more is better."""
_SPLITS = ("dev", "valid", "first-test", "second-test", "third-test", "test", "triton")


def write() -> None:
    """The page, where something was measured."""
    files = {split: RESULTS / f"plant-{split}.json" for split in _SPLITS}
    held = {split: json.loads(path.read_text()) for split, path in files.items() if path.exists()}
    if held:
        PAGE.write_text("\n".join(page(held)))


def page(records: Mapping[str, Record]) -> Iterator[str]:
    """All its lines."""
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
    yield f"## Beside the aims\n\n| | nearest published | aim | {' | '.join(records)} |"
    yield f"| --- | --- | --- |{' --- |' * len(records)}"
    for key, what, nearest, aim, more in AIMS:
        values = [record["scores"][key] for record in records.values()]
        cells = [f"{_number(key, value)}{_met(value, aim, more)}" for value in values]
        bound = f"{'≥' if more else '≤'} {_number(key, aim)}"
        yield f"| {what} | {nearest} | {bound} | {' | '.join(cells)} |"
    ranked = [f"{each['scores']['ranked']} of {each['scores']['defects']}"
              for each in records.values()]  # fmt: skip
    yield f"| defects that cost something | | | {' | '.join(ranked)} |\n"


def _met(value: float | None, aim: float, more: bool) -> str:
    if value is None:
        return ""
    return "" if (value >= aim if more else value <= aim) else " **missed**"


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if key == "false_by_clean" else f"{value:.0%}"


def _baselines(records: Mapping[str, Record]) -> Iterator[str]:
    """Each with a row of its own, beside ours."""
    yield "## Beside what knows less\n"
    yield f"| median error of the gain | {' | '.join(records)} |"
    yield f"| --- |{' --- |' * len(records)}"
    rows = {
        "ours": lambda s: s["gain_error"],
        "always 1.0×": lambda s: s["baselines"]["always_1"],
        "the geometric mean of the development split": lambda s: s["baselines"]["constant"],
        "without the largest stall": lambda s: s["baselines"]["largest_stall"],
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
    yield "| case | true | predicted | rank | place | on the clean twin |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in record["rows"]:
        yield _case(row)
    yield ""
    for name in record["skipped"]:
        yield f"- `{name}`: not reached in the time given"


def _case(row: Record) -> str:
    """Why there is no number, or what became of it."""
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
