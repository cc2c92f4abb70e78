"""Intervals of gains that hold as often as they say, by split-conformal prediction over families.

In: records that `running` wrote (or those of `plant.py`), of development.  Out: for each kind of
evidence two factors, by which the lower and the upper part of an interval are stretched about its
middle (of logarithms of gains), and how often intervals with and without them held.

The score of a case is how far its true gain is beyond the middle, in widths of its interval on that
side. A factor is a quantile of these scores. Cases of one kernel family are alike, a new family is
not: each family has the same weight, whatever it has of cases, and one more family, of which
nothing is known, has it too. So a new family's true gains are inside with the nominal probability,
if families are exchangeable (Lee, Barber and Willett, "Distribution-free inference with
hierarchical data", 2023). Coverage is that of families whose factors come from all others.

    python -m plant.generated.calibrating FILE… [--nominal 0.8] [--frozen] [--write]
                                                                               (in benchmarks/)

`--write` puts the factors into the analyzer (`tileprof/analyzer/calibrated.py`). Which records
count decides whether the guarantee holds. Rules are made with cases of development, and hold for
these more often than for new ones: profiles that are read again with later rules give factors that
are too small. `--frozen` takes what frozen analyzers predicted before a case had run, and undoes
the factors of then. An end that a roof bounds seems nearer by that than it was, so factors become
rather too large. Other records have to have intervals as rules predict them (`running --again …
--own`).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plant.scores import NOISE, advice
from tileprof.analyzer import calibrated
from tileprof.analyzer.numbers.reports import CALIBRATED_NARROWEST, CALIBRATED_NOMINAL

__all__ = ["Case", "Factors", "cases_of", "coverage", "factors", "main"]

NOMINAL, NARROWEST = CALIBRATED_NOMINAL, CALIBRATED_NARROWEST


@dataclass(frozen=True)
class Case:
    """A defect that was found, and what was predicted of it."""

    family: str
    evidence: str
    """Kind of evidence of the finding that predicts its gain."""
    low: float
    mid: float
    high: float
    true: float

    def score(self, upper: bool) -> float:
        """Return how far the true gain is beyond the middle, in widths of that side."""
        beyond = math.log(self.true) - math.log(self.mid)
        return (beyond if upper else -beyond) / self._width(upper)

    def is_inside(self, stretched: Factors) -> bool:
        """Return whether the true gain is in the interval with these factors."""
        return self.score(False) <= stretched.low and self.score(True) <= stretched.high

    def _width(self, upper: bool) -> float:
        ends = (self.mid, self.high) if upper else (self.low, self.mid)
        return max(math.log(ends[1]) - math.log(ends[0]), NARROWEST)


@dataclass(frozen=True)
class Factors:
    """Factors that stretch the parts of an interval below and above its middle, without unit.

    They are infinite where there are too few families for a guarantee.
    """

    low: float = 1.0
    high: float = 1.0


def factors(cases: Iterable[Case], nominal: float = NOMINAL) -> Factors:
    """Return the factors by which intervals of a new family hold with a nominal probability."""
    held, each_side = list(cases), 1 - (1 - nominal) / 2
    return Factors(_quantile(held, False, each_side), _quantile(held, True, each_side))


def _quantile(cases: Sequence[Case], upper: bool, level: float) -> float:
    """Return the score that so much of the weight is not above, a new family's weight above all."""
    sizes: dict[str, int] = {}
    for case in cases:
        sizes[case.family] = sizes.get(case.family, 0) + 1
    weighed = sorted((case.score(upper), 1 / sizes[case.family]) for case in cases)
    needed, sum_of = level * (len(sizes) + 1), 0.0
    for score, weight in weighed:
        sum_of += weight
        if sum_of >= needed - 1e-9:
            return max(score, 0.0)
    return math.inf


