"""The section of docs/tilelang-examples.md that shows how fast TileLang's examples are.

In: `results/examples.json`, which `benchmarks/examples.py` writes on a GPU.  Out: the section, from
its heading to the next one. The page's other sections are `benchmarks/tilelang_examples.py`'s.

    python benchmarks/examples_page.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from examples_cases.form import Verdict  # noqa: E402

RESULTS = ROOT / "results" / "examples.json"
PAGE = ROOT.parent / "docs" / "tilelang-examples.md"
SECTION = "## Speed beside TileLang"
NEXT = "\n## "


def speed_section(results: dict[str, Any]) -> str:
    """Return the section, with a row for each kernel and shape that was timed."""
    about, summary = results["circumstances"], results["summary"]
    text = [
        SECTION,
        "",
        f"{about['device']}, {about['date'][:10]}; TileLang {about['tilelang']}, both compiled on "
        "the same machine from the same text of the example and run in turns, "
        f"{about['pairs'][0]} to {about['pairs'][1]} pairs each, with a cold L2 cache. The ratio "
        "is TileLang's time by ours, with its 95 % interval: above 1, ours is faster. Each result "
        "was compared with the example's reference, or where it has none with TileLang's.",
        "",
    ]
    if note := about.get("note"):
        text += [note, ""]
    text += [
        f"{summary['timed']} kernels of {summary['examples']} examples: geometric mean of the "
        f"ratios **{summary['geometric_mean']:.3f}**, worst {summary['worst']:.2f} "
        f"(`{summary['worst_kernel']}`).{wrong_theirs(summary)}",
        "",
        "| example | kernel | shape | tileprof, µs | TileLang, µs | ratio | interval | commit |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *sorted(timed_rows(results["rows"])),
        "",
        "Not timed:",
        "",
        "| example | shape | why |",
        "| --- | --- | --- |",
        *sorted(
            f"| `{row['example']}` | {shape_name(row)} | {one_cell(row['error'])} |"
            for row in results["rows"]
            if row["status"] != "ok"
        ),
        "",
    ]
    return "\n".join(text)


def wrong_theirs(summary: dict[str, Any]) -> str:
    """Return what to say of kernels whose result TileLang has wrong; '' where there are none."""
    count = len(summary.get("tilelang_wrong", ()))
    if not count:
        return ""
    return (
        f" {count} more are timed, but do not count: ours agrees with the reference, and TileLang's"
        " result does not (`TileLang wrong`)."
    )


def timed_rows(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each kernel whose results agree."""
    for row in rows:
        if row["status"] != "ok":
            continue
        note = " (TileLang wrong)" if row.get("tilelang") == Verdict.WRONG else ""
        for kernel in row["kernels"]:
            yield (
                f"| `{row['example']}` | `{kernel['kernel']}` | {shape_name(row)} "
                f"| {kernel['ours_us']:.1f} | {kernel['tilelang_us']:.1f} "
                f"| {kernel['ratio']:.3f}{note} "
                f"| {kernel['low']:.3f} to {kernel['high']:.3f} | {row.get('commit', '')} |"
            )


def shape_name(row: dict[str, Any]) -> str:
    """Return which of an example's shapes a row is."""
    return "its own" if row["index"] == 0 else f"{row['index'] + 1}."


def one_cell(text: str) -> str:
    """Return an error's text for a cell of a table, without the places of the machine."""
    words = (word.rpartition("/examples/")[2] for word in text.split())
    return " ".join(words).replace("|", "\\|")[-300:]


def with_section(page: str, section: str) -> str:
    """Return the page with the section in place of what it had, else before its first section."""
    begin = page.find(f"\n{SECTION}")
    if begin < 0:
        begin = end = page.find(NEXT)
    else:
        end = page.find(NEXT, begin + len(SECTION))
    return f"{page[:begin]}\n{section}{page[end:]}"


def section_of(page: str) -> str:
    """Return the section that a page has."""
    begin = page.index(f"\n{SECTION}") + 1
    return page[begin : page.index(NEXT, begin)]


def main() -> int:
    """Write the section into the page."""
    PAGE.write_text(with_section(PAGE.read_text(), speed_section(json.loads(RESULTS.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
