"""TileLang's examples, case studies and benchmarks through `tileprof check`.

    python benchmarks/check_examples.py [CHECKOUT] [--only TEXT] [-o FILE]

No GPU is needed.  CHECKOUT is a checkout of TileLang (`tilelang_examples.py`); without one only the
kernels of this repository are checked.  Whatever runs on the interpreter is checked while it runs,
each in a process of its own.  Kernels are taken for right: a finding is a false alarm, or a fault
that the example has.  Each launch has three properties between blocks, which are proved for all
inputs, proved for all inputs that have the integers of the run, or explored, and two inside of
blocks, which are explored on the emulated GPU.  What is only compiled, for arguments made up here,
is proved or not, and not run.  Results go to
`benchmarks/results/check-examples.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from tilelang_examples import apart, commit_of, examples
from tilelang_running import Item, attempt

from benchmarks.check_in_block import Call, ladder, of_benchmarks, studies

RESULT = Path(__file__).parent / "results" / "check-examples.json"


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of the check of one example."""

    name: str
    status: str
    """Outcome of the run, as in `tilelang_examples.py`; `failed` where the check did not end."""
    seconds: float
    """Processor's time, of compilers as well: other programs of the machine do not add to it."""
    findings: list[str] = field(default_factory=list)
    launches: int = 0
    proved: int = 0
    """Launches of which all three properties between blocks are proved."""
    settled: int = 0
    """Launches of which each of them is proved for all inputs, or for all that have the integers of
    the run."""
    places: int = 0
    """`T.Kernel`s in the text of the example, each once however often it is compiled."""
    places_proved: int = 0
    """Those of which each launch is proved."""
    verdicts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of launches with each result, by property."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why properties are not proved: accesses by reason."""


def _processor_s() -> float:
    """Return the processor's time of this process and of those that it waited for, in s."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def checked(item: Item | Call) -> Checked:
    """Run an example, or a call of this repository's, under the check."""
    from tileprof.checker import Plan, Report, check_call, check_proofs
    from tileprof.errors import UsageError

    seen: list[str] = []
    traced: list[Any] = []

    def run() -> None:
        if isinstance(item, Item):
            seen.append(attempt(item, traced).status)
        else:
            with redirect_stdout(StringIO()):
                item.run()
            seen.append("runs")

    began = _processor_s()
    try:
        report = check_call(run, (), {}, Plan(seeds=(0,)))
    except UsageError:
        status = seen[0] if seen else "failed"
        if not traced:
            return Checked(item.name, status, round(_processor_s() - began, 2))
        each = [check_proofs(made.program.kernel) for made in traced]
        report = Report((), tuple(launch for one in each for launch in one.launches))
    verdicts: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    proved, settled, places = 0, 0, dict[Any, bool]()
    for launch in report.launches:
        for name, verdict in launch.verdicts.items():
            verdicts.setdefault(name, Counter())[verdict.status] += 1
            reasons.update(each.why for each in verdict.unproved)
        statuses = {each.status for each in launch.verdicts.values()}
        settled += statuses <= {"proved", "enumerated"}
        whole = statuses == {"proved"}
        place = launch.kernel, launch.location
        places[place] = whole and places.get(place, True)
        proved += whole
        if launch.inside is not None:
            verdicts.setdefault("races inside", Counter())[launch.inside.races] += 1
            verdicts.setdefault("deadlocks", Counter())[launch.inside.deadlocks] += 1
            if launch.inside.reason:
                reasons[f"inside: {launch.inside.reason}"] += 1
    return Checked(
        item.name,
        seen[0] if seen else "failed",
        round(_processor_s() - began, 2),
        [f"{each.code}: {each.kernel}, {each.buffer} {each.message}" for each in report.findings],
        len(report.launches),
        proved,
        settled,
        len(places),
        sum(places.values()),
        {name: dict(count) for name, count in verdicts.items()},
        dict(reasons),
    )


def summary(rows: Sequence[Checked]) -> dict[str, Any]:
    """Return the sums over all examples with a launch."""
    ran = [row for row in rows if row.launches and row.status != "traces"]
    traced = [row for row in rows if row.status == "traces"]
    launches, places = sum(row.launches for row in ran), sum(row.places for row in ran)
    return {
        "examples": len(ran),
        "launches": launches,
        "findings": sum(len(row.findings) for row in ran),
        "launches_proved": sum(row.proved for row in ran),
        "share_of_launches_proved": _share(sum(row.proved for row in ran), launches),
        "launches_settled": sum(row.settled for row in ran),
        "share_of_launches_settled": _share(sum(row.settled for row in ran), launches),
        "launches_of_compiled_examples": sum(row.launches for row in traced),
        "launches_of_compiled_examples_proved": sum(row.proved for row in traced),
        "kernels_in_the_text": places,
        "share_of_kernels_proved": _share(sum(row.places_proved for row in ran), places),
        "verdicts": {
            name: dict(sum((Counter(row.verdicts.get(name, {})) for row in ran), Counter()))
            for name in dict.fromkeys(name for row in ran for name in row.verdicts)
        },
        "longest_s": max((row.seconds for row in ran), default=0),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def main(argv: Sequence[str] | None = None) -> int:
    """Check all; 1 where there is a finding or a check did not end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="names with this text")
    parser.add_argument("--commit", help="of a checkout without its history")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    args = parser.parse_args(argv)
    os.environ["TILEPROF_DEVICE"] = "interpreter"
    import torch

    import tileprof

    torch.set_num_threads(1)
    rows = []
    own: list[Item | Call] = [*studies(), *ladder(), *of_benchmarks()]
    for item in [*own, *(examples(args.checkout) if args.checkout else ())]:
        if args.only not in item.name:
            continue
        made = apart(checked, item)
        row = made if isinstance(made, Checked) else Checked(item.name, "failed", 0.0, [made])
        rows.append(row)
        proofs = f"{row.proved}+{row.settled - row.proved}/{row.launches}"
        print(f"{row.status:8} {proofs:7} {row.seconds:6.1f} s {row.name} "
              f"{'; '.join(row.findings)} {row.reasons or ''}", flush=True)  # fmt: skip
    result = {
        "date": date.today().isoformat(),
        "versions": {"tileprof": tileprof.__version__, "python": platform.python_version()},
        "tilelang": args.commit or (commit_of(args.checkout) if args.checkout else None),
        "target": "sm_90a, emulated",
        "seconds": "processor's time",
        **summary(rows),
        "rows": [asdict(row) for row in rows if row.launches or row.status == "failed"],
    }
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "rows"}, indent=1))
    return int(any(row.findings or row.status == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
