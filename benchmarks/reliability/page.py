"""The table of campaigns: what was asked, what was run, what failed.

In: a folder with the JSON files that the campaigns wrote (any of `CAMPAIGNS`), or with the one file
that `benchmarks.reliability.all` gathers them into.  Out:
`benchmarks/results/reliability.json` with all of them, and the table in docs/security.md; campaigns
without a new file keep what was measured before.

    python -m benchmarks.reliability.page FOLDER --machine "16 cores, NVIDIA H200"
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "reliability.json"
PAGE = ROOT / "docs" / "security.md"
TITLE = "## Stress tests"
COMBINED = "campaigns.json"
"""Results of several campaigns in one file, by their names."""
_CHECKOUT = re.compile(r"/[\w./-]*/(?=(?:tileprof|benchmarks|tests)/)")
"""Where the sources lay on the machine that ran a campaign, which tells a reader nothing."""


@dataclass(frozen=True)
class Campaign:
    """One row of the table."""

    name: str
    """Name of the JSON file, and of the module of `benchmarks.reliability` up to the first dot."""
    what: str
    unit: str
    """What `runs` counts."""
    least: float
    aim: float
    key: str = "runs"
    """Field of the JSON object that is compared with `least` and `aim`."""
    small: bool = False
    """Whether less is better: a cost instead of a number of runs."""

    def status(self, found: Mapping[str, Any]) -> str:
        """Return `aim`, `met` or `missed`; any failure is a miss."""
        value = float(found[self.key])
        if found["failures"] or found["hangs"]:
            return "missed"
        reached = [value <= bar if self.small else value >= bar for bar in (self.aim, self.least)]
        return "aim" if reached[0] else "met" if reached[1] else "missed"


CAMPAIGNS = (
    Campaign("first_launch.first", "20 threads make first calls at once, in new processes",
             "processes", 2_000, 20_000),
    Campaign("first_launch.cold", "the same with an empty cache of kernels", "processes", 0, 100),
    Campaign("first_launch.fork", "forks while threads launch kernels", "processes", 0, 2_000),
    Campaign("pools", "forked, spawned and forkserver pools under `run`, on busy cores",
             "programs", 2_000, 10_000),
    Campaign("signals", "signals and forks at every line of finalisation", "processes", 0, 10_000),
    Campaign("savers", "saves to one path, while others save and load", "saves", 10**5, 10**6),
    Campaign("profiles", "mutated profiles through every view, export and report", "files",
             20_000, 200_000),
    Campaign("cubins", "mutated cubins", "files", 20_000, 200_000),
    Campaign("saved_kernels", "mutated saved kernels, loaded and called", "files", 20_000, 200_000),
    Campaign("ir_text", "mutated texts of the IR", "texts", 20_000, 200_000),
    Campaign("coverage", "lines that mutants and kept files reach, lowest of these four readers",
             "of a reader's lines", 0, 0.95, key="lowest"),
    Campaign("devices", "random programs on interpreter, cpu and emulated GPU, with special values",
             "programs", 20_000, 200_000),
    Campaign("soak", "8 threads of kernels, graphs, streams, copies and scopes on a GPU",
             "seconds", 600, 1_800, key="asked_seconds"),
    Campaign("sanitizers", "native code and readers under ASan, UBSan and TSan", "steps", 17, 17),
    Campaign("load", "seconds to load a profile of 100,000 nodes with all checks", "s", 0.35, 0.3,
             key="shortest", small=True),
)  # fmt: skip


def number(value: float) -> str:
    """Return a count with separators, a part of a second with two digits."""
    return f"{value:.2f}" if value < 1 else f"{value:,.0f}"


def table(held: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rows of all campaigns that were run."""
    lines = [
        "| campaign | at least | aim | run | failures | hangs | result |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in CAMPAIGNS:
        if (found := held.get(each.name)) is None:
            continue
        cells = [
            f"{each.what} (`{each.name.partition('.')[0]}`)",
            number(each.least) if each.least else "–",
            number(each.aim),
            f"{number(float(found[each.key]))} {each.unit}",
            str(found["failures"]),
            str(found["hangs"]),
            each.status(found) + (f": {note}" if (note := found.get("note")) else ""),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def section(held: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the part of the page."""
    return f"""{TITLE}

Each campaign is a module of `benchmarks/reliability`. The figures, with the first failures and the
machine of each run, are in
[reliability.json](../benchmarks/results/reliability.json).
`python -m benchmarks.reliability.page FOLDER` writes this table.

{table(held)}
"""


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what campaigns wrote into a folder, by name; their own files before the gathered."""
    texts = [folder / COMBINED, *(folder / f"{each.name}.json" for each in CAMPAIGNS)]
    found: dict[str, dict[str, Any]] = {}
    for path in texts:
        if path.exists():
            held = json.loads(_CHECKOUT.sub("", path.read_text()))
            found |= held if path.name == COMBINED else {path.stem: held}
    return found


def main() -> None:
    """Merge new results, write the file and the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the campaigns wrote their files")
    parser.add_argument("--machine", default="", help="what they ran on")
    args = parser.parse_args()
    held: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    new = results(args.folder)
    for each in CAMPAIGNS:
        if each.name in new:
            found = {"date": date, "machine": args.machine, **new[each.name]}
            held[each.name] = {**found, "status": each.status(found)}
    RESULTS.write_text(json.dumps(held, indent=1) + "\n")
    page = PAGE.read_text()
    before, _, rest = page.partition(TITLE)
    after = rest[rest.index("\n## ") :] if "\n## " in rest else ""
    PAGE.write_text(before + section(held) + after)


if __name__ == "__main__":
    main()
