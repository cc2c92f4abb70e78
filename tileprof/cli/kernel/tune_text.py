"""Text of what `tileprof tune` found: the table, and why each configuration lost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.profile.units import format_value
from tileprof.tuning import Looked, Outcome
from tileprof.tuning.json_form import reason_of

_SHOWN = 12
"""Configurations that the table shows; with `--explain`, those of the model alone that it shows."""
_WORDS = {
    "winner": "winner", "equal": "no slower", "slower": "slower", "wrong": "wrong results",
    "failed": "failed", "refused": "refused", "spills": "spills", "ruled-out": "ruled out",
    "not-timed": "not timed",
}  # fmt: skip


def text_of(outcome: Outcome, *, explained: bool) -> str:
    """Return the table of configurations; `explained`: with what the model and the measurement say
    of each."""
    lines = [*_head(outcome), "", *_table(outcome)]
    if explained:
        lines += ["", *_explained(outcome)]
    lines += ["", *_foot(outcome)]
    return "".join(f"{line}\n" for line in lines)


def _head(outcome: Outcome) -> Iterator[str]:
    seconds, counts = outcome.seconds, outcome.counts()
    refused = sum(counts.get(v, 0) for v in ("refused", "ruled-out", "spills"))
    lowered = sum(1 for each in outcome.looked if each.estimate is not None)
    where = f" on {outcome.machine}"
    if outcome.device not in ("", outcome.machine):
        where += f" ({outcome.device})"
    if not outcome.device:
        where = f" for {outcome.machine}, nothing timed"
    yield (
        f"{outcome.kernel}{where}: {outcome.space.size:,} configurations; "
        f"{lowered} ranked by the model, {refused} refused, {len(outcome.timed)} timed"
    )
    yield (
        f"{seconds.total:.1f} s: {seconds.lowering:.1f} lowering, {seconds.compiling:.1f} machine "
        f"code, {seconds.timing:.1f} timing"
    )


def _table(outcome: Outcome) -> Iterator[str]:
    shown = [e for e in outcome.looked if e.measured is not None or e.verdict == "winner"]
    known = {e.configuration for e in shown}
    rest = [e for e in outcome.looked if e.estimate is not None and e.configuration not in known]
    shown += rest[: max(0, _SHOWN - len(shown))]
    width = max(len(str(each.configuration)) for each in shown)
    yield f"{'configuration':<{width}}  {'measured':>9}  {'model':>9}  {'':>9}"
    best = outcome.winner.measured
    for each in shown:
        measured = format_value(each.measured.ns, "ns") if each.measured else "–"
        model = format_value(each.estimate.ns, "ns") if each.estimate else "–"
        ratio = ""
        if each.measured is not None and best is not None and each.verdict != "winner":
            ratio = f"{each.measured.ns / best.ns:.3f}×"
        word = _word(each, outcome)
        yield f"{each.configuration!s:<{width}}  {measured:>9}  {model:>9}  {ratio:>8} {word}"


def _word(each: Looked, outcome: Outcome) -> str:
    if each.verdict == "winner" and not outcome.timed:
        return "first"
    return _WORDS[each.verdict]


def _explained(outcome: Outcome) -> Iterator[str]:
    modelled = 0
    for each in outcome.looked:
        if each.measured is None and each.verdict == "not-timed":
            modelled += 1
            if modelled > _SHOWN:
                continue
        yield f"{each.configuration}: {_word(each, outcome)}"
        for line in _sentences(each, outcome.winner):
            yield f"  {line}"
    if modelled > _SHOWN:
        yield f"{modelled - _SHOWN} others that the model expects less of: --json has them"


def _sentences(each: Looked, winner: Looked) -> Iterator[str]:
    if reason := reason_of(each):
        yield reason
    if each.estimate is not None:
        yield _model(each, winner)
    if each.measured is not None:
        yield _measured(each, winner)
    elif each.expected_ns is not None and each.verdict == "not-timed":
        best = winner.measured.ns if winner.measured else None
        if best:
            yield (
                f"expected {format_value(each.expected_ns, 'ns')} after what was measured of "
                f"others, {_percent(each.expected_ns / best)}: not worth its time"
            )


def _model(each: Looked, winner: Looked) -> str:
    estimate = each.estimate
    assert estimate is not None
    limits = sorted(estimate.limits.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{name} {format_value(ns, 'ns')}" for name, ns in limits)
    text = f"model {format_value(estimate.ns, 'ns')}"
    ours = winner.estimate
    if ours is not None and each is not winner and math.isfinite(estimate.ns):
        text += f", {_percent(estimate.ns / ours.ns)}"
        if ours.bound != estimate.bound:
            text += f"; bound by {estimate.bound}, the winner by {ours.bound}"
    text += f": {parts}"
    if estimate.occupancy > 1 or estimate.waves:
        text += f"; {estimate.waves:.2f} waves"
        if each.registers and each.compiled:
            blocks = f"{estimate.occupancy} block{'s' * (estimate.occupancy != 1)}"
            text += f", {blocks} per SM, {each.registers} registers"
        if estimate.tail >= 0.05:
            text += f", {estimate.tail:.0%} of the time in the tail".replace("%", " %")
    if each.spilled:
        text += f"; {each.spilled:,} bytes spilled"
    return text


def _measured(each: Looked, winner: Looked) -> str:
    measured = each.measured
    assert measured is not None
    text = f"measured {format_value(measured.ns, 'ns')}"
    if winner.measured is not None and each is not winner:
        text += f", {_percent(measured.ns / winner.measured.ns)}"
    if (ratio := measured.ratio) is not None:
        text += (
            f"; {ratio.value:.3f}× [{ratio.low:.3f} – {ratio.high:.3f}] of "
            f"`{measured.against}` in {measured.rounds} rounds"
        )
    return text


def _percent(ratio: float) -> str:
    """Return a ratio to the winner's as words."""
    if abs(ratio - 1) < 0.0005:
        return "as the winner"
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio > 1 else 'less'} than the winner"


def _foot(outcome: Outcome) -> Iterator[str]:
    if outcome.timed:
        sure = "sure" if outcome.sure else "not sure which of the best is fastest"
        yield f"winner: {outcome.winner.configuration} ({sure})"
        if not math.isnan(outcome.rank_correlation):
            yield (
                f"rank correlation of the model with {len(outcome.timed)} measured times: "
                f"{outcome.rank_correlation:.2f}"
            )
    else:
        yield f"best by the model alone: {outcome.winner.configuration}"
    yield from outcome.notes
