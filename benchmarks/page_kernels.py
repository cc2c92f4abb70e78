"""Writer of docs/case-studies/kernels.md and a page for each kernel: remarks, report, listing.

In: `results/kernel_profiles.json`, as `kernel_profiles.py` writes it, and the kernels' rows of
`results/attention.json`.  Out: the index, and the pages of the kernels that were recorded; no
number is typed by hand. Where a requirement is missed, the page has the cause that tileprof's
report names.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from page_rows import asked, beside, clean
from profiled_kernels import KERNELS, Kernel, module_of

from tileprof.remarks import Decision
from tileprof.remarks.launches import ProducerLoads
from tileprof.remarks.loops import AtWill, InOrder
from tileprof.remarks.older import remark_of
from tileprof.remarks.products import IssuedBehind, SlicedProduct

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "kernel_profiles.json"
BARS = ROOT / "benchmarks" / "results" / "attention.json"
INDEX = ROOT / "docs" / "case-studies" / "kernels.md"
FOLDER = ROOT / "docs" / "case-studies" / "kernels"
Record: TypeAlias = Mapping[str, Any]
TEXT = """# Kernels: how they were compiled, and where their time goes

This page lists kernels from [`case_studies`](../../case_studies) with their speed and the main
decision of the compiler about each. The kernels are plain tile code: the compiler finds what can
overlap in a loop. Its remarks say what overlaps, or which dependence on which line prevents it.
Each kernel's page has its remarks, tileprof's report on a recording, and the machine code with the
samples of that recording. Remarks and reports have the wording of the version that printed them.

```text
python benchmarks/kernel_profiles.py     # measures again; needs a GPU with access to its counters
python benchmarks/page.py                # writes these pages
```

- **Time per call** is measured without a profiler, in batches between two CUDA events, for the
  fastest of the variants that the kernel's page names.
