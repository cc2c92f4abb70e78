"""Writer of docs/real-programs.md and docs/other-models.md: first suggestions for programs against
measured changes.

It reads those of `programs*.json`, `problems*.json` and `architectures*.json` that exist. No number
is typed by hand; misses are listed as well as hits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from programs.catalog import CHANGES

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "real-programs.md"
OTHERS_PAGE = ROOT / "docs" / "other-models.md"
Record: TypeAlias = Mapping[str, Any]
KINDS = {"plain": "`tileprof run`", "samples": "with `--pc-sampling`"}
TEXT = """# Real programs

This page measures what the first suggestion of `tileprof report` is worth for programs as users
write them. Each program in `benchmarks/programs/scripts` has a fixed list of standard changes;
command-line switches apply one at a time. `python -m benchmarks.programs.run` measures all of them
on a GPU, and `python benchmarks/page.py` writes this page.

Terms in the tables:

- **True gain** of a change: time per sample of the unchanged program, divided by that of the
  changed program. Each runs in its own process, and the processes are measured alternately. The
  gain is the median over rounds, with a 90 % bootstrap interval. Times are wall time of whole
  steps, with the device synchronised before and after each batch of steps.
- **Right** changes: after the same number of steps, the result equals that of the unchanged
  program, within the program's tolerance. Other changes are listed, not scored. Changes that alter
  the meaning of a step (a larger batch) are not compared.
- **First suggestion**: the first finding with a gain. `benchmarks/programs/catalog.py` says which
  finding stands for which change; it was fixed before any report was read. A finding that stands
  for several changes is credited with the best of them.
- **Enough**: the first suggestion's changes bring at least 80 % of the gain (S − 1) of the best
  single change. If no change brings 1.05×, it is enough that no higher gain is stated.
- **Inside**: the true gain of the first suggestion's change lies in the stated interval.
- **Accounted**: share of device time that is at its floor or has a named cause.
- **Error**: |predicted − true| / (true − 1) over all changes worth 2 % or more. A missing
  prediction counts as 1.0×.
- **Development programs**: programs whose results were used to improve the analyzer afterwards.
"""
OTHERS = """# Models of other authors

This page judges `tileprof report` on models that nobody here wrote. Each has a plain loop around
it: inference in evaluation mode without gradients, or training with AdamW. They have two sources:

