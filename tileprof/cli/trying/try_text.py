"""Text of what `tileprof try` finds, tries and has tried."""

from __future__ import annotations

from collections.abc import Sequence

from tileprof.analyzer.findings import Gain
from tileprof.bench.intervals import Interval
from tileprof.profile.units import format_value
from tileprof.trying import Candidate, Trial, worth_keeping
from tileprof.trying.edits import Edit
from tileprof.trying.ledger import Entry

_VERDICTS = {
    "kept": "KEPT",
    "not-faster": "not kept: not faster",
    "undecided": "not kept: undecided",
    "different": "REFUSED: results differ",
    "not-compared": "not kept: results not compared",
    "not-applied": "not kept: changes nothing",
    "failed": "not kept: failed",
}


def listed(candidates: Sequence[Candidate]) -> str:
    """Return the changes that can be tried, one a line, with the gain that is expected of each."""
    if not candidates:
        return "No finding can be tried: none has a change that tileprof can make by itself.\n"
    width = max(len(each.finding) for each in candidates)
    lines = [
        f"{each.finding:<{width}}  {_predicted(each.predicted)}  {each}" for each in candidates
    ]
    return "".join(f"{line.strip()}\n" for line in lines)


def tried(trial: Trial) -> str:
    """Return one trial: what was changed, predicted, measured and compared, and the verdict."""
    candidate = trial.candidate
    lines = [f"{candidate}{f'  ({candidate.finding})' if candidate.finding else ''}"]
    lines.append(f"  predicted  {_predicted(candidate.predicted)}")
    if trial.measured is not None:
        lines.append(f"  measured   {_measured(trial.measured)}, {_basis(trial)}")
    if trial.comparison is not None:
        lines.append(f"  results    {trial.comparison}")
    why = "" if trial.verdict in ("kept", "different") else f" ({trial.why})"
    lines += [f"  doubtful   {each}" for each in trial.doubts]
    lines.append(f"  verdict    {_VERDICTS[trial.verdict]}{why}")
    return "".join(f"{line}\n" for line in lines)


def summary(trials: Sequence[Trial], edits: Sequence[Edit]) -> str:
    """Return what is worth keeping, with a diff of the source where it can be written there."""
    best = worth_keeping(trials)
    if best is None:
        return f"\nNothing kept of {len(trials)} tried.\n"
    gain = f", {_measured(best.measured)}" if best.measured else ""
    changes = "".join(f"\n  {fix}" for fix in best.candidate.fixes)
    return f"\nWorth keeping{gain}:{changes}\n" + "".join(f"\n{each.diff()}" for each in edits)


def ledger(entries: Sequence[Entry]) -> str:
    """Return the entries of a ledger, the oldest first."""
    if not entries:
        return "The ledger is empty.\n"
    lines = []
    for each in entries:
        lines.append(f"{each.when}  {each.program}, {each.device}")
        lines += [f"  {change}" for change in each.changes]
        measured = "not measured" if each.measured is None else _measured(each.measured)
        lines.append(f"  predicted {_predicted(each.predicted)}, measured {measured}, results"
                     f" {each.results}: {_VERDICTS.get(each.verdict, each.verdict)}")  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def _predicted(gain: Gain | None) -> str:
    return "no number" if gain is None else str(gain)


def _measured(found: Interval) -> str:
    return f"{found.value:.3f}× ({found.low:.3f}–{found.high:.3f})"


def _basis(trial: Trial) -> str:
    """Return what an interval is made of, and the time of the last pair."""
    old, new = trial.pairs[-1].rounds[-1]
    times = f"{format_value(old, 'ns')} → {format_value(new, 'ns')} a {trial.unit}"
    return f"95 % interval of {len(trial.pairs)} pairs of processes; {times}"
