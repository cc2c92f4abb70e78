"""Scores of generated cases, pooled over splits, beside baselines that know less.

In: records that `running` wrote.  Out: for each case what became of it, and shares over all of
them, over operators that development had and over those that were held out, by operator and family.
A defect that costs less than 2 % is not ranked; a decoy that costs as much is none.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from plant.scores import NEAR, NOISE, advice

__all__ = ["Gains", "Judged", "dev_gains", "judged", "page", "pooled", "proven", "summary", "told"]

Row: TypeAlias = Mapping[str, Any]
LOUD = 1.05
"""Predicted gain above which a suggestion for a clean kernel is false; measured, it is true."""


@dataclass(frozen=True)
class Judged:
    """Outcome of one case."""

    case: str
    family: str
    operator: str
    kind: str
    known: bool
    """Whether development had the operator."""
    true: float | None
    """Time of the mutant divided by that of the clean kernel."""
    ranked: bool
    """Whether it is a defect that costs something."""
    rank: int | None
    """Place of the first right cause among causes, from 1."""
    placed: bool
    """Whether that finding names a right line or operation."""
    gap_placed: bool
    """Whether no right cause is named, but that the kernel is far from its least time, and at a
    right line or operation."""
    gain: tuple[float, float, float] | None
    """Gain that the first right finding predicts: low, middle, high."""
    first: str
    """Rule of the first advice, right or wrong."""
    loud: tuple[str, ...]
    """Rules of suggestions whose predicted gain is above 1.05×, for a kernel without a defect."""
    rejected: bool
    """Whether a decoy's pattern is not suggested to be changed for a gain."""
    floor: float
    """Time divided by the least time at measured roofs."""
    static_first: bool
    """Whether the right cause is first without samples."""

    def error(self, predicted: float) -> float:
        """Return |S' - S| / (S - 1) of any prediction S'."""
        assert self.true is not None
        return abs(predicted - self.true) / (self.true - 1)

    @property
    def own_error(self) -> float:
        """Error of the predicted gain; silence counts as 1.0×."""
        return self.error(self.gain[1] if self.gain else 1.0)

    @property
    def inside(self) -> bool:
        """Whether the true gain is in the predicted interval."""
        held = self.gain is not None and self.true is not None
        return held and self.gain[0] <= self.true <= self.gain[2]  # type: ignore[index,operator]


@dataclass(frozen=True)
class Gains:
    """True gains of development, as predictions."""

    overall: float
    by_rule: Mapping[str, float]
    """Geometric mean of true gains where a rule is said first."""

    def of(self, rule: str) -> float:
        """Return the mean gain of a rule, or of everything."""
        return self.by_rule.get(rule, self.overall)


