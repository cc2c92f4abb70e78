"""The measured pages: parts of docs/benchmarks.md, docs/stalls.md, docs/listing.md,
docs/advice-accuracy.md, docs/real-programs.md, docs/case-studies/advice.md and
docs/case-studies/kernels.

    python benchmarks/page.py

In: what `kernels.py`, `overhead.py`, `instrument.py`, `stalls.py`, `plant.py`,
`kernel_profiles.py` and `case_studies/advice/study.py` measured, and samples that were kept.
Out: the same pages with new sections; no number is typed by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import page_advice
import page_generated
import page_instrument
import page_kernels
import page_listing
import page_overhead
import page_plant
import page_programs
import page_sampling
import page_stalls
from page_rows import asked, beside, clean, measured

ROOT = Path(__file__).parent.parent
RESULTS = [ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("kernels", "attention")]
PAGE = ROOT / "docs" / "benchmarks.md"
TITLE = "## Kernels on a GPU"
TEXT = f"""{TITLE}

This section compares kernels compiled by tileprof with the fastest other implementations on the
same GPU. `python benchmarks/kernels.py` runs them in one process (`benchmarks/gpu_kernels.py`:
plain tile code, not specialised for one size) and writes `benchmarks/results/kernels.json` after
each row. `--quick` leaves out sizes and peers, `--only RE` selects groups, and after `--budget
SECONDS` no further group starts. With `--only attention` and `-o benchmarks/results/attention.json`
it measures the attention case studies, which [have pages of their own](case-studies/kernels.md).
`python benchmarks/page.py` then writes this section. [The
ladder](../case_studies/gemm_ladder/README.md) shows what each step of the lowering brings for one
product.

- Results are compared with PyTorch's first; a kernel with wrong results is not timed.
- A time is measured between two CUDA events around a batch of launches that takes some
  milliseconds. The GPU is kept busy until the first launches are queued, so it never waits for the
  host.
- A ratio is the median over interleaved pairs (ours, the peer's, ours, …), so that a change of the
  clock affects both. The peer is the fastest one. Above 1, tileprof is faster. Brackets give the
  middle 90 % of the pairs.
- The JSON file has, for each row, all peers with their times, and clocks, power and temperature
  before and after; and, for the whole run, device, driver, date and versions.
"""


def section(record: dict[str, Any]) -> str:
    """What was measured in one go."""
    where = record["circumstances"]
    versions = ", ".join(f"{k} {where[k]}" for k in ("python", "torch", "cuda", "tileprof"))
    driver = where["gpu"]["driver_version"]
    said = f"{where['device']}, driver {driver}, {where['date']} UTC, {versions}."
    left = [*([record["tilelang"]] if record.get("tilelang") else [])]
    left += [f"{name}: not reached in the time given" for name in record.get("skipped", [])]
    later = (row for row in record["rows"] if "circumstances" in row)
    said += measured((row["circumstances"]["date"], row["work"]) for row in later)
    lines = [said, "", *table(record["rows"])]
    return "\n".join([*lines, *(["", *(f"- {clean(each)}" for each in left)] if left else []), ""])


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A row for each piece of work."""
    yield "| work | tileprof | ratio | required | | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        if "error" in row:
            yield f"| {row['work']} | – | – | – | not measured | {clean(row['error'])} |"
            continue
        ours = "–" if row["ours"] is None else f"{row['ours']:.4g} {row['unit']}"
        met = "not measured" if row["ours"] is None else "" if row["met"] else "missed"
        cells = [row["work"], ours, beside(row), asked(row), met, clean(row.get("note", ""))]
        yield f"| {' | '.join(cells)} |"


def with_sections(page: str) -> str:
    """A page with these sections at its end, in place of older ones."""
    parts_of_others = (page_overhead, page_instrument, page_sampling)
    for title in (TITLE, *(each.TITLE for each in parts_of_others)):
        page = page.partition(f"\n{title}")[0]
    kernels = [section(json.loads(each.read_text())) for each in RESULTS if each.exists()]
    sections = (page, *(each.section() for each in parts_of_others), *([TEXT] if kernels else []))
    sections = (*sections, *kernels)
    parts = [each.rstrip("\n") for each in sections]
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    PAGE.write_text(with_sections(PAGE.read_text()))
    page_stalls.write()
    page_listing.write()
    page_plant.write()
    page_generated.write()
    page_programs.write()
    page_advice.write()
    page_kernels.write()
