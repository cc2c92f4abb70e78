"""docs/case-studies/kernels.md and a page for each kernel: remarks, report, annotated listing.

In: `results/kernel_profiles.json`, as `kernel_profiles.py` writes it, and the kernels' rows of
`results/attention.json`.  Out: the index, and the pages of the kernels that were recorded; no
number is typed by hand. Where a bar is missed, the page has what our own report names as the
reason.
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
TEXT = """# Kernels: what the compiler found, and where their time goes

Plain tile code, each loop written in the order in which one thinks of it
([`case_studies`](../../case_studies)): what runs while something else is waited for is found by the
compiler, which says so in remarks, or which dependence prevents it and on which line. Each kernel
has a page with its remarks, what our own report says of a recording, and its machine code with the
samples of that recording.

```text
python benchmarks/kernel_profiles.py     # on a GPU whose counters may be read: all of it again
python benchmarks/page.py                # writes these pages
```

- **A call** is timed without a profiler, in batches between two CUDA events, in the fastest of the
  ways that its page names.
- **Beside** is the ratio to the fastest other kernel for the same work, as
  [the benchmarks](../benchmarks.md#kernels-on-a-gpu) have it: above 1 ours is faster, and in
  brackets is the middle 90 % of the pairs. Kernels without a row there have none here.
"""
HEAD = """| kernel | a call | beside | asked | | what the compiler found |
| --- | --- | --- | --- | --- | --- |"""
PAGE = """# {title}

{about}
[`case_studies/{module}.py`](../../../case_studies/{module}.py)

A call takes {ms:.4g} ms, with {sizes}{way}.
{where} [All kernels](../kernels.md)

## Remarks

What became of its code, and why nothing faster did:

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
LISTING = """## Its machine code with samples

What `tileprof inspect -t {threshold:g}` prints of the same recording;
[a listing with its samples](../../listing.md) says how to read it.

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
    """The index, and a page for each kernel of the record."""
    for path, text in pages(_read(RESULTS, "kernels"), _read(BARS, "rows")).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def pages(rows: Sequence[Record], bars: Sequence[Record]) -> dict[Path, str]:
    """All pages by their places; rows that failed have none."""
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
    """The rows of a file of results; none where there is no file."""
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
    """Of a kernel's line."""
    measured = bar is not None and bool(bar.get("peers"))
    ratio = [beside(dict(bar)), asked(dict(bar))] if bar and measured else ["–", "–"]
    missed = "missed" if is_missed(bar) else ""
    if "error" in row:
        return [kernel.title, "–", *ratio, missed, clean(row["error"])]
    title = f"[{kernel.title}](kernels/{kernel.name}.md)"
    return [title, f"{row['ms']:.4g} ms", *ratio, missed, clean(schedule(row["remarks"]))]


def is_missed(bar: Record | None) -> bool:
    """Whether it was measured, and less than was asked for."""
    return bar is not None and bool(bar.get("peers")) and not bar["met"]


def schedule(remarks: str) -> str:
    """What they say of overlap, in a line: the remark that says most, with its reasons."""
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
    many = f", in the fastest of {len(kernel.ways)} ways: {options}"
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
    """How far it is from its bar, and the first cause that the report names."""
    yield "## Why its bar is missed\n"
    yield f"Asked is {asked(dict(bar))} the fastest peer, measured {beside(dict(bar))}."
    causes = [each for each in row["findings"] if each["severity"] in CAUSES]
    if causes:
        yield f"The reason that our own report names first, of {len(causes)}:\n"
    elif row["findings"]:
        yield "Our own report names no cause. What it says first:\n"
    else:
        yield "Our own report finds nothing that costs time.\n"
        return
    yield f"```text\n{(causes or row['findings'])[0]['printed'].rstrip()}\n```\n"


def _where(where: Record) -> str:
    versions = ", ".join(f"{name} {where[name]}" for name in ("torch", "cuda", "tileprof"))
    driver = where["gpu"]["driver_version"]
    return f"{where['device']}, driver {driver}, {where['date']} UTC, {versions}."