def pooled(records: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """Judge all cases of all records; a case without a truth is left out."""
    return [
        judged(row, row["operator"] not in record["held_out"])
        for record in records for row in record["rows"] if "error" not in row
    ]  # fmt: skip


def judged(row: Row, known: bool = True) -> Judged:
    """Judge one case."""
    time, right = row["time"], set(row["rules"])
    said = advice(row["findings"])
    planted = next((each for each in said if each["rule"] in right), None)
    costs = time.get("low", 1.0) >= NOISE
    clean = row["kind"] == "clean"
    taken = time["fixed_ms"] if clean else time["defective_ms"]
    return Judged(
        case=row["case"], family=row["family"], operator=row["operator"], kind=row["kind"],
        known=known, true=time.get("ratio"), ranked=row["kind"] == "defect" and costs,
        rank=_rank(said, right), placed=planted is not None and _near(planted, row),
        gap_placed=planted is None and any(
            each["rule"] == "far-from-floor" and _near(each, row) for each in row["findings"]
        ),
        gain=tuple(planted["gain"]) if planted and planted["gain"] else None,
        first=said[0]["rule"] if said else "",
        loud=tuple(each["rule"] for each in said if clean and _loud(each)),
        rejected=row["kind"] == "decoy" and not costs
        and not any(_loud(each) for each in said if each["rule"] in right),
        floor=taken / row["floor_ms"], static_first=_rank(advice(row["static"]), right) == 1,
    )  # fmt: skip


def _rank(said: Sequence[Row], right: set[str]) -> int | None:
    order = dict.fromkeys(each["rule"] for each in said)
    return next((at for at, rule in enumerate(order, 1) if rule in right), None)


def _near(finding: Row, row: Row) -> bool:
    if finding["op"] and finding["op"] in row["ops"]:
        return True
    return any(abs(finding["line"] - line) <= NEAR for line in row["guilty"])


def _loud(finding: Row) -> bool:
    return finding["severity"] == "suggestion" and (
        finding["gain"] is None or finding["gain"][1] > LOUD
    )


def proven(claims: Iterable[Row]) -> frozenset[tuple[str, str]]:
    """Return families and rules whose suggestion a repair by hand has shown to be true.

    Args:
        claims: rows that `benchmarks.claims` wrote.  A right repair proves its suggestion where the
            lower end of its ratio is at least `LOUD`.
    """
    shown = (row for row in claims if row.get("correct") and row["low"] >= LOUD)
    names = (row["claim"].split("/") for row in shown)
    return frozenset((family, rule) for family, rule, *_ in names)


def dev_gains(records: Iterable[Mapping[str, Any]]) -> Gains:
    """Return what development knows of gains."""
    ranked = [each for each in pooled(records) if each.ranked]
    by_rule: dict[str, list[float]] = {}
    for each in ranked:
        by_rule.setdefault(each.first, []).append(each.true or 1.0)
    every = [gain for gains in by_rule.values() for gain in gains]
    return Gains(
        statistics.geometric_mean(every) if every else 1.0,
        {rule: statistics.geometric_mean(gains) for rule, gains in by_rule.items()},
    )


# -- over all


def summary(
    cases: Sequence[Judged], dev: Gains, shown: frozenset[tuple[str, str]] = frozenset()
) -> dict[str, Any]:
    """Return everything that has an aim, and baselines.

    Args:
        cases: what became of each case.
        dev: what development knows of gains.
        shown: families and rules of true suggestions for clean kernels, as `proven` finds them.
    """
    ranked = [each for each in cases if each.ranked]
    cleans = [each for each in cases if each.kind == "clean"]
    false = [(c.family, rule) for c in cleans for rule in c.loud]
    decoys = [e for e in cases if e.kind == "decoy" and (e.true or 1.0) < NOISE]
    return {
        "ranked": len(ranked), "families": len({each.family for each in ranked}),
        "first": _share(ranked, lambda c: c.rank == 1),
        "top_three": _share(ranked, lambda c: c.rank is not None and c.rank <= 3),
        "placed": _share(ranked, lambda c: c.placed),
        "gap_placed": _share(ranked, lambda c: c.gap_placed),
        "gain_error": _median(c.own_error for c in ranked),
        "inside": _share(ranked, lambda c: c.inside),
        "told": _share(ranked, lambda c: c.gain is not None),
        "inside_of_told": _share([c for c in ranked if c.gain], lambda c: c.inside),
        "false_by_clean": len(false) / len(cleans) if cleans else None,
        "unproven_by_clean": sum(e not in shown for e in false) / len(cleans) if cleans else None,
        "cleans": len(cleans), "decoys": len(decoys),
        "decoys_rejected": _share(decoys, lambda c: c.rejected),
        "static_first": _share(ranked, lambda c: c.static_first),
        "error_always_1": _median(c.error(1.0) for c in ranked),
        "error_to_floor": _median(c.error(max(c.floor, 1.0)) for c in ranked),
        "error_mean_of_rule": _median(c.error(dev.of(c.first)) for c in ranked),
    }  # fmt: skip


def _share(cases: Sequence[Judged], holds: Callable[[Judged], bool]) -> float | None:
    return sum(map(holds, cases)) / len(cases) if cases else None


def _median(numbers: Iterable[float]) -> float | None:
    held = list(numbers)
    return statistics.median(held) if held else None


def page(
    cases: Sequence[Judged], dev: Gains, shown: frozenset[tuple[str, str]] = frozenset()
) -> str:
    """Return tables: all cases, known and held-out operators; by operator and by family."""
    parts = {
        "all": cases, "operators of development": [c for c in cases if c.known],
        "operators held out": [c for c in cases if not c.known],
    }  # fmt: skip
    made = [f"| | {' | '.join(parts)} |", f"| --- |{' --- |' * len(parts)}"]
    sums = {name: summary(part, dev, shown) for name, part in parts.items()}
    for key in sums["all"]:
        made.append(f"| {key} | {' | '.join(_plain(each[key]) for each in sums.values())} |")
    for title, key in (("operator", "operator"), ("family", "family")):
        made += [
            "",
            f"| {title} | ranked | first | gain's error | inside |",
            "| --- |" + " --- |" * 4,
        ]
        for name in sorted({getattr(c, key) for c in cases if c.ranked}):
            held = summary([c for c in cases if getattr(c, key) == name], dev)
            row = [held[each] for each in ("ranked", "first", "gain_error", "inside")]
            made.append(f"| {name} | {' | '.join(map(_plain, row))} |")
    return "\n".join(made)


def _plain(value: float | int | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def told(row: Row) -> str:
    """Return a line for the screen."""
    if "error" in row:
        return f"{row['case']:<50} {row['error']}"[:160]
    held = judged(row)
    truth = f"{held.true:.3f}×" if held.true else f"{held.floor:.2f} floors"
    gain = f"{held.gain[1]:.2f}" if held.gain else "–"
    return f"{row['case']:<50} {truth:>12} predicted {gain:>6} rank {held.rank} ({held.first})"
