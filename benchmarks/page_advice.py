"""Writer of docs/case-studies/advice.md: from a report to a change to its measured gain.

In: `results/advice.json`, as `case_studies/advice/study.py` writes it.  Out: the page, where there
is a record; no number is typed by hand. `MISSES` explains wrong predictions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "advice.json"
PAGE = ROOT / "docs" / "case-studies" / "advice.md"
Record: TypeAlias = Mapping[str, Any]
TEXT = """# From a report to a gain

Three programs contain common mistakes: a kernel of tile code, a Triton kernel, and a PyTorch
training script. Each program is recorded and analysed, the change that the report suggests is
made, the new version is recorded again, and so on. This page compares predicted gains with
measured ones. [`case_studies/advice`](../../case_studies/advice) has the programs; its folder
`reports` has every report in the wording of the version that printed it.

```text
python case_studies/advice/study.py     # measures again; needs a GPU with access to its counters
python benchmarks/page.py               # writes this page
```

- **Predicted** is the estimated gain of the finding that suggests the change, with its range,
  reported before the change was made.
- **Measured** is the time before the change divided by the time after it, without a profiler: the
  median over batches of all versions, measured alternately, with the middle 95 % of its
  bootstrap. Times are GPU times for kernels, and host times of a step for the script.
- Kernels are recorded with samples of program counters, the script with `tileprof run`'s
  defaults.
"""
MISSES: Mapping[tuple[str, str], str] = {
    ("training", "tf32"): (
        "The prediction is 0.1 % too low. Its upper end assumes that all these kernels reach the "
        "measured peak of tensor cores; other work takes less time without recording. Later "
        "versions predict up to 2.13× from the same recording."
    ),
    ("training", "sync"): (
        "In the recording, the device is idle after these waits for 11.1 ms per step. Without "
        "recording, it is idle for 17.7 ms of a step before the change (the step's time minus "
        "kernels and copies) and for 3.0 ms after it. It is unknown why waits take longer there."
    ),
    ("training", "pin"): (
        "Recording made the step longer: it delayed launches (13.5 % of the step) that are in time "
        "without it. Copies during which the device does nothing else take 8.9 ms: 13 % of the "
        "recorded step and 15 % of the timed one, which gives 1.18×. Later versions predict that "
        "from the same recording."
    ),
}
"""Reasons for wrong predictions, keyed by (story, change)."""
_UNKNOWN = "The reason is unknown."


def write() -> None:
    """Write the page, if anything was measured."""
    if RESULTS.exists():
        PAGE.write_text("\n".join(page(json.loads(RESULTS.read_text()))))


def page(record: Record) -> Iterator[str]:
    """Yield the page's lines."""
    rows = [row for row in record["studies"] if "error" not in row]
    yield TEXT
    yield from _summary(rows)
    for row in rows:
        yield from _story(row)
    for row in record["studies"]:
        if "error" in row:
            yield f"{row['title']}: not measured, {row['error']}\n"


def _summary(rows: list[Record]) -> Iterator[str]:
    yield "| change | suggested by | predicted | measured | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        for step in row["steps"]:
            rule = f"`{step['finding']['rule']}`" if step["predicted"] else "–"
            cells = (f"{row['study']}: {step['change']}", rule, _predicted(step),
                     _measured(step["measured"]), _verdict(step))  # fmt: skip
            yield f"| {' | '.join(cells)} |"
    yield ""


def _story(row: Record) -> Iterator[str]:
    yield f"## {row['title']}\n"
    yield f"{row['text']} [`{row['file']}`](../../case_studies/advice/{row['file']})\n"
    yield f"```py\n{row['code'].rstrip()}\n```\n"
    wrong = [name for name, apart in row["apart"].items() if not apart <= 1]
    if wrong:
        yield f"**Results of {', '.join(wrong)} are wrong**, so its times say nothing.\n"
    for number, step in enumerate(row["steps"], 1):
        yield from _step(row, number, step)
    yield from _end(row)


def _step(row: Record, number: int, step: Record) -> Iterator[str]:
    report = f"{row['study']}-{number}.txt"
    yield f"### {number}. {step['change']}\n"
    place = f"[The report](../../case_studies/advice/reports/{report})"
    if step["predicted"]:
        others = len(step["found"]) - 1
        beside = f", number {step['rank']} of {others + 1}" if others else ", and nothing else"
        yield f"{place} says{beside}:\n"
        yield f"```text\n{step['printed'].rstrip()}\n```\n"
    else:
        yield f"{place} does **not** suggest this change: {step['error']}. It was made anyway."
        yield from ("", *_found(step["found"]), "")
    yield f"{step['text']}\n"
    yield f"```diff\n{step['diff'].rstrip()}\n```\n"
    said = f"Predicted {_predicted(step)}, measured {_measured(step['measured'])}."
    yield f"{said} {_why(row, step)}".rstrip() + "\n"


def _end(row: Record) -> Iterator[str]:
    last = f"{row['study']}-{len(row['steps']) + 1}.txt"
    unit = "per step" if row["gain"] == "program" else "per launch"
    times = " → ".join(f"{ms:.3g}" for ms in row["ms"])
    yield f"### Total\n\n{times} ms {unit}: {_measured(row['whole'])}."
    yield f"[The last report](../../case_studies/advice/reports/{last}) says:\n"
    yield from _found(row["left"])
    yield f"\n{_where(row)}\n"


def _found(findings: list[Record]) -> Iterator[str]:
    for each in findings:
        gain = ", {1:.2f}× ({0:.2f}–{2:.2f})".format(*each["gain"]) if each["gain"] else ""
        yield f"- {each['severity']}: {each['title']} (`{each['rule']}`){gain}"
    if not findings:
        yield "- nothing"


def _where(row: Record) -> str:
    where = row["circumstances"]
    quick = ", with few rounds (`--quick`)" if row.get("quick") else ""
    versions = ", ".join(f"{name} {where[name]}" for name in ("python", "torch", "tileprof"))
    return (
        f"{where['device']}, driver {where['gpu']['driver_version']}, {where['date']} UTC,"
        f" {versions}{quick}."
    )


# -- numbers


def _predicted(step: Record) -> str:
    gain = step["predicted"]
    return "{1:.2f}× ({0:.2f}–{2:.2f})".format(*gain) if gain else "nothing"


def _measured(measured: Record) -> str:
    return "{ratio:.2f}× [{low:.2f}, {high:.2f}]".format(**measured)


def _apart(step: Record) -> str:
    """Where the measured gain is of the predicted range; nothing where there is none."""
    if not step["predicted"]:
        return ""
    (low, _, high), ratio = step["predicted"], step["measured"]["ratio"]
    return "above" if ratio > high else "below" if ratio < low else "inside"


def _verdict(step: Record) -> str:
    words = {"inside": "inside", "above": "**more** than predicted", "below": "**less**", "": "–"}
    return words[_apart(step)]


def _why(row: Record, step: Record) -> str:
    apart = _apart(step)
    if apart in ("", "inside"):
        return "That is inside of what was predicted." if apart else ""
    why = MISSES.get((row["study"], step["change"]), _UNKNOWN)
    return f"The prediction missed: the gain is {apart} its range. {why}"