- [KernelBench](https://github.com/ScalingIntelligence/KernelBench), level 3: all models, in drawn
  order, with the inputs and sizes of their authors (`benchmarks/programs/problems.py`,
  `python -m benchmarks.programs.run --problems CHECKOUT`). Training or inference is drawn as well.
- Architectures of [transformers](https://github.com/huggingface/transformers), drawn from its auto
  mappings, with random weights and the sizes that their configuration has by default
  (`benchmarks/programs/architectures.py`, `python -m benchmarks.programs.run --architectures`).
  Training and inference alternate. One rule cuts what is too large, for all alike. The frozen list
  is `benchmarks/programs/architectures.json`: drawn models, what was left out and why, and the hash
  of the analyzer of that time.

All are measured with the standard changes that apply to any model. Terms are those of [real
programs](real-programs.md).

A model is measured in one draw only, by an analyzer that was fixed before; the newest draw comes
first. From then on it is a development program, on which rules are improved.
"""
AGAIN = """## Measured again

Development programs with later analyzers, one section for each. Rules have been changed on these
programs since their first run, so these figures say what is left to do, not how good the advice is
on a new program.
"""
ROWS = (
    ("enough", "first suggestion brings 80 % of the best change", "70 %", "85 %"),
    ("inside", "its true gain is inside the interval", "77 %", "80 %"),
    ("accounted", "device time with floor or named cause, median", "80 / 90 %", "90 / 97 %"),
    ("error", "median error of the gains of all changes", "", ""),
)
"""Key, meaning, what is asked and what is aimed at (plain / with samples)."""
FOUR = ("compile", "fused-gelu", "padded-vocabulary", "fused-optimizer")
"""Changes of GPT-2 whose predicted gains are compared one by one."""


def others() -> list[Path]:
    """Return the files of results of other authors' models, in the order of their names."""
    return sorted((*RESULTS.glob("problems-*.json"), *RESULTS.glob("architectures-*.json")))


def files() -> list[Path]:
    """Return the files of results, in the order of their names."""
    found = (*RESULTS.glob("programs.json"), *RESULTS.glob("programs-*.json"))
    return sorted(path for path in found if not path.stem.startswith("programs-tried"))


def write() -> None:
    """Write the pages of which something was measured."""
    for found, to, lines in ((files(), PAGE, page), (others(), OTHERS_PAGE, others_page)):
        records = [json.loads(path.read_text()) for path in found]
        if records:
            to.write_text("\n".join(lines(records)))


def others_page(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the page of other authors' models; records are parts of draws.

    Records of one source and analyzer are one draw: no model is measured by two of them.
    """
    yield OTHERS
    measured = list[Record]()
    for key, source in (("architectures", "transformers"), ("problems", "KernelBench")):
        parts_by_analyzer = _runs_by_analyzer([each for each in records if key in each])
        draws = sorted(parts_by_analyzer.values(), key=_date, reverse=True)
        for number, parts in zip(range(len(draws), 0, -1), draws, strict=True):
            yield f"## {source}, draw {number}"
            yield ""
            yield from _runs(parts)
            yield ""
            rows = [row for record in parts for row in record["rows"]]
            yield from _scores(rows)
            yield from _programs(rows)
            measured += rows
    yield from _changes(measured)


def page(records: Sequence[Record]) -> Iterator[str]:
    """Yield the page's lines; records are parts of one run, or several runs."""
    later = [record for record in records if record.get("again")]
    rows = [row for record in records if record not in later for row in record["rows"]]
    yield TEXT
    yield from _runs(records)
    yield ""
    yield from _scores(rows)
    yield "## First suggestions"
    yield ""
    yield from _programs(rows)
    yield from _gpt2(rows)
    yield from _changes(rows)
    if later:
        yield AGAIN
        yield from _again(later)


def _runs(records: Sequence[Record]) -> Iterator[str]:
    """Yield where and when each record was measured, of which sources, and what was left out."""
    for record in records:
        where = record["circumstances"]
        versions = ", ".join(
            f"{name} {where[name]}" for name in ("torch", "triton", "transformers", "jax")
            if name in where
        )  # fmt: skip
        sources = ", ".join(f"{name} `{key[:12]}`" for name, key in record["frozen"].items())
        yield f"- {where['device']}, {where['date']} UTC, {versions}; sources: {sources}."
        if why := record.get("historical"):
            yield f"  The analyzer has changed since: {why}"
        if record.get("again"):
            yield "  Measured again, as development programs: see the last sections."
        if note := record.get("note"):
            yield f"  {note}"
        reasons: dict[str, list[str]] = {}
        for name, reason in record["skipped"].items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield f"- {', '.join(names)}: not measured, {reason}."


def _again(records: Sequence[Record]) -> Iterator[str]:
    """Yield a section for each analyzer, in the order of their first runs."""
    for analyzer, parts in _runs_by_analyzer(records).items():
        rows = [row for record in parts for row in record["rows"]]
        yield f"### {parts[0]['circumstances']['date']} UTC, analyzer `{analyzer[:12]}`"
        yield ""
        yield from _scores(rows)
        yield from _programs(rows)


def _runs_by_analyzer(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return records by the hash of their analyzer, in the order of their first runs."""
    runs: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda each: str(each["circumstances"]["date"])):
        runs.setdefault(record["frozen"]["analyzer"], []).append(record)
    return runs


def _date(parts: Sequence[Record]) -> str:
    return str(parts[0]["circumstances"]["date"])


def _scores(rows: Sequence[Record]) -> Iterator[str]:
    from programs.scores import summary

    yield "| | required | aim | " + " | ".join(KINDS.values()) + " |"
    yield "| --- | --- | --- |" + " --- |" * len(KINDS)
    held = [summary(rows, kind) for kind in KINDS]
    for key, meaning, asked, aim in ROWS:
        cells = " | ".join(_percent(each[key]) for each in held)
        yield f"| {meaning} | {asked} | {aim} | {cells} |"
    yield f"| programs scored | 16 | | {' | '.join(str(each['programs']) for each in held)} |"
    yield ""


def _programs(rows: Sequence[Record]) -> Iterator[str]:
    yield "| program | best change | run | first suggestion | states | brings | enough | inside |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        if "error" in row:
            yield f"| {row['program']} | not measured: {_clean(row['error'])} | | | | | | |"
            continue
        for kind, said in KINDS.items():
            each = row.get("judged", {}).get(kind)
            if each is None:
                why = _clean(row.get("unreported", {}).get(kind, "not recorded"))
                yield f"| {row['program']} | | {said} | {why} | | | | |"
                continue
            best = "–"
            if each["best"]:
                best = f"{CHANGES[each['best']].title} {each['best_gain']:.2f}×"
            first = each["first"]
            cells = ["none", "", "", _mark(each["enough"]), ""]
            if first:
                cells = [
                    f"{_clean(first['title'])} (`{first['rule']}`)", _interval(first["gain"]),
                    f"{each['brought']:.2f}×", _mark(each["enough"]), _mark(each["inside"]),
                ]  # fmt: skip
            yield f"| {row['program']} | {best} | {said} | {' | '.join(cells)} |"
    yield ""


def _gpt2(rows: Sequence[Record]) -> Iterator[str]:
    row = next((each for each in rows if each["program"] == "gpt2_train"), None)
    if row is None or "error" in row:
        return
    yield "## Training GPT-2, gain by gain"
    yield ""
    yield "| change | true gain | " + " | ".join(KINDS.values()) + " |"
    yield "| --- | --- |" + " --- |" * len(KINDS)
    for name in FOUR:
        change = row["changes"].get(name, {})
        cells = []
        for kind in KINDS:
            predicted = row.get("judged", {}).get(kind, {}).get("predicted", {}).get(name)
            cells.append(_interval(predicted) if predicted else "–")
        yield f"| {CHANGES[name].title} | {_gain(change)} | {' | '.join(cells)} |"
    yield ""


def _changes(rows: Sequence[Record]) -> Iterator[str]:
    yield "## All changes"
    yield ""
    yield "| program | what it is | step | changes, by gain |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        if "error" in row:
            continue
        items = sorted(row["changes"].items(), key=lambda item: -item[1].get("gain", 0))
        gains = "; ".join(f"{CHANGES[name].title} {_gain(each)}" for name, each in items)
        yield f"| {row['program']} | {row['kind']} | {row['ms']:.2f} ms | {gains} |"
    yield ""


def _gain(change: Record) -> str:
    if "gain" not in change:
        return f"not measured ({_clean(change.get('error', ''))})"
    wrong = "" if change["right"] else ", wrong result"
    return f"{change['gain']:.3f} [{change['low']:.3f}, {change['high']:.3f}]{wrong}"


def _interval(gain: Sequence[float] | None) -> str:
    return "–" if gain is None else f"{gain[1]:.2f} [{gain[0]:.2f}, {gain[2]:.2f}]"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _mark(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _clean(text: str) -> str:
    """Text that is safe in a cell of a table."""
    return " ".join(text.replace("|", "/").split())[:160]