def coverage(cases: Sequence[Case], nominal: float = NOMINAL) -> float:
    """Return the mean share of a family's cases inside of intervals that all others calibrate."""
    families = list(dict.fromkeys(case.family for case in cases))
    shares = []
    for family in families:
        fitted = factors((case for case in cases if case.family != family), nominal)
        mine = [case for case in cases if case.family == family]
        shares.append(sum(case.is_inside(fitted) for case in mine) / len(mine))
    return sum(shares) / len(shares) if shares else math.nan


def cases_of(record: Mapping[str, Any], frozen: bool = False) -> list[Case]:
    """Return the cases of a record whose defect costs something and has a predicted gain.

    `frozen`: undo the factors of the analyzer that predicted.

    Raises:
        ValueError: its intervals are stretched already, or it was read again after it was frozen.
    """
    stretched = record.get("factors", {})
    if not frozen and any(tuple(each) != (1.0, 1.0) for each in stretched.values()):
        raise ValueError("intervals are calibrated already: read the profiles again with --own")
    if frozen and record.get("read_again"):
        raise ValueError("read again by a later analyzer: its rules may have been made with it")
    found = []
    for row in record["rows"]:
        if row.get("kind") != "defect" or "error" in row or row["time"].get("low", 1.0) < NOISE:
            continue
        held = row["findings"] if "findings" in row else row["twins"]["defective"]["findings"]
        said = next((each for each in advice(held) if each["rule"] in row["rules"]), None)
        if said is None or not said["gain"] or said["gain"][1] <= 1:
            continue
        low, mid, high = (max(float(end), 1.0) for end in said["gain"])
        # Records of before 2026-11-27 do not say it; all of them had samples.
        evidence = said.get("evidence", "samples")
        below, above = stretched.get(evidence, (1.0, 1.0))
        low, high = mid * (low / mid) ** (1 / below), mid * (high / mid) ** (1 / above)
        found.append(Case(_family(row), evidence, low, mid, high, float(row["time"]["ratio"])))
    return found


def _family(row: Mapping[str, Any]) -> str:
    """Return a kernel's name, the narrowest family that records of all kinds have."""
    return str(row["case"]).partition("/")[0]


def table(cases: Sequence[Case], nominal: float) -> list[dict[str, Any]]:
    """Return a row for each kind of evidence."""
    rows = []
    for kind in sorted({case.evidence for case in cases}):
        mine = [case for case in cases if case.evidence == kind]
        fitted = factors(mine, nominal)
        rows.append(
            {
                "evidence": kind, "cases": len(mine),
                "families": len({case.family for case in mine}), "nominal": nominal,
                "as_predicted": sum(case.is_inside(Factors()) for case in mine) / len(mine),
                "low": _finite(fitted.low), "high": _finite(fitted.high),
                "left_out": coverage(mine, nominal),
            }
        )  # fmt: skip
    return rows


def _finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def write(rows: Sequence[Mapping[str, Any]], path: Path = Path(calibrated.__file__)) -> None:
    """Put factors into the analyzer; a kind of evidence without a guarantee has none there."""
    text = path.read_text()
    head, _, rest = text.partition("FACTORS: Mapping[Tier, tuple[float, float]] = {\n")
    lines = [
        f'    "{row["evidence"]}": ({row["low"]:.2f}, {row["high"]:.2f}),\n'
        for row in rows if row["low"] is not None and row["high"] is not None
    ]  # fmt: skip
    made = f"{head}FACTORS: Mapping[Tier, tuple[float, float]] = {{\n{''.join(lines)}}}\n"
    path.write_text(made + rest.partition("}\n")[2])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--nominal", type=float, default=NOMINAL)
    parser.add_argument("--frozen", action="store_true", help="undo the factors of frozen runs")
    parser.add_argument("--write", action="store_true", help="put the factors into the analyzer")
    args = parser.parse_args(argv)
    records = [json.loads(path.read_text()) for path in args.files]
    cases = [case for record in records for case in cases_of(record, args.frozen)]
    rows = table(cases, args.nominal)
    print(json.dumps(rows, indent=1))
    if args.write:
        write(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