- **Ratio** is the speed relative to the fastest other kernel for the same work, from [the
  benchmarks](../benchmarks.md#kernels-on-a-gpu). Above 1, tileprof's kernel is faster. Brackets
  give the middle 90 % of the pairs. Kernels that are not in that table have no ratio.
"""
HEAD = """| kernel | time per call | ratio | required | | main decision of the compiler |
| --- | --- | --- | --- | --- | --- |"""
PAGE = """# {title}

{about}
[`case_studies/{module}.py`](../../../case_studies/{module}.py)

A call takes {ms:.4g} ms, with {sizes}{way}.
{where} [All kernels](../kernels.md)

## Remarks

How the compiler lowered each operation, and why not to a faster form:

```bash
tileprof {command}
```

```text
{remarks}
```

## The report

Recorded with {samples:,} samples of program counters; `tileprof report` says:

```text
{report}
```
"""
LISTING = """## Machine code with samples

Output of `tileprof inspect -t {threshold:g}` for the same recording;
[a listing with its samples](../../listing.md) explains it.

```text
{listing}
```
"""
SCHEDULES = (IssuedBehind, SlicedProduct, InOrder, AtWill, ProducerLoads)
"""Decisions about what overlaps, the one that says most first."""
CAUSES = ("suggestion", "warning")
"""Severities of findings that name a cause."""
_REMARK = re.compile(r"^\S+?:(\d+)(?::\d+)?: ([^:]+): (.*(?:\n  .*)*)", re.MULTILINE)


def write() -> None:
    """Write the index, and a page for each kernel of the record."""
    for path, text in pages(_read(RESULTS, "kernels"), _read(BARS, "rows")).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def pages(rows: Sequence[Record], bars: Sequence[Record]) -> dict[Path, str]:
    """Return the text of each page by its path; rows that failed have none."""
    recorded = {row["name"]: row for row in rows}
    held = {row["work"]: row for row in bars}
    found = {INDEX: "\n".join(index(recorded, held))}
    for kernel in KERNELS:
        row = recorded.get(kernel.name)
        if row is not None and "error" not in row:
            text = "\n".join(page(kernel, row, held.get(kernel.row)))
            found[FOLDER / f"{kernel.name}.md"] = text
    return found


def _read(path: Path, name: str) -> list[Record]:
    """Return the rows of a file of results; none without a file."""
    return list(json.loads(path.read_text())[name]) if path.exists() else []


# -- the index


def index(recorded: Mapping[str, Record], bars: Mapping[str, Record]) -> Iterator[str]:
    """Its lines."""
    yield f"{TEXT}\n{HEAD}"
    for kernel in KERNELS:
        row, bar = recorded.get(kernel.name, {"error": "not recorded"}), bars.get(kernel.row)
        yield f"| {' | '.join(cells(kernel, row, bar))} |"
    yield ""


def cells(kernel: Kernel, row: Record, bar: Record | None) -> list[str]:
    """Return the cells of a kernel's row."""
    measured = bar is not None and bool(bar.get("peers"))
    ratio = [beside(dict(bar)), asked(dict(bar))] if bar and measured else ["–", "–"]
    missed = "missed" if is_missed(bar) else ""
    if "error" in row:
        return [kernel.title, "–", *ratio, missed, clean(row["error"])]
    title = f"[{kernel.title}](kernels/{kernel.name}.md)"
    return [title, f"{row['ms']:.4g} ms", *ratio, missed, clean(schedule(row["remarks"]))]


def is_missed(bar: Record | None) -> bool:
    """Return whether it was measured, and slower than required."""
    return bar is not None and bool(bar.get("peers")) and not bar["met"]


def schedule(remarks: str) -> str:
    """Return the most informative remark about overlap, with its reasons, in one line."""
    told = [(*each, decision_of(each[2].partition("\n")[0])) for each in _REMARK.findall(remarks)]
    for kind in SCHEDULES:
        for line, op, chosen, decision in told:
            if isinstance(decision, kind):
                return f"line {line}, {op}: " + re.sub(r"\n +", "; ", chosen)
    return ""


def decision_of(sentence: str) -> Decision:
    """The decision that a sentence of the record states."""
    return remark_of("", None, sentence, (), "info").decision


# -- the page of a kernel


def page(kernel: Kernel, row: Record, bar: Record | None) -> Iterator[str]:
    """Its parts."""
    paragraph = (inspect.getdoc(module_of(kernel)) or "").split("\n\n")[0]
    options = ", ".join(f"`{name}` {value}" for name, value in row["options"].items())
    many = f", in the fastest of {len(kernel.ways)} variants: {options}"
    yield PAGE.format(
        title=kernel.title, about=paragraph, module=kernel.module, ms=row["ms"],
        sizes=", ".join(f"`{name}` {value}" for name, value in kernel.sizes.items()),
        way=many if len(kernel.ways) > 1 and options else "", where=_where(row["circumstances"]),
        command=" ".join(row["command"]), remarks=row["remarks"].rstrip(),
        samples=row["samples"], report=row["report"].rstrip(),
    )  # fmt: skip
    if bar is not None and is_missed(bar):
        yield from _missed(row, bar)
    yield LISTING.format(threshold=row["threshold"], listing=row["listing"].rstrip())


def _missed(row: Record, bar: Record) -> Iterator[str]:
    """Yield the distance from the requirement, and the first cause that the report names."""
    yield "## Why it misses its requirement\n"
    yield f"Required is {asked(dict(bar))} the fastest peer, measured {beside(dict(bar))}."
    causes = [each for each in row["findings"] if each["severity"] in CAUSES]
    if causes:
        yield f"The first cause in tileprof's report, of {len(causes)}:\n"
    elif row["findings"]:
        yield "tileprof's report names no cause. Its first finding:\n"
    else:
        yield (
            "tileprof's report names no cause; its first lines say how far the kernel is from the"
            " least time of its work.\n"
        )
        return
    yield f"```text\n{(causes or row['findings'])[0]['printed'].rstrip()}\n```\n"


def _where(where: Record) -> str:
    versions = ", ".join(f"{name} {where[name]}" for name in ("torch", "cuda", "tileprof"))
    driver = where["gpu"]["driver_version"]
    return f"{where['device']}, driver {driver}, {where['date']} UTC, {versions}."
