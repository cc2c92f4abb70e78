"""How good the advice is: findings beside the truth.

In: rows as `analysing` makes them.  Out: for each case a `Score`, and over all of them, and by
rule, what the page shows. A defect that costs less than the noise can not be ranked nor its gain
be told; such cases are counted apart (`weak`), and a decoy that does cost is none (`costly`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["NEAR", "NOISE", "Score", "advice", "by_rule", "constant", "score", "summary"]

Row: TypeAlias = Mapping[str, Any]
Found: TypeAlias = Mapping[str, Any]
NOISE = 1.02
"""Of the lower end of the measured ratio, from which on a defect costs something."""
NEAR = 2
"""Lines that a finding may be away."""
_ADVICE = ("suggestion", "symptom", "warning")


@dataclass(frozen=True)
class Score:
    """What became of one case."""

    case: str
    kind: str
    rule: str
    weak: bool
    """The defect costs nothing that can be measured."""
    true: float | None
    """Time of the defective twin by that of the fixed one."""
    rank: int | None
    """Of the first planted rule among the rules, from 1; None where it says nothing."""
    placed: bool
    """Whether its finding names a right line, or the op of one."""
    gain: tuple[float, float, float] | None
    silent: bool
    """Whether all planted rules say nothing of the fixed twin."""
    false: int
    """Suggestions for the fixed twin, or for any twin of a decoy."""
    cleans: int
    """Twins that have no defect."""
    rejected: bool
    """Of a decoy: nobody suggests to change what is harmless."""
    stall: float
    """What ending the largest stall would bring."""
    static_rank: int | None
    """Of the planted rule without samples."""

    @property
    def error(self) -> float | None:
        """Of the predicted gain, by the true one: |Ŝ - S| / (S - 1); no prediction is 1.0×."""
        return self.error_of(self.gain[1] if self.gain else 1.0)

    def error_of(self, predicted: float) -> float | None:
        """The same of any prediction."""
        if self.true is None or self.weak:
            return None
        return abs(predicted - self.true) / (self.true - 1)

    @property
    def inside(self) -> bool:
        """Whether the true gain is in the interval."""
        held = self.gain is not None and self.true is not None
        return held and self.gain[0] <= self.true <= self.gain[2]  # type: ignore[index,operator]


def score(row: Row) -> Score:
    """One case."""
    twins, planted = row["twins"], set(row["rules"])
    bad, good = twins.get("defective"), twins["fixed"]
    time = row["time"]
    found = _of_planted(bad, planted) if bad and row["kind"] in ("defect", "compound") else None
    harmless = [each for each in (bad, good) if each] if row["kind"] == "decoy" else [good]
    stall = bad["largest_stall"] if bad else 0.0
    return Score(
        case=row["case"], kind=row["kind"], rule=row["defect"],
        weak=time.get("low", 1.0) < NOISE, true=time.get("ratio"),
        rank=rank(bad["findings"], planted, row["also"]) if bad else None,
        placed=found is not None and _near(found, row),
        gain=tuple(found["gain"]) if found and found["gain"] else None,
        silent=not any(_says(good["findings"], rule) for rule in planted),
        false=sum(_suggestions(each) for each in harmless), cleans=len(harmless),
        rejected=not any(_suggests(each["findings"], row) for each in harmless),
        stall=1 / (1 - min(stall, 0.99)),
        static_rank=rank(bad["static"], planted, row["also"]) if bad else None,
    )  # fmt: skip


def rank(findings: Iterable[Found], planted: set[str], also: Sequence[str]) -> int | None:
    """The place of the first planted rule among rules in order; other names of it do not count."""
    order = dict.fromkeys(each["rule"] for each in advice(findings) if each["rule"] not in also)
    places = [at for at, rule in enumerate(order, 1) if rule in planted]
    return places[0] if places else None


def advice(findings: Iterable[Found]) -> list[Found]:
    """Findings that ask for something and are no other words of another one."""
    return [each for each in findings if each["counts"] and each["severity"] in _ADVICE]


def _of_planted(twin: Row, planted: set[str]) -> Found | None:
    """The first finding of a planted rule."""
    return next((each for each in advice(twin["findings"]) if each["rule"] in planted), None)


def _near(finding: Found, row: Row) -> bool:
    lines = row["guilty"]
    if any(abs(finding["line"] - line) <= NEAR for line in lines):
        return True
    ops = row["twins"]["defective"]["ops"]
    return bool(finding["op"]) and finding["op"] in ops


def _says(findings: Iterable[Found], rule: str) -> bool:
    return any(each["rule"] == rule for each in advice(findings))


def _suggests(findings: Iterable[Found], row: Row) -> bool:
    about = {row["defect"], *row["also"]}
    return any(each["rule"] in about and each["severity"] == "suggestion" for each in findings)


def _suggestions(twin: Row) -> int:
    return sum(each["severity"] == "suggestion" for each in advice(twin["findings"]))


# -- over all


def constant(dev: Sequence[Row]) -> float:
    """A prediction that knows nothing of a kernel: the geometric mean of DEV's true gains."""
    held = [s.true for s in map(score, dev) if s.error is not None and s.true is not None]
    return statistics.geometric_mean(held) if held else 1.0


def summary(rows: Sequence[Row], dev_gain: float) -> dict[str, Any]:
    """Everything that has an aim, and the baselines."""
    scores = [score(row) for row in rows]
    planted = [each for each in scores if each.kind in ("defect", "compound")]
    strong = [each for each in planted if not each.weak]
    single = [each for each in strong if each.kind == "defect"]
    decoys = [each for each in scores if each.kind == "decoy"]
    harmless = [each for each in decoys if each.weak]
    cleans = sum(each.cleans for each in scores)
    return {
        "cases": len(scores), "defects": len(planted), "ranked": len(strong),
        "weak": [each.case for each in planted if each.weak],
        "costly": [each.case for each in decoys if not each.weak],
        "first": _share(strong, lambda s: s.rank == 1),
        "top_three": _share(strong, lambda s: s.rank is not None and s.rank <= 3),
        "placed": _share(strong, lambda s: s.placed),
        "false_by_clean": sum(s.false for s in scores) / cleans if cleans else None,
        "decoys_rejected": _share(harmless, lambda s: s.rejected),
        "gain_error": _median(s.error for s in single),
        "inside": _share(single, lambda s: s.inside),
        "silent": _share(strong, lambda s: s.silent),
        "baselines": _baselines(single, strong, dev_gain),
    }  # fmt: skip


def _baselines(single: list[Score], strong: list[Score], dev_gain: float) -> dict[str, Any]:
    """Median error of predictions that any tool could make, and ranks without samples."""
    return {
        "always_1": _median(s.error_of(1.0) for s in single),
        "constant": _median(s.error_of(dev_gain) for s in single),
        "largest_stall": _median(s.error_of(s.stall) for s in single),
        "static_first": _share(strong, lambda s: s.static_rank == 1),
        "static_top_three": _share(strong, lambda s: s.static_rank in (1, 2, 3)),
    }


def by_rule(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The same for the cases of each planted rule."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        if row["kind"] == "defect":
            held.setdefault(row["defect"], []).append(row)
    return {rule: summary(held[rule], 1.0) for rule in sorted(held)}


def _share(scores: Sequence[Score], holds: Callable[[Score], bool]) -> float | None:
    return sum(map(holds, scores)) / len(scores) if scores else None


def _median(numbers: Iterable[float | None]) -> float | None:
    held = [each for each in numbers if each is not None]
    return statistics.median(held) if held else None
